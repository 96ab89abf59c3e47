"""What an Add, a constant that nodes compute, a Constant node, another layout or another operator stands for."""

from __future__ import annotations

import numpy as np
import onnx

from tests.verification.faults.rewrite import BN, Rewrite
from tests.verification.graphs import Array, affine, along, model, numbers, single, statistics


def exchanged() -> Rewrite:
    """BatchNormalization → MaxPool → Conv that pads: the scale into the Conv, an Add of ``t/s`` behind the pooling."""
    rng = numbers(41)
    stats = statistics(rng, 3)
    stats["scale"] = np.abs(stats["scale"])
    kernel = single(rng.normal(size=(4, 3, 3, 3)))
    s, t = affine(stats)
    head, pool, conv = (
        "(float[N,3,8,6] x) => (float[N,4,4,3] y)",
        "MaxPool <kernel_shape = [2,2], strides = [2,2]>",
        ("Conv <pads = [1,1,1,1]>"),
    )
    before = model(
        f"{head} {{ n = {BN} (x, scale, B, mean, var)  p = {pool} (n)  y = {conv} (p, w) }}", {"w": kernel, **stats}
    )

    def after(factor: Array, shift: Array) -> onnx.ModelProto:
        weights = {"w": kernel * along(factor, 1, 4), "shift": shift.reshape(3, 1, 1)}
        return model(f"{head} {{ p = {pool} (x)  a = Add (p, shift)  y = {conv} (a, w) }}", weights)

    return Rewrite(
        "BatchNormalization as an Add behind MaxPool",
        before,
        after(s, t / s),
        {"shift not divided": after(s, t), "scale left out": after(np.ones(3), t / s)},
    )


def of_places() -> Rewrite:
    """Conv → Add of a constant for each place → BatchNormalization: the Add takes the scale and the shift."""
    rng = numbers(42)
    stats = statistics(rng, 4)
    kernel, places = single(rng.normal(size=(4, 3, 1, 1))), single(rng.normal(size=(5, 6)))
    s, t = (along(each, 0, 3) for each in affine(stats))
    head = "(float[N,3,5,6] x) => (float[N,4,5,6] y)"
    before = model(
        f"{head} {{ c = Conv (x, w)  a = Add (c, places)  y = {BN} (a, scale, B, mean, var) }}",
        {"w": kernel, "places": places, **stats},
    )

    def after(added: Array) -> onnx.ModelProto:
        weights = {"w": kernel * along(affine(stats)[0], 0, 4), "places": added}
        return model(f"{head} {{ c = Conv (x, w)  y = Add (c, places) }}", weights)

    return Rewrite(
        "Conv, Add of places, BatchNormalization",
        before,
        after(s * places + t),
        {"constant not scaled": after(places + t), "shift lost": after(s * places)},
    )


def computed_weight() -> Rewrite:
    """Weight normalisation in front of a Conv and its BatchNormalization, evaluated."""
    rng = numbers(43)
    stats = statistics(rng, 4)
    direction, gain = rng.normal(size=(4, 3, 2, 2)), rng.uniform(0.5, 2.0, (4, 1, 1, 1))
    s, t = affine(stats)
    head = "(float[N,3,6,5] x) => (float[N,4,5,4] y)"
    before = model(
        f"{head} {{ norm = ReduceL2 <axes = [1,2,3], keepdims = 1> (v)  u = Div (v, norm)  w = Mul (u, g)"
        f"  c = Conv (x, w)  y = {BN} (c, scale, B, mean, var) }}",
        {"v": single(direction), "g": single(gain), **stats},
    )

    def after(axes: tuple[int, ...], gained: Array) -> onnx.ModelProto:
        norm = np.sqrt(np.square(single(direction).astype(np.float64)).sum(axis=axes, keepdims=True))
        kernel = single(direction) / norm * single(gained) * along(s, 0, 4)
        return model(f"{head} {{ y = Conv (x, w, b) }}", {"w": kernel, "b": t})

    return Rewrite(
        "weight normalisation, Conv, BatchNormalization",
        before,
        after((1, 2, 3), gain),
        {"norm over other axes": after((0, 2, 3), gain), "gain left out": after((1, 2, 3), np.ones((4, 1, 1, 1)))},
    )


def channels_last() -> Rewrite:
    """Scale and shift in NHWC between Transposes, into the Conv in front."""
    rng = numbers(44)
    kernel, s, t = single(rng.normal(size=(4, 3, 2, 2))), single(rng.uniform(0.5, 2, 4)), single(rng.normal(size=4))
    head = "(float[N,3,5,5] x) => (float[N,4,4,4] y)"
    before = model(
        f"{head} {{ c = Conv (x, w)  h = Transpose <perm = [0,2,3,1]> (c)  m = Mul (h, s)  a = Add (m, t)"
        "  y = Transpose <perm = [0,3,1,2]> (a) }",
        {"w": kernel, "s": s, "t": t},
    )

    def after(weight: Array) -> onnx.ModelProto:
        return model(
            f"{head} {{ scaled = Conv (x, w, b)  last = Transpose <perm = [0,2,3,1]> (scaled)"
            "  y = Transpose <perm = [0,3,1,2]> (last) }",
            {"w": weight, "b": t},
        )

    return Rewrite(
        "Conv, scale and shift in NHWC",
        before,
        after(kernel * along(s, 0, 4)),
        {"scale left out": after(kernel), "channels in another order": after(kernel * along(s[::-1], 0, 4))},
    )


def instances() -> Rewrite:
    """InstanceNormalization that is written as a BatchNormalization in training mode."""
    rng = numbers(45)
    scale, shift = single(rng.normal(size=3)), single(rng.normal(size=3))
    sizes = {"one": np.array([1, 6, 4, 5]), "back": np.array([2, 3, 4, 5]), "m": np.zeros(6), "v": np.ones(6)}
    head = "(float[2,3,4,5] x) => (float[2,3,4,5] y)"
    before = model(
        f"{head} {{ r = Reshape (x, one)  n, rm, rv = BatchNormalization <epsilon = 0.5, training_mode = 1>"
        " (r, s, b, m, v)  y = Reshape (n, back) }",
        {"s": np.tile(scale, 2), "b": np.tile(shift, 2), **sizes},
        opset=15,
    )

    def after(factor: Array, epsilon: float = 0.5) -> onnx.ModelProto:
        text = f"{head} {{ y = InstanceNormalization <epsilon = {epsilon}> (x, s, b) }}"
        return model(text, {"s": factor, "b": shift}, opset=15)

    return Rewrite(
        "InstanceNormalization as training mode",
        before,
        after(scale),
        {"epsilon lost": after(scale, 1e-5), "channels in another order": after(scale[::-1])},
    )


def rewrites() -> list[Rewrite]:
    return [exchanged(), of_places(), computed_weight(), channels_last(), instances()]
