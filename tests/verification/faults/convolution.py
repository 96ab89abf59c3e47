"""Convolutions on either side of a BatchNormalization."""

from __future__ import annotations

import numpy as np
import onnx

from tests.verification.faults.rewrite import BN, Rewrite
from tests.verification.graphs import EPSILON, Array, affine, along, model, numbers, single, statistics


def conv() -> Rewrite:
    """Conv (2 groups, bias, padding) → BatchNormalization; each group square, so axes can be mixed up."""
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


def behind_padded_conv() -> Rewrite:
    """BatchNormalization with a zero scale → padded Conv of width 5: the shift is added behind, less at both ends."""
    rng = numbers(26)
    stats = statistics(rng, 3)
    stats["scale"] = stats["scale"] * np.array([1, 0, 1], np.float32)
    weight = single(rng.normal(size=(4, 3, 3)))
    s, t = affine(stats)
    head = "(float[N,3,5] x) => (float[N,4,5] y)"
    before = model(
        f"{head} {{ n = {BN} (x, scale, B, mean, var)  y = Conv <pads = [1,1]> (n, W) }}", {"W": weight, **stats}
    )
    taps = np.einsum("oik,i->ok", weight, t)
    inner = np.repeat(taps.sum(axis=1)[:, None], 5, axis=1)
    image, mirrored = inner.copy(), inner.copy()
    image[:, 0] -= taps[:, 0]
    image[:, -1] -= taps[:, 2]
    mirrored[:, 0] -= taps[:, 2]
    mirrored[:, -1] -= taps[:, 0]

    def after(shift: Array) -> onnx.ModelProto:
        return model(
            f"{head} {{ c = Conv <pads = [1,1]> (x, W)  y = Add (c, a) }}",
            {"W": weight * along(s, 1, 3), "a": shift[None]},
        )

    return Rewrite(
        "BatchNormalization with a zero scale, padded Conv",
        before,
        after(image),
        {"border as the inside": after(inner), "ends exchanged": after(mirrored)},
    )


def rewrites() -> list[Rewrite]:
    """All of this module."""
    return [conv(), conv_transpose(), into_conv(), into_padded_conv(), behind_padded_conv()]
