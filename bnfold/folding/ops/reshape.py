"""Flatten, Reshape, Squeeze, Unsqueeze: the affine follows the elements, see `bnfold.folding.reshape`."""

from __future__ import annotations

from bnfold import ir
from bnfold.folding import facts, shapes
from bnfold.folding.affine import Affine
from bnfold.folding.ops.registry import carrier, register
from bnfold.folding.reshape import ONE, Size, carry, product, resolve, sizes
from bnfold.report.reasons import Declined, Reason


def up(node: ir.Node, affine: Affine) -> Affine:
    """Go back to the axes before."""
    old, new = _both_sides(node)
    return carry(affine, new, old)


def down(node: ir.Node, affine: Affine) -> Affine:
    """Go on to the axes behind."""
    old, new = _both_sides(node)
    return carry(affine, old, new)


def _both_sides(node: ir.Node) -> tuple[list[Size], list[Size]]:
    """Return the sizes before and after."""
    x = node.input(0)
    if x is None:
        raise Declined(Reason.UNREADABLE, f"{node.op_type} {node.label!r}")
    old = sizes(shapes.dims(x))
    if node.op_type == "Squeeze":  # whatever was known of the axes that go, their size is 1
        axes = _axes(node, len(old))
        old = [ONE if axis in axes else size for axis, size in enumerate(old)]
    return old, _BY_OPERATOR[node.op_type](node, old)


def _flatten(node: ir.Node, old: list[Size]) -> list[Size]:
    axis = int(node.attr("axis", 1))
    axis += len(old) if axis < 0 else 0
    return [product(old[:axis]), product(old[axis:])]


def _reshape(node: ir.Node, old: list[Size]) -> list[Size]:
    target = facts.integers(node, 1, "shape")
    if target is None:
        raise Declined(Reason.UNREADABLE, facts.where(node))
    return resolve(old, target, allow_zero=bool(node.attr("allowzero", 0)))


def _axes(node: ir.Node, rank: int) -> list[int]:
    axes = facts.integers(node, 1, "axes") or []
    return sorted(axis + rank if axis < 0 else axis for axis in axes)


def _squeeze(node: ir.Node, old: list[Size]) -> list[Size]:
    axes = _axes(node, len(old))
    if axes:
        return [size for axis, size in enumerate(old) if axis not in axes]
    if any(size.unknowns for size in old):
        raise Declined(Reason.NOT_STATIC, f"{facts.where(node)} drops whatever axes have size 1")
    return [size for size in old if size != ONE]


def _unsqueeze(node: ir.Node, old: list[Size]) -> list[Size]:
    new = list(old)
    for axis in _axes(node, len(old) + len(facts.integers(node, 1, "axes") or [])):
        new.insert(axis, ONE)
    return new


_BY_OPERATOR = {"Flatten": _flatten, "Reshape": _reshape, "Squeeze": _squeeze, "Unsqueeze": _unsqueeze}


register(**dict.fromkeys(_BY_OPERATOR, carrier(up, down)))
