"""QLinearConv and QLinearMatMul below opset 10: exact sums in float32, and the rounding of QuantizeLinear."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from bnfold import ir
from bnfold.converting.adapters import integer_products, quantized
from bnfold.converting.context import Inexpressible
from bnfold.converting.node_conversion import NodeConversion
from bnfold.converting.registry import down
from bnfold.ir.elements import type_name

TP = onnx.TensorProto


@down("QLinearConv", 10)
def convolution(conversion: NodeConversion) -> None:
    """Decompose QLinearConv: the sums of ConvInteger and a bias, in units of the result."""
    _check_types(conversion)
    bias = None
    if (given := conversion.node.input(8)) is not None:
        tensor = conversion.known(given)
        if tensor is None:
            raise Inexpressible(f"has a bias {given.name!r} that is computed")
        bias = tensor.numpy().astype(np.float64).reshape(-1)
        conversion.context.retyped.append(given)
    most = None if bias is None else np.abs(bias)
    operands = integer_products.centred_window(conversion, (0, 3, 2, 5), most)
    if bias is not None:
        operands.append(conversion.constant(bias.astype(np.float32), "bias"))
    lanes = (-1, *[1] * (conversion.rank(conversion.input(3)) - 2))
    _requantise(conversion, integer_products.sums(conversion, "Conv", operands), ((), lanes))


@down("QLinearMatMul", 10)
def product(conversion: NodeConversion) -> None:
    """Decompose QLinearMatMul in the same way; the first operand may have a scale for each row."""
    _check_types(conversion)
    operands = integer_products.centred_matrices(conversion, (0, 3, 2, 5))
    _requantise(conversion, integer_products.sums(conversion, "MatMul", operands), ((-1, 1), ()))


def _check_types(conversion: NodeConversion) -> None:
    kinds = [conversion.dtype(conversion.input(slot)) for slot in (0, 3, 7)]
    if not {TP.INT8, TP.UINT8}.issuperset(kinds):
        raise Inexpressible(f"works on {', '.join(f'tensor({type_name(kind)})' for kind in dict.fromkeys(kinds))}")


def _requantise(conversion: NodeConversion, sums: ir.Value, dims: Sequence[tuple[int, ...]]) -> None:
    """Let the node round the sums in units of the result; ``dims`` is where scales of several elements lie.

    Both scales are multiplied and then divided by the result's, as runtimes do.
    """
    tensors = [conversion.known(conversion.input(slot)) for slot in (1, 4, 6, 7)]
    first, second, result, zero = (None if tensor is None else tensor.numpy() for tensor in tensors)
    if first is None or second is None or result is None or zero is None:
        raise Inexpressible("has scales, or a zero point of the result, that are computed")
    if {array.dtype for array in (first, second, result)} != {np.dtype(np.float32)}:
        raise Inexpressible("has scales that are no float32")
    if result.size != 1 or zero.size != 1:
        raise Inexpressible("has a result of several scales or zero points")
    along = [
        array.reshape(() if array.size == 1 else spread if spread and array.ndim == 1 else array.shape)
        for array, spread in zip((first, second), dims, strict=True)
    ]
    with np.errstate(all="ignore"):
        factor = np.asarray(along[0] * along[1] / result.reshape(()), np.float32)
    if not np.isfinite(factor).all():
        raise Inexpressible("has scales whose product or quotient is no number of float32")
    scaled = conversion.add("Mul", [sums, conversion.constant(factor, "factor")], "scaled")
    shift = conversion.constant(zero.reshape(()).astype(np.float32), "zero_point")
    quantized.become_integer(conversion, scaled, shift, conversion.dtype(conversion.input(7)))
