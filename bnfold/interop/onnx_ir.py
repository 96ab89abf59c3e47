"""Convert models from onnx_ir and back, without copying tensors.

A weight that no rewrite changes is the same object on the way back. A folded weight becomes a lazy tensor: it is
computed in float64 and rounded once, when its values are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import onnx_ir
from onnx_ir.passes.common import NameFixPass

from bnfold import ir
from bnfold.errors import BadInput, Unsupported
from bnfold.ir.messages import tensor_messages
from bnfold.ir.storage.payloads import THRESHOLD, Payloads
from bnfold.ir.tensor import Array, InMemory, Tensor

__all__ = ["from_onnx_ir", "to_onnx_ir"]


class _OnnxIrTensor(Tensor):
    """A tensor of an onnx_ir model. Its values are read only when they are needed."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: onnx_ir.TensorProtocol) -> None:
        super().__init__(tensor.dtype.value, tensor.shape.numpy())
        self.tensor = tensor

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the values: a tensor of onnx_ir may hold an open file or a function."""
        return InMemory, (self.dtype, self.numpy())

    def numpy(self) -> Array:
        array: Array = self.tensor.numpy()
        return array


def from_onnx_ir(model: onnx_ir.Model) -> ir.Model:
    """Convert an onnx_ir model; large tensors are referenced, not copied.

    Raises BadInput if onnx_ir cannot write the model, for instance because a weight has no values yet.
    """
    copy, payloads = model.clone(), Payloads()
    _give_values_unique_names(copy)

    def token(tensor: onnx_ir.TensorProtocol) -> onnx_ir.TensorProtocol:
        content = np.frombuffer(payloads.add(_OnnxIrTensor(tensor)), dtype=np.uint8)
        return onnx_ir.Tensor(content, name=tensor.name, doc_string=tensor.doc_string)

    _exchange(copy, lambda tensor, _: token(tensor) if tensor.nbytes >= THRESHOLD else None)
    proto = _written(copy)
    for message in tensor_messages(proto):
        payload = payloads.get(message.raw_data)
        if payload is not None:
            message.data_type = payload.dtype
            message.dims[:] = payload.dims
    return ir.Model(proto, payloads)


def _give_values_unique_names(model: onnx_ir.Model) -> None:
    """Rename values until no two share a name; nodes keep their names.

    onnx_ir identifies values by object, but a file identifies them by name.
    """
    names = [(holder, holder.name) for holder in _holders(model) if isinstance(holder, onnx_ir.Node)]
    NameFixPass()(model)
    for node, name in names:
        node.name = name


def _written(model: onnx_ir.Model) -> onnx.ModelProto:
    try:
        proto: onnx.ModelProto = onnx_ir.to_proto(model)
    except onnx_ir.serde.SerdeError as error:
        what = "the onnx_ir model cannot be written as ONNX (has it all its weights?)"
        raise BadInput(f"{what}: {_root_of(error)}") from error
    return proto


def _root_of(error: BaseException) -> str:
    """Return the first line of what an error of onnx_ir comes from."""
    while error.__cause__ is not None:
        error = error.__cause__
    return (str(error) or type(error).__name__).splitlines()[0]


def to_onnx_ir(model: ir.Model) -> onnx_ir.Model:
    """Convert a model to onnx_ir, with the payloads in place of the tokens of its skeleton.

    Raises Unsupported for what onnx_ir cannot hold.
    """
    model.sync()
    for graph in model.graphs():
        for entry in getattr(graph.proto, "sparse_initializer", ()):
            raise Unsupported(f"the initializer {entry.values.name!r} is sparse, and onnx_ir has no sparse tensors")
    if model.proto.training_info:
        raise Unsupported("the model holds graphs for training (training_info), and onnx_ir has none")
    try:
        result = onnx_ir.from_proto(model.proto)
    except onnx_ir.serde.SerdeError as error:
        raise Unsupported(f"onnx_ir cannot hold the model: {_root_of(error)}") from error
    _exchange(result, lambda tensor, name: _as_onnx_ir(payload, name) if (payload := _payload(model, tensor)) else None)
    return result


def _exchange(model: onnx_ir.Model, change: Callable[[Any, str], onnx_ir.TensorProtocol | None]) -> None:
    """Replace initializers and tensor attributes by what ``change`` returns for them and their name.

    If it returns None, the tensor stays.
    """
    for holder in _holders(model):
        if isinstance(holder, onnx_ir.Value):
            if holder.const_value is not None:
                holder.const_value = change(holder.const_value, holder.name or "") or holder.const_value
            continue
        for name, attribute in list(holder.attributes.items()):
            if attribute.type == onnx_ir.AttributeType.TENSOR and not attribute.is_ref():
                made = change(attribute.as_tensor(), name)
                if made is not None:
                    holder.attributes[name] = onnx_ir.AttrTensor(name, made)


def _holders(model: onnx_ir.Model) -> Iterator[onnx_ir.Value | onnx_ir.Node]:
    """Yield initializers and nodes of every graph and function."""
    graphs: dict[int, onnx_ir.Graph] = {id(model.graph): model.graph}
    yield from model.graph.initializers.values()
    for root in (model.graph, *model.functions.values()):
        for node in onnx_ir.traversal.RecursiveGraphIterator(root):
            owner = node.graph
            if isinstance(owner, onnx_ir.Graph) and id(owner) not in graphs:
                graphs[id(owner)] = owner
                yield from owner.initializers.values()
            yield node


def _payload(model: ir.Model, tensor: Any) -> Tensor | None:
    if not isinstance(tensor, onnx_ir.serde.TensorProtoTensor):
        return None
    proto: onnx.TensorProto = tensor.raw
    return model.payloads.get(proto.raw_data) if proto.HasField("raw_data") else None


def _as_onnx_ir(payload: Tensor, name: str) -> onnx_ir.TensorProtocol:
    if isinstance(payload, _OnnxIrTensor):
        return payload.tensor
    dtype = onnx_ir.DataType(payload.dtype)
    return onnx_ir.LazyTensor(
        lambda: onnx_ir.Tensor(payload.numpy(), dtype=dtype), dtype=dtype, shape=onnx_ir.Shape(payload.dims), name=name
    )
