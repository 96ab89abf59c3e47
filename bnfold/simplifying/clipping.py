"""Two nodes that bound a value by constants, the one from below and the other from above: Relu, Clip, Max and Min.

A bound that another one makes superfluous stays: no input would show that it does nothing, so that verification could
not tell it from one that does something.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bnfold import analysis, ir
from bnfold.analysis.shapes.arithmetic import Proven
from bnfold.ir.tensor import TP, numpy_type
from bnfold.report import rewrites
from bnfold.simplifying.no_effect import skip
from bnfold.simplifying.parameters import replacement, slot_of
from bnfold.simplifying.plan import Simplification

BOUNDING = ("Relu", "Clip", "Max", "Min")
_FLOATS = (TP.FLOAT, TP.DOUBLE)
_TYPES = (*_FLOATS, TP.INT32, TP.INT64)
_WIDENED = 12
"""The first opset that has a Clip of integers."""
_MOST_BYTES = 8
"""Bytes of the number that a bound is."""
Number = int | float


class Bounded(NamedTuple):
    """What a node bounds, and the least or the largest number that it returns."""

    source: ir.Value
    low: Number | None
    high: Number | None


def find_bounds(node: ir.Node, known: Proven) -> Simplification | None:
    """Plan to leave out a Max or Min of one operand, or one Clip in place of two nodes."""
    if len(node.inputs) == 1 and node.op_type in ("Max", "Min"):
        return skip(node, rewrites.ALONE)
    second = _bounded(node, known)
    first = second.source.producer if second is not None else None
    if first is None or not first.is_op(*BOUNDING) or first.graph is not node.graph or first.has_references:
        return None
    inner = _bounded(first, known)
    return _one_of_two(node, inner, second, known) if inner is not None and second is not None else None


def _one_of_two(node: ir.Node, first: Bounded, second: Bounded, known: Proven) -> Simplification | None:
    lows = [bound for bound in (first.low, second.low) if bound is not None]
    highs = [bound for bound in (first.high, second.high) if bound is not None]
    dtype = known.dtype(first.source)
    if len(lows) != 1 or len(highs) != 1 or not lows[0] < highs[0] or dtype is None:
        return None
    if second.source.only_consumer is not node:
        return None
    bounds = {"min": np.array(lows[0], numpy_type(dtype)), "max": np.array(highs[0], numpy_type(dtype))}
    return replacement(rewrites.BOUNDS, node, "Clip", first.source, bounds)


def _bounded(node: ir.Node, known: Proven) -> Bounded | None:
    """Return the one bound of a node; None if it is not known, or if there are two."""
    types = _TYPES if node.graph.opset() >= _WIDENED else _FLOATS
    slots = [slot for slot, value in enumerate(node.inputs) if value is not None and _number(value) is None]
    source = node.inputs[slots[0]] if len(slots) == 1 else None
    if source is None or known.dtype(source) not in types:
        return None
    if node.op_type in ("Relu", "Clip"):
        low = 0 if node.op_type == "Relu" else _bound(node, "min")
        return Bounded(source, low, _bound(node, "max")) if slots == [0] else None
    bound = node.inputs[1 - slots[0]] if len(node.inputs) == 2 else None
    if bound is None or len(known.dims(bound) or ()) > len(known.dims(source) or ()):  # it adds axes
        return None
    return Bounded(source, _number(bound), None) if node.op_type == "Max" else Bounded(source, None, _number(bound))


def _bound(node: ir.Node, name: str) -> Number | None:
    """Return a bound of a Clip or Relu; None if there is none."""
    slot = slot_of(node.op_type, node.graph.opset(), name)
    stated: Number | None = node.attr(name) if slot is None else _number(node.input(slot))
    return stated


def _number(value: ir.Value | None) -> Number | None:
    """Return the number that a constant of one element is."""
    if value is None or not value.holds_constant or value.stored_bytes > _MOST_BYTES:
        return None
    held = analysis.constant(value)
    number: Number | None = held.numpy().item() if held is not None and held.size == 1 else None
    return number
