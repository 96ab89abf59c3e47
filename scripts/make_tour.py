#!/usr/bin/env python
"""Draws the pictures of docs/tour.md from the model that stands in it: `.venv/bin/python scripts/make_tour.py`.

One is the difference between the model before and after, the other the fold of its BatchNormalization.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from _environment import ROOT  # first, for its message to users of another Python

# isort: split
import onnx.parser

import bnfold
from bnfold import diffing, ir
from bnfold.report.html import display

PAGE = ROOT / "docs" / "tour.md"


def main() -> int:
    """Write the pictures beside the page."""
    for path, svg in pictures().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(svg, encoding="utf-8")
    return 0


def pictures() -> dict[Path, str]:
    """Return each picture's file, and what belongs into it."""
    found = re.search(r'parse_model\("""(.*?)"""\)', PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None, "the page has its model"
    model = onnx.parser.parse_model(found[1])
    outcome = bnfold.optimize(model)
    [difference] = diffing.diff(ir.load(model), ir.load(outcome.to_proto()), drawn=True)["differences"]
    [fold] = outcome.to_json()["batchnorms"]
    folder = PAGE.parent / PAGE.stem
    return {
        folder / f"{name}.svg": f"{display.picture(row).svg}\n" for name, row in (("model", difference), ("fold", fold))
    }


if __name__ == "__main__":
    sys.exit(main())
