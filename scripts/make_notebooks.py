#!/usr/bin/env python
"""Runs the notebooks of docs/notebooks/ and writes their outputs into them.

Needs the project's environment: `.venv/bin/python scripts/make_notebooks.py`. With --check it writes nothing and
fails if a cell shows something else than the file says; a test does that. Jupyter is not needed: the cells are plain
Python.
"""

from __future__ import annotations

import argparse
import json
import sys

from _environment import ROOT
from _site import cells

FOLDER = ROOT / "docs" / "notebooks"


def main() -> int:
    """Parse the arguments, run, and write or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if outputs are out of date")
    is_check, code = parser.parse_args().check, 0
    for path in sorted(FOLDER.glob("*.ipynb")):
        old = cells.read(path)
        new = cells.execute(old, FOLDER)
        if not is_check:
            path.write_text(json.dumps(new, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        elif cells.texts(old) != cells.texts(new):
            print(f"{path} is out of date: run scripts/make_notebooks.py", file=sys.stderr)
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
