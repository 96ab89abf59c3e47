"""Two nodes in a row that one may stand for: bounds, casts, Concats, a reduction and its axes, a Pad and its Convs."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper

from fuzz.builder import Builder, Drawn


def pairs(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append two nodes in a row."""
    if b.opset < 13 or not x.rank:
        return None
    kinds = [_bounds, _bounds, _casts, _reduced, _expanded, _joined, *[_padded] * (2 * (x.rank > 2))]
    return b.pick(kinds)(b, x)  # type: ignore[no-any-return]


def _bounds(b: Builder, x: Drawn) -> list[Drawn]:
    made = [x]
    for _ in range(2):
        low, high = np.sort(b.numbers((2,), -1.0, 1.0)) if b.chance(0.9) else b.numbers((2,))
        kind = b.pick(["Relu", "Clip", "Clip", "Max", "Min"])
        dims = b.pick([(), (), (1,), (1,) * x.rank, (1,) * (x.rank + 1), x.shape[-1:]])
        value = made[0].name
        if kind == "Relu":
            made = b.node("Relu", [value])
        elif kind == "Clip":
            bounds = [b.weight(low) if b.chance(0.8) else "", *([b.weight(high)] if b.chance(0.7) else [])]
            made = b.node("Clip", [value, *bounds])
        else:
            bound = b.weight(np.full(dims, low if kind == "Max" else high))
            made = b.node(kind, [value, bound] if b.chance(0.5) else [bound, value])
    return made


def _casts(b: Builder, x: Drawn) -> list[Drawn]:
    """Append a Cast to another float, and one back or further; or a fill of another type."""
    kinds = [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16]
    if b.chance(0.3):
        shape = b.derive("Shape", [x.name], TensorProto.INT64, (x.rank,))
        fill = helper.make_tensor("fill", b.pick(kinds), [1], [b.pick([0.0, 1.0, 2.5, 0.1])])
        made = b.derive("ConstantOfShape", [shape], fill.data_type, x.shape, value=fill)
        return b.node("Add", [x.name, b.node("Cast", [made], to=x.dtype)[0].name])
    made = x.name
    for _ in range(int(b.rng.integers(1, 3))):
        to = b.pick(kinds)
        made = b.derive("Cast", [made], to, x.shape, to=to)
    like = b.opset >= 15 and b.chance(0.4)
    return b.node("CastLike", [made, x.name]) if like else b.node("Cast", [made], to=x.dtype)


def _reduced(b: Builder, x: Drawn) -> list[Drawn]:
    axes = sorted({int(axis) for axis in b.rng.integers(x.rank, size=2)})
    keeps = int(b.chance(0.5))
    named = axes if b.chance(0.5) else [axis - x.rank for axis in axes]
    kind = b.pick(["ReduceSum", "ReduceMax", "ReduceMean"])
    if kind == "ReduceSum" or b.opset >= 18:
        made = b.node(kind, [x.name, b.integers(named)], keepdims=keeps)
    else:
        made = b.node(kind, [x.name], axes=named, keepdims=keeps)
    other = axes if b.chance(0.7) else axes[:1]
    return b.node("Squeeze" if keeps else "Unsqueeze", [made[0].name, b.integers(other)])


def _expanded(b: Builder, x: Drawn) -> list[Drawn]:
    """Append an Expand of a smaller value to the shape of this one, before an operator that broadcasts."""
    narrow = b.weight(b.numbers([1 if b.chance(0.5) else size for size in x.shape][int(b.chance(0.3)) :]))
    if b.chance(0.5):
        target = b.derive("Shape", [x.name], TensorProto.INT64, (x.rank,))
        wide = b.derive("Expand", [b.node("Abs", [narrow])[0].name, target], x.dtype, x.shape)
    else:
        wide = b.node("Expand", [b.node("Abs", [narrow])[0].name, b.integers(x.shape)])[0].name
    return b.node(b.pick(["Add", "Mul", "Max"]), [x.name, wide] if b.chance(0.5) else [wide, x.name])


def _padded(b: Builder, x: Drawn) -> list[Drawn]:
    begins, ends = b.rng.integers(0, 3, size=(2, x.rank))
    for bounds in (begins, ends):
        bounds[: 2 if b.chance(0.9) else 1] = 0
    is_pooled = b.chance(0.3)
    fillings = [[], [b.weight(b.numbers((), 0, 0))], [b.weight(b.numbers(()))]]
    extra = [b.weight(np.full_like(b.numbers(()), -np.inf))] if is_pooled and b.chance(0.4) else b.pick(fillings)
    padded = b.node("Pad", [x.name, b.integers([*map(int, begins), *map(int, ends)]), *extra])[0]
    if is_pooled:
        window = [int(size) for size in b.rng.integers(2, 4, size=x.rank - 2)]
        kept: dict[str, Any] = {"kernel_shape": window, **({"strides": window} if b.chance(0.3) else {})}
        counted = b.pick([{}, {"count_include_pad": 1, "pads": [1] * 2 * (x.rank - 2)}, {"ceil_mode": 1}])
        kind, more = b.pick([("MaxPool", {}), ("AveragePool", counted)])
        return b.node(kind, [padded.name], **kept, **more)
    kernel = b.numbers([3, padded.shape[1], *b.rng.integers(1, 3, size=x.rank - 2)])
    spatial = x.rank - 2
    own = b.pick([{}, {"auto_pad": "VALID"}, {"auto_pad": "SAME_UPPER"}, {"pads": [1] * spatial + [0] * spatial}])
    if b.chance(0.4):  # something else reads what is padded, often another Conv
        more = {"strides": [2] * spatial} if b.chance(0.5) else {"auto_pad": "SAME_LOWER"} if b.chance(0.2) else {}
        b.node("Conv", [padded.name, b.weight(kernel)], **more) if b.chance(0.8) else b.node("Neg", [padded.name])
    return b.node("Conv", [padded.name, b.weight(kernel)], **own)


def _joined(b: Builder, x: Drawn) -> list[Drawn]:
    """Append a Concat of a Concat, along one axis or two; something else may read the first."""
    axis, other = (int(b.rng.integers(x.rank)) for _ in range(2))
    named = axis - x.rank if b.chance(0.5) else axis
    first = b.node("Concat", [x.name, b.node("Neg", [x.name])[0].name], axis=named)
    made = [x.name, first[0].name] if b.chance(0.5) else [first[0].name, x.name]
    if b.chance(0.3):
        b.node("Abs", [first[0].name])
    if b.chance(0.2):
        return b.node("Concat", [first[0].name, first[0].name], axis=other)
    return b.node("Concat", made, axis=axis)
