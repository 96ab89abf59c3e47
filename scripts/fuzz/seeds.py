"""The models to damage: those of ``models/``, and real ones if there is a folder of them."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from fuzz.watch import ROOT

CORPUS = Path(os.environ.get("BNFOLD_CORPUS", ROOT.parent / "shared" / "corpus"))
SMALL, LARGEST = 24 << 10, 400 << 10


@cache
def models() -> tuple[Path, ...]:
    """Return all models that are small enough to be run many times, with their data."""
    found = [*(ROOT / "models").glob("*.onnx"), *CORPUS.glob("*/*.onnx")]
    return tuple(sorted(path for path in found if path.stat().st_size < LARGEST))


@cache
def small() -> tuple[Path, ...]:
    """Return the models small enough for a change of a few bytes to matter."""
    return tuple(path for path in models() if path.stat().st_size < SMALL)


def beside(path: Path) -> dict[str, bytes]:
    """Return the data files of a model."""
    data = path.with_name(f"{path.name}.data")
    return {data.name: data.read_bytes()} if data.is_file() else {}
