"""A Pad of zeros, and the convolutions behind it, without the Pad."""

from __future__ import annotations

import numpy as np

from bnfold import ir
from bnfold.ir.shapes.arithmetic import Proven
from bnfold.report import rewrites
from bnfold.simplifying.parameters import numbers
from bnfold.simplifying.plan import Plan, Respell


def find_padding(node: ir.Node, known: Proven) -> Plan | None:
    """Plan a convolution that pads its input itself, in place of a Pad that only such convolutions read."""
    padded = node.input(0)
    first = padded.producer if padded is not None and not padded.is_output else None
    if padded is None or first is None or not first.is_op("Pad") or first.has_references or not _pads_zeros(first):
        return None
    uses = [(consumer, slot) for consumer, slot in padded.uses if consumer is not node]
    if any(slot or _total(consumer, first, known) is None for consumer, slot in uses):
        return None
    pads = _total(node, first, known)
    if pads is None or len(uses) + 1 < len(padded.uses):
        return None
    attrs = {name: node.attr(name) for name in node.attrs if name != "auto_pad"}
    return Respell(rewrites.PAD_CONV, node, "Conv", [first.input(0), *node.inputs[1:]], {**attrs, "pads": pads})


def _total(node: ir.Node, pad: ir.Node, known: Proven) -> list[int] | None:
    """Return the pads of a convolution that also does what a Pad before it does; None if it cannot."""
    is_ordinary = node.is_op("Conv") and node.graph is pad.graph and not (node.has_references or known.calls(node))
    if not is_ordinary or node.attr("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return None
    kernel = known.dims(node.input(1))
    added = _added(pad, len(kernel), known) if kernel is not None else None
    if added is None or any(amount < 0 for amount in added):
        return None
    rank = len(added) // 2
    begins, ends = added[:rank], added[rank:]
    if any(begins[:2]) or any(ends[:2]):
        return None
    own = node.attr("pads") if node.attr("auto_pad", "NOTSET") == "NOTSET" else None
    return [one + other for one, other in zip(begins[2:] + ends[2:], own or [0] * (2 * rank - 4), strict=True)]


def _pads_zeros(pad: ir.Node) -> bool:
    if pad.attr("mode", "constant") != "constant":
        return False
    if pad.graph.opset() < 11:
        return pad.graph.opset() >= 2 and pad.attr("value", 0.0) == 0 and not np.signbit(pad.attr("value", 0.0))
    held = ir.constant(pad.input(2))
    return pad.input(2) is None or (held is not None and held.size == 1 and not any(held.numpy().tobytes()))


def _added(pad: ir.Node, rank: int, known: Proven) -> list[int] | None:
    """Return what a Pad adds before each axis, and then what it adds behind each."""
    pads, axes = numbers(pad, "pads", known), numbers(pad, "axes", known, [*range(rank)])
    if pads is None or axes is None or len(pads) != 2 * len(axes) or not all(-rank <= axis < rank for axis in axes):
        return None
    places = [axis % rank for axis in axes]
    found = dict(zip([*places, *(rank + place for place in places)], pads, strict=True))
    return [found.get(place, 0) for place in range(2 * rank)] if len(found) == len(pads) else None
