"""QuantizeLinear and DequantizeLinear where an older version lacks the type, the axis or the blocks: as arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import onnx

from bnfold import analysis, ir
from bnfold.converting.context import Inexpressible
from bnfold.converting.node_conversion import NodeConversion
from bnfold.converting.registry import down
from bnfold.ir.elements import type_name
from bnfold.ir.schemas import schema_of

TP = onnx.TensorProto
_EXACT = (TP.INT8, TP.UINT8, TP.INT16, TP.UINT16)
"""Types whose numbers, and their differences, float32 holds exactly."""
_NIBBLES: dict[int, type] = {TP.INT4: np.int8, TP.UINT4: np.uint8}


@down("DequantizeLinear", 10, 13, 19, 21)
def dequantize(conversion: NodeConversion) -> None:
    """Convert DequantizeLinear below 21, 13 and 10 into ``(x - zero_point) · scale``, unless the next version takes it.

    Weights of four bits are stored in eight.
    """
    node, data, scale, zero = conversion.node, conversion.input(0), conversion.input(1), conversion.node.input(2)
    kind, made = conversion.dtype(data), conversion.dtype(scale)
    size = int(node.attr("block_size", 0))
    if node.attr("output_dtype", 0) not in (0, made):
        raise Inexpressible("makes another type than its scale's")
    if not size and _has_form(conversion, scale, kind):
        for name in ("output_dtype", "block_size"):
            node.del_attr(name)
        return
    if kind not in (*_EXACT, *_NIBBLES, TP.INT32) or made not in (TP.FLOAT, TP.FLOAT16):
        raise Inexpressible(f"reads tensor({type_name(kind)}) with a scale of tensor({type_name(made)})")
    axis, shape = int(node.attr("axis", 1)), conversion.shape(data)
    blocks = _blocks(shape, conversion.shape(scale), axis, size) if size else None

    def placed(value: ir.Value) -> ir.Value:
        wide = _float(conversion, value)
        return conversion.reshape(wide, blocks.dims, "by_block") if blocks else _along(conversion, wide, shape, axis)

    numbers = _float(conversion, data)
    if blocks:
        numbers = conversion.reshape(numbers, blocks.split, "blocks")
    if zero is not None:
        numbers = conversion.add("Sub", [numbers, placed(zero)], "centred")
    _scaled(conversion, numbers, placed(scale), blocks.whole if blocks else None, made)


def _scaled(
    conversion: NodeConversion, numbers: ir.Value, factors: ir.Value, whole: list[int] | None, made: int
) -> None:
    """Multiply, and give the product the shape and type that it is to have."""
    if whole is None and made == TP.FLOAT:
        conversion.become("Mul", [numbers, factors])
        return
    product = conversion.add("Mul", [numbers, factors], "scaled")
    if made == TP.FLOAT:
        conversion.become("Reshape", [product, conversion.ints(whole or [], "whole")])
    else:
        product = product if whole is None else conversion.reshape(product, whole, "whole")
        conversion.become("Cast", [product], to=made)


@down("QuantizeLinear", 10, 13, 19, 21)
def quantize(conversion: NodeConversion) -> None:
    """Convert QuantizeLinear below 21, 13 and 10: rounded to even, and limited to what the type holds."""
    node, data, scale, zero = conversion.node, conversion.input(0), conversion.input(1), conversion.node.input(2)
    stated = int(node.attr("output_dtype", 0))
    kind = conversion.dtype(zero) if zero is not None else stated or TP.UINT8
    if stated not in (0, kind) or node.attr("block_size", 0) or node.attr("precision", 0) not in (0, TP.FLOAT):
        raise Inexpressible("has blocks, or a precision of its own")
    if _has_form(conversion, scale, kind):
        _state_type(conversion, scale, kind)
        return
    if kind not in _EXACT or conversion.dtype(data) != TP.FLOAT or conversion.dtype(scale) != TP.FLOAT:
        read = type_name(conversion.dtype(data))
        raise Inexpressible(f"reads tensor({read}) and makes tensor({type_name(kind)})")
    axis, shape = int(node.attr("axis", 1)), conversion.shape(data)
    quotient = conversion.add("Div", [data, _along(conversion, scale, shape, axis)], "quotient")
    become_integer(
        conversion,
        quotient,
        None if zero is None else _along(conversion, _float(conversion, zero), shape, axis),
        kind,
    )


def become_integer(conversion: NodeConversion, quotient: ir.Value, zero: ir.Value | None, kind: int) -> None:
    """Let the node make the nearest integers plus a zero point of float32, within the limits of the type."""
    number = conversion.add("Round", [quotient], "rounded")
    if zero is not None:
        number = conversion.add("Add", [number, zero], "shifted")
    info = np.iinfo(onnx.helper.tensor_dtype_to_np_dtype(kind))
    bounds = [conversion.constant(np.array(bound, np.float32), "bound") for bound in (info.min, info.max)]
    limited = conversion.add("Clip", [number, *bounds], "limited")
    conversion.become("Cast", [limited], to=kind)


def _has_form(conversion: NodeConversion, scale: ir.Value, kind: int) -> bool:
    """Whether the version below has the operator for this type, and its axes."""
    if conversion.older is None:
        return False
    schema = schema_of(conversion.node.op_type, conversion.older)
    has_axis = "axis" in schema.attributes
    if not has_axis and conversion.shape(scale) != ():
        return False
    places = [(2, kind), (1, conversion.dtype(scale)), (0, conversion.dtype(conversion.input(0)))]
    if not all(f"tensor({type_name(dtype)})" in schema.inputs[place].types for place, dtype in places):
        return False
    if not has_axis:
        conversion.node.del_attr("axis")  # it says nothing of a scale that is one number
    return True


def _state_type(conversion: NodeConversion, scale: ir.Value, kind: int) -> None:
    """Drop attributes that repeat the type of the zero point."""
    node = conversion.node
    for name in ("output_dtype", "block_size"):
        node.del_attr(name)
    if node.input(2) is None and kind != TP.UINT8:
        dims = conversion.shape(scale)
        if dims is None or not all(isinstance(size, int) for size in dims):
            raise Inexpressible("has a scale of an open size")
        zeros = np.zeros([int(size or 0) for size in dims], onnx.helper.tensor_dtype_to_np_dtype(kind))
        node.set_inputs([node.input(0), scale, conversion.constant(zeros, "zero_point")])


def _float(conversion: NodeConversion, value: ir.Value) -> ir.Value:
    """Return a value in float32. What is stored in four bits is stored in eight first."""
    kind = conversion.dtype(value)
    if kind == TP.FLOAT:
        return value
    if kind in _NIBBLES:
        tensor = analysis.constant(value)
        if tensor is None:
            raise Inexpressible(f"has {value.name!r} of four bits, which is no constant")
        conversion.context.retyped.append(value)
        value = conversion.constant(tensor.numpy().astype(_NIBBLES[kind]), "bytes")
    return conversion.add("Cast", [value], "float", to=TP.FLOAT)


def _along(
    conversion: NodeConversion, value: ir.Value, shape: Sequence[int | str | None] | None, axis: int
) -> ir.Value:
    """Return a scale or zero point in a shape that broadcasts along the axis; a single number stays.

    Runtimes ask for no axis beside a single number, which may be a vector of one.
    """
    dims = conversion.shape(value)
    if dims == () or (dims == (1,) and shape):
        return value
    if shape is None or dims is None or len(dims) != 1 or not -len(shape) <= axis < len(shape):
        raise Inexpressible("has a scale or an input of an unknown rank")
    behind = len(shape) - axis % len(shape) - 1
    return conversion.reshape(value, [int(dims[0]) if isinstance(dims[0], int) else -1, *[1] * behind], "along_axis")


class _Blocks(NamedTuple):
    """The dims with the axis split into blocks, the dims of one number for each block, and the original dims."""

    split: list[int]
    dims: list[int]
    whole: list[int]


def _blocks(
    shape: Sequence[int | str | None] | None, scales: Sequence[int | str | None] | None, axis: int, size: int
) -> _Blocks:
    if shape is None or not -len(shape) <= axis < len(shape):
        raise Inexpressible("has an input of an unknown rank")
    whole = [each if isinstance(each, int) else -1 for each in shape]
    place = axis % len(whole)
    before, count, behind = whole[:place], whole[place] // size, whole[place + 1 :]
    if min(whole) < 1 or whole[place] % size or scales != (*before, count, *behind):
        raise Inexpressible("has an open size, or blocks that do not fill the axis")
    return _Blocks([*before, count, size, *behind], [*before, count, 1, *behind], whole)
