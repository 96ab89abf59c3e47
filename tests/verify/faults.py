"""A right rewrite of everything bnfold can fold, upgrade or decompose, and ways to get each of them wrong.

Every pair is made by hand from the operator texts, without bnfold's rewriting side. A `Rewrite` has one model before, one
right model after, and named wrong ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import onnx

from bnfold import ir
from tests.verify.graphs import EPSILON, Array, Weights, affine, along, model, numbers, single, statistics

BN = "BatchNormalization <epsilon = 1e-5>"


@dataclass
class Rewrite:
    """``cut`` is (inputs, outputs) as the rewrite's own event would give them."""

    name: str
    before: onnx.ModelProto
    after: onnx.ModelProto
    wrong: dict[str, onnx.ModelProto] = field(default_factory=dict)
    cut: tuple[tuple[str, ...], tuple[str, ...]] = (("x",), ("y",))

    @property
    def cuts(self) -> list[ir.Cut]:
        return [ir.Cut("", *self.cut, self.name)]


def conv() -> Rewrite:
    """Conv (2 groups, bias, padding) → BatchNormalization; as many inputs a group as channels a group, so axes can be mixed up."""
    rng = numbers(1)
    stats = statistics(rng, 6)
    weight, bias = single(rng.normal(size=(6, 3, 3, 3))), single(rng.normal(size=6))
    s, t = affine(stats)
    head = "(float[N,6,H,W] x) => (float[N,6,P,Q] y)"
    attrs = "<group = 2, pads = [1,1,1,1], dilations = [1,1]>"
    before = model(
        f"{head} {{ c = Conv {attrs} (x, W, b)  y = {BN} (c, scale, B, mean, var) }}", {"W": weight, "b": bias, **stats}
    )

    def after(factor: Array, shift: Array, attributes: str = attrs, rows: Array | None = None) -> onnx.ModelProto:
        scaled = weight * (along(factor, 0, 4) if rows is None else rows)
        return model(f"{head} {{ y = Conv {attributes} (x, W, b) }}", {"W": scaled, "b": shift})

    right = bias * s + t
    no_epsilon, large_epsilon = affine(stats, 0.0), affine(stats, 1e-3)
    no_root = stats["scale"] / (stats["var"].astype(np.float64) + EPSILON)
    stray = np.where(np.arange(6) == 3, 1.0, s)
    half_precise = (weight * along(s, 0, 4)).astype(np.float16)
    swapped = np.concatenate([s[3:], s[:3]])
    return Rewrite(
        "Conv, BatchNormalization",
        before,
        after(s, right),
        {
            "scale on the input axis": after(
                s, right, rows=np.concatenate([along(s[g : g + 3], 1, 4) * np.ones((3, 1, 1, 1)) for g in (0, 3)])
            ),
            "sign of the scale lost": after(np.abs(s), right),
            "epsilon dropped": after(no_epsilon[0], bias * no_epsilon[0] + no_epsilon[1]),
            "another epsilon": after(large_epsilon[0], bias * large_epsilon[0] + large_epsilon[1]),
            "no square root of the variance": after(no_root, bias * no_root + t),
            "bias not scaled": after(s, bias + t),
            "bias scaled twice": after(s, bias * s * s + t),
            "mean not subtracted": after(s, bias * s + stats["B"]),
            "mean added": after(s, bias * s + 2 * stats["B"] - t),
            "bias of the Conv dropped": after(s, t),
            "groups swapped": after(swapped, right),
            "one channel left out": after(stray, right),
            "group attribute dropped": after(s, right, "<pads = [1,1,1,1]>"),
            "padding dropped": after(s, right, "<group = 2>"),
            "dilations changed": after(s, right, "<group = 2, pads = [2,2,2,2], dilations = [2,2]>"),
            "weights rounded to float16 on the way": model(
                f"{head} {{ y = Conv {attrs} (x, W, b) }}", {"W": half_precise.astype(np.float32), "b": right}
            ),
        },
    )


