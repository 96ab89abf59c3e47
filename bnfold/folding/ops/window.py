"""Windows that move over the axes behind the channel, and the zeros that are put around what they read."""

from __future__ import annotations

from bnfold import analysis, ir
from bnfold.folding import facts, shapes
from bnfold.report.reasons import Declined, Reason


def per_axis(node: ir.Node, name: str, spatial: int) -> list[int]:
    """Use ``strides`` or ``dilations``, one for each spatial axis. Raises Declined where it does not have so many."""
    values: list[int] = list(node.attr(name, [1] * spatial))
    if len(values) != spatial or min(values, default=1) < 1:
        raise Declined(Reason.UNREADABLE, f"{name} of {facts.where(node)}")
    return values


def around(node: ir.Node, axis: int, taps: int, rank: int) -> tuple[int, int] | None:
    """Return how many zeros there are before and behind a spatial axis; None where an unknown size decides.

    Raises Declined where the node does not say it as it should.
    """
    mode = node.attr("auto_pad", "NOTSET")
    if mode in ("NOTSET", ""):
        pads = node.attr("pads", [0] * 2 * rank)
        if len(pads) != 2 * rank or min(pads) < 0:
            raise Declined(Reason.UNREADABLE, f"pads of {facts.where(node)}", at=node.label)
        return int(pads[axis]), int(pads[rank + axis])
    if mode == "VALID":
        return 0, 0
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        raise Declined(Reason.UNREADABLE, f"auto_pad of {facts.where(node)}", at=node.label)
    stride, dilation = (per_axis(node, name, rank)[axis] for name in ("strides", "dilations"))
    missing = (taps - 1) * dilation + 1 - stride
    if stride > 1:
        shape = shapes.known_dims(facts.operand(node, 0))
        if shape is not None and len(shape) != rank + 2:
            raise Declined(Reason.UNREADABLE, facts.where(node))
        size = shape[2 + axis] if shape is not None else None
        if not isinstance(size, int):
            return None
        missing += -(-size // stride) * stride - size
    total = max(missing, 0)
    first = total // 2 if mode == "SAME_UPPER" else total - total // 2
    return first, total - first


def is_pointwise(node: ir.Node, kernel: ir.Tensor) -> bool:
    """Whether every output is made of one place of the input, and every place is in one output."""
    moves = max(per_axis(node, "strides", len(kernel.dims) - 2), default=1) > 1
    return not moves and set(kernel.dims[2:]) <= {1} and not pads(node)


def pads(node: ir.Node) -> bool:
    """Whether zeros may be put around the input."""
    mode, kernel = node.attr("auto_pad", "NOTSET"), analysis.constant(node.input(1))
    if mode in ("NOTSET", ""):
        return any(node.attr("pads", ()))
    if mode == "VALID" or kernel is None:
        return bool(mode != "VALID")
    taps = kernel.dims[2:]
    return any(around(node, axis, size, len(taps)) != (0, 0) for axis, size in enumerate(taps))
