"""Take out channels that compute nothing: filters of zeros, and channels that every weight multiplies by zero.

A channel that is a constant, because its filter is zero, ends in a weight that reads it: the constant moves into that
layer's bias, and the slices of both weights go. A channel that every reader multiplies by zero is not computed. Results
are equal for finite values, up to the order of a sum: 0 · ∞ is NaN in the original, and gone here.

`flow` finds out which channels belong together, which may go and which are constant; `rules` says how each operator
passes them on. `choice` decides which go, `removing` edits the graph, and `zeros` looks at weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import onnx

from bnfold import analysis, ir
from bnfold.analysis.shapes.proven import proven_types
from bnfold.channels.choice import ChannelChoice
from bnfold.channels.flow import ChannelFlow, ConstantOperand, Ids, WeightedLayer, integer_weight, stored_weight
from bnfold.channels.removing import absorptions, cut_channels, put_constant
from bnfold.channels.rules import BROADCASTS, RULES
from bnfold.channels.zeros import Weight, zero_slices
from bnfold.ir.elements import FLOATS, Bools
from bnfold.report.events import Report
from bnfold.report.other_events import ChannelEvent
from bnfold.report.rewrites import CHANNELS

MAX_ROUNDS = 16
"""Each may leave a weight that reads only zeros; three are what real models need."""
Zeros = dict[tuple[ir.Value, int], Bools]


def remove_channels(model: ir.Model, report: Report, disabled: frozenset[str]) -> bool:
    """Take out what computes nothing, in place; return whether anything is gone."""
    if CHANNELS.name in disabled or model.proto.training_info:
        return False
    changed = False
    for _ in range(MAX_ROUNDS):
        with analysis.evaluated_once(model):
            zeros: Zeros = {}
            graphs = [graph for graph in model.graphs() if _may_lose(graph, zeros)]
        types = proven_types(model) if graphs else {}
        reduced = [_reduced(graph, types, zeros, report) for graph in graphs]
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


def _reduced(graph: ir.Graph, types: Mapping[ir.Value, onnx.TypeProto], zeros: Zeros, report: Report) -> bool:
    """Take out what can be taken out of one graph at once; return whether anything is gone."""
    model = graph.model
    with analysis.evaluated_once(model):
        flow = ChannelFlow(graph, types, zeros)
        flow.follow(RULES)
    if flow.operands:
        _replace(flow.operands[0], report)
        return True
    refused: list[Ids] = []
    while True:
        choice = ChannelChoice(flow, refused)
        if not choice.has_gone:
            return False
        with analysis.evaluated_once(model):
            absorbed, too_large = absorptions(flow, choice)
        if not too_large:
            break
        refused += too_large
    events = [event for layer in flow.layers for event in _events(layer, choice)]
    changed = {value: value.name for value, track in flow.tracks.items() if not choice.keeps(track.ids).all()}
    cut_channels(flow, choice, absorbed)
    report.drop_cuts({(graph.path, name) for name in changed.values()})
    for value, name in changed.items():
        graph.forget_type(value)
        if value.producer is not None and not value.producer.removed:
            graph.rename(value, model.fresh_name(f"{name}_pruned"))
            report.renamed[name] = value.name
            _map(value, name, flow, choice, report)
    for event in events:
        report.lose_channels(event)
    return True


def _map(value: ir.Value, name: str, flow: ChannelFlow, choice: ChannelChoice, report: Report) -> None:
    """Note which channels of its old self a value has, and what the others are: each part can be compared alone."""
    path, track, dtype = value.graph.path, flow.tracks[value], flow.dtype(value)
    mask = choice.keeps(track.ids)
    earlier = report.scaled.pop((path, name), None)
    if len(track.axes) > 1 or dtype not in FLOATS:
        return
    kept, constants = np.flatnonzero(mask), track.constant
    if earlier is not None:
        if not isinstance(earlier, ir.SelectedValue):
            return
        name, first = earlier.name, np.array(earlier.kept)
        constants = earlier.constants.copy()
        constants[first] = track.constant
        kept = first[kept]
    places, rank = tuple(kept.tolist()), len(flow.dims(value))
    report.scaled[path, value.name] = ir.SelectedValue(name, dtype, track.axes[0], places, constants, rank)


def _replace(operand: ConstantOperand, report: Report) -> None:
    """Put a constant in the place of an operand that is one in every run, and remove what computed it."""
    graph, value = operand.node.graph, operand.node.inputs[operand.slot]
    assert value is not None, "it has channels"
    producer, count = value.producer, operand.track.ids.size
    assert producer is not None, "no input of a graph is constant"
    put_constant(operand)
    graph.model.remove_dead_nodes()
    report.lose_channels(ChannelEvent(producer.label, graph.path, producer.op_type, count, 0))
    report.drop_cuts({(graph.path, made.name) for made in operand.node.outputs if made is not None})


def _events(layer: WeightedLayer, choice: ChannelChoice) -> Iterator[ChannelEvent]:
    kept, node = int(choice.keeps(layer.made).sum()), layer.node
    if kept < layer.made.size:
        yield ChannelEvent(node.label, node.graph.path, node.op_type, layer.made.size, kept)
