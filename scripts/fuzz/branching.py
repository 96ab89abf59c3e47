"""Convolutions of one value that are added up, as in networks in training form."""

from __future__ import annotations

from typing import Any

from fuzz.builder import Builder, Drawn


def parallel(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Add up two to four convolutions, mostly normalised, and perhaps the value; most sums are one convolution."""
    if not 3 <= x.rank <= 5 or min(x.shape) < 1:
        return None
    group = b.pick([divisor for divisor in range(1, x.shape[1] + 1) if x.shape[1] % divisor == 0])
    keeps = b.chance(0.6)
    outputs = x.shape[1] if keeps else group * int(b.rng.integers(1, 4))
    largest = _window(b, x.rank - 2, keeps=keeps)
    windows = [largest, *(_inside(b, largest, keeps=keeps) for _ in range(int(b.rng.integers(1, 3))))]
    made = []
    for window in windows:
        rows = group if b.chance(0.95) else 1
        shape = [outputs, x.shape[1] // rows, *window["kernel_shape"]]
        bias = [b.weight(b.numbers([outputs]))] if b.chance(0.5) else []
        made += b.node("Conv", [x.name, b.weight(b.numbers(shape)), *bias], group=rows, **window)
    summands = [_normalised(b, value) if b.chance(0.7) else value for value in made]
    summands += [_normalised(b, x) if b.chance(0.7) else x for _ in range(int(keeps) * int(b.rng.integers(3)))]
    if b.chance(0.1):
        summands.append(b.pick(summands))
    total = [summands[index] for index in b.rng.permutation(len(summands))]
    if b.chance(0.2):
        return b.node("Sum", [value.name for value in total])
    while len(total) > 1:
        one, two = total.pop(), total.pop(int(b.rng.integers(len(total))))
        total += b.node(b.pick(["Add", "Add", "Add", "Sub"]), [one.name, two.name])
    return total


def _normalised(b: Builder, x: Drawn) -> Drawn:
    channels = x.shape[1]
    if b.chance(0.15):
        return b.node("Mul", [x.name, b.weight(b.numbers([channels, *[1] * (x.rank - 2)]))])[0]
    arrays = [*(b.numbers([channels]) for _ in range(3)), b.numbers([channels], 0.5, 2.0)]
    return b.node("BatchNormalization", [x.name, *(b.weight(array, "bn") for array in arrays)])[0]


def _window(b: Builder, rank: int, *, keeps: bool) -> dict[str, Any]:
    """Draw the largest window; with ``keeps`` it has as many outputs as inputs along every axis."""
    taps = [int(b.rng.integers(1, 4)) for _ in range(rank)]
    steps = [int(b.rng.integers(1, 3)) for _ in range(rank)]
    window: dict[str, Any] = {"kernel_shape": taps}
    if keeps and b.chance(0.2):
        return window | {"auto_pad": b.pick(["SAME_UPPER", "SAME_LOWER"])}
    around = [(size - 1) * step for size, step in zip(taps, steps, strict=True)]
    if keeps:
        first = [step * int(b.rng.integers(size)) for size, step in zip(taps, steps, strict=True)]
        last = [size - before for size, before in zip(around, first, strict=True)]
    else:
        first, last = ([size + int(b.rng.integers(2)) for size in around] for _ in range(2))
        window["strides"] = [int(b.rng.integers(1, 3)) for _ in range(rank)]
    return window | {"dilations": steps, "pads": [*first, *last]}


def _inside(b: Builder, largest: dict[str, Any], *, keeps: bool) -> dict[str, Any]:
    """Draw a window inside the largest, of the same outputs; now and then one beside it, or with other dilations."""
    if "pads" not in largest:
        return largest | {"kernel_shape": [1] * len(largest["kernel_shape"])} if b.chance(0.7) else dict(largest)
    taps, steps, pads = largest["kernel_shape"], largest["dilations"], largest["pads"]
    rank, chosen = len(taps), {"kernel_shape": [], "dilations": [], "pads": [0] * 2 * len(taps)}
    for axis, (size, step) in enumerate(zip(taps, steps, strict=True)):
        first, last = pads[axis], pads[rank + axis]
        at = first // step if keeps else int(b.rng.integers(size))
        few = 1 if keeps else int(b.rng.integers(1, size - at + 1))
        before, after = first - at * step, last - (size - at - few) * step
        if min(before, after) < 0:
            at, few, before, after = 0, size, first, last
        if b.chance(0.05) and before:
            before, after = before - 1, after + 1
        chosen["kernel_shape"].append(few)
        chosen["dilations"].append(step if few > 1 or b.chance(0.5) else 1)
        chosen["pads"][axis], chosen["pads"][rank + axis] = before, after
    return largest | chosen
