#!/usr/bin/env python3
"""Write the models of models/ and their README; with --full, onnx's own light networks with weights, elsewhere.

Needs the project's environment: `.venv/bin/python scripts/make_models.py`. The bytes are the same every time;
tests/test_models.py holds it to that.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from _environment import ROOT
from _models import catalogue, full

MODELS = ROOT / "models"


def main() -> None:
    """Parse the arguments and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=MODELS, metavar="DIR", help="where the small models go (models/)")
    parser.add_argument("--full", type=Path, metavar="DIR", help="write the full-sized networks to DIR instead")
    parser.add_argument("--only", choices=full.NETWORKS, action="append", help="with --full: this network alone")
    arguments = parser.parse_args()
    if arguments.full is None:
        written = catalogue.write(arguments.out)
    else:
        written = [full.write(name, arguments.full) for name in arguments.only or full.NETWORKS]
    for path in written:
        print(f"{path.stat().st_size:>11,} {path}")


if __name__ == "__main__":
    main()
