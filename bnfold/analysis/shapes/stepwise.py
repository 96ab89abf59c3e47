"""Types and shapes on demand: only what an adapter asks for, and what that follows from.

The nodes in front of the one at work are already in the form of the target opset, so onnx's inference of single nodes
sees operators that it knows, also where the model as a whole is half way between two opsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache

import numpy as np
import onnx

from bnfold import ir
from bnfold.analysis.shapes.disputed import unsure_axes
from bnfold.analysis.shapes.learned import types_made
from bnfold.analysis.shapes.propagation import shown_constant
from bnfold.analysis.shapes.registered import registered_types
from bnfold.analysis.shapes.ties import tied_source
from bnfold.analysis.shapes.uses import types_by_use
from bnfold.analysis.shapes.weights import certain_rank, type_by_weights
from bnfold.analysis.traits import KEEPS_TYPE, READS_VALUES
from bnfold.ir.bodies import dims_behind, operand_of, scan_axis, states_of
from bnfold.ir.inferable import GIVES_UP
from bnfold.ir.schemas import MACHINE_LEARNING, schema_of, version_at
from bnfold.ir.types import filled, without_sizes, without_zeros
from bnfold.ir.value import Dims


class Types:
    """What is known of values; answers are remembered in the graphs' own type tables."""

    def __init__(self, target: int, tell: Callable[[], object] | None = None) -> None:
        """Answer for nodes of ``target``; ``tell`` lets the graphs know what is known of the whole, once."""
        self._target, self._tell = target, tell
        self._tied: dict[ir.Value, int | None] = {}
        self._imports = [onnx.OperatorSetIdProto(domain="", version=target)]
        self._done: set[ir.Value] = set()
        self._knows_uses = False

    def dtype(self, value: ir.Value) -> int | None:
        """Return element type of ``value``, inferred if need be."""
        if value.dtype is not None:
            return value.dtype
        if self._tell is not None and (tied := self._tied_dtype(value)) is not None:
            return tied
        self._infer_back(value)
        return value.dtype if self._knows_uses else self._dtype_by_use(value)

    def _dtype_by_use(self, value: ir.Value) -> int | None:
        """Return the element type, inferred once more with what is known of other values by their use."""
        if value.dtype is None:
            self._knows_uses = True
            for other, dtype in types_by_use(value.graph.model, self._target).items():
                _learn(other, onnx.helper.make_tensor_type_proto(dtype, None))
            self._done.clear()
            self._infer_back(value)
        return value.dtype

    def shape(self, value: ir.Value) -> Dims | None:
        """Return dims of ``value`` as far as the file or inference knows them; None for an unknown rank."""
        if value.is_dynamic:
            self._infer_back(value)
        return value.shape

    def rank(self, value: ir.Value) -> int | None:
        """Return the number of axes of ``value``: weights often tell it, and nothing has to be inferred."""
        shape = value.shape
        if shape is None and self._tell is not None and (rank := certain_rank(value)) is not None:
            return rank
        shape = self.shape(value) if shape is None else shape
        return None if shape is None else len(shape)

    def stated(self, value: ir.Value) -> Dims | None:
        """Return dims of ``value`` as the file and inference of the whole know them."""
        self.recall()
        return value.shape

    def recall(self) -> None:
        """Let the graphs know what is known of the whole, unless they do."""
        tell, self._tell = self._tell, None
        if tell is not None:
            tell()

    def _tied_dtype(self, target: ir.Value) -> int | None:
        """Return the element type that the operators' texts tie to one that is stated; nothing has to be inferred."""
        stack, entered = [target], set[ir.Value]()
        while stack:
            value = stack[-1]
            source = None if value in self._tied else tied_source(value, self._target)
            if isinstance(source, ir.Value) and source not in self._tied and source.dtype is None:
                if source not in entered:
                    entered.add(source)
                    stack.append(source)
                    continue
                source = None  # a damaged graph has circles
            known = self._tied.get(source, source.dtype) if isinstance(source, ir.Value) else source
            self._tied.setdefault(value, known)
            stack.pop()
        return self._tied[target]

    def _infer_back(self, target: ir.Value) -> None:
        """Infer ``target`` and whatever it follows from; a stack, because networks are deeper than Python recurses."""
        self.recall()
        stack, entered = [target], set()
        while stack:
            value = stack[-1]
            node, operand = value.producer, operand_of(value)
            if value in self._done or (node is None and operand is None) or value.tensor_proto is not None:
                stack.pop()
                continue
            entered.add(value)  # a value that waits for itself, in a damaged file, is not waited for
            sources = [operand] if node is None else node.inputs
            waiting = [
                source for source in sources if source is not None and source not in entered and self._is_open(source)
            ]
            if waiting:
                stack.extend(waiting)
                continue
            stack.pop()
            if node is not None:
                self._infer(node)
            elif operand is not None:
                self._enter_body(value, operand)

    def _is_open(self, value: ir.Value) -> bool:
        if value in self._done or value.tensor_proto is not None:
            return False
        if value.producer is None and operand_of(value) is None:
            return False
        return value.dtype is None or value.is_dynamic

    def _infer(self, node: ir.Node) -> None:
        outputs = [value for value in node.outputs if value is not None]
        self._done.update(outputs)
        if node.subgraphs:
            self._leave_bodies(node)
            return
        if node.has_trait(KEEPS_TYPE):
            kind, made = type_of(node.input(0)), node.output(0)
            if kind is not None and made is not None:
                _learn(made, kind)
        if node.domain:
            made_types = (
                types_made(node, type_of(node.input(0)))
                if node.domain == MACHINE_LEARNING
                else registered_types(node, [type_of(value) for value in node.inputs])
            )
            for value, made_type in zip(node.outputs, made_types, strict=False):
                if value is not None and made_type is not None:
                    _learn(value, made_type)
        if not (node.domain or (node.has_trait(KEEPS_TYPE) and len(outputs) == 1)):
            self._ask_onnx(node, outputs)
            if outputs and outputs[0].shape is None and (kind := type_by_weights(node)) is not None:
                _learn(outputs[0], kind)

    def _ask_onnx(self, node: ir.Node, outputs: list[ir.Value]) -> None:
        version = version_at(node.op_type, self._target)
        if version is None or _has_open_dims(node):
            return
        inputs = [value for value in node.inputs if value is not None]
        types = {value.name: type_of(value) or onnx.TypeProto() for value in inputs}
        constants = _small_constants(inputs) if node.op_type in READS_VALUES else None
        try:
            inferred = onnx.shape_inference.infer_node_outputs(
                schema_of(node.op_type, version),
                node.proto,
                types,
                constants,
                opset_imports=self._imports,
                ir_version=8,
            )
        except (*GIVES_UP, KeyError):
            return  # sizes that onnx cannot infer stay unknown; callers report that
        x = node.input(0)
        axes = unsure_axes(node, x.shape) if x is not None and x.shape is not None else set()
        for value in outputs:
            if value.name in inferred:
                _learn(value, without_sizes(inferred[value.name], axes))

    def _enter_body(self, value: ir.Value, operand: ir.Value) -> None:
        """Note the type of a body's input: it has its operand's type.

        A Loop's state may change its shape, a Scan reads slices.
        """
        self._done.add(value)
        node, dims = value.graph.parent, operand.shape
        if operand.dtype is None or node is None:
            return
        scanned = value.graph.inputs.index(value) - (states_of(node) or 0)
        if node.op_type == "Loop" or states_of(node) is None:
            dims = None
        elif dims is not None and scanned >= 0:
            axis = scan_axis(node, "scan_input_axes", scanned)
            dims = tuple(dim for position, dim in enumerate(dims) if position != axis % max(len(dims), 1))
        _learn(value, onnx.helper.make_tensor_type_proto(operand.dtype, dims))

    def _leave_bodies(self, node: ir.Node) -> None:
        """Note the types of outputs: those that the bodies end in, where they agree.

        What is stacked has an axis more.
        """
        for slot, value in enumerate(node.outputs):
            place = slot + (node.op_type == "Loop")
            ends = [graph.outputs[place] for graph in node.bodies if place < len(graph.outputs)]
            shapes, dtypes = [self.shape(end) for end in ends], {self.dtype(end) for end in ends}
            if value is None or len(dtypes) != 1:
                continue
            dtype = dtypes.pop()
            if dtype is not None:
                _learn(value, onnx.helper.make_tensor_type_proto(dtype, dims_behind(node, slot, shapes)))
            elif (kind := ends[0].type) is not None and not kind.HasField("tensor_type"):
                _learn(value, kind)


