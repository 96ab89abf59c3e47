"""Several producers or several readers."""

from __future__ import annotations

import numpy as np
import onnx

from tests.verification.faults.rewrite import BN, Rewrite
from tests.verification.graphs import Array, affine, along, model, numbers, single, statistics


def concat() -> Rewrite:
    """Concat of two Convs → BatchNormalization: each arm has its slice."""
    rng = numbers(9)
    stats = statistics(rng, 6)
    left, right = single(rng.normal(size=(3, 2, 1, 1))), single(rng.normal(size=(3, 2, 1, 1)))
    s, t = affine(stats)
    head = "(float[N,2,H,W] x) => (float[N,6,H,W] y)"
    before = model(
        f"{head} {{ p = Conv (x, V)  q = Conv (x, W)  c = Concat <axis = 1> (p, q)"
        f"  y = {BN} (c, scale, B, mean, var) }}",
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


def partial_concat() -> Rewrite:
    """Concat of a Conv and an input → BatchNormalization: a smaller one stays, on the input alone."""
    rng = numbers(23)
    stats = statistics(rng, 5)
    weight = single(rng.normal(size=(2, 3, 1, 1)))
    s, t = affine(stats)
    head = "(float[N,3,H,W] x) => (float[N,5,H,W] y)"
    before = model(
        f"{head} {{ p = Conv (x, V)  c = Concat <axis = 1> (p, x)  y = {BN} (c, scale, B, mean, var) }}",
        {"V": weight, **stats},
    )

    def after(kept: slice, factor: Array, parts: str = "p1, n") -> onnx.ModelProto:
        small = {name: array[kept] for name, array in stats.items()}
        weights = {"V": weight * along(factor, 0, 4), "a": t[:2], **small}
        return model(
            f"{head} {{ n = {BN} (x, scale, B, mean, var)  p1 = Conv (x, V, a)  y = Concat <axis = 1> ({parts}) }}",
            weights,
        )

    return Rewrite(
        "Concat of a Conv and an input, BatchNormalization",
        before,
        after(slice(2, 5), s[:2]),
        {
            "first channels kept": after(slice(0, 3), s[:2]),
            "other part not scaled": after(slice(2, 5), np.ones(2)),
            "part read as it was": after(slice(2, 5), s[:2], "p1, x"),
        },
    )


def rejoined() -> Rewrite:
    """Conv → Split → Concat in another order → BatchNormalization: every stretch goes back to where it came from."""
    rng = numbers(24)
    stats = statistics(rng, 6)
    weight = single(rng.normal(size=(6, 2, 1, 1)))
    s, t = affine(stats)
    head = "(float[N,2,H,W] x) => (float[N,6,H,W] y)"
    before = model(
        f"{head} {{ c = Conv (x, V)  p, q = Split <axis = 1> (c, cuts)  r = Concat <axis = 1> (q, p)"
        f"  y = {BN} (r, scale, B, mean, var) }}",
        {"V": weight, "cuts": np.array([2, 4]), **stats},
    )

    def after(order: Array, shifted: Array) -> onnx.ModelProto:
        return model(
            f"{head} {{ c1 = Conv (x, V, b)  p1, q1 = Split <axis = 1> (c1, cuts)  y = Concat <axis = 1> (q1, p1) }}",
            {"V": weight * along(s[order], 0, 4), "b": t[shifted], "cuts": np.array([2, 4])},
        )

    back, straight = np.array([4, 5, 0, 1, 2, 3]), np.arange(6)
    return Rewrite(
        "Conv, Split, Concat, BatchNormalization",
        before,
        after(back, back),
        {
            "order overlooked": after(straight, straight),
            "shift not moved back": after(back, straight),
            "one part's alone": after(back, np.array([4, 5, 4, 5, 4, 5])),
        },
    )


def both_operands() -> Rewrite:
    """BatchNormalization → its mean and itself, subtracted → Conv: the scale stays, the shift is gone."""
    rng = numbers(25)
    stats = statistics(rng, 3)
    weight = single(rng.normal(size=(4, 3, 1, 1)))
    s, t = affine(stats)
    head = "(float[N,3,H,W] x) => (float[N,4,H,W] y)"
    before = model(
        f"{head} {{ n = {BN} (x, scale, B, mean, var)  m = GlobalAveragePool (n)  d = Sub (m, n)  y = Conv (d, V) }}",
        {"V": weight, **stats},
    )

    def after(factor: Array, shift: Array) -> onnx.ModelProto:
        return model(
            f"{head} {{ m1 = GlobalAveragePool (x)  d1 = Sub (m1, x)  y = Conv (d1, V, b) }}",
            {"V": weight * along(factor, 1, 4), "b": weight[:, :, 0, 0] @ shift},
        )

    return Rewrite(
        "BatchNormalization, Sub of two branches, Conv",
        before,
        after(s, np.zeros(3)),
        {"shift of one branch": after(s, t), "both scales": after(s * s, np.zeros(3))},
    )


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


def other_reader() -> Rewrite:
    """Conv → BatchNormalization, and → Conv: the first takes the factors, the other reader their inverse."""
    rng = numbers(31)
    stats = statistics(rng, 3)
    first, second = single(rng.normal(size=(3, 2, 1, 1))), single(rng.normal(size=(4, 3, 1, 1)))
    s, t = affine(stats)
    head = "(float[N,2,H,W] x) => (float[N,3,H,W] y, float[N,4,H,W] z)"
    before = model(
        f"{head} {{ c = Conv (x, V)  y = {BN} (c, scale, B, mean, var)  z = Conv (c, W) }}",
        {"V": first, "W": second, **stats},
    )

    def after(factor: Array, shift: Array) -> onnx.ModelProto:
        weights = {
            "V": first * along(s, 0, 4),
            "a": t,
            "W": second * along(factor, 1, 4),
            "b": second[:, :, 0, 0] @ shift,
        }
        return model(f"{head} {{ y = Conv (x, V, a)  z = Conv (y, W, b) }}", weights)

    return Rewrite(
        "Conv, BatchNormalization, and another Conv that undoes it",
        before,
        after(1 / s, -t / s),
        {
            "other reader left as it was": after(np.ones(3), np.zeros(3)),
            "scale applied again instead of undone": after(s, -t / s),
            "shift not undone": after(1 / s, np.zeros(3)),
            "shift undone without the scale": after(1 / s, -t),
        },
        (("x",), ("y", "z")),
    )


def other_operand() -> Rewrite:
    """BatchNormalization → Add with a Conv → Conv: the other operand takes the inverse of the scale."""
    rng = numbers(32)
    stats = statistics(rng, 3)
    first, second = single(rng.normal(size=(3, 2, 1, 1))), single(rng.normal(size=(4, 3, 1, 1)))
    s, t = affine(stats)
    head = "(float[N,3,H,W] x, float[N,2,H,W] u) => (float[N,4,H,W] y)"
    before = model(
        f"{head} {{ n = {BN} (x, scale, B, mean, var)  c = Conv (u, V)  a = Add (n, c)  y = Conv (a, W) }}",
        {"V": first, "W": second, **stats},
    )

    def after(arm: Array, behind: Array = s) -> onnx.ModelProto:
        weights = {
            "V": first * along(arm, 0, 4),
            "W": second * along(behind, 1, 4),
            "b": second[:, :, 0, 0] @ t,
        }
        return model(f"{head} {{ c1 = Conv (u, V)  a1 = Add (x, c1)  y = Conv (a1, W, b) }}", weights)

    return Rewrite(
        "BatchNormalization, Add of a Conv that is rescaled, Conv",
        before,
        after(1 / s),
        {
            "other operand not rescaled": after(np.ones(3)),
            "other operand scaled too": after(s),
            "scale lost behind the sum": after(1 / s, np.ones(3)),
        },
        (("x", "u"), ("y",)),
    )


def rewrites() -> list[Rewrite]:
    """All of this module."""
    return [
        concat(),
        partial_concat(),
        rejoined(),
        add_arms(),
        both_operands(),
        shared_weight(),
        other_reader(),
        other_operand(),
    ]
