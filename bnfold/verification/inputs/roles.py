"""Find out what an input is for from its consumers.

Random floats in the place of a variance, for instance, would make the model fail or prove nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bnfold import ir, reference
from bnfold.reference.operators import ARITHMETIC, REARRANGING
from bnfold.verification.tolerance.floats import is_float

_CARRIERS = REARRANGING | {"Identity", "Cast", "Expand", "Concat"}
_LOOKAHEAD = 16
_OTHER_BOUND = {"lower": "upper", "upper": "lower"}
_ROLES: dict[tuple[str, int], str] = {
    **{(op, 1): "weight" for op in ("Conv", "ConvTranspose", "Gemm", "MatMul", "LSTM", "GRU", "RNN")},
    **{(op, 2): "weight" for op in ("LSTM", "GRU", "RNN")},
    **{(op, 2): "bias" for op in ("Conv", "ConvTranspose", "Gemm")},
    **{
        (op, 1): "scale"
        for op in ("BatchNormalization", "InstanceNormalization", "LayerNormalization", "GroupNormalization")
    },
    **{
        (op, 2): "bias"
        for op in ("BatchNormalization", "InstanceNormalization", "LayerNormalization", "GroupNormalization")
    },
    ("BatchNormalization", 3): "bias",
    ("BatchNormalization", 4): "positive",
    ("PRelu", 1): "bias",
    ("Div", 1): "scale",  # of both signs, and away from zero
    ("Sqrt", 0): "positive",
    ("Log", 0): "positive",
    ("QuantizeLinear", 1): "positive",
    ("DequantizeLinear", 1): "positive",
    ("Resize", 1): "factor",  # before version 11; a region from then on
    ("Resize", 2): "factor",
    ("Upsample", 1): "factor",
    ("Dropout", 1): "unit",
    **{(op, slot): "positive" for op in ("QLinearConv", "QLinearMatMul") for slot in (1, 4)},
    ("QLinearConv", 6): "wide",  # else all results are the largest integer
    ("QLinearMatMul", 6): "wide",
    ("Clip", 1): "lower",
    ("Clip", 2): "upper",
    ("Reciprocal", 0): "scale",
    **dict.fromkeys((("Asin", 0), ("Acos", 0), ("Atanh", 0), ("GridSample", 1)), "inner"),
}


def role(value: ir.Value) -> str:
    """Return the kind of numbers that an input needs, one for which `random_value` has a distribution.

    Kinds are ``weight``, ``bias``, ``positive``, …, and ``data`` for all other inputs. ``factor`` is for resizing,
    ``unit`` is 0…1, ``inner`` is -1…1 without the ends, and ``wide`` is larger than data. If one consumer needs
    positive numbers, all consumers get them.
    """
    known = [(node, _ROLES[node.op_type, slot]) for node, slot in uses(value) if (node.op_type, slot) in _ROLES]
    purposes = [purpose for node, purpose in known if not (purpose == "weight" and _is_product_with(node))]
    return "positive" if "positive" in purposes else next(iter(purposes), "data")


def computed_bound(value: ir.Value) -> str:
    """Return which bound of a Clip is computed from a value by arithmetic with constants alone; else an empty string.

    A negative factor makes a lower bound of an upper one.
    """
    at: ir.Value | None = value
    sign = 1
    for _ in range(_LOOKAHEAD):
        if at is None or len(at.uses) != 1:
            break
        ((node, slot),) = at.uses
        found = _ROLES.get((node.op_type, slot), "")
        if found in _OTHER_BOUND:
            return found if sign > 0 else _OTHER_BOUND[found]
        sign *= _direction(node, slot)
        at = node.output(0) if sign and not node.domain else None
    return ""


def _direction(node: ir.Node, slot: int) -> int:
    """Return 1 if the result grows with an operand, -1 if it falls, and 0 if neither is known."""
    if node.op_type in _CARRIERS:
        return int(slot == 0)
    other = reference.constant(node.input(1 - slot)) if node.has_trait(ARITHMETIC) and len(node.inputs) == 2 else None
    if node.is_op("Neg"):
        return -1
    if other is None or (node.is_op("Div") and slot):
        return 0
    if node.is_op("Add", "Sub"):
        return -1 if node.is_op("Sub") and slot else 1
    numbers = other.numpy()
    if not (is_float(other.dtype) or numbers.dtype.kind in "iub"):
        return 0
    signs = np.unique(np.sign(numbers.astype(np.float64)))
    return int(signs[0]) if signs.size == 1 and np.isfinite(signs[0]) else 0


def is_positive_for_some(value: ir.Value) -> bool:
    """Whether only Log and Sqrt need it to be positive, which give NaN otherwise, and others read it as well."""
    others = {(node.op_type, slot) for node, slot in uses(value) if not (node.is_op("Log", "Sqrt") or _hands_on(node))}
    return bool(others) and all(_ROLES.get(use) != "positive" for use in others)


def _hands_on(node: ir.Node) -> bool:
    """Whether it only hands its value on to other nodes."""
    made = node.output(0)
    return node.op_type in _CARRIERS and made is not None and not made.is_output


def _is_product_with(node: ir.Node) -> bool:
    """Whether the first operand is a constant: then the second is no weight, but the data."""
    return node.is_op("MatMul", "Gemm") and reference.constant(node.input(0)) is not None


def uses(value: ir.Value) -> Iterator[tuple[ir.Node, int]]:
    """Yield uses by operators of the default domain, through those that only hand values on."""
    queue, seen = [value], {value}
    while queue and len(seen) < _LOOKAHEAD:
        for node, slot in queue.pop(0).uses:
            if node.domain:
                continue
            yield node, slot
            follow = node.output(0) if node.op_type in _CARRIERS and (slot == 0 or node.is_op("Concat")) else None
            if follow is not None and follow not in seen:
                seen.add(follow)
                queue.append(follow)
