"""Models across the border to onnx_ir and back, tensors by reference.

A weight that no rewrite touches is the very same object on the way back, one that is folded becomes a lazy tensor,
computed in float64 and rounded once when somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import onnx_ir
from onnx_ir.passes.common import NameFixPass

from bnfold import ir
from bnfold.errors import BadInput
from bnfold.ir.messages import tensor_messages
from bnfold.ir.storage.payloads import THRESHOLD, Payloads
from bnfold.ir.tensor import Array, Tensor

__all__ = ["from_onnx_ir", "to_onnx_ir"]


class _Borrowed(Tensor):
    """A tensor of onnx_ir's, read only when its values are needed."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: onnx_ir.TensorProtocol) -> None:
        super().__init__(tensor.dtype.value, tensor.shape.numpy())
        self.tensor = tensor

    def numpy(self) -> Array:
        array: Array = self.tensor.numpy()
        return array


def from_onnx_ir(model: onnx_ir.Model) -> ir.Model:
    """Return the model as bnfold's own, large tensors by reference.

    Raises BadInput for a model that onnx_ir cannot write, as those are whose weights hold no values yet.
    """
    copy, payloads = model.clone(), Payloads()
    _tell_values_apart(copy)

    def token(tensor: onnx_ir.TensorProtocol) -> onnx_ir.TensorProtocol:
        content = np.frombuffer(payloads.add(_Borrowed(tensor)), dtype=np.uint8)
        return onnx_ir.Tensor(content, name=tensor.name, doc_string=tensor.doc_string)

    _exchange(copy, lambda tensor, _: token(tensor) if tensor.nbytes >= THRESHOLD else None)
    proto = _written(copy)
    for message in tensor_messages(proto):
        held = payloads.get(message.raw_data)
        if held is not None:
            message.data_type = held.dtype
            message.dims[:] = held.dims
    return ir.Model(proto, payloads)


def _tell_values_apart(model: onnx_ir.Model) -> None:
    """Give each value a name of its own: onnx_ir tells them apart without, files do not. Nodes keep their names."""
    names = [(holder, holder.name) for holder in _holders(model) if isinstance(holder, onnx_ir.Node)]
    NameFixPass()(model)
    for node, name in names:
        node.name = name


def _written(model: onnx_ir.Model) -> onnx.ModelProto:
    try:
        proto: onnx.ModelProto = onnx_ir.to_proto(model)
    except onnx_ir.serde.SerdeError as error:
        root: BaseException = error
        while root.__cause__ is not None:
            root = root.__cause__
        reason = (str(root) or type(root).__name__).splitlines()[0]
        raise BadInput(f"the onnx_ir model cannot be written as ONNX (has it all its weights?): {reason}") from error
    return proto


def to_onnx_ir(model: ir.Model) -> onnx_ir.Model:
    """Return the skeleton as an onnx_ir model, with the tensors that its tokens stand for."""
    result = onnx_ir.from_proto(model.proto)
    _exchange(result, lambda tensor, name: _as_onnx_ir(held, name) if (held := _held(model, tensor)) else None)
    return result


def _exchange(model: onnx_ir.Model, change: Callable[[Any, str], onnx_ir.TensorProtocol | None]) -> None:
    """Put what ``change`` makes of an initializer or an attribute, given its name, in its place; None leaves it."""
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


def _held(model: ir.Model, tensor: Any) -> Tensor | None:
    if not isinstance(tensor, onnx_ir.serde.TensorProtoTensor):
        return None
    proto: onnx.TensorProto = tensor.raw
    return model.payloads.get(proto.raw_data) if proto.HasField("raw_data") else None


def _as_onnx_ir(held: Tensor, name: str) -> onnx_ir.TensorProtocol:
    if isinstance(held, _Borrowed):
        return held.tensor
    dtype = onnx_ir.DataType(held.dtype)
    return onnx_ir.LazyTensor(
        lambda: onnx_ir.Tensor(held.numpy(), dtype=dtype), dtype=dtype, shape=onnx_ir.Shape(held.dims), name=name
    )
