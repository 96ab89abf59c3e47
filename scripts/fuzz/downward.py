"""Models to convert to a lower opset: refused, or right there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from fuzz import legacy
from fuzz.builder import Array, Builder, Drawn
from fuzz.legacy_operators import LARGEST, TABLE
from fuzz.operators import Draw

NEWEST_OF_TABLE = 15
"""Above this opset, operators have other forms than those of `fuzz.legacy_operators`."""
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


def product_of_bytes(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append a QLinearConv or QLinearMatMul between integers of a byte; half the scales make ties."""
    if x.rank < 2 or min(x.shape) < 1:
        return None
    is_conv = x.rank > 2 and b.chance(0.6)
    channels = int(b.rng.integers(2, 5))
    shape = (channels, x.shape[1], *[1] * (x.rank - 2)) if is_conv else (x.shape[-1], channels)
    kinds = [b.pick([np.int8, np.uint8]) for _ in range(3)]
    zeros = [b.weight(np.array(b.rng.integers(0, 100), kind), "qz") for kind in kinds]
    has_ties, by_channel = b.chance(0.5), (channels,) if b.chance(0.4) else ()
    steps = [0.25, 0.125, 2.0] if has_ties else [0.03, 0.017, 0.9]
    scales = [
        b.weight(np.full(size, step, np.float32), "qs") for step, size in zip(steps, ((), by_channel, ()), strict=True)
    ]
    info = np.iinfo(kinds[1])
    weight = b.weight(b.rng.integers(info.min, info.max, shape).astype(kinds[1]), "qw")
    bias = [b.weight(b.rng.integers(-5000, 5000, channels).astype(np.int32), "qb")] * (is_conv and b.chance(0.5))
    if by_channel:
        zeros[1] = b.weight(np.zeros(channels, kinds[1]), "qz")
    (q,) = b.node("QuantizeLinear", [x.name, scales[0], zeros[0]])
    op_type = "QLinearConv" if is_conv else "QLinearMatMul"
    slots = [q.name, scales[0], zeros[0], weight, scales[1], zeros[1], scales[2], zeros[2], *bias]
    return b.node("DequantizeLinear", [b.node(op_type, slots)[0].name, scales[2], zeros[2]])


def optional_axis(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append an If that drops an axis of size 1, or does not; exporters of other frameworks ask for the size."""
    place = int(b.rng.integers(x.rank + 1))
    axes = b.integers([place]) if b.opset >= 13 else ""
    stated = b.node("Unsqueeze", [x.name, axes]) if axes else b.node("Unsqueeze", [x.name], axes=[place])
    (shape,) = b.node("Shape", [stated[0].name])
    (size,) = b.node("Gather", [shape.name, b.weight(np.array(place, np.int64), "i")])
    drops = b.chance(0.5)
    (condition,) = b.node("Equal", [size.name, b.weight(np.array(1 if drops else 2, np.int64), "i")])
    ends = [b.fresh("branch") for _ in range(2)]
    squeeze = helper.make_node("Squeeze", [stated[0].name, *filter(None, [axes])], ends[:1], name=b.fresh("in"))
    if not axes:
        squeeze.attribute.append(helper.make_attribute("axes", [place]))
    identity = helper.make_node("Identity", [stated[0].name], ends[1:], name=b.fresh("in"))
    then, other = (
        helper.make_graph([node], b.fresh("body"), [], [helper.make_tensor_value_info(end, x.dtype, None)])
        for node, end in zip((squeeze, identity), ends, strict=True)
    )
    name = b.fresh("v")
    b.nodes.append(helper.make_node("If", [condition.name], [name], then_branch=then, else_branch=other))
    b.values.append(Drawn(name, x.dtype, x.shape if drops else stated[0].shape))
    return [b.values[-1]]


OWN: Sequence[Draw] = (
    *(one_hot, one_hot, unsqueeze, unsqueeze, resize, resize, from_the_end, squeeze, has_element),
    *(product_of_bytes, product_of_bytes, optional_axis),
)


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
