"""Operators from before the standard (withdrawn experiments, Caffe2's habits) in terms of standard ones.

Early converters wrote them into the default domain. Each is rewritten only where its attributes are the ones known.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod

import numpy as np
import onnx

from bnfold import analysis, ir
from bnfold.converting.context import Inexpressible, numeric_type
from bnfold.converting.node_conversion import INT64_MAX, NodeConversion


def image_scaler(conversion: NodeConversion) -> None:
    """Convert ImageScaler: ``x·scale + bias[c]``, channels on axis 1."""
    data, scale, bias = conversion.input(0), conversion.take("scale", 1.0), conversion.take("bias", [])
    if scale != 1.0 or not bias:
        data = conversion.add("Mul", [data, conversion.scalar(scale, conversion.input(0), "scale")], "scaled")
    column = np.array(bias or [0.0]).astype(numeric_type(conversion.dtype(conversion.input(0))))
    column = column.reshape(-1, *[1] * (conversion.rank(conversion.input(0)) - 2))
    conversion.become("Add", [data, conversion.constant(column, "bias")])


def affine(conversion: NodeConversion) -> None:
    """Convert Affine: ``alpha·x + beta``."""
    data = conversion.input(0)
    alpha, beta = conversion.take("alpha", 1.0), conversion.take("beta", 0.0)
    scaled = conversion.add("Mul", [data, conversion.scalar(alpha, data, "alpha")], "scaled")
    conversion.become("Add", [scaled, conversion.scalar(beta, data, "beta")])


def scale(conversion: NodeConversion) -> None:
    """Convert Scale: ``scale·x``."""
    data = conversion.input(0)
    conversion.become("Mul", [data, conversion.scalar(conversion.take("scale", 1.0), data, "scale")])


def crop(conversion: NodeConversion) -> None:
    """Convert Crop: cut ``border`` (left, top, right, bottom) off the last two axes, or a window of size ``scale``."""
    border, size = conversion.take("border"), conversion.take("scale")
    if border is None or len(border) != 4:
        raise Inexpressible("has no border of four sides")
    if size is not None and len(size) != 2:
        raise Inexpressible("has no window of two sides")
    left, top, right, bottom = border
    ends = [top + size[0], left + size[1]] if size and any(size) else [-bottom or INT64_MAX, -right or INT64_MAX]
    window = {"starts": [top, left], "ends": ends, "axes": [2, 3]}
    conversion.become(
        "Slice", [conversion.input(0), *(conversion.ints(places, name) for name, places in window.items())]
    )


def fully_connected(conversion: NodeConversion) -> None:
    """Convert FC of Caffe2: x flattened at ``axis`` times the transposed weight, plus bias."""
    data, weight, bias = conversion.input(0), conversion.input(1), conversion.input(2)
    axis, axis_w = conversion.take("axis", 1), conversion.take("axis_w", 1)
    if axis != 1 or axis_w != 1:
        raise Inexpressible(f"axis={axis}, axis_w={axis_w}: only 1 is known")
    if (rank := conversion.shape(data)) is None or len(rank) != 2:
        data = conversion.add("Flatten", [data], "flat", axis=1)
    if (rank := conversion.shape(weight)) is None or len(rank) != 2:
        weight = conversion.add("Flatten", [weight], "weight", axis=1)
    conversion.become("Gemm", [data, weight, bias], transB=1)


def curve(op_type: str, conversion: NodeConversion) -> None:
    """Convert ParametricSoftplus, ScaledTanh: ``alpha·f(beta·x)``."""
    data = conversion.input(0)
    alpha, beta = conversion.take("alpha", 1.0), conversion.take("beta", 1.0)
    inner = conversion.add("Mul", [data, conversion.scalar(beta, data, "beta")], "scaled")
    conversion.become("Mul", [conversion.add(op_type, [inner], "curve"), conversion.scalar(alpha, data, "alpha")])


def constant_fill(conversion: NodeConversion) -> None:
    """Convert ConstantFill.

    A constant of a shape that an attribute gives, or an input, as values or by its own shape.
    """
    value, extra = conversion.take("value", 0.0), conversion.take("extra_shape", [])
    as_shape, dims = conversion.take("input_as_shape", 0), conversion.take("shape")
    dtype = numeric_type(conversion.take("dtype", onnx.TensorProto.FLOAT))
    shape = _fill_shape(conversion, dims, as_shape=bool(as_shape))
    if extra:
        shape = conversion.add("Concat", [shape, conversion.ints(extra, "extra")], "shape", axis=0)
    conversion.become("ConstantOfShape", [shape])
    conversion.node.set_attr("value", onnx.numpy_helper.from_array(np.array([value]).astype(dtype)))


def given_tensor(conversion: NodeConversion) -> None:
    """Convert GivenTensorFill: the values are attributes."""
    dims, values = conversion.take("shape"), conversion.take("values")
    if dims is None or values is None or conversion.take("input_as_shape", 0) or conversion.node.input(0) is not None:
        raise Inexpressible("has no fixed shape and values")
    if prod(dims) != len(values):
        raise Inexpressible(f"has {len(values)} values for the shape {dims}")
    conversion.node.del_attr("extra_shape")
    conversion.become("Constant", [])
    conversion.node.set_attr("value", onnx.numpy_helper.from_array(np.array(values, np.float32).reshape(dims)))


def _fill_shape(conversion: NodeConversion, dims: list[int] | None, *, as_shape: bool) -> ir.Value:
    if conversion.node.input(0) is None:
        if dims is None:
            raise Inexpressible("has neither a shape nor an input")
        return conversion.ints(dims, "shape")
    if not as_shape:
        return conversion.add("Shape", [conversion.input(0)], "shape")
    known = analysis.constant(conversion.input(0))
    if known is not None:
        return conversion.ints(conversion.numbers(conversion.input(0), "shape"), "shape")
    return conversion.add("Cast", [conversion.input(0)], "shape", to=onnx.TensorProto.INT64)


_AP = onnx.AttributeProto
_CURVE = {"alpha": _AP.FLOAT, "beta": _AP.FLOAT}
_FILL = {"shape": _AP.INTS, "extra_shape": _AP.INTS, "input_as_shape": _AP.INT}

PRESTANDARD: dict[str, tuple[dict[str, _AP.AttributeType], Callable[[NodeConversion], None]]] = {
    "ImageScaler": ({"scale": _AP.FLOAT, "bias": _AP.FLOATS}, image_scaler),
    "Affine": (_CURVE, affine),
    "Scale": ({"scale": _AP.FLOAT}, scale),
    "Crop": ({"border": _AP.INTS, "scale": _AP.INTS}, crop),
    "FC": ({"axis": _AP.INT, "axis_w": _AP.INT}, fully_connected),
    "ParametricSoftplus": (_CURVE, partial(curve, "Softplus")),
    "ScaledTanh": (_CURVE, partial(curve, "Tanh")),
    "ConstantFill": ({**_FILL, "value": _AP.FLOAT, "dtype": _AP.INT}, constant_fill),
    "GivenTensorFill": ({**_FILL, "values": _AP.FLOATS}, given_tensor),
}
"""Operator → the attributes it may have, with their types, and its adapter."""


def adapter_of(node: ir.Node) -> Callable[[NodeConversion], None] | None:
    """Return the adapter of a withdrawn operator.

    None where other attributes show that the name means something else.
    """
    legal, adapter = PRESTANDARD.get(node.op_type, ({}, None))
    known = all(legal.get(attribute.name) == attribute.type for attribute in node.proto.attribute)
    return adapter if known else None
