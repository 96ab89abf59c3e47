"""Where the project and the real networks are. Scripts import this first: another Python is told which one to take."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CORPUS = Path(os.environ.get("BNFOLD_CORPUS", ROOT.parent / "shared" / "corpus"))

if find_spec("onnx") is None:
    name = Path(sys.argv[0]).name
    sys.exit(f"scripts/{name} needs what scripts/test installs; run .venv/bin/python scripts/{name}")
sys.path.insert(0, str(ROOT))