def _has_open_dims(node: ir.Node) -> bool:
    """Whether an attribute that dims can depend on is the enclosing function's: inference would read it as 0."""
    return any(entry.ref_attr_name and entry.type != onnx.AttributeProto.FLOAT for entry in node.attrs.values())


def type_of(value: ir.Value | None) -> onnx.TypeProto | None:
    """Return what the graph knows of a value's type; that of a weight follows from it."""
    if value is None:
        return None
    if value.tensor_proto is None:
        return None if value.type is None else without_zeros(value.type)
    return _tensor_type(value.tensor_proto.data_type, value.tensor.dims if value.tensor else ())


@cache
def _tensor_type(dtype: int, dims: tuple[int, ...]) -> onnx.TypeProto:
    """Return the type, shared between the weights of one type and shape: it is never edited."""
    return onnx.helper.make_tensor_type_proto(dtype, dims)


def _small_constants(inputs: Iterable[ir.Value]) -> dict[str, onnx.TensorProto]:
    found: dict[str, onnx.TensorProto] = {}
    for value in inputs:
        tensor = shown_constant(value)
        if tensor is not None and not value.graph.model.origin.is_detached:
            found[value.name] = onnx.numpy_helper.from_array(tensor.numpy(), value.name)
        elif (sizes := _sizes_read(value)) is not None:
            found[value.name] = onnx.numpy_helper.from_array(np.array(sizes, np.int64), value.name)
    return found


def _sizes_read(value: ir.Value) -> Dims | None:
    """Return the numbers that a Shape makes, if all sizes of its input are known."""
    node = value.producer
    if node is None or node.domain or node.op_type != "Shape" or node.attrs or (data := node.input(0)) is None:
        return None
    shape = data.shape
    return shape if shape and all(isinstance(size, int) and size for size in shape) else None


def _learn(value: ir.Value, inferred: onnx.TypeProto) -> None:
    """Keep what the file says; fill in what it leaves open."""
    value.graph.types[value.name] = filled(value.type, inferred)
