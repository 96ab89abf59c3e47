"""Matrix products on either side of a BatchNormalization."""

from __future__ import annotations

import numpy as np
import onnx

from tests.verification.faults.rewrite import BN, Rewrite
from tests.verification.graphs import Array, affine, along, model, numbers, single, statistics


def gemm() -> Rewrite:
    """Gemm with transB, alpha, beta and a bias → BatchNormalization; a square weight, so that axes can be mixed up."""
    rng = numbers(4)
    stats = statistics(rng, 5)
    weight, bias = single(rng.normal(size=(5, 5))), single(rng.normal(size=(1, 5)))
    s, t = affine(stats)
    head = "(float[N,5] x) => (float[N,5] y)"
    attrs = "transB = 1, alpha = 0.5"
    before = model(
        f"{head} {{ c = Gemm <{attrs}, beta = 2.0> (x, W, b)  y = {BN} (c, scale, B, mean, var) }}",
        {"W": weight, "b": bias, **stats},
    )

    def after(rows: Array, shift: Array, attributes: str = attrs) -> onnx.ModelProto:
        return model(f"{head} {{ y = Gemm <{attributes}> (x, W, b) }}", {"W": weight * rows, "b": shift})

    right = 2.0 * bias * s + t
    return Rewrite(
        "Gemm, BatchNormalization",
        before,
        after(along(s, 0, 2), right),
        {
            "transB overlooked": after(along(s, 1, 2), right),
            "beta overlooked": after(along(s, 0, 2), bias * s + t),
            "beta applied twice": after(along(s, 0, 2), right, f"{attrs}, beta = 2.0"),
            "alpha lost": after(along(s, 0, 2), right, "transB = 1"),
            "alpha into the bias": after(along(s, 0, 2), 0.5 * right),
        },
    )


def matmul_transposed() -> Rewrite:
    """MatMul → Transpose → BatchNormalization: its axis 1 is what the weight calls columns."""
    rng = numbers(5)
    stats = statistics(rng, 4)
    weight = single(rng.normal(size=(3, 4)))
    s, t = affine(stats)
    head = "(float[N,7,3] x) => (float[N,4,7] y)"
    swap = "Transpose <perm = [0,2,1]>"
    before = model(
        f"{head} {{ c = MatMul (x, W)  d = {swap} (c)  y = {BN} (d, scale, B, mean, var) }}", {"W": weight, **stats}
    )

    def after(scaled: Array, shift: Array, perm: str = swap) -> onnx.ModelProto:
        return model(f"{head} {{ c1 = MatMul (x, W)  c2 = Add (c1, b)  y = {perm} (c2) }}", {"W": scaled, "b": shift})

    return Rewrite(
        "MatMul, Transpose, BatchNormalization",
        before,
        after(weight * s, t),
        {
            "bias before scaling": after(weight * s, t / s),
            "scale reversed": after(weight * s[::-1], t),
            "transposed another way": model(
                f"{head} {{ c1 = MatMul (x, W)  c2 = Add (c1, b)"
                "  s = Constant <value_ints = [0,4,7]> ()  y = Reshape (c2, s) }",
                {"W": weight * s, "b": t},
            ),
        },
    )


def left_matmul() -> Rewrite:
    """A constant left operand: its rows are the channels."""
    rng = numbers(6)
    stats = statistics(rng, 5)
    weight, bias = single(rng.normal(size=(5, 5))), single(rng.normal(size=(5, 1)))
    s, t = affine(stats)
    head = "(float[N,5,L] x) => (float[N,5,L] y)"
    before = model(
        f"{head} {{ c = MatMul (W, x)  d = Add (c, b)  y = {BN} (d, scale, B, mean, var) }}",
        {"W": weight, "b": bias, **stats},
    )

    def after(rows: Array, shift: Array) -> onnx.ModelProto:
        return model(f"{head} {{ c1 = MatMul (W, x)  y = Add (c1, b) }}", {"W": weight * rows, "b": shift})

    right = bias * along(s, 0, 2) + along(t, 0, 2)
    return Rewrite(
        "MatMul of a constant, Add, BatchNormalization",
        before,
        after(along(s, 0, 2), right),
        {
            "columns scaled": after(along(s, 1, 2), right),
            "Add not scaled": after(along(s, 0, 2), bias + along(t, 0, 2)),
        },
    )


def flatten_gemm() -> Rewrite:
    """BatchNormalization → Flatten → Gemm: each channel's factor is repeated for every pixel, not tiled."""
    rng = numbers(8)
    stats = statistics(rng, 4)
    weight, bias = single(rng.normal(size=(24, 5))), single(rng.normal(size=5))
    s, t = affine(stats)
    head = "(float[N,4,2,3] x) => (float[N,5] y)"
    before = model(
        f"{head} {{ n = {BN} (x, scale, B, mean, var)  f = Flatten (n)  y = Gemm (f, W, b) }}",
        {"W": weight, "b": bias, **stats},
    )

    def after(factor: Array, shift: Array) -> onnx.ModelProto:
        scaled, carried = weight * along(factor, 0, 2), bias + shift @ weight
        return model(f"{head} {{ f1 = Flatten (x)  y = Gemm (f1, W, b) }}", {"W": scaled, "b": carried})

    return Rewrite(
        "BatchNormalization, Flatten, Gemm",
        before,
        after(np.repeat(s, 6), np.repeat(t, 6)),
        {
            "factors tiled, not repeated": after(np.tile(s, 6), np.repeat(t, 6)),
            "shifts tiled, not repeated": after(np.repeat(s, 6), np.tile(t, 6)),
        },
    )


