"""Edit a graph: slice the constants, move what removed channels contributed into biases, bring counts in line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from bnfold import ir
from bnfold.channels.analysis import Analysis, ConstantOperand, Ids, Reader
from bnfold.channels.choice import ChannelChoice
from bnfold.ir.elements import Float64, finfo
from bnfold.ir.taken import Taken, taken
from bnfold.ir.tensor import Exact

_BIAS = {"Conv": 2, "Gemm": 2}


class Absorption(NamedTuple):
    """What the channels that go added to each output channel of a weight; ``total`` with the bias, if there is one."""

    reader: Reader
    total: Float64
    dtype: int


def absorptions(analysis: Analysis, choice: ChannelChoice) -> tuple[list[Absorption], list[Ids]]:
    """Return what moves into biases, and the ids of the readers whose sums are too large for their type."""
    found: list[Absorption] = []
    refused: list[Ids] = []
    for reader in analysis.readers:
        gone = ~choice.keeps(reader.ids)
        if not (gone & (reader.constant != 0) & ~np.isnan(reader.constant)).any():
            continue
        node = reader.node
        weight = ir.constant(node.inputs[1])
        assert weight is not None, "it was read"
        added = reader.absorb(gone)
        if not added.any():
            continue
        old = ir.constant(node.input(_BIAS.get(node.op_type, 2)))
        factor = float(node.attr("beta", 1.0)) if node.is_op("Gemm") else 1.0
        total = added + (factor * old.float64().reshape(-1) if old is not None else 0.0)
        largest = float(finfo(weight.dtype).max)
        if not (np.isfinite(total).all() and (np.abs(total) <= largest).all()):
            refused.append(reader.ids[gone])
        found.append(Absorption(reader, total, weight.dtype))
    return found, refused


def put_constant(operand: ConstantOperand) -> None:
    """Let a node read a constant for an operand that is one number a channel in every run."""
    node, slot, track = operand.node, operand.slot, operand.track
    value = node.inputs[slot]
    assert value is not None, "it has channels"
    numbers = track.constant.reshape(-1, *(1,) * (operand.rank - track.axes[0] - 1))
    node.set_input(slot, node.graph.add_constant(f"{value.name}_constant", Exact(operand.dtype, numbers)))


def cut_channels(analysis: Analysis, choice: ChannelChoice, absorbed: list[Absorption]) -> None:
    """Edit the graph as was chosen."""
    parameters = {each.value: each.ids for each in analysis.parameters}
    for each in absorbed:
        _absorb(analysis, each, parameters)
    for edit in analysis.edits:
        edit(choice.keeps)
    analysis.graph.model.remove_dead_nodes()
    for value, ids in parameters.items():
        if value.uses:
            _slice(value, ids, choice)
    for grouped in analysis.grouped:
        weight = None if grouped.node.removed else grouped.node.inputs[grouped.slot]
        if weight is None or (choice.keeps(grouped.made).all() and choice.keeps(grouped.read).all()):
            continue
        tensor = ir.constant(weight)
        assert tensor is not None, "it was read"
        filters = grouped.made.shape[1]
        rows = [np.flatnonzero(choice.keeps(row)) + place * filters for place, row in enumerate(grouped.made)]
        columns = [np.flatnonzero(choice.keeps(row)) for row in grouped.read]
        each_row = np.concatenate([np.tile(inner, (made.size, 1)) for made, inner in zip(rows, columns, strict=True)])
        weight.replace_tensor(Taken(tensor, (np.concatenate(rows)[:, None], each_row)))


def _slice(value: ir.Value, ids: Mapping[int, Ids], choice: ChannelChoice) -> None:
    tensor = ir.constant(value)
    assert tensor is not None, "it was read"
    kept: list[Ids | None] = [None] * len(tensor.dims)
    for axis, places in ids.items():
        mask = choice.keeps(places)
        if not mask.all():
            kept[axis] = np.flatnonzero(mask)
    if any(each is not None for each in kept):
        value.replace_tensor(taken(tensor, kept))


def _absorb(analysis: Analysis, absorbed: Absorption, parameters: dict[ir.Value, Mapping[int, Ids]]) -> None:
    """Give a layer the bias that it has with what is added, before that is sliced."""
    node, total, dtype = absorbed.reader.node, absorbed.total, absorbed.dtype
    made = analysis.tracks[node.outputs[0]].ids  # type: ignore[index]
    if node.is_op("MatMul"):
        _add_behind(node, total, dtype, made, parameters)
        return
    old = node.input(2)
    hint = old.name if old is not None else f"{node.label}_bias"
    bias = node.graph.add_constant(hint, Exact(dtype, np.broadcast_to(total, made.shape).copy()))
    node.set_input(2, bias)
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
