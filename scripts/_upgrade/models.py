"""The models: a folder of real ones, the onnx package's own test data, and the models of its converter's tests."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import onnx


@dataclass(frozen=True)
class Entry:
    """One model file below its target opset."""

    name: str
    path: Path
    opset: int
    target: int
    source: str


def folders(corpus: Path | None) -> dict[str, Path]:
    """Return the folders with models."""
    given = {} if corpus is None else {"corpus": corpus}
    return given | {"onnx test data": Path(onnx.__file__).parent / "backend" / "test" / "data"}


def entries(corpus: Path | None, target: int, only: str) -> list[Entry]:
    """Return all models below ``target``, smallest first; files that are no models are left out."""
    found = [
        Entry(str(path.relative_to(folder)), path, opset, target, source)
        for source, folder in folders(corpus).items()
        for path in folder.rglob("*.onnx")
        if only in str(path) and (opset := opset_of(path)) is not None and opset < target
    ]
    return sorted(found, key=lambda entry: (entry.source, entry.path.stat().st_size, entry.name))


def conversions(source: Path, folder: Path, only: str) -> list[Entry]:
    """Store in ``folder`` the upward conversions of the version converter's tests, from an unpacked source of onnx."""
    script = Path(__file__).with_name("suites.py")
    subprocess.run([sys.executable, str(script), str(source), str(folder)], check=True, stdout=subprocess.DEVNULL)
    found = []
    for path in sorted(folder.iterdir()):
        name, target = re.fullmatch(r"(.+)\.to(\d+)\.onnx", path.name).groups()  # type: ignore[union-attr]
        if only in name:
            found.append(Entry(name, path, opset_of(path) or 1, int(target), "onnx's version-converter tests"))
    return found


def opset_of(path: Path) -> int | None:
    """Return the default domain's opset; 1 if none is imported, None if the file is no model."""
    try:
        model = onnx.load(path, load_external_data=False)
    except Exception:  # noqa: BLE001 - protobuf's own error types; whatever it is, there is nothing to upgrade
        return None
    return max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=1)
