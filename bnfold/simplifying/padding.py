"""A Pad of zeros, and the convolution behind it, as one node."""

from __future__ import annotations

from bnfold import ir
from bnfold.ir.shapes.arithmetic import Proven
from bnfold.simplifying.plan import Plan, Respell, only_above


def find_padding(node: ir.Node, known: Proven) -> Plan | None:
    """Plan a convolution that pads its input itself, in place of a Pad that only it reads."""
    first = only_above(node)
    if first is None or not first.is_op("Pad") or not _pads_zeros(first):
        return None
    kernel = known.dims(node.input(1))
    added = _added(first, len(kernel), known) if kernel is not None else None
    if added is None or any(pad < 0 for pad in added) or node.attr("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return None
    rank = len(added) // 2
    begins, ends = added[:rank], added[rank:]
    if any(begins[:2]) or any(ends[:2]):
        return None
    own = node.attr("pads") if node.attr("auto_pad", "NOTSET") == "NOTSET" else None
    pads = [one + other for one, other in zip(begins[2:] + ends[2:], own or [0] * (2 * rank - 4), strict=True)]
    attrs = {name: node.attr(name) for name in node.attrs if name != "auto_pad"}
    return Respell("Pad + Conv → Conv", node, "Conv", [first.input(0), *node.inputs[1:]], {**attrs, "pads": pads})


def _pads_zeros(pad: ir.Node) -> bool:
    if pad.attr("mode", "constant") != "constant":
        return False
    if pad.graph.opset() < 11:
        return pad.graph.opset() >= 2 and not pad.attr("value", 0.0)
    held = ir.constant(pad.input(2))
    return pad.input(2) is None or (held is not None and held.size == 1 and not held.numpy().any())


def _added(pad: ir.Node, rank: int, known: Proven) -> list[int] | None:
    """Return what a Pad adds before each axis, and then what it adds behind each."""
    pads = pad.attr("pads") if pad.graph.opset() < 11 else known.numbers(pad.input(1))
    axes = [*range(rank)] if pad.input(3) is None else known.numbers(pad.input(3))
    if pads is None or axes is None or len(pads) != 2 * len(axes) or not all(-rank <= axis < rank for axis in axes):
        return None
    places = [axis % rank for axis in axes]
    found = dict(zip([*places, *(rank + place for place in places)], pads, strict=True))
    return [found.get(place, 0) for place in range(2 * rank)] if len(found) == len(pads) else None
