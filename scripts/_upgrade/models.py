"""The models: a folder of real ones, and the onnx package's own test data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import onnx


@dataclass(frozen=True)
class Entry:
    """One model file below the target opset."""

    name: str
    path: Path
    opset: int
    source: str


def entries(corpus: Path | None, target: int, only: str) -> list[Entry]:
    """All models below ``target``, smallest first; files that are no models are left out."""
    folders = [("onnx test data", Path(onnx.__file__).parent / "backend" / "test" / "data", "**/*.onnx")]
    if corpus is not None:
        folders.insert(0, ("corpus", corpus, "**/*.onnx"))
    found = [
        Entry(str(path.relative_to(folder)), path, opset, source)
        for source, folder, pattern in folders
        for path in folder.glob(pattern)
        if only in str(path) and (opset := opset_of(path)) is not None and opset < target
    ]
    return sorted(found, key=lambda entry: (entry.source, entry.path.stat().st_size, entry.name))


def opset_of(path: Path) -> int | None:
    """The default domain's opset; 1 if none is imported, None if the file is no model."""
    try:
        model = onnx.load(path, load_external_data=False)
    except Exception:  # noqa: BLE001 - protobuf's own error types; whatever it is, there is nothing to upgrade
        return None
    return max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=1)
