"""Which channels have to go together, which may go at all, and which are constant.

A value's channels lie along some of its axes (a `Track`). Each has an id; operators that pass a channel on pass on the
id as well, and those that combine two channels link their ids. All linked ids are one class: its channels stay or go
together. Whatever could tell that they are gone *blocks* the class: a graph output, an operator that is not on the list
of `bnfold.channels.rules`, or a weight that reads a channel with numbers other than 0 and cannot take a constant over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import onnx

from bnfold import analysis, ir
from bnfold.channels.zeros import Weight, dequantizing, stored_weight, zero_slices
from bnfold.errors import BnfoldError
from bnfold.folding import facts
from bnfold.ir.elements import FLOATS, Bools, Float64, finfo, round_once
from bnfold.ir.value import Dims, shape_of

Ids = np.ndarray[tuple[int, ...], np.dtype[np.int64]]
_SMALL = 1 << 22
"""Bytes of a constant operand that is read to see whether it is one number a channel."""


NOT_FOLLOWED = "channels are not followed through this form of the operator"


class NotFollowed(BnfoldError):
    """Raised by a rule for a node that cannot be followed: nothing around it goes."""


class Track(NamedTuple):
    """The channels of a value: the axes along which they lie, and an id and the constant of each, NaN for none."""

    axes: tuple[int, ...]
    ids: Ids
    constant: Float64

    @property
    def is_constant(self) -> bool:
        """Whether each channel is one number in every run."""
        return not np.isnan(self.constant).any()


class ChannelParameter(NamedTuple):
    """A constant that a node reads at ``slot``, and the ids of its places along some of its axes."""

    node: ir.Node
    slot: int
    value: ir.Value
    ids: Mapping[int, Ids]


class Grouped(NamedTuple):
    """The weight of a Conv of several groups: its ids by group, of shape [groups, filters] and [groups, channels]."""

    node: ir.Node
    slot: int
    made: Ids
    read: Ids


class WeightedLayer(NamedTuple):
    """What makes channels with a weight; ``made`` has a row for each group, whose sizes have to stay equal."""

    node: ir.Node
    made: Ids


class WeightConsumer(NamedTuple):
    """A weight that reads channels; ``constant`` are theirs, in the order of its input channels.

    ``absorb`` returns what the constants of the channels in a mask add to each output channel.
    """

    node: ir.Node
    ids: Ids
    constant: Float64
    absorb: Callable[[Bools], Float64]


class ConstantOperand(NamedTuple):
    """An operand that is one number a channel in every run; the other operand has the shape of the result."""

    node: ir.Node
    slot: int
    track: Track
    rank: int
    dtype: int


Keeps = Callable[[Ids], Bools]
"""Says which channels stay."""
ChannelEdit = Callable[[Keeps], None]
"""Brings a node in line with the channels that stay: an attribute, or a constant that counts them."""
ChannelRule = Callable[["ChannelFlow", ir.Node], None]


def _unlisted(_: ChannelFlow, node: ir.Node) -> None:
    raise NotFollowed(f"{node.op_type} is not followed")


class ChannelFlow:
    """All channels of one graph. Rules add what they find out to the lists."""

    def __init__(
        self, graph: ir.Graph, types: Mapping[ir.Value, onnx.TypeProto], zeros: dict[tuple[ir.Value, int], Bools]
    ) -> None:
        self.graph = graph
        self.types = types
        self.zeros = zeros
        self.tracks: dict[ir.Value, Track] = {}
        self.count = 0
        self.links: list[tuple[Ids, Ids]] = []
        self.blocked: list[Ids] = []
        self.parameters: list[ChannelParameter] = []
        self.grouped: list[Grouped] = []
        self.even: list[Ids] = []
        """Ids in rows that have to keep equally many."""
        self.layers: list[WeightedLayer] = []
        self.consumers: list[WeightConsumer] = []
        self.operands: list[ConstantOperand] = []
        self.edits: list[ChannelEdit] = []

    def follow(self, rules: Mapping[str, ChannelRule]) -> None:
        """Visit all nodes in order."""
        refusals: tuple[type[Exception], ...] = (BnfoldError, *facts.MISFIT)
        for node in self.graph.nodes:
            rule = rules.get(node.op_type) if node.is_known and not node.is_call and not node.has_references else None
            lists = (self.links, self.blocked, self.parameters, self.grouped, self.even, self.layers, self.consumers,
                     self.operands, self.edits)  # fmt: skip
            lengths, count = [len(each) for each in lists], self.count
            try:
                (rule or _unlisted)(self, node)
            except refusals:
                for each, length in zip(lists, lengths, strict=True):
                    del each[length:]  # type: ignore[attr-defined]
                self.count = count  # nothing has the ids that the rule took
                for value in node.outputs:
                    self.tracks.pop(value, None)  # type: ignore[arg-type]
                for value in node.inputs:
                    self.block(value)
        for value in self.tracks:
            if value.is_output or any(consumer.graph is not self.graph for consumer in value.consumers):
                self.block(value)
        self._tie_constants()

    def block(self, value: ir.Value | None) -> None:
        """Let no channel of a value go."""
        if value is not None and value in self.tracks:
            self.blocked.append(self.tracks[value].ids.reshape(-1))

    def _tie_constants(self) -> None:
        """Link what nodes say of one constant; block it where some consumer says nothing, or something else."""
        by_value: dict[ir.Value, list[ChannelParameter]] = {}
        for parameter in self.parameters:
            by_value.setdefault(parameter.value, []).append(parameter)
        for grouped in self.grouped:
            value = grouped.node.inputs[grouped.slot]
            if value is None or value in by_value or value.only_use is None or not value.holds_constant:
                self.blocked += [grouped.made.reshape(-1), grouped.read.reshape(-1)]
        for value, parameters in by_value.items():
            first = parameters[0].ids
            uses = {(each.node, each.slot) for each in parameters}
            agree = all(each.ids.keys() == first.keys() for each in parameters)
            agree = agree and all(each.ids[axis].size == ids.size for each in parameters for axis, ids in first.items())
            if value.is_output or not value.holds_constant or uses != value.uses.keys() or not agree:
                self.blocked += [ids for each in parameters for ids in each.ids.values()]
                continue
            self.links += [(first[axis], each.ids[axis]) for each in parameters[1:] for axis in first]

    # -- what rules ask

    def dims(self, value: ir.Value | None) -> Dims:
        """Return the proven dims of a value. Raises NotFollowed where the rank is not known."""
        if value is None:
            raise NotFollowed(NOT_FOLLOWED)
        held = analysis.constant(value)
        found = held.dims if held is not None else shape_of(self.types.get(value))
        if found is None:
            raise NotFollowed(NOT_FOLLOWED)
        return found

    def dtype(self, value: ir.Value | None) -> int:
        """Return the element type of a value; 0 if it is not known."""
        kind = self.types.get(value) if value is not None else None
        return kind.tensor_type.elem_type if kind is not None else 0

    def track(self, value: ir.Value | None) -> Track:
        """Return the channels of a value. Raises NotFollowed where they are not followed."""
        if value is None or value not in self.tracks:
            raise NotFollowed(NOT_FOLLOWED)
        return self.tracks[value]

    def fresh(self, shape: Sequence[int]) -> Ids:
        """Return new ids."""
        size = int(np.prod(shape))
        self.count += size
        return np.arange(self.count - size, self.count).reshape(shape)

    def fixed(self, count: int) -> Track:
        """Return channels of axis 1 that all stay."""
        ids = self.fresh((count,))
        self.blocked.append(ids)
        return Track((1,), ids, np.full(count, np.nan))

    def collapsed(self, value: ir.Value | None, axis: int, count: int) -> Track:
        """Return the channels of a value along one axis; those that differ along other axes stay or go together.

        What has no channels there, or other ones, stays as it is.
        """
        if value is None or value not in self.tracks:
            return self.fixed(count)
        track = self.tracks[value]
        if axis not in track.axes or track.ids.shape[track.axes.index(axis)] != count:
            self.block(value)
            return self.fixed(count)
        ids = np.moveaxis(track.ids, track.axes.index(axis), 0).reshape(count, -1)
        constant = np.moveaxis(track.constant, track.axes.index(axis), 0).reshape(count, -1)
        for other in range(1, ids.shape[1]):
            self.links.append((ids[:, 0], ids[:, other]))
        same = (constant == constant[:, :1]).all(1)
        return Track((axis,), ids[:, 0], np.where(same, constant[:, 0], np.nan))

    def make(self, value: ir.Value | None, track: Track) -> None:
        """Note the channels that a node makes, their constants rounded to the type of the value."""
        if value is None:
            raise NotFollowed(NOT_FOLLOWED)
        dims = self.dims(value)
        if not track.ids.size or any(
            dims[axis] != size for axis, size in zip(track.axes, track.ids.shape, strict=True)
        ):
            raise NotFollowed(NOT_FOLLOWED)
        constant, dtype = np.asarray(track.constant, dtype=np.float64), self.dtype(value)
        if dtype in FLOATS:
            constant = round_once(constant, dtype).astype(np.float64)
        # Beyond the range of its type, or as a denormal number, it is something else in each runtime.
        small = np.abs(constant) < (float(finfo(dtype).tiny) if dtype in FLOATS else 0)
        constant = np.where(np.isfinite(constant) & ~(small & (constant != 0)), constant, np.nan)
        self.tracks[value] = Track(track.axes, track.ids, constant)

    def link(self, one: Ids, other: Ids) -> None:
        """Let channels stay or go together."""
        self.links.append((one.reshape(-1), other.reshape(-1)))

    def parameter(self, node: ir.Node, slot: int, ids: Mapping[int, Ids]) -> None:
        """Note the ids of a constant operand; if it is dequantized, of what is stored, its scales and zero points."""
        value = node.input(slot)
        if value is None:
            raise NotFollowed(NOT_FOLLOWED)
        source = dequantizing(value)
        if source is None:
            self.parameters.append(ChannelParameter(node, slot, value, ids))
            return
        if value.only_consumer is not node or source.attr("block_size", 0):
            raise NotFollowed(NOT_FOLLOWED)
        self.parameter(source, 0, ids)
        axis = int(source.attr("axis", 1)) % max(len(self.dims(source.inputs[0])), 1)
        for place, operand in enumerate(source.inputs[1:], 1):
            if operand is not None and len(self.dims(operand)) == 1 and self.dims(operand) != (1,) and axis in ids:
                self.parameter(source, place, {0: ids[axis]})

    def vector(self, node: ir.Node, slot: int, ids: Ids) -> Float64:
        """Return a constant of one number for each of these channels, and note that it loses what they lose.

        Raises NotFollowed for anything else.
        """
        tensor = analysis.constant(node.input(slot))
        if tensor is None or tensor.dims != (ids.size,):
            raise NotFollowed(NOT_FOLLOWED)
        self.parameter(node, slot, {0: ids})
        return tensor.float64()

    def spread(self, node: ir.Node, slot: int, axes: tuple[int, ...], ids: Ids, rank: int) -> Float64:
        """Do so for a constant operand that is broadcast onto a value of a rank, with channels along ``axes``.

        The numbers have the shape of ``ids``; NaN where a channel has several.
        """
        value = node.input(slot)
        tensor = analysis.constant(value)
        if tensor is None or len(tensor.dims) > rank:
            raise NotFollowed(NOT_FOLLOWED)
        shift = rank - len(tensor.dims)
        own: dict[int, Ids] = {}
        for place, axis in enumerate(axes):
            if axis < shift or tensor.dims[axis - shift] == 1:
                continue
            if tensor.dims[axis - shift] != ids.shape[place]:
                raise NotFollowed(NOT_FOLLOWED)
            lines = np.moveaxis(ids, place, 0).reshape(ids.shape[place], -1)
            for other in range(1, lines.shape[1] if len(axes) > 1 else 1):
                self.link(lines[:, 0], lines[:, other])
            own[axis - shift] = lines[:, 0]
        if own:
            self.parameter(node, slot, own)
        if tensor.nbytes > _SMALL:
            return np.full(ids.shape, np.nan)
        values = tensor.float64().reshape((1,) * shift + tensor.dims)
        rest = tuple(axis for axis in range(rank) if axis not in axes)
        low, high = values.min(rest, initial=np.inf), values.max(rest, initial=-np.inf)
        return np.broadcast_to(np.where(low == high, low, np.nan), ids.shape)

    def weight(self, node: ir.Node, slot: int) -> Weight:
        """Return a constant weight. Raises NotFollowed where there is none."""
        tensor = analysis.constant(node.input(slot))
        if tensor is None or tensor.dtype not in FLOATS:
            raise NotFollowed(NOT_FOLLOWED)
        return stored_weight(node.input(slot)) or Weight(tensor)

    def zero(self, node: ir.Node, slot: int, axis: int, weight: Weight) -> Bools:
        """Return which slices of a weight are zero, looked at once."""
        value = node.inputs[slot]
        assert value is not None, "it was read"
        key = value, axis
        if key not in self.zeros:
            self.zeros[key] = zero_slices(weight, axis)
        return self.zeros[key]

    def read(self, consumer: WeightConsumer, zero: Bools, absorbs: Bools) -> None:
        """Note a weight that reads channels: those go that it multiplies by 0, and those that it ``absorbs``."""
        may_go = zero | (absorbs & ~np.isnan(consumer.constant))
        self.blocked.append(consumer.ids[~may_go])
        self.consumers.append(consumer)
