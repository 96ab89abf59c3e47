"""Cast: one without effect, one behind another that loses nothing, and one of a fill. CastLike becomes a Cast."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx

from bnfold import analysis, ir
from bnfold.analysis.shapes.arithmetic import Proven
from bnfold.ir.tensor import TP, numpy_type
from bnfold.report import rewrites
from bnfold.simplifying.no_effect import skip
from bnfold.simplifying.plan import Simplification, bypass, replace

_BITS: Mapping[int, tuple[int, int]] = {
    TP.INT8: (8, 7), TP.INT16: (16, 15), TP.INT32: (32, 31), TP.INT64: (64, 63),
    TP.UINT8: (8, 8), TP.UINT16: (16, 16), TP.UINT32: (32, 32), TP.UINT64: (64, 64),
}  # fmt: skip
"""Integers: the bits of the type, and those of its largest number."""
_EXACT: Mapping[int, int] = {TP.FLOAT16: 11, TP.FLOAT: 24, TP.DOUBLE: 53}
"""Floats, and the bits of the integers that each represents without gaps."""
_WIDER: Mapping[int, tuple[int, ...]] = {
    TP.FLOAT16: (TP.FLOAT, TP.DOUBLE),
    TP.BFLOAT16: (TP.FLOAT, TP.DOUBLE),
    TP.FLOAT: (TP.DOUBLE,),
}
"""The floats that represent every number of another."""


def find_cast(node: ir.Node, known: Proven) -> Simplification | None:
    """Plan to leave out a Cast to the type that its input already has, or to make one node of two."""
    source, to = node.input(0), node.attr("to")
    dtype = known.dtype(source)
    if dtype is not None and to == dtype:
        return skip(node, rewrites.CAST_TO_OWN)
    first = source.producer if source is not None else None
    if first is None or first.graph is not node.graph or first.has_references or not isinstance(to, int):
        return None
    if first.is_op("Cast"):
        return _one_of_two(node, first, to, known)
    return _fill(node, first, to) if first.is_op("ConstantOfShape") else None


def find_cast_like(node: ir.Node, known: Proven) -> Simplification | None:
    """Plan a Cast in place of a CastLike, if the wanted type is known.

    A constant that only says the type stays: no input would show that its number has no effect.
    """
    to = known.dtype(node.input(1)) if analysis.constant(node.input(1)) is None else None
    if to not in _EXACT and to not in _BITS and to != TP.BOOL:  # for smaller floats, an attribute says how to overflow
        return None
    return replace(rewrites.CAST_LIKE, node, "Cast", [node.input(0)], {"to": to})


def _one_of_two(node: ir.Node, first: ir.Node, to: int, known: Proven) -> Simplification | None:
    origin, middle = first.input(0), node.input(0)
    before, between = known.dtype(origin), first.attr("to")
    if origin is None or middle is None or before is None or not _keeps_all(before, between):
        return None
    if before == to:
        return bypass(rewrites.CAST_PAIR, node, origin)
    is_defined = to in _EXACT or to == TP.BOOL or (to in _BITS and (before == TP.BOOL or between in _BITS))
    if not is_defined or before == TP.BFLOAT16 or middle.only_consumer is not node:
        return None
    return replace(rewrites.CAST_AFTER_CAST, node, "Cast", [origin], {"to": to})


def _keeps_all(before: int, after: int) -> bool:
    """Whether each number of a type is a number of the other."""
    if before == TP.BOOL:
        return after in _BITS or after in _EXACT
    if before not in _BITS:
        return after in _WIDER.get(before, ())
    bits, magnitude = _BITS[before]
    if after in _EXACT:
        return magnitude <= _EXACT[after]
    is_signed = magnitude < bits
    return after in _BITS and _BITS[after][1] >= magnitude and (not is_signed or _BITS[after][1] < _BITS[after][0])


def _fill(node: ir.Node, first: ir.Node, to: int) -> Simplification | None:
    """Plan a fill of the other type in place of a ConstantOfShape and a Cast."""
    made, value = node.input(0), first.attr("value")
    if made is None or made.only_consumer is not node or (to not in _EXACT and to not in _BITS and to != TP.BOOL):
        return None
    number = onnx.numpy_helper.to_array(value).reshape(-1) if value is not None else np.zeros(1)
    with np.errstate(all="ignore"):  # what does not fit is declined
        cast = number.astype(numpy_type(to))
    if number.shape != (1,) or cast[0] != number[0]:
        return None
    tensor = onnx.numpy_helper.from_array(cast)
    return replace(rewrites.FILL_CAST, node, "ConstantOfShape", [first.input(0)], {"value": tensor})
