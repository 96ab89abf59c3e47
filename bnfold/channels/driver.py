"""Take out of one graph at once what can be taken out of it, and report it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import onnx

from bnfold import analysis, ir
from bnfold.channels.choice import ChannelChoice
from bnfold.channels.flow import ChannelFlow, ConstantOperand, Ids, WeightedLayer
from bnfold.channels.removing import absorptions, cut_channels, put_constant
from bnfold.channels.rules import RULES
from bnfold.channels.zeros import Zeros
from bnfold.folding import shapes
from bnfold.ir.elements import FLOATS
from bnfold.report.events import Report
from bnfold.report.other_events import ChannelEvent


def reduce_graph(graph: ir.Graph, types: Mapping[ir.Value, onnx.TypeProto], zeros: Zeros, report: Report) -> bool:
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
    shapes.learn_again(model)
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
