"""Operators that move or choose elements, of a type that the target lacks: through one that holds each of them."""

from __future__ import annotations

import numpy as np
import onnx

from bnfold import ir
from bnfold.analysis.traits import COUNTING, MOVING
from bnfold.converting.adapters import places
from bnfold.converting.context import Inexpressible, numeric_type
from bnfold.converting.node_conversion import NodeConversion
from bnfold.ir.elements import type_name
from bnfold.ir.schemas import schema_of, version_at

TP = onnx.TensorProto
_CHOOSING = frozenset({"Relu", "TopK"})
_REDUCING = frozenset({"ReduceMax", "ReduceMin"})
_NEAREST = frozenset({"Resize", "Upsample"})
_WIDER: dict[int, tuple[int, ...]] = {
    **dict.fromkeys((TP.BOOL, TP.INT8, TP.UINT8, TP.INT16, TP.UINT16), (TP.INT32, TP.FLOAT)),
    **dict.fromkeys((TP.INT32, TP.UINT32), (TP.INT64, TP.DOUBLE)),
    TP.BFLOAT16: (TP.FLOAT,),
}
"""Types that hold every number of a type, and in the same order."""


def in_wider_type(conversion: NodeConversion, version: int | None) -> None:
    """Let a node of ``version`` work on numbers of a type that the target takes; its results are cast back."""
    node, target = conversion.node, conversion.target
    there = version_at(node.op_type, target)
    if version is None or there is None or not (data := node.input(0)) or not _copies(conversion):
        return
    kind, places_of = conversion.context.types.dtype(data), schema_of(node.op_type, there).inputs
    if kind is None or f"tensor({type_name(kind)})" in places_of[0].types:
        return
    wider = _WIDER.get(kind, ())
    if kind == TP.INT64 and _is_exact_in_double(conversion, data):
        wider = (TP.DOUBLE,)
    wide = next((dtype for dtype in wider if f"tensor({type_name(dtype)})" in places_of[0].types), None)
    if wide is None:
        return
    schema = schema_of(node.op_type, version)
    tie = schema.inputs[0].type_str
    for slot, value in enumerate(node.inputs):
        if value is not None and schema.inputs[min(slot, len(schema.inputs) - 1)].type_str == tie:
            node.set_input(slot, _cast(conversion, value, wide))
    for slot, made in enumerate(node.outputs):
        if made is not None and schema.outputs[min(slot, len(schema.outputs) - 1)].type_str == tie:
            result = conversion.divert(slot, "wide")
            name = conversion.node_name("cast")
            # In front of what later steps append, which makes the value that is cast here.
            cast = conversion.graph.insert("Cast", [result], [made], after=node, name=name, to=kind)
            conversion.added.append(cast)
            conversion.behind.append(cast)
    conversion.touched = True


def _copies(conversion: NodeConversion) -> bool:
    """Whether each number that a node makes is one that it reads: not between pixels, nor of an empty window."""
    node = conversion.node
    if node.op_type in _NEAREST:
        return bool(node.attr("mode", "nearest") == "nearest")
    if node.op_type == "MaxPool":  # which may step over all there is if it is dilated
        return set(node.attr("dilations") or (1,)) == {1}
    if node.op_type in _REDUCING:
        return _has_elements(conversion)
    return node.op_type in MOVING | _CHOOSING


def _has_elements(conversion: NodeConversion) -> bool:
    """Whether a reduction reads at least one number for each result: of none, it makes the limit of the type."""
    node, shape = conversion.node, conversion.shape(conversion.input(0))
    if shape is None:
        return False
    filled = [isinstance(size, int) and size > 0 for size in shape]
    over = conversion.known(node.input(1))
    axes = node.attr("axes") if over is None else over.numpy().tolist()
    is_computed = node.input(1) is not None and over is None
    if all(filled) or is_computed or not axes:
        return all(filled)
    return all(-len(shape) <= axis < len(shape) and filled[axis] for axis in axes)


def _cast(conversion: NodeConversion, value: ir.Value, dtype: int) -> ir.Value:
    tensor = conversion.known(value)
    if tensor is not None and tensor.size == 1:  # which may have to become an attribute
        return conversion.constant(tensor.numpy().astype(numeric_type(dtype)), "wide")
    return conversion.add("Cast", [value], "wide", to=dtype)


_HALF = 1 << 32
_DEEP = 12


def _is_exact_in_double(conversion: NodeConversion, value: ir.Value, depth: int = _DEEP) -> bool:
    """Whether long integers have at most 53 bits: they are constants, places or sizes, or were cast from less."""
    tensor, node = conversion.known(value), value.producer
    if tensor is not None:
        return bool((np.abs(tensor.numpy().astype(np.float64)) < 2.0**53).all())
    if node is None or node.domain or not depth or (source := node.input(0)) is None:
        return False
    if node.op_type in COUNTING or (node.op_type == "TopK" and value.slot == 1):
        return True
    if node.op_type == "Cast":
        return conversion.context.types.dtype(source) in (TP.BOOL, TP.INT8, TP.UINT8, TP.INT16, TP.UINT16, TP.INT32)
    moved = node.inputs if node.op_type == "Concat" else node.inputs[: int(node.op_type in places.MOVES)]
    return bool(moved) and all(part is not None and _is_exact_in_double(conversion, part, depth - 1) for part in moved)


def padded_in_halves(conversion: NodeConversion, pads: list[int]) -> None:
    """Pad long integers as two numbers of 32 bits each: all of one is more than float64 holds."""
    node, data, value = conversion.node, conversion.input(0), conversion.node.input(2)
    filling = 0 if value is None else conversion.numbers(value, "its value")[0]
    base = conversion.constant(np.array(_HALF, np.int64), "base")
    high = conversion.add("Div", [data, base], "high")
    low = conversion.add("Sub", [data, conversion.add("Mul", [high, base], "whole")], "low")
    rounded = int(np.trunc(filling / _HALF)) if abs(filling) < 1 << 53 else None
    if rounded is None or float(np.float32(filling - rounded * _HALF)) != filling - rounded * _HALF:
        raise Inexpressible(f"pads with {filling}, which is no float32")
    mode, stated = node.attr("mode", "constant"), conversion.ints(pads, "pads")
    padded = []
    for half, number in ((high, rounded), (low, filling - rounded * _HALF)):
        double = conversion.add("Cast", [half], "double", to=TP.DOUBLE)
        filler = conversion.scalar(number, double, "value")
        longer = conversion.add("Pad", [double, stated, filler], "padded", mode=mode)
        padded.append(conversion.add("Cast", [longer], "int64", to=TP.INT64))
    conversion.become("Add", [conversion.add("Mul", [padded[0], base], "restored"), padded[1]])
