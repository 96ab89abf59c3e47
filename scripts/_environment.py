"""The paths of the project and of the real networks, and checks of requirements. Scripts import this first."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CORPUS = Path(os.environ.get("BNFOLD_CORPUS", ROOT.parent / "shared" / "corpus"))
NAME = Path(sys.argv[0]).name
ALWAYS = {
    **dict.fromkeys(("decompose_cost", "fault_table", "merge_table", "qdq_table", "quantize_cost"), "onnxruntime"),
    "simplify_table": "onnxslim onnxsim onnxscript",
}
"""Packages that every script needs; a script calls ``require`` for those of its tools."""


def require(*packages: str, python: str = sys.executable, install: str = ".venv/bin/pip install -e .[peers]") -> None:
    """Exit with one line if a package cannot be imported: a table without it would count crashes, or nothing."""
    missing = []
    for package in packages:
        command = [python, "-c", f"import {package}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            said = (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
            missing.append(package if f"No module named '{package}'" in said else f"{package} ({said})")
    if missing:
        sys.exit(f"scripts/{NAME}: not installed: {', '.join(missing)}; run {install}")


def require_files(paths: Iterable[Path], *, sought: str, only: str = "") -> list[Path]:
    """Return the paths; exit with one line if there are none, or if one is no file. ``sought`` is their description."""
    found = [path for path in paths if only in str(path)]
    if not found:
        contains = f", of those whose path contains '{only}'" if only else ""
        sys.exit(f"scripts/{NAME}: nothing to measure: found no {sought}{contains}")
    missing = [path for path in found if not path.is_file()]
    if missing:
        others = f" and {len(missing) - 1} more" if missing[1:] else ""
        sys.exit(f"scripts/{NAME}: missing: {missing[0]}{others}")
    return found


def require_models(paths: Iterable[Path], *, sought: str = "model", at_least: int = 0) -> list[Path]:
    """Return files, and of each folder every ONNX file that is in it, of ``at_least`` so many bytes; like above."""
    files = [file for path in paths for file in (sorted(path.rglob("*.onnx")) if path.is_dir() else [path])]
    large = [file for file in files if not file.exists() or file.stat().st_size >= at_least]
    return require_files(large, sought=sought)


if find_spec("onnx") is None:
    sys.exit(f"scripts/{NAME} needs what scripts/test installs; run .venv/bin/python scripts/{NAME}")
require(*ALWAYS.get(Path(NAME).stem, "").split())
sys.path.insert(0, str(ROOT))
