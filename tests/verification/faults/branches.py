"""Branches of one value that become one convolution."""

from __future__ import annotations

import numpy as np
import onnx

from tests.verification.faults.rewrite import BN, Rewrite
from tests.verification.graphs import Array, affine, along, model, numbers, single, statistics

PADDED = "pads = [1,1,1,1]"


def placed(small: Array, at: tuple[int, int] = (1, 1)) -> Array:
    """A 1×1 kernel as a 3×3 one."""
    whole = np.zeros((*small.shape[:2], 3, 3))
    whole[:, :, at[0], at[1]] = small[:, :, 0, 0]
    return whole


def unit(factors: Array, group: int = 1, shift: int = 0) -> Array:
    """The 1×1 kernel that hands each channel on."""
    channels = factors.size
    inner = channels // group
    kernel = np.zeros((channels, inner, 1, 1))
    kernel[np.arange(channels), (np.arange(channels) + shift) % inner, 0, 0] = factors
    return kernel


def repvgg(group: int) -> Rewrite:
    """BN(Conv 3×3) + BN(Conv 1×1) + BN(x), one of them subtracted where there are groups."""
    rng, channels = numbers(50 + group), 4
    stats = [statistics(rng, channels) for _ in range(3)]
    wide, small = (single(rng.normal(size=(channels, channels // group, size, size))) for size in (3, 1))
    named = {f"{name}{index}": array for index, part in enumerate(stats) for name, array in part.items()}
    s, t = (list(each) for each in zip(*(affine(part) for part in stats), strict=True))
    op = "Add" if group == 1 else "Sub"
    if op == "Sub":
        s[2], t[2] = -s[2], -t[2]
    norms = [f"{BN} ({x}, scale{i}, B{i}, mean{i}, var{i})" for i, x in enumerate("cdx")]
    before = model(
        f"(float[N,4,H,W] x) => (float[N,4,P,Q] y) {{ c = Conv <group = {group}, {PADDED}> (x, V)  m = {norms[0]} "
        f"d = Conv <group = {group}> (x, W)  n = {norms[1]}  o = {norms[2]}  p = Add (m, n)  y = {op} (p, o) }}",
        {"V": wide, "W": small, **named},
    )
    parts = wide * along(s[0], 0, 4), small * along(s[1], 0, 4), unit(s[2], group)

    head = "(float[N,4,H,W] x) => (float[N,4,P,Q] y)"

    def after(kernel: Array, shift: Array, attributes: str = f"<group = {group}, {PADDED}>") -> onnx.ModelProto:
        return model(f"{head} {{ y = Conv {attributes} (x, V, b) }}", {"V": kernel, "b": shift})

    right, shift = parts[0] + placed(parts[1]) + placed(parts[2]), t[0] + t[1] + t[2]
    wrong = {
        "1x1 kernel in the corner": after(parts[0] + placed(parts[1], (0, 0)) + placed(parts[2]), shift),
        "1x1 kernel not scaled": after(parts[0] + placed(small) + placed(parts[2]), shift),
        "a branch left out": after(parts[0] + placed(parts[2]), shift),
        "the value itself left out": after(right - placed(parts[2]), shift),
        "the value itself on all taps": after(right + parts[2] - placed(parts[2]), shift),
        "the value itself beside the centre": after(right + placed(parts[2], (1, 2)) - placed(parts[2]), shift),
        "the value itself not normalised": after(right - placed(parts[2]) + placed(unit(np.ones(4), group)), shift),
        "its sign turned": after(right - 2 * placed(parts[2]), shift),
        "channels of the value mixed up": after(
            right - placed(parts[2]) + placed(unit(s[2], group, 1)), shift
        ),
        "shift of one branch lost": after(right, t[0] + t[1]),
        "shift of one branch twice": after(right, shift + t[2]),
        "branches added without their factors": after(wide + placed(small) + placed(parts[2]), shift),
        "padding of the smaller one": after(right, shift, f"<group = {group}>"),
    }  # fmt: skip
    name = f"BN(Conv 3x3) + BN(Conv 1x1) {'+' if group == 1 else '-'} BN(x), {group} groups"
    return Rewrite(name, before, after(right, shift), wrong)


def dilated() -> Rewrite:
    """A dilated Conv + a shorter one whose taps fall on its last."""
    rng = numbers(53)
    stats = statistics(rng, 5)
    wide, small = (single(rng.normal(size=(5, 3, size, 2))) for size in (3, 2))
    s, t = affine(stats)
    head = "(float[N,3,H,W] x) => (float[N,5,P,Q] y)"
    attributes = "dilations = [2,1], strides = [2,1], pads = "
    before = model(
        f"{head} {{ c = Conv <{attributes}[4,1,4,0]> (x, V)  d = Conv <{attributes}[2,1,4,0]> (x, W)  e = Sum (c, d) "
        f"y = {BN} (e, scale, B, mean, var) }}",
        {"V": wide, "W": small, **stats},
    )

    def after(at: int, pads: str = "[4,1,4,0]", extra: str = attributes) -> onnx.ModelProto:
        whole = wide.astype(np.float64)
        whole[:, :, at : at + 2] += small
        return model(f"{head} {{ y = Conv <{extra}{pads}> (x, V, b) }}", {"V": whole * along(s, 0, 4), "b": t})

    wrong = {
        "taps on the first": after(0),
        "pads of the shorter one": after(1, "[2,1,4,0]"),
        "dilations lost": after(1, "[3,1,3,0]", "strides = [2,1], pads = "),
    }  # fmt: skip
    return Rewrite("Conv + shorter Conv, dilated", before, after(1), wrong)


def rewrites() -> list[Rewrite]:
    return [repvgg(1), repvgg(2), dilated()]
