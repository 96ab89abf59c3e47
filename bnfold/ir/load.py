"""Read a model, leaving its weights where they lie."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError, EncodeError

from bnfold.errors import BadInput, MalformedModel
from bnfold.ir import wire
from bnfold.ir.external import ExternalFiles
from bnfold.ir.model import THRESHOLD, Model, Payloads
from bnfold.ir.source import BufferSource, FileSource, Source
from bnfold.ir.tensor import TP, Span, Stored


def load(model: str | os.PathLike[str] | bytes | onnx.ModelProto, *, base_dir: str | os.PathLike[str] | None = None) -> Model:
    """A model from a path, encoded bytes or a ModelProto.

    External data is looked for beside the file, or in ``base_dir``, and nowhere else.
    Raises BadInput (unreadable), MalformedModel (not ONNX), ExternalDataError.
    """
    if isinstance(model, onnx.ModelProto):
        try:
            model = model.SerializeToString()
        except (ValueError, EncodeError) as error:
            raise BadInput("the ModelProto is beyond protobuf's 2 GB: save it with external data and load it by its path") from error
    if isinstance(model, bytes):
        return _load(BufferSource(model), None, Path(base_dir) if base_dir is not None else None)
    path = Path(model)
    if path.is_dir():
        raise BadInput(f"{path}: is a directory, not a model")
    return _load(FileSource(path), path, Path(base_dir) if base_dir is not None else path.resolve().parent)


def _load(source: Source, path: Path | None, directory: Path | None) -> Model:
    label = path or "the data"
    if source.size == 0:
        raise MalformedModel(f"{label}: is empty")
    payloads = Payloads()
    lifted: list[Stored] = []

    def token(field: int, offset: int, length: int) -> bytes:
        lifted.append(Stored(0, (), Span(source, offset, length, field)))
        return payloads.add(lifted[-1])

    try:
        proto = onnx.ModelProto.FromString(wire.lift(source, THRESHOLD, token))
    except (DecodeError, MalformedModel) as error:
        raise MalformedModel(f"{label}: not an ONNX model, or a damaged one ({_plain(error)})") from error
    if not proto.HasField("graph") and not proto.functions:
        raise MalformedModel(f"{label}: not an ONNX model (it holds no graph)")
    external = ExternalFiles(directory)
    with _no_garbage_collection():
        has_external = False
        for tensor in _tensors(proto):
            if tensor.data_location == TP.EXTERNAL:
                held = external.stored(tensor)
                _take_out(tensor, payloads.add(held))
                has_external = True
            elif tensor.HasField("raw_data") and isinstance(found := payloads.get(tensor.raw_data), Stored):
                found.dtype, found.dims, found.name = tensor.data_type, tuple(tensor.dims), tensor.name
                found.check()
        try:
            model = Model(proto, payloads, path)
        except MalformedModel as error:
            raise MalformedModel(f"{label}: {error}") from error
    model.has_external_data = has_external
    return model


def _plain(error: Exception) -> str:
    return str(error) if isinstance(error, MalformedModel) else "its bytes do not parse"


def _take_out(tensor: onnx.TensorProto, token: bytes) -> None:
    tensor.ClearField("data_location")
    del tensor.external_data[:]
    tensor.raw_data = token


def _tensors(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every TensorProto of the model, at any depth."""
    graphs = [proto.graph]
    for training in proto.training_info:
        graphs += [training.initialization, training.algorithm]
    nodes = [function.node for function in proto.functions]
    while graphs or nodes:
        if graphs:
            graph = graphs.pop()
            yield from graph.initializer
            for sparse in graph.sparse_initializer:
                yield from (sparse.values, sparse.indices)
            nodes.append(graph.node)
            continue
        for node in nodes.pop():
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    yield attribute.t
                yield from attribute.tensors
                graphs += [attribute.g] if attribute.HasField("g") else list(attribute.graphs)
                for sparse in [attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else attribute.sparse_tensors:
                    yield from (sparse.values, sparse.indices)


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Building the index makes hundreds of thousands of objects that all stay: collecting between them is wasted."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
