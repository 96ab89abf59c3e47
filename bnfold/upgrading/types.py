"""Types and shapes on demand: only what an adapter asks for, and what that follows from.

The nodes in front of the one at work are already in the form of the target opset, so onnx's inference of single nodes
sees operators that it knows, also where the model as a whole is half way between two opsets.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import onnx
from onnx import defs

from bnfold import ir
from bnfold.ir.elements import tensor_message
from bnfold.ir.shapes import READS_VALUES, SMALL
from bnfold.upgrading.ranks import type_by_weights

if TYPE_CHECKING:
    from collections.abc import Iterable

KEEPS_SHAPE = (
    *("BatchNormalization", "InstanceNormalization", "Relu", "LeakyRelu", "PRelu", "Elu", "Sigmoid", "Tanh", "Clip"),
    *("Dropout", "Softmax", "LogSoftmax", "Identity", "Neg", "Exp", "Sqrt", "LRN", "Softplus"),
)
"""Operators whose first output is of the type and shape of the first input: no need to ask onnx."""

Dims = tuple[int | str | None, ...]


class Types:
    """What is known of values; answers are remembered in the graphs' own type tables."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._imports = [onnx.OperatorSetIdProto(domain="", version=target)]
        self._done: set[ir.Value] = set()

    def dtype(self, value: ir.Value) -> int | None:
        """Element type of ``value``, inferred if need be."""
        if value.dtype is None:
            self._settle(value)
        return value.dtype

    def shape(self, value: ir.Value) -> Dims | None:
        """Dims of ``value`` as far as the file or inference knows them; None for an unknown rank."""
        if value.shape is None or not all(isinstance(dim, int) for dim in value.shape):
            self._settle(value)
        return value.shape

    def _settle(self, target: ir.Value) -> None:
        """Infer ``target`` and whatever it follows from; a stack, because networks are deeper than Python recurses."""
        stack, entered = [target], set()
        while stack:
            value = stack[-1]
            node = value.producer
            if value in self._done or node is None or value.tensor_proto is not None:
                stack.pop()
                continue
            entered.add(value)  # a value that waits for itself, in a damaged file, is not waited for
            waiting = [
                source
                for source in node.inputs
                if source is not None and source not in entered and self._is_open(source)
            ]
            if waiting:
                stack.extend(waiting)
                continue
            stack.pop()
            self._infer(node)

    def _is_open(self, value: ir.Value) -> bool:
        if value in self._done or value.producer is None or value.tensor_proto is not None:
            return False
        return value.dtype is None or value.shape is None or not all(isinstance(dim, int) for dim in value.shape)

    def _infer(self, node: ir.Node) -> None:
        outputs = [value for value in node.outputs if value is not None]
        self._done.update(outputs)
        if node.subgraphs:
            self._copy_branches(node)
        elif node.is_op(*KEEPS_SHAPE):
            kind, made = _type_of(node.input(0)), node.output(0)
            if kind is not None and made is not None:
                _learn(made, kind)
        elif not node.domain:
            self._ask_onnx(node, outputs)
            if outputs and outputs[0].shape is None and (kind := type_by_weights(node)) is not None:
                _learn(outputs[0], kind)

    def _ask_onnx(self, node: ir.Node, outputs: list[ir.Value]) -> None:
        schema = _schema(node.op_type, self._target)
        if schema is None or _has_open_dims(node):
            return
        inputs = [value for value in node.inputs if value is not None]
        types = {value.name: kind for value in inputs if (kind := _type_of(value)) is not None}
        constants = _small_constants(inputs) if node.op_type in READS_VALUES else None
        try:
            inferred = onnx.shape_inference.infer_node_outputs(
                schema, node.proto, types, constants, opset_imports=self._imports, ir_version=8
            )
        except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, RuntimeError, ValueError, KeyError):
            return  # what onnx cannot infer stays unknown; whoever needs it says so
        for value in outputs:
            if value.name in inferred:
                _learn(value, inferred[value.name])

    def _copy_branches(self, node: ir.Node) -> None:
        """The outputs of an If are its branches', where those agree; what a Loop carries has its body's type."""
        carried = {"If": len(node.outputs), "Loop": len(node.inputs) - 2}.get(node.op_type, 0)
        for slot, value in enumerate(node.outputs[:carried]):
            place = slot + (node.op_type == "Loop")
            ends = [graph.outputs[place] for graph in _bodies(node) if place < len(graph.outputs)]
            shapes = {self.shape(end) for end in ends}
            kind = ends[0].type if ends else None
            if value is not None and len(shapes) == 1 and kind is not None:
                _learn(value, kind)


def _bodies(node: ir.Node) -> list[ir.Graph]:
    return [graph for graphs in node.subgraphs.values() for graph in graphs]


@cache
def _schema(op_type: str, opset: int) -> defs.OpSchema | None:
    return defs.get_schema(op_type, opset, "") if defs.has(op_type, opset, "") else None


def _has_open_dims(node: ir.Node) -> bool:
    """Whether an attribute that dims can depend on is the enclosing function's: inference would read it as 0."""
    return any(entry.ref_attr_name and entry.type != onnx.AttributeProto.FLOAT for entry in node.attrs.values())


def _type_of(value: ir.Value | None) -> onnx.TypeProto | None:
    if value is None:
        return None
    if value.tensor_proto is None:
        return value.type
    return _tensor_type(value.tensor_proto.data_type, value.tensor.dims if value.tensor else ())


@cache
def _tensor_type(dtype: int, dims: tuple[int, ...]) -> onnx.TypeProto:
    """Shared between the weights of one type and shape: nobody edits it."""
    return _annotation(dtype, dims)


def _annotation(dtype: int, dims: Dims) -> onnx.TypeProto:
    """As `onnx.helper.make_tensor_type_proto`, whose import takes longer than all that is asked here."""
    made = onnx.TypeProto()
    made.tensor_type.elem_type = dtype
    made.tensor_type.shape.SetInParent()  # the rank of a scalar is known, too
    for dim in dims:
        entry = made.tensor_type.shape.dim.add()
        if isinstance(dim, int):
            entry.dim_value = dim
        elif dim is not None:
            entry.dim_param = dim
    return made


def _small_constants(inputs: Iterable[ir.Value]) -> dict[str, onnx.TensorProto]:
    found: dict[str, onnx.TensorProto] = {}
    for value in inputs:
        tensor = ir.constant(value) if value.dtype in (onnx.TensorProto.INT64, onnx.TensorProto.FLOAT, None) else None
        if tensor is not None and tensor.size <= SMALL:
            found[value.name] = tensor_message(tensor.numpy(), value.name)
    return found


def _learn(value: ir.Value, inferred: onnx.TypeProto) -> None:
    """Keep what the file says; fill in what it leaves open."""
    known = value.shape
    if value.dtype is not None and known is not None:
        fresh = inferred.tensor_type.shape.dim
        if len(fresh) != len(known) or not any(
            dim.HasField("dim_value") and not isinstance(old, int) for dim, old in zip(fresh, known, strict=True)
        ):
            return
        merged = [dim.dim_value if dim.HasField("dim_value") else old for dim, old in zip(fresh, known, strict=True)]
        value.graph.types[value.name] = _annotation(value.dtype, tuple(merged))
        return
    value.graph.types[value.name] = inferred
