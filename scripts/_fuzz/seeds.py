"""The models that damage is done to: those of ``models/``, and real ones where a folder of them is at hand."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from _fuzz.watch import ROOT

CORPUS = Path(os.environ.get("BNFOLD_CORPUS", ROOT.parent / "shared" / "corpus"))
SMALL, LARGEST = 24 << 10, 400 << 10


@cache
def models() -> tuple[Path, ...]:
    """All of them that are small enough to be run many times, the data in them included."""
    found = [*(ROOT / "models").glob("*.onnx"), *CORPUS.glob("*/*.onnx")]
    return tuple(sorted(path for path in found if path.stat().st_size < LARGEST))


@cache
def small() -> tuple[Path, ...]:
    """Those that a byte more or less changes much in."""
    return tuple(path for path in models() if path.stat().st_size < SMALL)


def beside(path: Path) -> dict[str, bytes]:
    """The data files of a model."""
    data = path.with_name(f"{path.name}.data")
    return {data.name: data.read_bytes()} if data.is_file() else {}
