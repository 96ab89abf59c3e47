"""Nodes with equal operators and attributes on the same values."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable

from bnfold import analysis, ir
from bnfold.analysis.traits import DRAWING
from bnfold.edits.edit import Bypass, can_take_place
from bnfold.ir.elements import RAW_TYPES
from bnfold.ir.tensor import Array
from bnfold.report import rewrites
from bnfold.simplifying.computed import QUANTIZING
from bnfold.simplifying.plan import Simplification

_FIRST = 256
"""Elements of a constant that are compared before all are: those of two weights differ there."""
_NEVER = DRAWING | QUANTIZING | {"Dropout", "BatchNormalization", "Constant"}
"""Operators that draw numbers, perhaps; a BatchNormalization has an event of its own in the report."""


def find_equal(node: ir.Node, first: dict[Hashable, ir.Node]) -> Simplification | None:
    """Plan to use the first node that is equal; ``first`` are those before, and learns this one.

    None of them has attributes that are references.
    """
    if node.domain or node.subgraphs or node.op_type in _NEVER or not any(node.inputs):
        return None
    # To spell nodes out takes long, and few are alike: two of them are, before either is.
    rough = (node.op_type, tuple(map(_rough_key, node.inputs)))
    alike = first.setdefault(rough, node)
    if alike is node:
        return None
    first.setdefault(_spelled(alike), alike)
    twin = first.setdefault(_spelled(node), node)
    if twin is node or not all(map(_hold_the_same, node.inputs, twin.inputs)):
        return None
    pairs = zip(node.outputs, twin.outputs, strict=True)
    if not all(one is None or other is None or can_take_place(one, other, node) for one, other in pairs):
        return None
    return Simplification(rewrites.DUPLICATE, Bypass(node, twin.outputs), counterpart=twin)


def _rough_key(value: ir.Value | None) -> Hashable:
    """Return the value, or what is known of a stored one without reading it."""
    proto = value.tensor_proto if value is not None else None
    return value if proto is None else (proto.data_type, *proto.dims[:])


def _spelled(node: ir.Node) -> Hashable:
    """Return a key that equal nodes share, and few others."""
    outputs = tuple(value is not None for value in node.outputs)
    return node.op_type, outputs, tuple(map(_key, node.inputs)), tuple(sorted(node.spelled))


def _key(value: ir.Value | None) -> Hashable:
    """Return a key that equal operands share: the value, or what a constant begins with."""
    held = _content(value)
    return value if held is None else (held.dtype, held.dims, _beginning(held).tobytes())


def _content(value: ir.Value | None) -> ir.Tensor | None:
    """Return what a stored constant holds; of texts the places in memory would be compared."""
    held = analysis.constant(value) if value is not None and value.tensor_proto is not None else None
    return held if held is not None and held.dtype in RAW_TYPES else None


def _beginning(held: ir.Tensor) -> Array:
    if held.can_read and held.size:
        return held.read(0, min(_FIRST, held.size))
    return next(held.blocks())[:_FIRST] if held.size else held.numpy()


def _hold_the_same(one: ir.Value | None, other: ir.Value | None) -> bool:
    """Whether operands whose keys are equal are equal to their ends."""
    first, second = _content(one), _content(other)
    if one is other or first is None or second is None or first.size <= _FIRST:
        return True
    return _digest(first) == _digest(second)


def _digest(held: ir.Tensor) -> bytes:
    digest = hashlib.sha256()
    for block in held.blocks():
        digest.update(block.tobytes())
    return digest.digest()
