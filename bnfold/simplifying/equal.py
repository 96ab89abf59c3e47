"""Nodes with equal operators and attributes on the same values."""

from __future__ import annotations

from collections.abc import Hashable

from bnfold import ir
from bnfold.ir.elements import RAW_TYPES
from bnfold.ir.traits import DRAWING
from bnfold.simplifying.computed import QUANTIZING
from bnfold.simplifying.plan import Unite, can_replace

_SMALL = 1024
"""Bytes up to which constants are compared by what they hold."""
_NEVER = DRAWING | QUANTIZING | {"Dropout", "BatchNormalization", "Constant"}
"""Operators that draw numbers, perhaps; a BatchNormalization has an event of its own in the report."""


def find_equal(node: ir.Node, first: dict[Hashable, ir.Node]) -> Unite | None:
    """Plan to use the first node that is equal; ``first`` are those before, and learns this one.

    None of them has attributes that are references.
    """
    if node.domain or node.subgraphs or node.op_type in _NEVER:
        return None
    if not any(value is not None for value in node.inputs):
        return None
    # To spell nodes out takes long, and few are alike: two of them are, before either is.
    rough = (node.op_type, tuple(None if _is_small(value) else value for value in node.inputs))
    alike = first.setdefault(rough, node)
    if alike is node:
        return None
    first.setdefault(_spelled(alike), alike)
    twin = first.setdefault(_spelled(node), node)
    if twin is node:
        return None
    pairs = zip(node.outputs, twin.outputs, strict=True)
    if not all(one is None or other is None or can_replace(one, other, node) for one, other in pairs):
        return None
    return Unite("duplicate node", node, twin)


def _is_small(value: ir.Value | None) -> bool:
    return value is not None and value.tensor_proto is not None and value.stored_bytes <= _SMALL


def _spelled(node: ir.Node) -> Hashable:
    """Return a key that equal nodes share."""
    outputs = tuple(value is not None for value in node.outputs)
    return node.op_type, outputs, tuple(map(_key, node.inputs)), tuple(sorted(node.spelled))


def _key(value: ir.Value | None) -> Hashable:
    """Return a key that equal operands share: the value, or the content if it is a small constant."""
    if value is None or not _is_small(value):
        return value
    held = ir.constant(value)
    if held is None or held.dtype not in RAW_TYPES:  # of texts the places in memory would be compared
        return value
    return held.dtype, held.dims, held.numpy().tobytes()