def conv_transpose() -> Rewrite:
    """ConvTranspose with 2 groups of 2 inputs and 2 outputs: output channel o of group g reads W[g's rows, o]."""
    rng = numbers(2)
    stats = statistics(rng, 4)
    weight = single(rng.normal(size=(4, 2, 3, 3)))
    s, t = affine(stats)
    head = "(float[N,4,H,W] x) => (float[N,4,P,Q] y)"
    attrs = "<group = 2, strides = [2,2]>"
    before = model(
        f"{head} {{ c = ConvTranspose {attrs} (x, W)  y = {BN} (c, scale, B, mean, var) }}", {"W": weight, **stats}
    )

    def after(rows: Array, shift: Array = t) -> onnx.ModelProto:
        return model(f"{head} {{ y = ConvTranspose {attrs} (x, W, b) }}", {"W": weight * rows, "b": shift})

    right = np.repeat(s.reshape(2, 2), 2, axis=0).reshape(4, 2, 1, 1)
    return Rewrite(
        "ConvTranspose, BatchNormalization",
        before,
        after(right),
        {
            "scale along the input axis": after(along(s, 0, 4)),
            "every group scaled as the first": after(along(s[:2], 1, 4)),
            "groups and channels exchanged": after(np.repeat(s.reshape(2, 2).T, 2, axis=0).reshape(4, 2, 1, 1)),
            "bias reordered": after(right, t.reshape(2, 2).T.reshape(-1)),
        },
    )


def into_conv() -> Rewrite:
    """BatchNormalization → Conv without padding, 2 groups; and what a padded Conv would make of the same fold."""
    return _into_conv("BatchNormalization, Conv", "pads = [0,0,0,0]", {})


def into_padded_conv() -> Rewrite:
    """BatchNormalization → padded Conv: only the scale moves, the shift (as t/s) stays in front of the padding."""
    return _into_conv(
        "BatchNormalization, padded Conv", "pads = [1,1,1,1]", {"shift folded through zero padding": True}
    )


def _into_conv(name: str, pads: str, through: dict[str, bool]) -> Rewrite:
    rng = numbers(3)
    stats = statistics(rng, 4)
    weight, bias = single(rng.normal(size=(6, 2, 3, 3))), single(rng.normal(size=6))
    s, t = affine(stats)
    head = "(float[N,4,H,W] x) => (float[N,6,P,Q] y)"
    attrs = f"<group = 2, {pads}>"
    before = model(
        f"{head} {{ n = {BN} (x, scale, B, mean, var)  y = Conv {attrs} (n, W, b) }}", {"W": weight, "b": bias, **stats}
    )
    rows = np.repeat(s.reshape(2, 2), 3, axis=0).reshape(6, 2, 1, 1)
    shift_rows = np.repeat(t.reshape(2, 2), 3, axis=0).reshape(6, 2, 1, 1)
    carried = bias + (weight * shift_rows).sum(axis=(1, 2, 3))

    def after(scaled: Array, shift: Array) -> onnx.ModelProto:
        return model(f"{head} {{ y = Conv {attrs} (x, W, b) }}", {"W": scaled, "b": shift})

    if through:
        right = model(
            f"{head} {{ n = Add (x, a)  y = Conv {attrs} (n, W, b) }}",
            {"W": weight * rows, "b": bias, "a": along(t / s, 0, 3)},
        )
        return Rewrite(name, before, right, {fault: after(weight * rows, carried) for fault in through})
    first_group = np.repeat(s[:2].reshape(1, 2), 6, axis=0).reshape(6, 2, 1, 1)
    return Rewrite(
        name,
        before,
        after(weight * rows, carried),
        {
            "channels of the second group scaled as the first": after(weight * first_group, carried),
            "shift not carried": after(weight * rows, bias),
            "shift summed after scaling": after(weight * rows, bias + (weight * rows * shift_rows).sum(axis=(1, 2, 3))),
            "shift of one tap only": after(weight * rows, bias + (weight * shift_rows)[:, :, 0, 0].sum(axis=1)),
        },
    )


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
    """MatMul → Transpose → BatchNormalization: axis 1 of the transposed is the row axis, not the columns of the weight."""
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
                f"{head} {{ c1 = MatMul (x, W)  c2 = Add (c1, b)  s = Constant <value_ints = [0,4,7]> ()  y = Reshape (c2, s) }}",
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


