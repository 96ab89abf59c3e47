"""Operators that onnx drafted, exporters wrote, and no schema describes any more.

Source: the operator texts of onnx 1.0 to 1.4 (section "experimental") and the meaning that WinML and caffe2 gave them.
"""

from __future__ import annotations

import numpy as np
import onnx

from bnfold.ir.elements import Array
from bnfold.reference.registry import NO_SCHEMA, Call, KernelDeclined, KernelResult, int_list, kernel, require


@kernel("ImageScaler", NO_SCHEMA)
def image_scaler(call: Call, x: Array) -> KernelResult:
    """Compute X (N, C, H, W) · scale + bias[c]."""
    bias = np.asarray(call.attr("bias", [0.0]), x.dtype)
    return x * call.attr("scale", 1.0) + bias.reshape(-1, 1, 1)


@kernel("Affine", NO_SCHEMA)
def affine(call: Call, x: Array) -> KernelResult:
    """Compute alpha · X + beta."""
    return call.attr("alpha", 1.0) * x + call.attr("beta", 0.0)


@kernel("Scale", NO_SCHEMA)
def scale(call: Call, x: Array) -> KernelResult:
    """Compute scale · X."""
    return call.attr("scale", 1.0) * x


@kernel("Crop", NO_SCHEMA)
def crop(call: Call, x: Array) -> KernelResult:
    """Compute X (N, C, H, W) without ``border`` = left, top, right, bottom.

    ``scale`` = height, width fixes the size instead of right and bottom.
    """
    left, top, right, bottom = call.attr("border")
    if call.has("scale"):
        height, width = call.attr("scale")
        fits = top + height <= x.shape[2] and left + width <= x.shape[3]
        require(fits, f"{height} x {width} elements from ({top}, {left}) of an input of shape {x.shape}")
        return x[:, :, top : top + height, left : left + width]
    return x[:, :, top : x.shape[2] - bottom, left : x.shape[3] - right]


@kernel("ConstantFill", NO_SCHEMA)
def constant_fill(call: Call, shape: Array | None = None) -> KernelResult:
    """Compute ``value`` everywhere.

    The shape from an attribute, from the input's shape, or from its values, then extended.
    """
    if shape is None:
        dims = int_list(call.attr("shape", []))
    else:
        dims = int_list(shape) if call.attr("input_as_shape", 0) else list(shape.shape)
    dims += int_list(call.attr("extra_shape", []))
    return np.full(dims, call.attr("value", 0.0), call.dtype(call.attr("dtype", onnx.TensorProto.FLOAT)))


@kernel("ParametricSoftplus", NO_SCHEMA)
@kernel("ScaledTanh", NO_SCHEMA)
def scaled_curve(call: Call, x: Array) -> KernelResult:
    """Compute alpha · ln(1 + e^(beta · X)), or alpha · tanh(beta · X)."""
    require(call.has("alpha") and call.has("beta"), "texts disagree on the defaults of alpha and beta", KernelDeclined)
    inner = call.attr("beta") * x
    return call.attr("alpha") * (np.tanh(inner) if call.op == "ScaledTanh" else np.logaddexp(0, inner))


@kernel("ThresholdedRelu", NO_SCHEMA)
def thresholded_relu(call: Call, x: Array) -> KernelResult:
    """Compute X above alpha, else 0; it had no schema before opset 10."""
    return np.where(x > call.attr("alpha", 1.0), x, 0).astype(x.dtype)
