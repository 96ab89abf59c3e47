"""Write an IR: both files beside their place, then renamed. Constants that were not touched are copied as they lie."""

from __future__ import annotations

import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self
from xml.etree import ElementTree as ET

from bnfold import ir
from bnfold.errors import OutputError, Unsupported
from bnfold.interop.openvino.document import Document, Layer, weights_path
from bnfold.interop.openvino.load import IrModel, Scope
from bnfold.interop.openvino.operators import NORM, is_v0
from bnfold.interop.openvino.write_back import write_back
from bnfold.ir.storage.staged import make_folders, remove_folders
from bnfold.ir.storage.stream import BUFFER, BytesProgress, copy_range, write_payload
from bnfold.settings import OutputOptions

ALIGNMENT = 64
"""Bytes. Where a constant may start, for runtimes that map the file; one that started less aligned stays so."""


@dataclass(slots=True, eq=False)
class StagedIR:
    """A model in a folder of its own beside its place, under its final names; `commit` puts it there."""

    target: Path
    folder: Path
    made: list[Path]
    """Folders that were made for it."""

    @property
    def path(self) -> Path:
        """The .xml file, readable as it stands."""
        return self.folder / self.target.name

    @property
    def data_path(self) -> Path | None:
        """The file of the constants, if there are any; before and after `commit`."""
        paths = weights_path(self.path), weights_path(self.target)
        return next((self.target.with_name(path.name) for path in paths if path.exists()), None)

    def commit(self) -> None:
        """Rename into place, constants first. Between the two renames an old model there has new constants."""
        try:
            for path in (weights_path(self.path), self.path):
                if path.exists():
                    place = self.target.with_name(path.name)
                    if place.exists():
                        shutil.copymode(place, path)
                    path.replace(place)
        except OSError as error:
            raise OutputError.at(self.target, error) from error
        finally:
            self.discard()

    def discard(self) -> None:
        """Leave no trace."""
        shutil.rmtree(self.folder, ignore_errors=True)
        remove_folders(self.made)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()


def stage(model: IrModel, delivery: OutputOptions, progress: BytesProgress | None = None) -> StagedIR:
    """Write the model beside its place, for `StagedIR.commit` to put it there. The model's document is edited by it.

    Raises:
        OutputError: It cannot be written; nothing is left behind.
        RangeViolation: A folded weight overflows; no file has changed.
        BadInput: A file that weights lie in was changed meanwhile; no file has changed.
        Unsupported: As `write_back`.
    """
    target = delivery.path.resolve()
    payloads = written_back(model)
    try:
        made = make_folders(target.parent)
    except OSError as error:
        raise OutputError.at(target, error) from error
    staged = StagedIR(target, target.with_name(f".{target.stem}.{secrets.token_hex(6)}.bnfold"), made)
    try:
        staged.folder.mkdir()
        root = model.document.root
        if model.document.constants():
            with weights_path(staged.path).open("wb", buffering=BUFFER) as out:
                _write_constants(model.document, payloads, model.spans, out, progress)
        text = ET.tostring(root, encoding="unicode")
        staged.path.write_text(f'<?xml version="1.0"?>\n{text}\n', encoding="utf-8")
        model.document.source.check_unchanged()
    except OSError as error:
        staged.discard()
        raise OutputError.at(target, error) from error
    except BaseException:
        staged.discard()
        raise
    return staged


def written_back(model: IrModel) -> dict[ET.Element, ir.Tensor]:
    """Return what the new Const layers hold. The document is brought in line with the graph once."""
    if model.written_back is None:
        model.spans = {layer.element: model.document.span(layer) for layer in model.document.constants()}
        model.written_back = write_back(model)
        if model.raise_norms:
            _raise_norms(model)
    return model.written_back


def _raise_norms(model: IrModel) -> None:
    """Turn every BatchNormInference of version 0 that is left into version 5: other places for the same inputs."""
    for scope in model.scopes:
        for layer in scope.net.layers.values():
            if layer.type == NORM and is_v0(layer):
                _raise(scope, layer)


def _raise(scope: Scope, layer: Layer) -> None:
    """Convert inputs: (gamma, beta, data, mean, variance) becomes (data, gamma, beta, mean, variance)."""
    side, ports = layer.element.find("input"), layer.ports("input")
    assert side is not None, "a BatchNormInference has five inputs"
    ids, tails = [port.get("id", "") for port in ports], [port.tail for port in ports]
    order = (2, 0, 1, 3, 4)
    edges = [scope.net.edges.pop((layer.id, ids[index])) for index in order]
    for place, (index, edge) in enumerate(zip(order, edges, strict=True)):
        edge.set("to-port", ids[place])
        scope.net.edges[layer.id, ids[place]] = edge
        side.remove(ports[index])
        side.append(ports[index])
    for port, name, tail in zip(layer.ports("input"), ids, tails, strict=True):
        port.set("id", name)
        port.tail = tail
    layer.element.set("version", "opset5")


def _write_constants(
    document: Document,
    payloads: dict[ET.Element, ir.Tensor],
    spans: dict[ET.Element, tuple[int, int]],
    out: IO[bytes],
    progress: BytesProgress | None,
) -> None:
    """Write every Const in the order of the file; those that shared bytes go on doing so."""
    source, layers = document.source, document.constants()
    old = {spans[layer.element] for layer in layers if layer.element not in payloads}
    placed: dict[tuple[int, int], int] = {}
    if sum(size for _, size in old) > source.size:  # they overlap: leave all bytes where they are
        copy_range(source, 0, source.size, out)
        placed = {span: span[0] for span in old}
    for layer in layers:
        payload, before = payloads.get(layer.element), out.tell()
        if payload is None:
            span = offset, size = spans[layer.element]
            if span not in placed:
                placed[span] = _align(out, min(ALIGNMENT, offset & -offset) if offset else ALIGNMENT)
                copy_range(source, offset, size, out)
            start = placed[span]
        else:
            start = _align(out, ALIGNMENT)
            write_payload(payload, out, as_stored=False)
            size = out.tell() - start
        _set_span(layer, start, size)
        if progress is not None:
            progress(out.tell() - before)


def _align(out: IO[bytes], step: int) -> int:
    out.write(b"\0" * (-out.tell() % step))
    return out.tell()


def _set_span(layer: Layer, offset: int, size: int) -> None:
    data = layer.element.find("data")
    assert data is not None, "its element type was read from there"
    data.set("offset", str(offset))
    data.set("size", str(size))


def as_onnx(_model: IrModel) -> ir.Model:
    """Raise Unsupported: only files can hold it."""
    raise Unsupported("an OpenVINO IR is no ONNX model: it is written to a file, OUT.xml")


def data_file(target: Path, _external_data: str) -> Path:
    """Return where the constants of the model at ``target`` go."""
    return weights_path(target)


def data_files(model: IrModel) -> list[Path]:
    """Return the file that the constants of ``model`` are read from, if it has any."""
    return [model.document.source.path] if model.document.source.path is not None else []
