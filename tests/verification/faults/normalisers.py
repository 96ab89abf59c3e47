"""BatchNormalization beside a normaliser, or spelled out."""

from __future__ import annotations

import numpy as np
import onnx

from tests.verification.faults.rewrite import BN, Rewrite
from tests.verification.graphs import EPSILON, Array, affine, along, model, numbers, single, statistics


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


def dead_bias() -> Rewrite:
    """Conv → Mul by a constant → InstanceNormalization: the mean takes the bias along, but not the Mul."""
    rng = numbers(21)
    gamma, beta, bias = single(rng.uniform(0.5, 1.5, 4)), single(rng.normal(size=4)), single(rng.normal(size=4))
    factor, kernel = along(single(rng.uniform(0.05, 0.1, 4)), 0, 3), single(rng.normal(size=(4, 3, 2, 2)))
    head = "(float[N,3,H,W] x) => (float[N,4,H,W] y)"
    weights = {"W": kernel, "f": factor, "g": gamma, "b": beta}
    before = model(
        f"{head} {{ c = Conv (x, W, B)  m = Mul (c, f)  y = InstanceNormalization (m, g, b) }}", {**weights, "B": bias}
    )
    return Rewrite(
        "Conv with bias, Mul, InstanceNormalization",
        before,
        model(f"{head} {{ c1 = Conv (x, W)  m1 = Mul (c1, f)  y = InstanceNormalization (m1, g, b) }}", weights),
        {
            "bias of the normaliser dropped": model(
                f"{head} {{ c1 = Conv (x, W)  m1 = Mul (c1, f)  y = InstanceNormalization (m1, g, z) }}",
                {**{k: v for k, v in weights.items() if k != "b"}, "z": np.zeros(4, np.float32)},
            ),
            "Mul thought dead": model(
                f"{head} {{ c1 = Conv (x, W)  y = InstanceNormalization (c1, g, b) }}",
                {k: v for k, v in weights.items() if k != "f"},
            ),
        },
    )


def dead_bias_that_counts() -> Rewrite:
    """Conv → Relu → InstanceNormalization beside Conv → InstanceNormalization: one of the two biases is dead."""
    rng = numbers(22)
    gamma, beta = single(rng.uniform(0.5, 1.5, 4)), single(rng.normal(size=4))
    kernel, bias = single(rng.normal(size=(4, 3, 2, 2))), single(rng.normal(size=4))
    head = "(float[N,3,H,W] x) => (float[N,4,H,W] y, float[N,4,H,W] z)"
    weights = {"W": kernel, "g": gamma, "b": beta, "B": bias}
    tail = "r = Relu (c)  y = InstanceNormalization (r, g, b)"
    before = model(
        f"{head} {{ c = Conv (x, W, B)  {tail}  d = Conv (x, W, B)  z = InstanceNormalization (d, g, b) }}", weights
    )
    right = model(
        f"{head} {{ c = Conv (x, W, B)  {tail}  d1 = Conv (x, W)  z = InstanceNormalization (d1, g, b) }}", weights
    )
    wrong = model(
        f"{head} {{ c1 = Conv (x, W)  r1 = Relu (c1)  y = InstanceNormalization (r1, g, b)"
        f"  d = Conv (x, W, B)  z = InstanceNormalization (d, g, b) }}",
        weights,
    )
    return Rewrite(
        "two Convs with bias, InstanceNormalization",
        before,
        right,
        {"bias before the Relu dropped": wrong},
        (("x",), ("y", "z")),
    )


def decomposed() -> Rewrite:
    """A BatchNormalization spelled out."""
    rng = numbers(16)
    stats = statistics(rng, 5)
    s, t = affine(stats)
    head = "(float[N,5,L] x) => (float[N,5,L] y)"
    before = model(f"{head} {{ y = {BN} (x, scale, B, mean, var) }}", stats)
    swap = "Transpose <perm = [0,2,1]>"
    weights = {"s": along(s, 0, 2), "t": along(t, 0, 2)}
    return Rewrite(
        "BatchNormalization as Mul, Add",
        before,
        model(f"{head} {{ m = Mul (x, s)  y = Add (m, t) }}", weights),
        {
            "Add before Mul": model(f"{head} {{ m = Add (x, t)  y = Mul (m, s) }}", weights),
            "Sub for Add": model(f"{head} {{ m = Mul (x, s)  y = Sub (m, t) }}", weights),
            "along the last axis": model(
                f"{head} {{ r = {swap} (x)  m = Mul (r, s)  a = Add (m, t)  y = {swap} (a) }}",
                {"s": s[::-1], "t": t},
            ),
        },
    )


def rewrites() -> list[Rewrite]:
    """All of this module."""
    return [two_norms(), instance_norm(), into_instance_norm(), dead_bias(), dead_bias_that_counts(), decomposed()]
