"""Operators from before the standard (withdrawn experiments, Caffe2's habits) in terms of standard ones.

Early converters wrote them into the default domain. Each is rewritten only where its attributes are the ones known.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod

import numpy as np
import onnx

from bnfold import ir
from bnfold.converting.adapters.inputs import constant_ints
from bnfold.converting.context import Inexpressible, numeric_type
from bnfold.converting.node_conversion import INT64_MAX, Site


def image_scaler(site: Site) -> None:
    """ImageScaler: ``x·scale + bias[c]``, channels on axis 1."""
    data, scale, bias = site.input(0), site.take("scale", 1.0), site.take("bias", [])
    if scale != 1.0 or not bias:
        data = site.add("Mul", [data, site.scalar(scale, site.input(0), "scale")], "scaled")
    column = np.array(bias or [0.0]).reshape(-1, *[1] * (site.rank(site.input(0)) - 2))
    column = column.astype(numeric_type(site.dtype(site.input(0))))
    _become(site, "Add", [data, site.constant(column, "bias")])


def affine(site: Site) -> None:
    """Affine: ``alpha·x + beta``."""
    data = site.input(0)
    alpha, beta = site.take("alpha", 1.0), site.take("beta", 0.0)
    scaled = site.add("Mul", [data, site.scalar(alpha, data, "alpha")], "scaled")
    _become(site, "Add", [scaled, site.scalar(beta, data, "beta")])


def scale(site: Site) -> None:
    """Scale: ``scale·x``."""
    data = site.input(0)
    _become(site, "Mul", [data, site.scalar(site.take("scale", 1.0), data, "scale")])


def crop(site: Site) -> None:
    """Crop: cut ``border`` (left, top, right, bottom) off the last two axes, or a window of size ``scale``."""
    border, size = site.take("border"), site.take("scale")
    if border is None or len(border) != 4:
        raise Inexpressible("has no border of four sides")
    if size is not None and len(size) != 2:
        raise Inexpressible("has no window of two sides")
    left, top, right, bottom = border
    ends = [top + size[0], left + size[1]] if size and any(size) else [-bottom or INT64_MAX, -right or INT64_MAX]
    window = {"starts": [top, left], "ends": ends, "axes": [2, 3]}
    if site.target >= 10:
        _become(site, "Slice", [site.input(0), *(site.ints(values, name) for name, values in window.items())])
        return
    _become(site, "Slice", [site.input(0)])
    for name, values in window.items():
        site.node.set_attr(name, values)


def fully_connected(site: Site) -> None:
    """FC of Caffe2: x flattened at ``axis`` times the transposed weight, plus bias."""
    data, weight, bias = site.input(0), site.input(1), site.input(2)
    axis, axis_w = site.take("axis", 1), site.take("axis_w", 1)
    if axis != 1 or axis_w != 1:
        raise Inexpressible(f"axis={axis}, axis_w={axis_w}: only 1 is known")
    if (rank := site.shape(data)) is None or len(rank) != 2:
        data = site.add("Flatten", [data], "flat", axis=1)
    if (rank := site.shape(weight)) is None or len(rank) != 2:
        weight = site.add("Flatten", [weight], "weight", axis=1)
    _become(site, "Gemm", [data, weight, bias])
    site.node.set_attr("transB", 1)
    if site.target < 7:
        site.node.set_attr("broadcast", 1)


def curve(op_type: str, site: Site) -> None:
    """ParametricSoftplus, ScaledTanh: ``alpha·f(beta·x)``."""
    data = site.input(0)
    alpha, beta = site.take("alpha", 1.0), site.take("beta", 1.0)
    inner = site.add("Mul", [data, site.scalar(beta, data, "beta")], "scaled")
    _become(site, "Mul", [site.add(op_type, [inner], "curve"), site.scalar(alpha, data, "alpha")])


def constant_fill(site: Site) -> None:
    """ConstantFill: a constant of a shape that an attribute gives, or an input, as values or by its own shape."""
    if site.target < 9:
        raise Inexpressible("needs ConstantOfShape, opset 9")
    value, extra = site.take("value", 0.0), site.take("extra_shape", [])
    as_shape, dims = site.take("input_as_shape", 0), site.take("shape")
    dtype = numeric_type(site.take("dtype", onnx.TensorProto.FLOAT))
    shape = _fill_shape(site, dims, as_shape=bool(as_shape))
    if extra:
        shape = site.add("Concat", [shape, site.ints(extra, "extra")], "shape", axis=0)
    _become(site, "ConstantOfShape", [shape])
    site.node.set_attr("value", onnx.numpy_helper.from_array(np.array([value]).astype(dtype)))


def given_tensor(site: Site) -> None:
    """GivenTensorFill: the values are attributes."""
    dims, values = site.take("shape"), site.take("values")
    if dims is None or values is None or site.take("input_as_shape", 0) or site.node.input(0) is not None:
        raise Inexpressible("has no fixed shape and values")
    if prod(dims) != len(values):
        raise Inexpressible(f"has {len(values)} values for the shape {dims}")
    site.node.del_attr("extra_shape")
    _become(site, "Constant", [])
    site.node.set_attr("value", onnx.numpy_helper.from_array(np.array(values, np.float32).reshape(dims)))


def _fill_shape(site: Site, dims: list[int] | None, *, as_shape: bool) -> ir.Value:
    if site.node.input(0) is None:
        if dims is None:
            raise Inexpressible("has neither a shape nor an input")
        return site.ints(dims, "shape")
    if not as_shape:
        return site.add("Shape", [site.input(0)], "shape")
    known = ir.constant(site.input(0))
    if known is not None:
        return site.ints(constant_ints(site.input(0), "shape"), "shape")
    return site.add("Cast", [site.input(0)], "shape", to=onnx.TensorProto.INT64)


def _become(site: Site, op_type: str, inputs: list[ir.Value]) -> None:
    site.node.op_type = op_type
    site.node.set_inputs(inputs)
    site.touched = site.finished = True
    if site.target < 7 and op_type in ("Mul", "Add"):
        raise Inexpressible("needs the broadcasting of opset 7")


_AP = onnx.AttributeProto
_CURVE = {"alpha": _AP.FLOAT, "beta": _AP.FLOAT}
_FILL = {"shape": _AP.INTS, "extra_shape": _AP.INTS, "input_as_shape": _AP.INT}

PRESTANDARD: dict[str, tuple[dict[str, _AP.AttributeType], Callable[[Site], None]]] = {
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


def adapter_of(node: ir.Node) -> Callable[[Site], None] | None:
    """The adapter of a withdrawn operator; None where other attributes show that the name means something else."""
    legal, adapter = PRESTANDARD.get(node.op_type, ({}, None))
    known = all(legal.get(attribute.name) == attribute.type for attribute in node.proto.attribute)
    return adapter if known else None
