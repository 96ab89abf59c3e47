"""Operators that do nothing at the drawn sizes, and something at others: shapes that are nearly equal."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from fuzz.builder import Builder, Drawn

FAR = 2**31 - 1


def alike(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append one of the operators that can leave a value as it is."""
    if b.opset < 13 or not x.rank:
        return None
    b.leave_open(x, int(b.rng.integers(x.rank)))
    kinds = [
        _expand,
        _expand,
        _reshape,
        _reshape,
        _sizes,
        _sizes,
        _slice,
        _tile,
        _pad,
        _concat,
        _where,
        _places,
        _places,
        *[_resize] * (x.rank == 4),
    ]
    return b.pick(kinds)(b, x)  # type: ignore[no-any-return]


def _expand(b: Builder, x: Drawn) -> list[Drawn]:
    """Append an Expand to the value's own sizes; 1 has the same meaning, and so may fewer sizes."""
    sizes = [size if b.chance(0.7) else 1 for size in x.shape]
    return b.node("Expand", [x.name, b.integers(sizes[int(b.rng.integers(x.rank)) if b.chance(0.3) else 0 :])])


def _reshape(b: Builder, x: Drawn) -> list[Drawn]:
    """Append a Reshape to the value's own sizes, some copied, one perhaps open; or to them in another order."""
    if b.chance(0.3):
        return b.node("Reshape", [x.name, b.integers(x.shape[::-1])])
    target = [0 if b.chance(0.4) else size for size in x.shape]
    if b.chance(0.5):
        target[int(b.rng.integers(x.rank))] = -1
    return b.node("Reshape", [x.name, b.integers(target)])


def _sizes(b: Builder, x: Drawn) -> list[Drawn]:
    """Append a Reshape to sizes that are read one by one, of the value or of what is computed of it."""
    turned = b.node("Neg", [x.name])[0]
    parts = [_size(b, b.pick([x, turned]), axis) for axis in range(x.rank)]
    if all(x.shape) and b.chance(0.5):
        parts[int(b.rng.integers(x.rank))] = b.integers([-1])
    target = b.derive("Concat", parts, TensorProto.INT64, [x.rank], axis=0)
    row = b.node("Reshape", [turned.name, b.integers([-1])])[0] if b.chance(0.5) else turned
    allowed = {"allowzero": 1} if b.opset >= 14 and b.chance(0.5) else {}
    made = Drawn(b.derive("Reshape", [row.name, target], x.dtype, x.shape, **allowed), x.dtype, x.shape)
    b.values.append(made)
    return [made]


def _size(b: Builder, x: Drawn, axis: int) -> str:
    shape = b.derive("Shape", [x.name], TensorProto.INT64, [x.rank])
    return b.derive("Gather", [shape, b.integers([axis])], TensorProto.INT64, [1], axis=0)


def _slice(b: Builder, x: Drawn) -> list[Drawn]:
    """Append a Slice of everything, or two of parts, perhaps of one axis."""
    axis = int(b.rng.integers(x.rank))
    bounds = [b.pick([0, -x.shape[axis]]), b.pick([x.shape[axis], FAR]), axis]
    if b.chance(0.6):
        return b.node("Slice", [x.name, *(b.integers([bound]) for bound in bounds)])
    made = [x]
    for _ in range(2):
        axis = int(b.rng.integers(x.rank))
        bounds = [b.pick([0, 0, 1, -2]), b.pick([FAR, FAR, 2, 3, -1]), b.pick([axis, axis - x.rank]), b.pick([1, 1, 2])]
        made = b.node("Slice", [made[0].name, *(b.integers([bound]) for bound in bounds)])
    return made


def _tile(b: Builder, x: Drawn) -> list[Drawn]:
    return b.node("Tile", [x.name, b.integers([1] * x.rank)])


def _pad(b: Builder, x: Drawn) -> list[Drawn]:
    return b.node("Pad", [x.name, b.integers([0] * 2 * x.rank)])


