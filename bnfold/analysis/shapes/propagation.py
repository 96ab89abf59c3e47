"""Which numbers onnx's shape inference is shown, and how far it propagates them.

To know sizes that nodes compute, it lists the numbers of every value of one axis, and where these are unknown, as many
unknown ones: a Cast of 2⁴⁰ elements takes all memory.
"""

from __future__ import annotations

from itertools import chain

import onnx

from bnfold.analysis.constants import constant
from bnfold.analysis.traits import READS_VALUES
from bnfold.ir.inferable import ELSEWHERE
from bnfold.ir.messages import nested_graphs, nested_nodes
from bnfold.ir.model import Model
from bnfold.ir.node import Node
from bnfold.ir.shown import shown_to_onnx
from bnfold.ir.tensor import Tensor
from bnfold.ir.time_limit import look_at_clock
from bnfold.ir.value import Value

SMALL = 64
"""Elements up to which a constant's values are shown to inference: shapes, axes, repeats."""

_SHOWN = (onnx.TensorProto.INT64, onnx.TensorProto.FLOAT)
_PROPAGATES = frozenset(["Add", "Cast", "Concat", "Gather", "Mul", "Size", "Slice", "Squeeze", "Sub", "Unsqueeze"])
_LONGEST = 1 << 16
"""Numbers of a value, beyond any shape's."""


def needs_propagation(model: Model) -> bool:
    """Whether the size of a value follows from numbers that nodes compute, and not from constants."""
    if model.proto.functions:
        return True
    return any(not _is_shown(value, model) for node in model.nodes() for value in numbers_read(node))


def numbers_read(node: Node) -> list[Value]:
    """Return the inputs whose numbers determine a size."""
    if node.op_type not in READS_VALUES or node.domain:
        return []
    first = 0 if node.op_type in ("ConstantOfShape", "Range") else 1
    return [value for value in node.inputs[first:] if value is not None]


def _is_shown(value: Value, model: Model) -> bool:
    """Whether inference is shown the numbers; what bodies compute from constants, it has to follow."""
    if value.producer is None or value.producer.is_op("Constant"):
        return constant(value) is not None
    return value.graph is model.graph and shown_constant(value) is not None


def shown_constant(value: Value) -> Tensor | None:
    """Return the constant that a value is, if inference may read it: a small one, of numbers that it takes."""
    held = constant(value) if value.dtype in (*_SHOWN, None) else None
    return held if held is not None and held.size <= SMALL and held.dtype in _SHOWN else None


def infer_by_onnx(proto: onnx.ModelProto, *, strict: bool, propagate: bool) -> onnx.ModelProto:
    """Infer by onnx. Where ``propagate``, numbers are followed, but for those of long values."""
    inferred = _infer(proto, strict=strict, propagate=False)
    if not propagate:
        return inferred
    long = _long_values(inferred)
    nodes = nested_nodes(inferred.graph.node) if long else ()
    hidden = [node for node in nodes if _propagates(node) and not long.isdisjoint(node.input)]
    if not hidden:
        return _infer(proto, strict=strict, propagate=True)
    inferred.opset_import.add(domain=ELSEWHERE, version=1)
    for node in hidden:
        node.domain = ELSEWHERE
    return _infer(inferred, strict=strict, propagate=True)


def _long_values(inferred: onnx.ModelProto) -> set[str]:
    """Return the names of values of one axis that are too long for a shape, in any of the graphs."""
    found: set[str] = set()
    for graph in nested_graphs(inferred.graph):
        for info in chain(graph.input, graph.value_info, graph.output):
            dims = info.type.tensor_type.shape.dim
            if len(dims) == 1 and dims[0].dim_value > _LONGEST:
                found.add(info.name)
        found.update(tensor.name for tensor in graph.initializer if len(tensor.dims) == 1 and tensor.dims[0] > _LONGEST)
    return found


def _propagates(node: onnx.NodeProto) -> bool:
    return node.op_type in _PROPAGATES and node.domain in ("", "ai.onnx")


def _infer(proto: onnx.ModelProto, *, strict: bool, propagate: bool) -> onnx.ModelProto:
    look_at_clock()
    with shown_to_onnx(proto):
        return onnx.shape_inference.infer_shapes(proto, check_type=False, strict_mode=strict, data_prop=propagate)
