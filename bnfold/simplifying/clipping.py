"""Nodes that bound their input by constants: Relu, Clip, Max and Min, two in a row."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bnfold import ir
from bnfold.ir.shapes.arithmetic import Proven
from bnfold.ir.tensor import TP, numpy_type
from bnfold.simplifying.no_effect import NO_EFFECT, skip
from bnfold.simplifying.plan import LeaveOut, Operand, Plan, Respell, can_respell, can_skip

BOUNDING = ("Relu", "Clip", "Max", "Min")
_TYPES = (TP.FLOAT, TP.DOUBLE, TP.INT32, TP.INT64)
Number = int | float


class Bounded(NamedTuple):
    """What a node bounds, and the least and the largest number that it returns."""

    source: ir.Value
    low: Number
    high: Number


def find_bounds(node: ir.Node, known: Proven) -> Plan | None:
    """Plan to leave out a node that bounds nothing, or one Clip in place of two nodes."""
    if len(node.inputs) == 1 and node.op_type in ("Max", "Min"):
        return skip(node)
    second = _bounded(node, known)
    first = second.source.producer if second is not None else None
    if first is None or not first.is_op(*BOUNDING) or first.graph is not node.graph or first.has_references:
        return None
    inner = _bounded(first, known)
    return _one_of_two(node, inner, second, known) if inner is not None and second is not None else None


def _one_of_two(node: ir.Node, first: Bounded, second: Bounded, known: Proven) -> Plan | None:
    low, high = (min(max(bound, second.low), second.high) for bound in (first.low, first.high))
    if (low, high) == (first.low, first.high):
        return LeaveOut(f"{node.op_type} {NO_EFFECT}", node, second.source) if can_skip(node, second.source) else None
    dtype = known.dtype(first.source)
    if second.source.only_consumer is not node or dtype is None:
        return None
    bounds: list[Operand] = [None if math.isinf(bound) else np.array(bound, numpy_type(dtype)) for bound in (low, high)]
    inputs = [first.source, *(bounds if bounds[1] is not None else bounds[:1])]
    if not can_respell(node, inputs):
        return None
    return Respell(f"{node.op_type} after another bound", node, "Clip", inputs, {})


def _bounded(node: ir.Node, known: Proven) -> Bounded | None:
    """Return the bounds of a node; None where they are not known, or where the lower one is above the other."""
    if node.graph.opset() < 12:  # the first with a Clip of integers
        return None
    slots = [slot for slot, value in enumerate(node.inputs) if value is not None and not _is_number(value)]
    source = node.inputs[slots[0]] if len(slots) == 1 else None
    if source is None or known.dtype(source) not in _TYPES:
        return None
    low, high = -math.inf, math.inf
    if node.op_type in ("Relu", "Clip"):
        if slots != [0]:
            return None
        low = 0 if node.op_type == "Relu" else _number(node.input(1), low)
        high = _number(node.input(2), high)
    elif len(node.inputs) == 2:
        bound = node.inputs[1 - slots[0]]
        if len(known.dims(bound) or ()) > len(known.dims(source) or ()):  # it adds axes
            return None
        low, high = (_number(bound, low), high) if node.op_type == "Max" else (low, _number(bound, high))
    else:
        return None
    return Bounded(source, low, high) if low <= high else None


def _is_number(value: ir.Value) -> bool:
    held = ir.constant(value) if value.holds_constant and value.stored_bytes <= 8 else None
    return held is not None and held.size == 1


def _number(value: ir.Value | None, absent: Number) -> Number:
    held = ir.constant(value) if value is not None else None
    number: Number = held.numpy().item() if held is not None else absent
    return number