def einsum() -> Rewrite:
    """BatchNormalization → Einsum that sums over the channel and another axis of its constant."""
    rng = numbers(9)
    stats = statistics(rng, 4)
    weight = single(rng.normal(size=(6, 4, 4)))
    s, t = affine(stats)
    head = "(float[N,4,4,5] x) => (float[N,6,5] y)"
    text = 'Einsum <equation = "nchw,kch->nkw">'
    before = model(f"{head} {{ n = {BN} (x, scale, B, mean, var)  y = {text} (n, W) }}", {"W": weight, **stats})

    def after(scaled: Array, shift: Array) -> onnx.ModelProto:
        return model(f"{head} {{ h = {text} (x, W)  y = Add (h, b) }}", {"W": scaled, "b": shift.reshape(-1, 1)})

    right, wide = np.einsum("c,kch->k", t, weight), weight.astype(np.float64)
    return Rewrite(
        "BatchNormalization, Einsum",
        before,
        after(wide * along(s, 1, 3), right),
        {
            "the other axis scaled": after(wide * s, right),
            "shift along the other axis": after(wide * along(s, 1, 3), np.einsum("h,kch->k", t, weight)),
            "shift of one tap": after(wide * along(s, 1, 3), wide[:, :, 0] @ t),
            "shift scaled too": after(wide * along(s, 1, 3), np.einsum("c,kch->k", s * t, weight)),
        },
    )


def fused_matmul() -> Rewrite:
    """BatchNormalization → onnxruntime's FusedMatMul, which turns both operands and has a factor."""
    rng = numbers(10)
    stats = statistics(rng, 5)
    weight = single(rng.normal(size=(5, 5)))
    s, t = affine(stats)
    head = "(float[N,5,7] x) => (float[N,7,5] y)"
    text = "com.microsoft.FusedMatMul <transA = 1, transB = 1, alpha = 0.5>"
    before = model(f"{head} {{ n = {BN} (x, scale, B, mean, var)  y = {text} (n, W) }}", {"W": weight, **stats})

    def after(scaled: Array, shift: Array, node: str = text) -> onnx.ModelProto:
        return model(f"{head} {{ h = {node} (x, W)  y = Add (h, b) }}", {"W": scaled, "b": shift})

    right, scaled = 0.5 * weight @ t, weight * s
    return Rewrite(
        "BatchNormalization, FusedMatMul",
        before,
        after(scaled, right),
        {
            "transB overlooked": after(weight * along(s, 0, 2), right),
            "shift turned": after(scaled, 0.5 * t @ weight),
            "shift without the factor": after(scaled, 2 * right),
            "factor lost": after(scaled, right, "com.microsoft.FusedMatMul <transA = 1, transB = 1>"),
            "constant no longer turned": after(scaled, right, "com.microsoft.FusedMatMul <transA = 1, alpha = 0.5>"),
        },
    )


def fused_conv() -> Rewrite:
    """FusedConv of onnxruntime with a Relu and something added → BatchNormalization of positive scales."""
    rng = numbers(11)
    stats = statistics(rng, 4)
    stats["scale"] = np.abs(stats["scale"])
    kernels, bias = [single(rng.normal(size=(4, 3, 1, 1))) for _ in range(2)], single(rng.normal(size=4))
    s, t = affine(stats)
    head = "(float[N,3,H,W] x) => (float[N,4,H,W] y)"

    def after(own: Array, added: Array, b: Array, shift: Array, activation: str = "Relu") -> onnx.ModelProto:
        node = f'com.microsoft.FusedConv <activation = "{activation}"> (x, W, b, z)'
        weights = {"V": kernels[0] * along(added, 0, 4), "W": kernels[1] * along(own, 0, 4), "b": bias * b}
        return model(
            f"{head} {{ z = Conv (x, V)  f = {node}  y = Add (f, t) }}", {**weights, "t": shift.reshape(-1, 1, 1)}
        )

    before = model(
        f'{head} {{ a = Conv (x, V)  f0 = com.microsoft.FusedConv <activation = "Relu"> (x, W, b, a)'
        f"  y = {BN} (f0, scale, B, mean, var) }}",
        {"V": kernels[0], "W": kernels[1], "b": bias, **stats},
    )
    one = np.ones(4)
    return Rewrite(
        "FusedConv, BatchNormalization",
        before,
        after(s, s, s, t),
        {
            "what is added not scaled": after(s, one, s, t),
            "bias not scaled": after(s, s, one, t),
            "shift before the activation": after(s, s, s + t / bias, 0 * t),
            "a sign through the activation": after(-s, -s, -s, t),
            "activation lost": after(s, s, s, t, ""),
        },
    )


def rewrites() -> list[Rewrite]:
    """All of this module."""
    return [gemm(), matmul_transposed(), left_matmul(), flatten_gemm(), einsum(), fused_matmul(), fused_conv()]
