"""Draw integers for consumers that accept any."""

from __future__ import annotations

import numpy as np

from bnfold import ir
from bnfold.ir.elements import TP, Array
from bnfold.verification.tolerance.floats import is_float

_NARROW = (TP.INT8, TP.INT16, TP.INT32, TP.UINT8, TP.UINT16, TP.UINT32)
_SIGNED = (TP.INT8, TP.INT16, TP.INT32, TP.INT64)


def small_integers(value: ir.Value, shape: tuple[int, ...], rng: np.random.Generator, *, signed: bool) -> Array:
    """Draw small integers, of both signs if ``signed`` or if consumers take any sign, as those that make floats do.

    If ``signed``, one is too large for a narrower type that they are cast to.
    """
    takes_any = signed or (bool(value.uses) and all(_takes_any_sign(node) for node, _ in value.uses))
    lowest = -8 if takes_any and value.dtype in _SIGNED else 0
    found = np.asarray(rng.integers(lowest, 9, size=shape))
    if signed and value.dtype == TP.INT64 and any(_narrows(node) for node, _ in value.uses):
        found.reshape(-1)[:1] += 1 << 40
    return found


def _narrows(node: ir.Node) -> bool:
    return node.is_op("Cast") and not node.has_references and node.attr("to", 0) in _NARROW


def _takes_any_sign(node: ir.Node) -> bool:
    if not node.is_op("Cast"):
        return node.is_op("Abs", "Sign", "Relu")
    target = None if node.has_references else node.attr("to", 0)
    return target in ("FLOAT", "DOUBLE", "FLOAT16") or (isinstance(target, int) and is_float(target))
