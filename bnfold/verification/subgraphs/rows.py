"""Whether rows of activations, along axis 0, are kept apart; if not, more of them have to be compared."""

from __future__ import annotations

from bnfold import ir, reference
from bnfold.reference.operators import BROADCASTING, WINDOWED


def mixes_rows(node: ir.Node) -> bool:
    """Whether a row of results may be made of other rows, or depend on how many there are.

    What broadcasts a constant of several rows shows on one row.
    """
    if node.has_trait(WINDOWED) or node.has_trait(BROADCASTING) or node.is_op("Crop", "InstanceNormalization"):
        return False
    if node.is_op("Concat"):
        return bool(node.attr("axis", 0) <= 0)
    if node.is_op("Slice"):
        shape = node.inputs[0].shape if node.inputs[0] is not None else None
        axes = [axis % len(shape) if shape else axis for axis in _integers(node, "axes", 3)]
        return not axes or min(axes) <= 0
    if node.is_op("Pad"):
        pads = _integers(node, "pads", 1)
        return not pads or node.input(3) is not None or any((pads[0], pads[len(pads) // 2]))
    return True


def _integers(node: ir.Node, name: str, slot: int) -> list[int]:
    """Return the numbers of an attribute, or of the constant that later versions read; none if they are unknown."""
    held = reference.constant(node.input(slot))
    return [int(number) for number in (node.attr(name, ()) if held is None else held.numpy().reshape(-1))]
