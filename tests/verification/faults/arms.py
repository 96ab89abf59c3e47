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


def rewrites() -> list[Rewrite]:
    """All of this module."""
    return [concat(), partial_concat(), add_arms(), shared_weight()]
