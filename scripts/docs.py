#!/usr/bin/env python3
"""Make the API reference with pdoc from the docstrings of all public names: HTML below build/docs, or --out FOLDER.

A warning is an error. The documented bnfold is that of the environment: `.venv/bin/python scripts/docs.py` documents
this checkout, elsewhere the bnfold that is installed; it needs pdoc (`pip install pdoc`).
"""

from __future__ import annotations

import argparse
import sys
import typing
import warnings
from pathlib import Path

try:
    import pdoc
    import pdoc.render

    import bnfold
except ModuleNotFoundError as missing:
    sys.exit(f"scripts/docs.py: {missing}; run .venv/bin/python scripts/docs.py, or pip install pdoc")

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Make the pages and print where they are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "docs", metavar="FOLDER")
    out: Path = parser.parse_args().out
    warnings.simplefilter("error")
    for name in bnfold.__all__:  # imported on first use; pdoc sees only what is there
        setattr(bnfold, name, getattr(bnfold, name))
    for kind in map(vars(bnfold.types).get, bnfold.types.__all__):  # pdoc does not find what named tuples are made of
        if hasattr(kind, "_fields"):
            kind.__new__.__annotations__ = typing.get_type_hints(kind)
    pdoc.render.configure(docformat="google", show_source=False, footer_text=f"bnfold {bnfold.__version__}")
    pdoc.pdoc("bnfold", output_directory=out)
    print(f"wrote {out / 'bnfold.html'}")


if __name__ == "__main__":
    main()
