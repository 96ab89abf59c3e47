"""InstanceNormalization in other forms: BatchNormalization in training mode, or a part of GroupNormalization."""

from __future__ import annotations

import numpy as np

from fuzz.builder import Builder, Drawn


def as_training(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append a BatchNormalization in training mode between two Reshapes: one row, with the images' channels in it."""
    if x.rank < 3 or 0 in x.shape or b.opset < 15:
        return None
    images, channels = x.shape[:2]
    rows = images * channels
    flat = b.node("Reshape", [x.name, b.integers([1, rows, *(x.shape[2:] if b.chance(0.6) else [-1])])])
    parameters = [np.tile(b.numbers([channels]), images) for _ in range(2)]
    if b.chance(0.15):  # then images have different ones
        parameters = [b.numbers([rows]) for _ in range(2)]
    running = [np.zeros(rows, parameters[0].dtype), np.ones(rows, parameters[0].dtype)]
    names = [b.weight(array, "bn") for array in [*parameters, *running]]
    made = b.node("BatchNormalization", [flat[0].name, *names], training_mode=1, epsilon=b.pick([1e-3, 0.1]))
    whole = [b.pick([images, -1]), *x.shape[1:]] if b.chance(0.8) else [rows, *x.shape[2:]]
    return b.node("Reshape", [made[0].name, b.integers(whole)])


def of_groups(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append Reshape, InstanceNormalization, Reshape, Mul, Add; now and then not quite a GroupNormalization."""
    if x.rank < 3 or 0 in x.shape:
        return None
    channels = x.shape[1]
    groups = b.pick([count for count in range(1, channels + 1) if channels % count == 0])
    rows = b.pick([0, x.shape[0]])
    if b.chance(0.1):  # then each image is a group as well
        groups, rows = x.shape[0] * channels, 1
    flat = b.node("Reshape", [x.name, b.integers([rows, groups, -1])])
    inner = [b.weight(b.numbers([groups])) for _ in range(2)]
    made = b.node("InstanceNormalization", [flat[0].name, *inner], epsilon=b.pick([1e-3, 0.1]))
    target = b.integers([*x.shape]) if b.chance(0.5) else b.derive("Shape", [x.name], 7, [x.rank])
    value = b.node("Reshape", [made[0].name, target])
    for op_type in ("Mul", "Add"):
        dims = [b.pick([1, channels, channels]), *[1] * (x.rank - 2)]
        if b.chance(0.1):
            dims[-1] = x.shape[-1]
        operands = [value[0].name, b.weight(b.numbers(dims))]
        value = b.node(op_type, operands[:: b.pick([1, -1])])
    return value
