"""Convolutions to draw: see `fuzz.operators`."""

from __future__ import annotations

from typing import Any

from fuzz.builder import Builder, Drawn


def conv(b: Builder, x: Drawn) -> list[Drawn] | None:
    if not 3 <= x.rank <= 5:
        return None
    spatial = x.rank - 2
    group = b.pick([divisor for divisor in range(1, x.shape[1] + 1) if x.shape[1] % divisor == 0])
    outputs = group * int(b.rng.integers(1, 4))
    kernel = [int(b.rng.integers(1, min(3, size) + 1)) for size in x.shape[2:]]
    attributes: dict[str, Any] = {"kernel_shape": kernel, "group": group}
    if b.chance(0.4):
        attributes["pads"] = [int(b.rng.integers(0, 2)) for _ in range(2 * spatial)]
    elif b.chance(0.3):
        attributes["auto_pad"] = b.pick(["SAME_UPPER", "SAME_LOWER", "VALID"])
    if b.chance(0.3):
        attributes["strides"] = [int(b.rng.integers(1, 3)) for _ in range(spatial)]
    inputs = [x.name, b.weight(b.numbers([outputs, x.shape[1] // group, *kernel]))]
    return b.node("Conv", inputs + bias(b, outputs), **attributes)


def conv_transpose(b: Builder, x: Drawn) -> list[Drawn] | None:
    if not 3 <= x.rank <= 4 or max(x.shape) > 16:
        return None
    spatial = x.rank - 2
    group = b.pick([divisor for divisor in range(1, x.shape[1] + 1) if x.shape[1] % divisor == 0])
    each = int(b.rng.integers(1, 4))
    kernel = [int(b.rng.integers(1, 4)) for _ in range(spatial)]
    attributes: dict[str, Any] = {"kernel_shape": kernel, "group": group}
    if b.chance(0.4):
        attributes["strides"] = [int(b.rng.integers(1, 3)) for _ in range(spatial)]
    inputs = [x.name, b.weight(b.numbers([x.shape[1], each, *kernel]))]
    return b.node("ConvTranspose", inputs + bias(b, group * each), **attributes)


def bias(b: Builder, size: int) -> list[str]:
    """Draw a bias, an empty name in its place, or None."""
    given = [b.weight(b.numbers([size]))]
    options: list[list[str]] = [[], [""], given, given]
    return options[int(b.rng.integers(len(options)))]