def _concat(b: Builder, x: Drawn) -> list[Drawn]:
    """Append a Concat with an empty part."""
    axis = int(b.rng.integers(x.rank))
    shape = [0 if other == axis else size for other, size in enumerate(x.shape)]
    return b.node("Concat", [x.name, b.weight(b.numbers(shape))], axis=axis)


def _where(b: Builder, x: Drawn) -> list[Drawn]:
    """Append a Where with a stored condition that chooses one operand everywhere, or nearly."""
    shapes = [[size if b.chance(0.5) else 1 for size in x.shape[b.pick([0, 0, 1]) :]] for _ in range(2)]
    if b.chance(0.2):
        shapes[b.pick([0, 1])].insert(0, 2)
    chosen = np.full(shapes[0], b.chance(0.5))
    if b.chance(0.2) and chosen.size:
        chosen.flat[0] = not chosen.flat[0]
    operands = [x.name, b.weight(b.numbers(shapes[1]))]
    return b.node("Where", [b.weight(chosen), *(operands if b.chance(0.5) else operands[::-1])])


NEUTRAL = (("Add", 0), ("Sub", 0), ("Mul", 1), ("Div", 1))
CHANGING = (("Mul", 0), ("Sub", 1), ("Div", 2))


def _places(b: Builder, x: Drawn) -> list[Drawn]:
    """Append a Gather at places that are fed, or stored as floats, behind arithmetic that changes few or none."""
    axis = int(b.rng.integers(x.rank))
    numbers = b.rng.integers(0, x.shape[axis], 3)
    if b.chance(0.6):
        made = b.feed(numbers.astype(np.int64)).name
    else:
        stored = b.weight((numbers + b.pick([0, 0.5, -0.4])).astype(np.float32), "i")
        made = b.derive("Cast", [stored], TensorProto.INT64, (3,), to=TensorProto.INT64)
    one = b.weight(np.array(1), "i")
    steps = [b.pick(NEUTRAL) for _ in range(int(b.rng.integers(1, 4)))] + [b.pick(CHANGING)] * b.chance(0.3)
    for op, number in steps:
        dims = b.pick([(), (1,), (3,)])
        other = one if number == 1 and b.chance(0.5) else b.weight(np.full(dims, number), "i")
        swapped = op in ("Add", "Mul") and b.chance(0.5)
        made = b.derive(op, [other, made] if swapped else [made, other], TensorProto.INT64, (3,))
    shape = (*x.shape[:axis], 3, *x.shape[axis + 1 :])
    chosen = Drawn(b.derive("Gather", [x.name, made], x.dtype, shape, axis=axis), x.dtype, shape)
    b.values.append(chosen)
    return [chosen]


def _resize(b: Builder, x: Drawn) -> list[Drawn]:
    """Append a Resize to the value's own sizes, or by factors that hardly change it."""
    mode = {"mode": b.pick(["nearest", "linear"])}
    if b.chance(0.4):
        return b.node("Resize", [x.name, "", "", b.integers(x.shape)], **mode)
    factors = np.array([1, 1, *(b.pick([1, 1, 1.001, 1.1]) for _ in x.shape[2:])], np.float32)
    return b.node("Resize", [x.name, "", b.weight(factors, "scales")], **mode)


def two_open(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append two inputs, the one as small as 1, perhaps, and the other larger, and a result of both shapes."""
    if b.opset < 13 or not x.rank or x.rank > 4 or 0 in x.shape:
        return None
    narrow = tuple(1 if b.chance(0.4) else size for size in x.shape)
    y = b.feed(b.numbers(narrow))
    b.values.append(y)
    for value in (x, y):
        for axis in range(x.rank):
            b.leave_open(value, axis)
    kind = b.rng.random()
    if kind < 0.5:
        return b.node(b.pick(["Add", "Mul", "Sub", "Max"]), [x.name, y.name] if b.chance(0.5) else [y.name, x.name])
    shape = b.derive("Shape", [x.name], TensorProto.INT64, (x.rank,))
    source = y if kind < 0.8 else b.node("Mul", [y.name, x.name])[0]
    made = Drawn(b.derive("Expand", [source.name, shape], x.dtype, x.shape), x.dtype, x.shape)
    b.values.append(made)
    return [made]
