"""Find nodes that return their input unchanged: in every run, at every size that callers may feed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bnfold import analysis, ir
from bnfold.analysis.shapes.arithmetic import Proven
from bnfold.edits.edit import can_bypass
from bnfold.ir.tensor import TP, Array
from bnfold.ir.value import Dim
from bnfold.report import rewrites
from bnfold.report.rewrites import Rewrite
from bnfold.semantics.neutral import returns_operand
from bnfold.simplifying.parameters import numbers
from bnfold.simplifying.plan import Simplification, bypass, replace

_MOST_BYTES = 1 << 16
"""Bytes of a condition that is looked at."""


def skip(node: ir.Node, rewrite: Rewrite) -> Simplification | None:
    """Plan to read the first input instead of the first output."""
    return bypass(rewrite.of(node.op_type), node, node.input(0))


def same_dims(known: Proven, one: ir.Value | None, other: ir.Value | None) -> bool:
    """Whether two values are of one shape in every run: each size is the same number, or the same dynamic size."""
    first, second = known.dims(one), known.dims(other)
    return first is not None and None not in first and first == second


def find_identity(node: ir.Node, _: Proven) -> Simplification | None:
    """Plan to read what an Identity reads."""
    return skip(node, rewrites.IDENTITY)


def find_dropout(node: ir.Node, _: Proven) -> Simplification | None:
    """Plan to read what a Dropout of inference reads; before opset 7 an attribute says which it is."""
    training = node.input(2)
    if node.graph.opset() < 7:
        return skip(node, rewrites.DROPOUT) if node.attr("is_test", 0) else None
    if training is not None:
        held = analysis.constant(training)
        if held is None or held.dtype != TP.BOOL or held.size != 1 or held.numpy().any():
            return None
    return skip(node, rewrites.DROPOUT)


def find_same_shape(node: ir.Node, known: Proven) -> Simplification | None:
    """Plan to read the input of an Expand or Tile that makes a value of the same shape."""
    return skip(node, rewrites.EXPAND_NOTHING) if same_dims(known, node.input(0), node.output(0)) else None


def find_tile(node: ir.Node, known: Proven) -> Simplification | None:
    """Plan to read what a Tile repeats once."""
    repeats = known.numbers(node.input(1))
    return skip(node, rewrites.EXPAND_NOTHING) if repeats is not None and all(count == 1 for count in repeats) else None


def find_expand(node: ir.Node, known: Proven) -> Simplification | None:
    """Plan to store the target of an Expand, or to remove the node.

    The target is 1 on axes on which the input has the wanted size already.
    """
    dims, told = known.dims(node.input(0)), known.integers(node.input(1))
    if dims is None or told is None:
        return find_same_shape(node, known)
    short = len(told.items) - len(dims)
    target = [
        1 if item is not None and place >= short and item == dims[place - short] else item
        for place, item in enumerate(told.items)
    ]
    if short <= 0 and all(item == 1 for item in target):
        return skip(node, rewrites.EXPAND_NOTHING)
    return store_target(node, 1, target)


def store_target(
    node: ir.Node, slot: int, target: list[Dim], attrs: Mapping[str, Any] | None = None
) -> Simplification | None:
    """Plan to store the integers at ``slot`` as a constant, unless they are one."""
    value = node.input(slot)
    sizes = [item for item in target if isinstance(item, int)]
    if value is None or analysis.constant(value) is not None or len(sizes) < len(target):
        return None
    inputs = [*node.inputs[:slot], integers(sizes), *node.inputs[slot + 1 :]]
    known = rewrites.SIZE_KNOWN.of(node.op_type)
    return replace(known, node, node.op_type, inputs, attrs)


def integers(numbers: list[int]) -> Array:
    """Return integers in the type in which operators read sizes."""
    return np.array(numbers, np.int64)


def find_pad(node: ir.Node, known: Proven) -> Simplification | None:
    """Plan to read the input of a Pad that adds nothing."""
    pads = numbers(node, "pads", known)
    adds_nothing = pads is not None and not any(pads) and node.graph.opset() >= 2
    return skip(node, rewrites.PAD_NOTHING) if adds_nothing else None


def find_neutral(node: ir.Node, known: Proven) -> Simplification | None:
    """Plan to read the operand that the others leave as it is, such as one that is multiplied by 1."""
    for slot, source in enumerate(node.inputs):
        if source is None or not returns_operand(node, slot, known.dtype(source)) or not can_bypass(node, source):
            continue
        others = [analysis.constant(other) for place, other in enumerate(node.inputs) if place != slot]
        if all(held is None or _keeps_dims(known.dims(source), held.dims) for held in others):
            return bypass(rewrites.NEUTRAL.of(node.op_type), node, source)
    return None


def _keeps_dims(dims: tuple[Dim, ...] | None, other: tuple[int, ...]) -> bool:
    """Whether a value of these dims keeps them beside an operand of ``other`` dims that is broadcast."""
    if dims is None or len(other) > len(dims):
        return not other
    behind = dims[len(dims) - len(other) :]
    return all(size in (1, dim) for dim, size in zip(behind, other, strict=True))


def find_chosen(node: ir.Node, known: Proven) -> Simplification | None:
    """Plan to read the operand that a Where chooses everywhere, if it has the shape of the result."""
    condition = node.input(0)
    if condition is None or condition.stored_bytes > _MOST_BYTES or (held := analysis.constant(condition)) is None:
        return None
    chosen = held.numpy()
    if not chosen.size or chosen.any() != chosen.all():
        return None
    source = node.input(1 if chosen.all() else 2)
    return bypass(rewrites.WHERE, node, source) if same_dims(known, source, node.output(0)) else None


def find_alone(node: ir.Node, _: Proven) -> Simplification | None:
    """Plan to read the only operand of a Sum, Max, Min or Mean, or the input of a Split with one output."""
    if node.op_type == "Split":
        return skip(node, rewrites.ALONE) if len(node.outputs) == 1 else None
    return skip(node, rewrites.ALONE) if len(node.inputs) == 1 else None


def find_concat(node: ir.Node, _: Proven) -> Simplification | None:
    """Plan to read the only operand of a Concat, or to leave out constants without elements."""
    held = [value for value in node.inputs if not _is_empty(value, node.attr("axis"))]
    if len(held) == 1:
        return bypass(rewrites.ALONE.of("Concat"), node, held[0])
    if not held or len(held) == len(node.inputs):
        return None
    return replace(rewrites.EMPTY_OPERAND, node, "Concat", held)


def _is_empty(value: ir.Value | None, axis: int | None) -> bool:
    """Whether a value is a constant that has no elements, and no more than that along ``axis``."""
    held = analysis.constant(value) if value is not None and value.holds_constant and not value.stored_bytes else None
    if held is None or axis is None or not -len(held.dims) <= axis < len(held.dims):
        return False
    return [place for place, size in enumerate(held.dims) if size == 0] == [axis % len(held.dims)]
