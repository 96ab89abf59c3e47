"""Operators between a Conv and its BatchNormalization."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import onnx

from tests.verification.faults.rewrite import BN, Rewrite
from tests.verification.graphs import Array, affine, along, model, numbers, single, statistics


def carried(
    name: str, carrier: str, fault: str, extra: Mapping[str, Array] = MappingProxyType({}), *, opset: int = 13
) -> Rewrite:
    """Conv → carrier → BatchNormalization, moved in front of a carrier that does not commute with it."""
    rng = numbers(11)
    stats = statistics(rng, 4)
    weight = single(rng.normal(size=(4, 3, 3, 3)))
    s, t = affine(stats)
    head = "(float[N,3,9,11] x) => (float[N,4,P,Q] y)"
    before = model(
        f"{head} {{ c = Conv (x, W)  d = {carrier}  y = {BN} (d, scale, B, mean, var) }}",
        {"W": weight, **stats, **extra},
        opset=opset,
    )
    kept = model(
        f"{head} {{ c = Conv (x, W)  d = {carrier}  m = Mul (d, s)  y = Add (m, t) }}",
        {"W": weight, "s": along(s, 0, 3), "t": along(t, 0, 3), **extra},
        opset=opset,
    )
    folded = {"W": weight * along(s, 0, 4), "b": t, **extra}
    wrong = model(f"{head} {{ c = Conv (x, W, b)  y = {carrier} }}", folded, opset=opset)
    return Rewrite(name, before, kept, {fault: wrong})


def carriers() -> list[Rewrite]:
    """Operators that an affine must not pass without its condition."""
    zero_pad = "Pad (c, p)"
    pads = {"p": np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64)}
    padded = carried("Conv, zero Pad, BatchNormalization", zero_pad, "shift moved in front of the zeros", pads)
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


def clip() -> Rewrite:
    """Conv → Clip → a negative factor and a shift for all channels: the bounds move, and change places."""
    weight = single(numbers(14).normal(size=(4, 3, 1, 1)))
    factor, shift = -1.75, 0.6
    head = "(float[N,3,H,W] x) => (float[N,4,H,W] y)"
    before = model(
        f"{head} {{ c = Conv (x, W)  d = Clip (c, low, high)  m = Mul (d, s)  y = Add (m, t) }}",
        {"W": weight, "low": np.array(-0.5), "high": np.array(1.25), "s": np.array(factor), "t": np.array(shift)},
    )

    def after(low: float, high: float) -> onnx.ModelProto:
        weights = {"W": weight * factor, "b": np.full(4, shift), "low": np.array(low), "high": np.array(high)}
        return model(f"{head} {{ c1 = Conv (x, W, b)  y = Clip (c1, low, high) }}", weights)

    low, high = factor * 1.25 + shift, factor * -0.5 + shift
    wrong = {
        "bounds left alone": after(-0.5, 1.25),
        "bounds not exchanged": after(high, low),
        "bounds not shifted": after(low - shift, high - shift),
        "lower bound lost": after(-1e9, high),
        "upper bound lost": after(low, 1e9),
    }
    return Rewrite("Conv, Clip, Mul, Add", before, after(low, high), wrong)


def rewrites() -> list[Rewrite]:
    """All of this module."""
    return [depth_to_space(), clip(), *carriers()]
