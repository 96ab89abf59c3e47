"""Edit a graph: slice the constants, move what removed channels contributed into biases, bring counts in line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from bnfold import analysis, ir
from bnfold.channels.choice import ChannelChoice
from bnfold.channels.flow import ChannelFlow, ConstantOperand, Ids, WeightConsumer
from bnfold.channels.zeros import dequantizing
from bnfold.ir.elements import TP, Float64, finfo
from bnfold.ir.taken import Taken, taken
from bnfold.ir.tensor import Exact

_WEIGHT, _BIAS = {"QLinearConv": 3}, {"QLinearConv": 8}
"""Where the weight and the bias of a layer are, if not at 1 and 2."""


class Absorption(NamedTuple):
    """What the channels that go added to each output channel of a weight; ``total`` with the bias, if there is one."""

    consumer: WeightConsumer
    total: Float64
    dtype: int


def absorptions(flow: ChannelFlow, choice: ChannelChoice) -> tuple[list[Absorption], list[Ids]]:
    """Return what moves into biases, and the ids of the consumers whose sums are too large for their type."""
    found: list[Absorption] = []
    refused: list[Ids] = []
    for consumer in flow.consumers:
        gone = ~choice.keeps(consumer.ids)
        if not (gone & (consumer.constant != 0) & ~np.isnan(consumer.constant)).any():
            continue
        node = consumer.node
        weight = analysis.constant(node.inputs[_WEIGHT.get(node.op_type, 1)])
        assert weight is not None, "it was read"
        added = consumer.absorb(gone)
        if not added.any():
            continue
        old = analysis.constant(node.input(_BIAS.get(node.op_type, 2)))
        factor = float(node.attr("beta", 1.0)) if node.is_op("Gemm") else 1.0
        total = added + (factor * old.float64().reshape(-1) if old is not None else 0.0)
        dtype = TP.INT32 if node.is_op("QLinearConv") else weight.dtype
        largest = _LARGEST - 1 if dtype == TP.INT32 else float(finfo(dtype).max)
        absorbed = Absorption(consumer, total, dtype)
        if not (np.isfinite(total).all() and (np.abs(total) <= largest).all()) or not _can_be_stored(absorbed):
            refused.append(consumer.ids[gone])
        found.append(absorbed)
    return found, refused


def _can_be_stored(absorbed: Absorption) -> bool:
    """Whether the bias stays as it is stored: beside a quantized weight it is quantized, and has these numbers."""
    node = absorbed.consumer.node
    if dequantizing(node.input(1)) is None:
        return True
    quantized = _quantized_bias(node, absorbed.total)
    return quantized is not None and bool((np.abs(quantized) < _LARGEST).all())


_LARGEST = 2.0**31
_EXACT = 1e-2
"""Of a step of a quantized bias: by so much rounding may have moved what is added to it."""


def _quantized_bias(node: ir.Node, total: Float64) -> Float64 | None:
    """Return the integers of a quantized bias that stand for these numbers; None if none do."""
    source = dequantizing(node.input(2))
    scale = analysis.constant(source.input(1)) if source is not None else None
    zero = source.input(2) if source is not None else None
    stored = analysis.constant(source.input(0)) if source is not None else None
    if scale is None or stored is None or stored.dtype != TP.INT32:
        return None
    if zero is not None and ((centre := analysis.constant(zero)) is None or centre.float64().any()):
        return None
    steps = total / scale.float64().reshape(-1)
    numbers = np.rint(steps)
    return numbers if (np.abs(steps - numbers) < _EXACT).all() else None


def put_constant(operand: ConstantOperand) -> None:
    """Let a node read a constant for an operand that is one number a channel in every run."""
    node, slot, track = operand.node, operand.slot, operand.track
    value = node.inputs[slot]
    assert value is not None, "it has channels"
    numbers = track.constant.reshape(-1, *(1,) * (operand.rank - track.axes[0] - 1))
    node.set_input(slot, node.graph.add_constant(f"{value.name}_constant", Exact(operand.dtype, numbers)))


def cut_channels(flow: ChannelFlow, choice: ChannelChoice, absorbed: list[Absorption]) -> None:
    """Edit the graph as was chosen."""
    parameters = {each.value: each.ids for each in flow.parameters}
    for each in absorbed:
        _absorb(flow, each, parameters)
    for edit in flow.edits:
        edit(choice.keeps)
    flow.graph.model.remove_dead_nodes()
    for value, ids in parameters.items():
        if value.uses:
            _slice(value, ids, choice)
    for grouped in flow.grouped:
        weight = None if grouped.node.removed else grouped.node.inputs[grouped.slot]
        if weight is None or (choice.keeps(grouped.made).all() and choice.keeps(grouped.read).all()):
            continue
        tensor = analysis.constant(weight)
        assert tensor is not None, "it was read"
        filters = grouped.made.shape[1]
        rows = [np.flatnonzero(choice.keeps(row)) + place * filters for place, row in enumerate(grouped.made)]
        columns = [np.flatnonzero(choice.keeps(row)) for row in grouped.read]
        each_row = np.concatenate([np.tile(inner, (made.size, 1)) for made, inner in zip(rows, columns, strict=True)])
        weight.replace_tensor(Taken(tensor, (np.concatenate(rows)[:, None], each_row)))


def _slice(value: ir.Value, ids: Mapping[int, Ids], choice: ChannelChoice) -> None:
    tensor = analysis.constant(value)
    assert tensor is not None, "it was read"
    kept: list[Ids | None] = [None] * len(tensor.dims)
    for axis, places in ids.items():
        mask = choice.keeps(places)
        if not mask.all():
            kept[axis] = np.flatnonzero(mask)
    if any(each is not None for each in kept):
        value.replace_tensor(taken(tensor, kept))


def _absorb(flow: ChannelFlow, absorbed: Absorption, parameters: dict[ir.Value, Mapping[int, Ids]]) -> None:
    """Give a layer the bias that it has with what is added, before that is sliced."""
    node, total, dtype = absorbed.consumer.node, absorbed.total, absorbed.dtype
    made = flow.tracks[node.outputs[0]].ids  # type: ignore[index]
    if node.is_op("MatMul"):
        _add_behind(node, total, dtype, made, parameters)
        return
    slot = _BIAS.get(node.op_type, 2)
    old = node.input(slot)
    if (source := dequantizing(old)) is not None and dequantizing(node.input(1)) is not None:
        numbers = _quantized_bias(node, total)
        assert numbers is not None, "it was looked at"
        fresh = node.graph.add_constant(source.inputs[0].name, numbers.astype(np.int32))  # type: ignore[union-attr]
        source.set_input(0, fresh)
        parameters[fresh] = {0: made}
        return
    hint = old.name if old is not None else f"{node.label}_bias"
    bias = node.graph.add_constant(hint, Exact(dtype, np.broadcast_to(total, made.shape).copy()))
    node.set_input(slot, bias)
    if node.has_attr("beta"):
        node.set_attr("beta", 1.0)
    parameters[bias] = {0: made}


def _add_behind(
    node: ir.Node, total: Float64, dtype: int, made: Ids, parameters: dict[ir.Value, Mapping[int, Ids]]
) -> None:
    value = node.outputs[0]
    assert value is not None, "it has channels"
    inner = node.graph.fresh(f"{value.name}_unshifted")
    node.set_output(0, inner)
    shift = node.graph.add_constant(f"{value.name}_shift", Exact(dtype, total))
    node.graph.insert("Add", (inner, shift), (value,), after=node)
    parameters[shift] = {0: made}
