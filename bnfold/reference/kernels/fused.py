"""onnxruntime's own operators that its optimisation makes of others.

Source: github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bnfold.ir.elements import Array
from bnfold.reference.kernels.activation import curve
from bnfold.reference.kernels.conv import conv
from bnfold.reference.registry import NO_SCHEMA, Call, KernelDeclined, KernelResult, kernel, require

_ACTIVATIONS: dict[str, Callable[..., Array]] = {
    "": lambda x: x,
    "Clip": lambda x, low, high: np.minimum(np.maximum(x, low), high),
    **{name: curve(name) for name in ("Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid")},
}
"""By name; their parameters are those of ``activation_params``."""

_FUSED_MATMUL = {**dict.fromkeys(("transA", "transB", "transBatchA", "transBatchB"), 0), "alpha": 1.0}


@kernel("FusedConv", NO_SCHEMA, domain="com.microsoft", defaults={"auto_pad": "NOTSET", "group": 1})
def fused_conv(call: Call, x: Array, w: Array, b: Array | None = None, z: Array | None = None) -> KernelResult:
    """Return the activation of a convolution to which ``z``, of its shape, is added."""
    name = call.attr("activation", "")
    require(name in _ACTIVATIONS, f"the activation {name!r}", KernelDeclined)
    y = conv(call, x, w, b)
    require(z is None or z.shape == y.shape, "what is added is of another shape")
    return _ACTIVATIONS[name](y if z is None else y + z, *call.attr("activation_params", ()))


@kernel("FusedMatMul", NO_SCHEMA, domain="com.microsoft", defaults=_FUSED_MATMUL)
def fused_matmul(call: Call, a: Array, b: Array) -> KernelResult:
    """Compute ``alpha · a' · b'``, the last two axes of either exchanged where that is asked for."""
    require(not (call.attr("transBatchA") or call.attr("transBatchB")), "it turns stacks", KernelDeclined)
    turned = [call.attr(name) for name in ("transA", "transB")]
    require(min(a.ndim, b.ndim) > 1 or not any(turned), "it turns matrices, and reads a vector", KernelDeclined)
    a, b = (side.swapaxes(-1, -2) if turn else side for side, turn in zip((a, b), turned, strict=True))
    return call.attr("alpha") * np.matmul(a, b)