def two_norms() -> Rewrite:
    """BatchNormalization → BatchNormalization, merged into the second."""
    rng = numbers(7)
    first, second = statistics(rng, 3), statistics(rng, 3)
    (s1, t1), (s2, t2) = affine(first), affine(second)
    head = "(float[N,3,L] x) => (float[N,3,L] y)"
    named = {
        **{f"{name}1": array for name, array in first.items()},
        **{f"{name}2": array for name, array in second.items()},
    }
    before = model(f"{head} {{ n = {BN} (x, scale1, B1, mean1, var1)  y = {BN} (n, scale2, B2, mean2, var2) }}", named)

    def after(factor: Array, shift: Array) -> onnx.ModelProto:
        neutral = {"mean": np.zeros(3), "var": np.ones(3) - EPSILON}
        return model(f"{head} {{ y = {BN} (x, scale, B, mean, var) }}", {"scale": factor, "B": shift, **neutral})

    return Rewrite(
        "two BatchNormalizations",
        before,
        after(s1 * s2, s2 * t1 + t2),
        {"order exchanged": after(s1 * s2, s1 * t2 + t1), "first shift not scaled": after(s1 * s2, t1 + t2)},
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


def concat() -> Rewrite:
    """Concat of two Convs → BatchNormalization: each arm has its slice."""
    rng = numbers(9)
    stats = statistics(rng, 6)
    left, right = single(rng.normal(size=(3, 2, 1, 1))), single(rng.normal(size=(3, 2, 1, 1)))
    s, t = affine(stats)
    head = "(float[N,2,H,W] x) => (float[N,6,H,W] y)"
    before = model(
        f"{head} {{ p = Conv (x, V)  q = Conv (x, W)  c = Concat <axis = 1> (p, q)  y = {BN} (c, scale, B, mean, var) }}",
        {"V": left, "W": right, **stats},
    )

    def after(first: slice, second: slice, order: str = "p1, q1") -> onnx.ModelProto:
        weights = {
            "V": left * along(s[first], 0, 4),
            "W": right * along(s[second], 0, 4),
            "a": t[first],
            "b": t[second],
        }
        return model(f"{head} {{ p1 = Conv (x, V, a)  q1 = Conv (x, W, b)  y = Concat <axis = 1> ({order}) }}", weights)

    low, high = slice(0, 3), slice(3, 6)
    return Rewrite(
        "Concat of Convs, BatchNormalization",
        before,
        after(low, high),
        {
            "slices exchanged": after(high, low),
            "both arms get the first slice": after(low, low),
            "arms exchanged": after(low, high, "q1, p1"),
        },
    )


def add_arms() -> Rewrite:
    """Sub of two Convs → BatchNormalization: both arms are scaled, one is shifted."""
    rng = numbers(10)
    stats = statistics(rng, 3)
    left, right = single(rng.normal(size=(3, 2, 1, 1))), single(rng.normal(size=(3, 2, 1, 1)))
    s, t = affine(stats)
    head = "(float[N,2,H,W] x) => (float[N,3,H,W] y)"
    before = model(
        f"{head} {{ p = Conv (x, V)  q = Conv (x, W)  c = Sub (p, q)  y = {BN} (c, scale, B, mean, var) }}",
        {"V": left, "W": right, **stats},
    )

    def after(a: Array, b: Array, right_scale: Array = s) -> onnx.ModelProto:
        weights = {"V": left * along(s, 0, 4), "W": right * along(right_scale, 0, 4), "a": a, "b": b}
        return model(f"{head} {{ p1 = Conv (x, V, a)  q1 = Conv (x, W, b)  y = Sub (p1, q1) }}", weights)

    zero = np.zeros(3)
    return Rewrite(
        "Sub of Convs, BatchNormalization",
        before,
        after(t, zero),
        {
            "shift in both arms": after(t, t),
            "shift with the wrong sign": after(zero, t),
            "one arm not scaled": after(t, zero, np.ones(3)),
        },
    )


def carried(name: str, carrier: str, fault: str, right: str | None = None) -> Rewrite:
    """Conv → carrier → BatchNormalization, moved in front of a carrier that does not commute with it."""
    rng = numbers(11)
    stats = statistics(rng, 4)
    weight = single(rng.normal(size=(4, 3, 3, 3)))
    s, t = affine(stats)
    head = "(float[N,3,9,11] x) => (float[N,4,P,Q] y)"
    before = model(
        f"{head} {{ c = Conv (x, W)  d = {carrier}  y = {BN} (d, scale, B, mean, var) }}", {"W": weight, **stats}
    )
    kept = model(
        f"{head} {{ c = Conv (x, W)  d = {carrier}  m = Mul (d, s)  y = Add (m, t) }}",
        {"W": weight, "s": along(s, 0, 3), "t": along(t, 0, 3)},
    )
    folded = {"W": weight * along(s, 0, 4), "b": t}
    wrong = model(f"{head} {{ c = Conv (x, W, b)  y = {carrier} }}", folded)
    return Rewrite(name, before, kept, {fault: wrong})


def depth_to_space() -> Rewrite:
    """Conv → DepthToSpace (CRD) → BatchNormalization: channel c comes from the b² channels from c·b² on."""
    rng = numbers(12)
    stats = statistics(rng, 3)
    weight = single(rng.normal(size=(12, 2, 1, 1)))
    s, t = affine(stats)
    head = "(float[N,2,H,W] x) => (float[N,3,P,Q] y)"
    attrs = '<blocksize = 2, mode = "CRD">'
    before = model(
        f"{head} {{ c = Conv (x, W)  d = DepthToSpace {attrs} (c)  y = {BN} (d, scale, B, mean, var) }}",
        {"W": weight, **stats},
    )

    def after(factor: Array, shift: Array) -> onnx.ModelProto:
        weights = {"W": weight * along(factor, 0, 4), "b": shift}
        return model(f"{head} {{ c1 = Conv (x, W, b)  y = DepthToSpace {attrs} (c1) }}", weights)

    return Rewrite(
        "Conv, DepthToSpace, BatchNormalization",
        before,
        after(np.repeat(s, 4), np.repeat(t, 4)),
        {"laid out as DCR": after(np.tile(s, 4), np.tile(t, 4))},
    )


def quantized_weight() -> Rewrite:
    """A Conv whose int8 weight is dequantised per channel: the factor goes into the scale, its sign into the integers."""
    rng = numbers(13)
    stats = statistics(rng, 4)
    stored = rng.integers(-127, 128, size=(4, 3, 3, 3)).astype(np.int8)
    step = single(rng.uniform(0.01, 0.02, 4))
    s, t = affine(stats)
    head = "(float[N,3,H,W] x) => (float[N,4,P,Q] y)"
    dequantise = "w = DequantizeLinear <axis = 0> (Q, step)"
    before = model(
        f"{head} {{ {dequantise}  c = Conv (x, w)  y = {BN} (c, scale, B, mean, var) }}",
        {"Q": stored, "step": step, **stats},
    )
    signs = np.sign(s).astype(np.int8)

    def after(integers: Array, steps: Array) -> onnx.ModelProto:
        return model(f"{head} {{ {dequantise}  y = Conv (x, w, b) }}", {"Q": integers, "step": steps, "b": t})

    return Rewrite(
        "DequantizeLinear weight, Conv, BatchNormalization",
        before,
        after(stored * along(signs, 0, 4), step * np.abs(s)),
        {
            "integers not negated": after(stored, step * np.abs(s)),
            "scale divided": after(stored * along(signs, 0, 4), step / np.abs(s)),
            "scale left alone": after(stored * along(signs, 0, 4), step),
        },
    )


def instance_norm() -> Rewrite:
    """InstanceNormalization → BatchNormalization: into its scale and bias."""
    rng = numbers(14)
    stats = statistics(rng, 4)
    gamma, beta = single(rng.normal(size=4)), single(rng.normal(size=4))
    s, t = affine(stats)
    head = "(float[N,4,H,W] x) => (float[N,4,H,W] y)"
    before = model(
        f"{head} {{ c = InstanceNormalization (x, g, b)  y = {BN} (c, scale, B, mean, var) }}",
        {"g": gamma, "b": beta, **stats},
    )

    def after(scale: Array, shift: Array) -> onnx.ModelProto:
        return model(f"{head} {{ y = InstanceNormalization (x, g, b) }}", {"g": scale, "b": shift})

    return Rewrite(
        "InstanceNormalization, BatchNormalization",
        before,
        after(gamma * s, beta * s + t),
        {"bias not scaled": after(gamma * s, beta + t), "scale not folded": after(gamma, beta * s + t)},
    )


def into_instance_norm() -> Rewrite:
    """BatchNormalization → InstanceNormalization: the shift is dead, the scale is not, because of epsilon."""
    rng = numbers(15)
    stats = statistics(rng, 4)
    stats["scale"] = single(0.05 * stats["scale"])
    gamma, beta = single(rng.uniform(0.5, 1.5, 4)), single(rng.normal(size=4))
    s, _ = affine(stats)
    head = "(float[N,4,H,W] x) => (float[N,4,H,W] y)"
    before = model(
        f"{head} {{ n = {BN} (x, scale, B, mean, var)  y = InstanceNormalization (n, g, b) }}",
        {"g": gamma, "b": beta, **stats},
    )
    right = model(
        f"{head} {{ n1 = Mul (x, s)  y = InstanceNormalization (n1, g, b) }}",
        {"g": gamma, "b": beta, "s": along(s, 0, 3)},
    )
    wrong = model(f"{head} {{ y = InstanceNormalization (x, g, b) }}", {"g": gamma * np.sign(s), "b": beta})
    return Rewrite("BatchNormalization, InstanceNormalization", before, right, {"scale thought dead": wrong})


def decomposed() -> Rewrite:
    """A BatchNormalization spelled out."""
    rng = numbers(16)
    stats = statistics(rng, 5)
    s, t = affine(stats)
    head = "(float[N,5,L] x) => (float[N,5,L] y)"
    before = model(f"{head} {{ y = {BN} (x, scale, B, mean, var) }}", stats)
    weights = {"s": along(s, 0, 2), "t": along(t, 0, 2)}
    return Rewrite(
        "BatchNormalization as Mul, Add",
        before,
        model(f"{head} {{ m = Mul (x, s)  y = Add (m, t) }}", weights),
        {
            "Add before Mul": model(f"{head} {{ m = Add (x, t)  y = Mul (m, s) }}", weights),
            "Sub for Add": model(f"{head} {{ m = Mul (x, s)  y = Sub (m, t) }}", weights),
            "along the last axis": model(
                "(float[N,5,L] x) => (float[N,5,L] y) { r = Transpose <perm = [0,2,1]> (x)  m = Mul (r, s)  a = Add (m, t)  y = Transpose <perm = [0,2,1]> (a) }",
                {"s": s[::-1], "t": t},
            ),
        },
    )


def half_overflow() -> Rewrite:
    """Float16: s is 300/sqrt(1e-5), so the folded weight overflows although every output is finite."""
    rng = numbers(17)
    half = np.float16
    weight = rng.normal(size=(3, 2, 3, 3)).astype(half)
    stats = {
        "scale": np.full(3, 300, half),
        "B": np.ones(3, half),
        "mean": np.zeros(3, half),
        "var": np.full(3, 1e-5, half),
    }
    head = "(float16[N,2,H,W] x) => (float16[N,3,P,Q] y)"
    before = model(
        f"{head} {{ m = Mul (x, k)  c = Conv (m, W)  y = {BN} (c, scale, B, mean, var) }}",
        {"W": weight, "k": np.array(1e-3, half), **stats},
        opset=15,
    )
    s, t = affine(stats)
    split = {
        "W": (weight * along(s, 0, 4) * 2.0**-10).astype(half),
        "k": np.array(1e-3, half),
        "p": np.array(2.0**10, half),
        "b": (t * 2.0**-10).astype(half),
    }
    right = model(f"{head} {{ m = Mul (x, k)  c1 = Conv (m, W, b)  y = Mul (c1, p) }}", split, opset=15)
    with np.errstate(over="ignore"):
        folded = {"W": (weight * along(s, 0, 4)).astype(half), "k": np.array(1e-3, half), "b": t.astype(half)}
    wrong = model(f"{head} {{ m = Mul (x, k)  y = Conv (m, W, b) }}", folded, opset=15)
    return Rewrite("float16 Conv, BatchNormalization", before, right, {"folded weight overflows float16": wrong})


def half_underflow() -> Rewrite:
    """Float16: s is so small that folded weights become subnormal and lose most of their bits."""
    rng = numbers(18)
    half = np.float16
    weight = rng.normal(size=(3, 2, 3, 3)).astype(half)
    stats = {
        "scale": np.full(3, 2e-6, half),
        "B": np.zeros(3, half),
        "mean": np.zeros(3, half),
        "var": np.ones(3, half),
    }
    head = "(float16[N,2,H,W] x) => (float16[N,3,P,Q] y)"
    tail = "y = Mul (n, k)"
    up = {"k": np.array(3e4, half)}
    before = model(
        f"{head} {{ c = Conv (x, W)  n = {BN} (c, scale, B, mean, var)  {tail} }}",
        {"W": weight, **stats, **up},
        opset=15,
    )
    s, _ = affine(stats)
    right = model(
        f"{head} {{ c = Conv (x, W)  n = Mul (c, s)  {tail} }}",
        {"W": weight, "s": along(s, 0, 3), **up},
        opset=15,
        dtype=np.float32,
    )
    right.graph.initializer[1].CopyFrom(onnx.numpy_helper.from_array(along(s, 0, 3).astype(half), "s"))
    tiny = (weight * along(s, 0, 4)).astype(half)
    wrong = model(f"{head} {{ n = Conv (x, W)  {tail} }}", {"W": tiny, **up}, opset=15)
    return Rewrite("float16 Conv, tiny BatchNormalization", before, right, {"folded weight subnormal": wrong})


def shared_weight() -> Rewrite:
    """Two Convs read one weight, one of them is followed by a BatchNormalization."""
    rng = numbers(19)
    stats = statistics(rng, 3)
    weight = single(rng.normal(size=(3, 2, 1, 1)))
    s, t = affine(stats)
    head = "(float[N,2,H,W] x) => (float[N,3,H,W] y, float[N,3,H,W] z)"
    before = model(
        f"{head} {{ c = Conv (x, W)  y = {BN} (c, scale, B, mean, var)  z = Conv (x, W) }}", {"W": weight, **stats}
    )
    scaled = weight * along(s, 0, 4)
    right = model(f"{head} {{ y = Conv (x, W1, b)  z = Conv (x, W) }}", {"W": weight, "W1": scaled, "b": t})
    wrong = model(f"{head} {{ y = Conv (x, W, b)  z = Conv (x, W) }}", {"W": scaled, "b": t})
    return Rewrite(
        "shared weight", before, right, {"weight replaced for its other reader": wrong}, (("x",), ("y", "z"))
    )


def upgraded(name: str, opset: int, before: str, after: str, weights: Weights, **wrong: str) -> Rewrite:
    """The same nodes at an old opset and at 15; underscores in the names of faults stand for spaces."""
    old = model(before, weights, opset=opset, ir_version=4)
    faults = {fault.replace("_", " "): model(text, weights, opset=15) for fault, text in wrong.items()}
    return Rewrite(name, old, model(after, weights, opset=15), faults)


def upgrades() -> list[Rewrite]:
    """Meanings that changed between operator versions."""
    stats = statistics(numbers(20), 4)
    parameters = "x, scale, B, mean, var"
    head = "(float[N,4,H,W] x) => (float[N,4,H,W] y)"
    train = "BatchNormalization <training_mode = 1, momentum = {}>"
    per_activation = statistics(numbers(21), 24)
    block = {name: array.reshape(4, 2, 3) for name, array in per_activation.items()}
    square = "(float[N,4,2,3] x) => (float[N,4,2,3] y)"
    flat = "s = Constant <value_ints = [-1,4,2,3]> ()  f = Flatten (x)  "
    five = "(float[N,4,H,W] x) => (float[N,4,H,W] y, float[4] m, float[4] v)"
    return [
        upgraded(
            "BatchNormalization-6 in test mode",
            6,
            f"{head} {{ y = BatchNormalization <is_test = 1> ({parameters}) }}",
            f"{head} {{ y = BatchNormalization ({parameters}) }}",
            stats,
            is_test_read_as_training=f"{head} {{ y, m, v = {train.format(0.9)} ({parameters}) }}",
            default_epsilon_changed=f"{head} {{ y = BatchNormalization <epsilon = 1e-3> ({parameters}) }}",
            mean_and_variance_exchanged=f"{head} {{ y = BatchNormalization (x, scale, B, var, mean) }}",
            scale_and_bias_exchanged=f"{head} {{ y = BatchNormalization (x, B, scale, mean, var) }}",
        ),
        Rewrite(
            "BatchNormalization-6 in training mode",
            model(
                f"{five} {{ y, m, v, sm, sv = BatchNormalization <is_test = 0, momentum = 0.7> ({parameters}) }}",
                stats,
                opset=6,
            ),
            model(f"{five} {{ y, m, v = {train.format(0.7)} ({parameters}) }}", stats, opset=15),
            {
                "momentum taken the other way": model(
                    f"{five} {{ y, m, v = {train.format(0.3)} ({parameters}) }}", stats, opset=15
                ),
                "momentum forgotten": model(
                    f"{five} {{ y, m, v = {train.format(0.9)} ({parameters}) }}", stats, opset=15
                ),
                "statistics left as they were": model(
                    f"{five} {{ y, m0, v0 = {train.format(0.7)} ({parameters})  m = Identity (mean)  v = Identity (var) }}",
                    stats,
                    opset=15,
                ),
            },
            (("x",), ("y", "m", "v")),
        ),
        Rewrite(
            "BatchNormalization-7 per activation",
            model(f"{square} {{ y = BatchNormalization <spatial = 0> ({parameters}) }}", block, opset=7),
            model(
                f"{square} {{ {flat} n = BatchNormalization (f, scale, B, mean, var)  y = Reshape (n, s) }}",
                per_activation,
                opset=15,
            ),
            {
                "parameters laid out by column": model(
                    f"{square} {{ {flat} n = BatchNormalization (f, scale, B, mean, var)  y = Reshape (n, s) }}",
                    {name: array.transpose(1, 2, 0).reshape(-1) for name, array in block.items()},
                    opset=15,
                ),
            },
        ),
        upgraded(
            "Softmax-11 to 13",
            11,
            "(float[N,3,5,2] x) => (float[N,3,5,2] y) { y = Softmax <axis = 2> (x) }",
            "(float[N,3,5,2] x) => (float[N,3,5,2] y) { s = Shape (x)  f = Flatten <axis = 2> (x)  p = Softmax (f)  y = Reshape (p, s) }",
            {},
            axis_taken_for_one_axis="(float[N,3,5,2] x) => (float[N,3,5,2] y) { y = Softmax <axis = 2> (x) }",
        ),
        upgraded(
            "Clip-6 to 11",
            6,
            f"{head} {{ y = Clip <min = -0.5, max = 0.25> (x) }}",
            f"{head} {{ l = Constant <value_float = -0.5> ()  h = Constant <value_float = 0.25> ()  y = Clip (x, l, h) }}",
            {},
            bounds_exchanged=f"{head} {{ l = Constant <value_float = -0.5> ()  h = Constant <value_float = 0.25> ()  y = Clip (x, h, l) }}",
            upper_bound_lost=f"{head} {{ l = Constant <value_float = -0.5> ()  y = Clip (x, l) }}",
        ),
        upgraded(
            "Pad-2 to 13",
            2,
            "(float[N,4,H,W] x) => (float[N,4,P,Q] y) { y = Pad <pads = [0,0,1,2,0,0,3,1]> (x) }",
            "(float[N,4,H,W] x) => (float[N,4,P,Q] y) { p = Constant <value_ints = [0,0,1,2,0,0,3,1]> ()  y = Pad (x, p) }",
            {},
            begins_and_ends_interleaved="(float[N,4,H,W] x) => (float[N,4,P,Q] y) { p = Constant <value_ints = [0,0,0,0,1,3,2,1]> ()  y = Pad (x, p) }",
            begins_and_ends_exchanged="(float[N,4,H,W] x) => (float[N,4,P,Q] y) { p = Constant <value_ints = [0,0,3,1,0,0,1,2]> ()  y = Pad (x, p) }",
        ),
    ]


def carriers() -> list[Rewrite]:
    """Operators that an affine must not pass without its condition."""
    zero_pad = "Pad (c, p)"
    pads = {"p": np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64)}
    padded = carried("Conv, zero Pad, BatchNormalization", zero_pad, "shift moved in front of the zeros")
    for proto in (padded.before, padded.after, *padded.wrong.values()):
        proto.graph.initializer.append(onnx.numpy_helper.from_array(pads["p"], "p"))
    return [
        carried(
            "Conv, MaxPool, BatchNormalization",
            "MaxPool <kernel_shape = [2,2]> (c)",
            "negative scale through a maximum",
        ),
        carried(
            "Conv, AveragePool, BatchNormalization",
            "AveragePool <kernel_shape = [3,3], pads = [1,1,1,1], count_include_pad = 1> (c)",
            "shift through an average that counts padding",
        ),
        carried("Conv, Relu, BatchNormalization", "Relu (c)", "negative scale through Relu"),
        padded,
    ]


def rewrites() -> list[Rewrite]:
    """All of them."""
    makers: list[Callable[[], Rewrite]] = [
        conv, conv_transpose, into_conv, into_padded_conv, gemm, matmul_transposed, left_matmul, two_norms, flatten_gemm,
        concat, add_arms, depth_to_space, quantized_weight, instance_norm, into_instance_norm, decomposed, half_overflow,
        half_underflow, shared_weight,
    ]  # fmt: skip
    return [*(maker() for maker in makers), *carriers(), *upgrades()]
