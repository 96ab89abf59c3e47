"""Which of the channels that may go do go: what is left of a layer is a multiple that runtimes compute as fast."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

from bnfold import ir
from bnfold.channels.flow import ChannelFlow, Ids
from bnfold.ir.elements import Bools

MULTIPLE = 8
"""Runtimes compute channels in blocks of 8 or 16: of 64 channels, 57 take longer than all 64, and 56 do not."""


class ChannelChoice:
    """Which classes of channels stay. All begin as gone that nothing blocks; each demand only brings some back."""

    def __init__(self, flow: ChannelFlow, blocked: Iterable[Ids]) -> None:
        self.flow = flow
        self.classes = _classes(flow)
        self.stays = np.zeros(int(self.classes.max(initial=-1)) + 1, dtype=bool)
        for ids in (*flow.blocked, *blocked):
            self.stays[self.classes[ids.reshape(-1)]] = True
        if not self.stays.all():
            self._settle(_vanishing(flow))

    def keeps(self, ids: Ids) -> Bools:
        """Return which channels stay."""
        return np.asarray(self.stays[self.classes[ids]])

    @property
    def has_gone(self) -> bool:
        """Whether any channel goes."""
        return not self.stays.all()

    def _settle(self, vanishing: Collection[ir.Value]) -> None:
        count = -1
        while count != (count := int(self.stays.sum())):
            for layer in self.flow.layers:
                self._round_up(layer.made, may_vanish=layer.node.output(0) in vanishing)
            for rows in self.flow.even:
                self._level(rows, int(self.keeps(rows).sum(1).max()))
            for value, track in self.flow.tracks.items():
                if not self.keeps(track.ids).any() and not (value in vanishing and self._is_unread(value)):
                    self.stays[self.classes[track.ids.reshape(-1)[0]]] = True
                if track.ids.ndim > 1:
                    self._square(track.ids)

    def _is_unread(self, value: ir.Value) -> bool:
        """Whether all that is made of a value is gone as well, but for what a Concat puts beside others."""
        made = [node.outputs[0] for node in value.consumers if not node.is_op("Concat")]
        return not any(each is None or self.keeps(self.flow.tracks[each].ids).any() for each in made)

    def _round_up(self, rows: Ids, *, may_vanish: bool) -> None:
        """Bring back as many channels as make the number of those left a multiple, equally many in each row."""
        kept = int(self.keeps(rows).sum(1).max())
        if kept == 0 and may_vanish:
            return
        kept = max(kept, 1)
        while kept < rows.shape[1] and kept * rows.shape[0] % MULTIPLE:
            kept += 1
        self._level(rows, kept)

    def _level(self, rows: Ids, count: int) -> None:
        """Bring back channels until each row has at least so many."""
        for row in rows:
            for channel in row[~self.keeps(row)]:
                if int(self.keeps(row).sum()) >= count:
                    break
                self.stays[self.classes[channel]] = True

    def _square(self, ids: Ids) -> None:
        """Bring back channels until those that stay form a grid: what goes along an axis goes whole."""
        mask = self.keeps(ids)
        grids = []
        for axis in range(mask.ndim):
            lines = mask.any(tuple(other for other in range(mask.ndim) if other != axis), keepdims=True)
            grids.append(np.broadcast_to(lines, mask.shape))
        whole = np.logical_and.reduce(grids)
        single = min(grids, key=np.count_nonzero)
        grid = whole if (whole == mask).all() else single
        self.stays[self.classes[ids[grid & ~mask]]] = True


def _classes(flow: ChannelFlow) -> Ids:
    """Return the class of each id: linked ids are of one."""
    classes = np.arange(flow.count)
    links = [(one, other) for one, other in flow.links if one.size]
    if not links:
        return classes
    one, other = (np.concatenate([pair[side] for pair in links]) for side in (0, 1))
    while True:
        low = np.minimum(classes[one], classes[other])
        before = classes.copy()
        np.minimum.at(classes, classes[one], low)
        np.minimum.at(classes, classes[other], low)
        classes = classes[classes]
        if (classes == before).all():
            break
    return np.unique(classes, return_inverse=True)[1].reshape(-1)


def _vanishing(flow: ChannelFlow) -> set[ir.Value]:
    """Return the values that may lose all channels: they are but an operand of a Concat along these.

    What makes them goes with them. So may a part of a Split that nothing reads.
    """
    found: set[ir.Value] = set()
    for node in reversed(flow.graph.nodes):
        if node.is_op("Split"):
            found.update(part for part in node.outputs if part in flow.tracks and not part.uses and not part.is_output)
            continue
        made = node.output(0)
        track = flow.tracks.get(made) if made is not None else None
        if made is None or track is None or made.is_output or not made.uses or len(node.outputs) > 1:
            continue
        if all(_loses(flow, consumer, track.axes, found) for consumer in made.consumers):
            found.add(made)
    return found


def _loses(flow: ChannelFlow, consumer: ir.Node, axes: tuple[int, ...], found: Collection[ir.Value]) -> bool:
    made = consumer.output(0)
    if consumer.graph is not flow.graph or made is None:
        return False
    if consumer.is_op("Concat"):
        track = flow.tracks.get(made)
        return (
            len(axes) == 1 and track is not None and consumer.attr("axis", 1) in (axes[0], axes[0] - _rank(flow, made))
        )
    return all(each in found for each in consumer.outputs)


def _rank(flow: ChannelFlow, value: ir.Value) -> int:
    return len(flow.dims(value))
