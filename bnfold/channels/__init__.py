"""Take out channels that compute nothing: filters of zeros, and channels that every weight multiplies by zero.

A channel that is a constant, because its filter is zero, ends in a weight that reads it: the constant moves into that
layer's bias, and the slices of both weights go. A channel that every consumer multiplies by zero is not computed.
Results are equal for finite values, up to the order of a sum: 0 · ∞ is NaN in the original, and gone here.

`flow` finds out which channels belong together, which may go and which are constant; `rules` says how each operator
passes them on. `choice` decides which go, `removing` edits the graph, and `zeros` looks at weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx

from bnfold import analysis, ir
from bnfold.channels.zeros import Weight, Zeros, integer_weight, stored_weight, zero_slices
from bnfold.ir.elements import FLOATS
from bnfold.report.events import Report
from bnfold.report.rewrites import CHANNELS

BROADCASTS = 7
"""The first opset whose arithmetic broadcasts by itself."""
MAX_ROUNDS = 16
"""Each may leave a weight that reads only zeros; three are what real models need."""


def remove_channels(model: ir.Model, report: Report, disabled: frozenset[str]) -> bool:
    """Take out what computes nothing, in place; return whether anything is gone."""
    if CHANNELS.name in disabled or model.proto.training_info:
        return False
    changed = False
    for _ in range(MAX_ROUNDS):
        with analysis.evaluated_once(model):
            zeros: Zeros = {}
            graphs = [graph for graph in model.graphs() if _may_lose(graph, zeros)]
        if not graphs:
            break
        from bnfold.analysis.shapes.proven import proven_types  # only now: most models have no such channels
        from bnfold.channels.driver import reduce_graph

        types = proven_types(model)
        reduced = [reduce_graph(graph, types, zeros, report) for graph in graphs]
        if not any(reduced):
            break
        changed = True
    return changed


def _may_lose(graph: ir.Graph, zeros: Zeros) -> bool:
    """Whether some channel of a graph is made or read by zeros alone. Looks at little of each weight."""
    if not isinstance(graph.proto, onnx.GraphProto) or graph.opset() < BROADCASTS:
        return False
    found = [is_zero for node in graph.nodes for is_zero in _zero_in(node, zeros)]  # all are looked at, and kept
    return any(found)


def _zero_in(node: ir.Node, zeros: Zeros) -> Iterator[bool]:
    axes = _AXES.get(node.op_type, ()) if not node.domain else ()
    value = node.input(1) if axes else None
    weight = stored_weight(value)
    if node.is_op("QLinearConv"):
        value, weight = node.input(3), integer_weight(node)
    elif weight is None:
        tensor = analysis.constant(value)
        weight = Weight(tensor) if tensor is not None and tensor.dtype in FLOATS else None
    if value is None or weight is None or len(weight.dims) <= max(axes, default=0):
        return
    for axis in axes:
        if (value, axis) not in zeros:
            zeros[value, axis] = zero_slices(weight, axis)
        yield bool(zeros[value, axis].any())


_AXES: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(("Conv", "ConvTranspose", "Gemm", "MatMul", "QLinearConv"), (0, 1)),
    **dict.fromkeys(("BatchNormalization", "InstanceNormalization"), (0,)),
}
"""Operators that multiply channels by their input 1, and the axes of this constant."""
