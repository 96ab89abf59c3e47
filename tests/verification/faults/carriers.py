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


def rewrites() -> list[Rewrite]:
    """All of this module."""
    return [depth_to_space(), *carriers()]
