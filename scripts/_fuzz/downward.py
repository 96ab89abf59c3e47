"""Models to convert to a lower opset: refused, or right there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from _fuzz import legacy
from _fuzz.builder import Array, Builder, Drawn
from _fuzz.legacy_operators import LARGEST, TABLE
from _fuzz.operators import Draw

NEWEST_OF_TABLE = 15
"""Above this opset, operators have other forms than those of `_fuzz.legacy_operators`."""
OPSETS, LOWEST = (11, 11, 12, 13, 14, 15, 18), 7


def one_hot(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append a OneHot at an axis of its output, which has one axis more than its indices."""
    shape = x.shape[: int(b.rng.integers(1, 4))]
    indices = b.weight(b.rng.integers(0, 3, shape), "i")
    axis = int(b.rng.integers(-len(shape) - 1, len(shape) + 1))
    made = b.node("OneHot", [indices, b.weight(np.array([3], np.int64), "i"), b.weight(b.numbers([2]))], axis=axis)
    return b.node("Relu", [made[0].name])


def unsqueeze(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append an Unsqueeze at axes of its output, counted from the end."""
    rank = x.rank + 2
    axes = [int(axis) for axis in b.rng.choice(rank, 2, replace=False)]
    axes = [axis - rank if b.chance(0.7) else axis for axis in axes]
    return (
        b.node("Unsqueeze", [x.name, b.integers(axes)]) if b.opset >= 13 else b.node("Unsqueeze", [x.name], axes=axes)
    )


def from_the_end(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append an operator with an axis of its input, counted from the end."""
    axis = int(b.rng.integers(-x.rank, 0))
    op = b.pick(["Softmax", "LogSoftmax", "ArgMax", "Gather", "Concat", "Flatten", "Split"])
    if op == "Gather":
        return b.node(op, [x.name, b.integers([0])], axis=axis)
    if op == "Concat":
        return b.node(op, [x.name, x.name], axis=axis)
    return b.node(op, [x.name], axis=axis)


def squeeze(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append a reduction and a Squeeze of its axis, which both count from the end."""
    if b.opset >= 18:
        return None
    axes: dict[str, Any] = {"axes": [int(b.rng.integers(-x.rank, 0))]}
    made = b.node("ReduceMax", [x.name], **axes)[0]
    if b.opset < 13:
        return b.node("Squeeze", [made.name], **axes)
    return b.node("Squeeze", [made.name, b.integers(axes["axes"])])


def resize(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append a Resize with or without regions, which most modes do not read."""
    if x.rank != 4 or np.prod(x.shape) > LARGEST / 6:
        return None
    roi = b.pick(["", "", b.weight(np.zeros(0, np.float32), "roi")])
    how: dict[str, Any] = b.pick([
        {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
        {"coordinate_transformation_mode": "asymmetric", "mode": "linear"}, {},
    ])  # fmt: skip
    if b.chance(0.3):
        sizes = [*x.shape[:2], 2 * x.shape[2], 3 * x.shape[3]]
        return b.node("Resize", [x.name, roi, "", b.integers(sizes)], **how)
    return b.node("Resize", [x.name, roi, b.weight(np.array([1, 1, 2, 3], np.float32), "scales")], **how)


def has_element(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append an OptionalHasElement: of a tensor, which always has one, or of nothing."""
    if b.opset < 18:
        return None
    made = b.node("OptionalHasElement", b.pick([[x.name], [x.name], [], [""]]))
    return b.node("Cast", [made[0].name], to=TensorProto.FLOAT)


OWN: Sequence[Draw] = (one_hot, one_hot, unsqueeze, unsqueeze, resize, resize, from_the_end, squeeze, has_element)


def draw(seed: int) -> tuple[onnx.ModelProto, dict[str, Array], dict[str, Any]]:
    """Draw a model, its inputs, and the lower opset."""
    rng = np.random.default_rng([seed, 17])
    opset = int(rng.choice(OPSETS))
    b = legacy.Legacy(rng, opset=opset, dtype=TensorProto.FLOAT)
    shape = tuple(int(size) for size in rng.choice((2, 3, 4, 5, 6), int(rng.choice([1, 2, 3, 4, 4])), replace=False))
    b.inputs.append(Drawn(b.fresh("x"), b.dtype, shape))
    b.values.append(b.inputs[0])
    entries = OWN if opset > NEWEST_OF_TABLE or rng.random() < 0.7 else (*OWN, *TABLE)
    for _ in range(int(rng.integers(1, 4))):
        legacy.grow(b, entries)
    model = legacy.finished(b)
    feeds = {value.name: rng.standard_normal(value.shape).astype(np.float32) for value in b.inputs} | b.fed
    return model, feeds, {"target_opset": int(rng.integers(LOWEST, opset))}
