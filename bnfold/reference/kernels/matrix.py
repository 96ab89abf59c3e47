"""Gemm, MatMul and Einsum: products through BLAS."""

# ruff: noqa: ARG001 - every kernel takes the call, whether its node has something to say or not

from __future__ import annotations

import numpy as np

from bnfold.reference.kernels.broadcast import legacy_operand, spread_onto
from bnfold.reference.registry import Array, Call, Result, kernel, require


@kernel("Gemm", 1, 6)
@kernel("Gemm", 7, 9, 11, 13)
def gemm(call: Call, a: Array, b: Array, c: Array | None = None) -> Result:
    """Alpha · op(A) · op(B) + beta · C. Up to version 6 C broadcasts only where ``broadcast`` says so."""
    require(a.ndim == b.ndim == 2, f"operands of shapes {a.shape} and {b.shape}")
    product = call.attr("alpha") * ((a.T if call.attr("transA") else a) @ (b.T if call.attr("transB") else b))
    if product.dtype != a.dtype:
        product = product.astype(a.dtype)
    if c is None:
        return product
    if call.version <= 6:
        c = legacy_operand(call, product, c)
    return (product + call.attr("beta") * spread_onto(product, c)).astype(a.dtype, copy=False)


@kernel("MatMul", 1, 9, 13)
def matmul(call: Call, a: Array, b: Array) -> Result:
    """numpy.matmul. Integers go through exact integer arithmetic."""
    return np.matmul(a, b)


@kernel("Einsum", 12, 28)
def einsum(call: Call, *operands: Array) -> Result:
    """numpy.einsum; the operator's equation language is the same."""
    return np.einsum(call.attr("equation"), *operands, optimize=True)
