"""Recognise a model that computes in a narrower type on purpose: a float16 or an int8 version of a float model."""

from __future__ import annotations

import re

import onnx

from bnfold import ir
from bnfold.errors import MistypedAttribute
from bnfold.verification.changes.interface import interface_fault
from bnfold.verification.tolerance.discontinuities import cast_target

_T = onnx.TensorProto
_HALVES = {_T.FLOAT16: "float16", _T.BFLOAT16: "bfloat16"}
_QUANTIZED = re.compile("uantize|QLinear|Integer|^QGemm|^QAttention|NBits")
"""Operators on quantized numbers, of any domain."""


def narrower_type(before: ir.Model, after: ir.Model) -> str:
    """Return the type that the second model computes in, and the first does not: int8, float16; empty if none."""
    if interface_fault(before, after, any_float=True):
        return ""
    if _is_quantized(after) and not _is_quantized(before):
        return "int8"
    try:
        had, has = _types(before), _types(after)
    except MistypedAttribute:  # of a damaged Cast
        return ""
    for dtype, name in _HALVES.items():
        if dtype in has - had and had & {_T.FLOAT, _T.DOUBLE}:
            return name
    return ""


def _is_quantized(model: ir.Model) -> bool:
    return any(_QUANTIZED.search(node.op_type) for node in model.nodes())


def _types(model: ir.Model) -> set[int | None]:
    """Return the element types of inputs, outputs and stored weights, and those that a Cast makes."""
    casts = {cast_target(node) for node in model.nodes() if node.is_op("Cast") and not node.has_references}
    stored = (value for graph in model.graphs() for value in graph.values.values() if value.holds_constant)
    values = (*model.graph.inputs, *model.graph.outputs, *stored)
    return {value.dtype for value in values} | casts
