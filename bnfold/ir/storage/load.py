"""Read a model, leaving its weights where they lie."""

from __future__ import annotations

import os
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError, EncodeError  # type: ignore[import-untyped]

from bnfold.errors import BadInput, CutOffModel, ExternalDataError, MalformedModel
from bnfold.ir.elements import TP
from bnfold.ir.messages import function_key, nested_nodes, tensor_messages
from bnfold.ir.model import Model, ModelOrigin
from bnfold.ir.storage.external import ExternalFiles
from bnfold.ir.storage.foreign import describe
from bnfold.ir.storage.payloads import THRESHOLD, Payloads
from bnfold.ir.storage.skeleton import strip_payloads
from bnfold.ir.storage.source import BufferSource, FileSource, Source
from bnfold.ir.storage.stored import Span, Stored


def load(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto, *, base_dir: str | os.PathLike[str] | None = None
) -> Model:
    """Load a model from a path, encoded bytes or a ModelProto.

    External data is looked for beside the file, or in ``base_dir``, and nowhere else; a ModelProto without ``base_dir``
    keeps its references, and reading such a weight is an error. A file is held open as long as
    the model lives, and must not be changed meanwhile (`Model.check_sources`).
    Raises BadInput (unreadable), MalformedModel (not ONNX), ExternalDataError.
    """
    base = None if base_dir is None else Path(base_dir)
    if isinstance(model, onnx.ModelProto):
        return _load(BufferSource(_encoded(model)), None, ExternalFiles([base]) if base else None)
    if isinstance(model, bytes):
        return _load(BufferSource(model), None, ExternalFiles([base] if base else []))
    path = Path(model)
    source = FileSource(path)
    # A link's own folder first, as onnx has it, then the place of the file itself: model hubs keep both as links.
    folders = [base] if base else [path.parent, path.resolve().parent]
    return _load(source, path, ExternalFiles(folders))


def _encoded(proto: onnx.ModelProto) -> bytes:
    try:
        return bytes(proto.SerializeToString())
    except (ValueError, EncodeError) as error:
        raise BadInput(
            "the ModelProto cannot be encoded, most likely because it is beyond protobuf's 2 GB: save it with external "
            "data and load it by its path"
        ) from error


def _load(source: Source, path: Path | None, external: ExternalFiles | None) -> Model:
    label = path or "the data"
    if source.size == 0:
        raise MalformedModel(f"{label}: is empty")
    payloads = Payloads()
    try:
        skeleton = _stripped(source, payloads)
        proto = onnx.ModelProto.FromString(skeleton)
        _check_holds_graph(proto)
        # The key that every reference to external data has; to look into all the tensors of a model takes longer.
        has_external = b"location" in skeleton and _refer_outside(proto, payloads, external)
        del skeleton
        _check_opsets(proto)
        _check_functions(proto)
        model = Model(proto, payloads, ModelOrigin(path, has_external, has_external and external is None))
    except DecodeError as error:
        raise MalformedModel(_not_a_model(label, source, "its bytes do not parse")) from error
    except CutOffModel as error:
        if kind := describe(source):
            raise MalformedModel(f"{label}: not an ONNX model: {kind}") from error
        raise CutOffModel(f"{label}: {error}. Download or export it again") from error
    except MalformedModel as error:
        raise MalformedModel(_not_a_model(label, source, str(error))) from error
    except ExternalDataError as error:
        raise ExternalDataError(f"{label}: {error}") from error
    return model


def _not_a_model(label: Path | str, source: Source, fault: str) -> str:
    if kind := describe(source):
        return f"{label}: not an ONNX model: {kind}"
    return f"{label}: not an ONNX model, or a damaged one. Download or export it again ({fault})"


def _check_holds_graph(proto: onnx.ModelProto) -> None:
    if not proto.HasField("graph") and not proto.functions:
        raise MalformedModel("it holds no graph")


def _check_opsets(proto: onnx.ModelProto) -> None:
    """Raise MalformedModel for versions that onnx, which keeps them in 32 bits, could not even be asked about."""
    for entries in (proto.opset_import, *(function.opset_import for function in proto.functions)):
        for entry in entries:
            if not -(2**31) <= entry.version < 2**31:
                raise MalformedModel(f"there is no version {entry.version} of domain {entry.domain!r}")


def _check_functions(proto: onnx.ModelProto) -> None:
    """Raise MalformedModel for a function that calls itself, if by way of others: no such model can ever be run."""
    if not proto.functions:
        return
    called = {function_key(one): set(map(function_key, nested_nodes(one.node))) for one in proto.functions}
    try:
        TopologicalSorter(called).prepare()
    except CycleError as error:
        raise MalformedModel(f"the function {error.args[1][0][1]!r} calls itself") from error


def _stripped(source: Source, payloads: Payloads) -> bytes:
    def token(rest: bytes, field: int, offset: int, length: int) -> bytes:
        described = TP.FromString(rest)
        tensor = Stored(described.data_type, described.dims, Span(source, offset, length, field), described.name)
        if described.data_location != TP.EXTERNAL:
            tensor.check()
        return payloads.add(tensor)

    return strip_payloads(source, THRESHOLD, token)


def _refer_outside(proto: onnx.ModelProto, payloads: Payloads, external: ExternalFiles | None) -> bool:
    """Let tokens stand for all tensors with external data, where there is a place to look; whether there are any."""
    found = False
    for tensor in tensor_messages(proto):
        if tensor.data_location == TP.EXTERNAL:
            found = True
            if external is None:
                continue
            token = payloads.add(external.stored(tensor))
            for field in ("data_location", "external_data", *_TYPED):
                tensor.ClearField(field)
            tensor.raw_data = token
    return found


def external_locations(path: Path) -> list[str]:
    """Return where the tensors of a model file say that their bytes lie, whether or not there is anything.

    Raises BadInput (unreadable), MalformedModel (not ONNX).
    """
    try:
        proto = onnx.ModelProto.FromString(_stripped(FileSource(path), Payloads()))
    except (DecodeError, MalformedModel) as error:
        raise MalformedModel(f"{path}: not an ONNX model, or a damaged one (its bytes do not parse)") from error
    entries = (entry for tensor in tensor_messages(proto) for entry in tensor.external_data)
    return sorted({entry.value for entry in entries if entry.key == "location"})


_TYPED = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")
