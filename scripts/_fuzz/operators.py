"""The table of operators to draw from: each entry appends a legal node for a value, or answers None."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from _fuzz.builder import Builder, Drawn

Draw = Callable[[Builder, Drawn], "list[Drawn] | None"]


def batchnorm(b: Builder, x: Drawn) -> list[Drawn] | None:
    if x.rank < 2:
        return None
    channels = x.shape[1]
    scale = b.numbers([channels])
    kind = b.rng.random()
    if kind < 0.4:
        scale = abs(scale) + scale.dtype.type(0.25)
    elif kind < 0.5:
        scale[int(b.rng.integers(channels))] = 0
    shift = b.numbers([channels]) * (0 if b.chance(0.1) else 1)
    arrays = [scale, shift, b.numbers([channels]), b.numbers([channels], 0.5, 2.0)]
    return b.node(
        "BatchNormalization", [x.name, *(b.weight(array, "bn") for array in arrays)], epsilon=b.pick([1e-5, 1e-3])
    )


def conv(b: Builder, x: Drawn) -> list[Drawn] | None:
    if not 3 <= x.rank <= 5:
        return None
    spatial = x.rank - 2
    group = b.pick([divisor for divisor in range(1, x.shape[1] + 1) if x.shape[1] % divisor == 0])
    outputs = group * int(b.rng.integers(1, 4))
    kernel = [int(b.rng.integers(1, min(3, size) + 1)) for size in x.shape[2:]]
    attributes: dict[str, object] = {"kernel_shape": kernel, "group": group}
    if b.chance(0.4):
        attributes["pads"] = [int(b.rng.integers(0, 2)) for _ in range(2 * spatial)]
    elif b.chance(0.3):
        attributes["auto_pad"] = b.pick(["SAME_UPPER", "SAME_LOWER", "VALID"])
    if b.chance(0.3):
        attributes["strides"] = [int(b.rng.integers(1, 3)) for _ in range(spatial)]
    inputs = [x.name, b.weight(b.numbers([outputs, x.shape[1] // group, *kernel]))]
    return b.node("Conv", inputs + _bias(b, outputs), **attributes)


def conv_transpose(b: Builder, x: Drawn) -> list[Drawn] | None:
    if not 3 <= x.rank <= 4 or max(x.shape) > 16:
        return None
    spatial = x.rank - 2
    group = b.pick([divisor for divisor in range(1, x.shape[1] + 1) if x.shape[1] % divisor == 0])
    each = int(b.rng.integers(1, 4))
    kernel = [int(b.rng.integers(1, 4)) for _ in range(spatial)]
    attributes: dict[str, object] = {"kernel_shape": kernel, "group": group}
    if b.chance(0.4):
        attributes["strides"] = [int(b.rng.integers(1, 3)) for _ in range(spatial)]
    inputs = [x.name, b.weight(b.numbers([x.shape[1], each, *kernel]))]
    return b.node("ConvTranspose", inputs + _bias(b, group * each), **attributes)


def _bias(b: Builder, size: int) -> list[str]:
    return b.pick([[], [""], [b.weight(b.numbers([size]))], [b.weight(b.numbers([size]))]])


def gemm(b: Builder, x: Drawn) -> list[Drawn] | None:
    if x.rank != 2:
        return None
    trans_a, trans_b = int(b.chance(0.2)), int(b.chance(0.5))
    rows, inner = (x.shape[1], x.shape[0]) if trans_a else x.shape
    columns = int(b.rng.integers(2, 8))
    matrix = b.numbers([columns, inner] if trans_b else [inner, columns])
    shapes = [[], [1], [columns], [1, columns], [rows, 1], [rows, columns]]
    c = b.pick([[], [""], *([b.weight(b.numbers(shape))] for shape in shapes)])
    attributes = {"alpha": 0.5} if b.chance(0.3) else {}
    if b.chance(0.3):
        attributes["beta"] = 2.0
    return b.node("Gemm", [x.name, b.weight(matrix), *c], transA=trans_a, transB=trans_b, **attributes)


def matmul(b: Builder, x: Drawn) -> list[Drawn] | None:
    if x.rank < 2:
        return None
    columns = int(b.rng.integers(2, 8))
    if b.chance(0.3):
        return b.node("MatMul", [b.weight(b.numbers([columns, x.shape[-2]])), x.name])
    stack = [x.shape[0]] if x.rank == 3 and b.chance(0.3) else []
    return b.node("MatMul", [x.name, b.weight(b.numbers([*stack, x.shape[-1], columns]))])


def arithmetic(b: Builder, x: Drawn) -> list[Drawn] | None:
    op = b.pick(["Mul", "Add", "Sub", "Div", "Neg"])
    if op == "Neg":
        return b.node("Neg", [x.name])
    shape = [size if b.chance(0.4) else 1 for size in x.shape]
    constant = b.numbers(shape[int(b.rng.integers(0, x.rank + 1)) :], 0.5, 2.0) * b.pick([1, -1])
    operands = [x.name, b.weight(constant)]
    return b.node(op, operands[::-1] if b.chance(0.4) else operands)


def unary(b: Builder, x: Drawn) -> list[Drawn] | None:
    op = b.pick(["Relu", "Relu", "LeakyRelu", "Abs", "PRelu", "Identity", "Dropout", "Sigmoid", "Cast"])
    if op == "PRelu":
        return b.node("PRelu", [x.name, b.weight(b.numbers([x.shape[1], *[1] * (x.rank - 2)] if x.rank > 1 else [1]))])
    if op == "Cast":
        return b.node("Cast", [x.name], to=x.dtype)
    return b.node(op, [x.name])


def transpose(b: Builder, x: Drawn) -> list[Drawn] | None:
    if x.rank < 2:
        return None
    return b.node("Transpose", [x.name], perm=[int(axis) for axis in b.rng.permutation(x.rank)])


def flatten(b: Builder, x: Drawn) -> list[Drawn] | None:
    return b.node("Flatten", [x.name], axis=int(b.rng.integers(0, x.rank + 1)))


def reshape(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Axes merged or cut in two, sometimes copied by 0 or left open by −1."""
    dims = list(x.shape)
    axis = int(b.rng.integers(len(dims)))
    if b.chance(0.5) and axis + 1 < len(dims):
        dims[axis : axis + 2] = [dims[axis] * dims[axis + 1]]
    else:
        divisors = [size for size in range(1, dims[axis] + 1) if dims[axis] % size == 0]
        first = b.pick(divisors)
        dims[axis : axis + 1] = [first, dims[axis] // first]
    if len(dims) > 5:
        return None
    if b.chance(0.5):
        dims[int(b.rng.integers(len(dims)))] = -1
    elif b.chance(0.3) and dims[0] == x.shape[0]:
        dims[0] = 0
    return b.node("Reshape", [x.name, b.integers(dims)])


def squeeze(b: Builder, x: Drawn) -> list[Drawn] | None:
    ones = [axis for axis, size in enumerate(x.shape) if size == 1]
    if not ones or x.rank < 2:
        return None
    return b.node("Squeeze", [x.name, b.integers([b.pick(ones)])])


def unsqueeze(b: Builder, x: Drawn) -> list[Drawn] | None:
    if x.rank > 4:
        return None
    return b.node("Unsqueeze", [x.name, b.integers([int(b.rng.integers(-x.rank - 1, x.rank + 1))])])


def pool(b: Builder, x: Drawn) -> list[Drawn] | None:
    if not 3 <= x.rank <= 4:
        return None
    op = b.pick(["AveragePool", "MaxPool", "GlobalAveragePool", "GlobalMaxPool"])
    if op.startswith("Global"):
        return b.node(op, [x.name])
    if min(x.shape[2:]) < 2:
        return None
    attributes: dict[str, object] = {"kernel_shape": [2] * (x.rank - 2)}
    if b.chance(0.4):
        attributes["pads"] = [int(b.rng.integers(0, 2)) for _ in range(2 * (x.rank - 2))]
    if op == "AveragePool" and b.chance(0.4):
        attributes["count_include_pad"] = 1
    if b.chance(0.3):
        attributes["strides"] = [2] * (x.rank - 2)
    return b.node(op, [x.name], **attributes)


def reduce(b: Builder, x: Drawn) -> list[Drawn] | None:
    if x.rank < 2:
        return None
    op = b.pick(["ReduceMean", "ReduceMax", "ReduceSum", "ReduceMin"])
    axes = sorted(int(axis) for axis in b.rng.choice(x.rank, int(b.rng.integers(1, x.rank)), replace=False))
    axes = [axis - x.rank if b.chance(0.3) else axis for axis in axes]
    keepdims = int(b.chance(0.5))
    if b.opset < 18 and op != "ReduceSum":
        return b.node(op, [x.name], axes=axes, keepdims=keepdims)
    return b.node(op, [x.name, b.integers(axes)], keepdims=keepdims)


def concat(b: Builder, x: Drawn) -> list[Drawn] | None:
    axis = int(b.rng.integers(x.rank))
    fitting = [
        other
        for other in b.values
        if other.rank == x.rank
        and all(a == c for i, (a, c) in enumerate(zip(x.shape, other.shape, strict=True)) if i != axis)
    ]
    parts = [x.name, *(b.pick(fitting).name for _ in range(int(b.rng.integers(1, 3))))]
    if b.chance(0.2):
        shape = list(x.shape)
        shape[axis] = 2
        parts.append(b.weight(b.numbers(shape)))
    order = b.rng.permutation(len(parts))
    return b.node("Concat", [parts[index] for index in order], axis=axis - x.rank if b.chance(0.3) else axis)


def merge(b: Builder, x: Drawn) -> list[Drawn] | None:
    fitting = [other for other in b.values if _broadcasts(other.shape, x.shape)]
    op = b.pick(["Add", "Add", "Sub", "Mul", "Sum", "Mean", "Max", "Min"])
    others = [b.pick(fitting).name for _ in range(1 if op in ("Add", "Sub", "Mul") else int(b.rng.integers(1, 3)))]
    if op in ("Sum", "Max", "Min", "Mean") and b.chance(0.4):
        others.append(b.weight(b.numbers(b.pick([[], x.shape[-1:], x.shape]))))
    parts = [x.name, *others]
    order = b.rng.permutation(len(parts))
    return b.node(op, [parts[index] for index in order])


def _broadcasts(small: tuple[int, ...], large: tuple[int, ...]) -> bool:
    return len(small) <= len(large) and all(a in (1, c) for a, c in zip(small[::-1], large[::-1], strict=False))


def split(b: Builder, x: Drawn) -> list[Drawn] | None:
    axes = [axis for axis, size in enumerate(x.shape) if size > 1]
    if not axes:
        return None
    axis = b.pick(axes)
    first = int(b.rng.integers(1, x.shape[axis]))
    sizes = [first, x.shape[axis] - first]
    return b.node("Split", [x.name, b.integers(sizes)], outputs=2, axis=axis)


def pick(b: Builder, x: Drawn) -> list[Drawn] | None:
    axis = int(b.rng.integers(x.rank))
    size = x.shape[axis]
    if b.chance(0.5):
        indices = np.asarray(b.rng.integers(-size, size, b.pick([[3], [2, 2], []])))
        return b.node("Gather", [x.name, b.weight(indices.astype(np.int64), "i")], axis=axis) if x.rank < 5 else None
    start = int(b.rng.integers(size))
    if b.chance(0.3):
        bounds = [[start], [-(2**40)], [axis], [-1]]
    else:
        bounds = [[start], [b.pick([size, 2**40, start + 1])], [axis], [b.pick([1, 2])]]
    return b.node("Slice", [x.name, *(b.integers(bound) for bound in bounds)])


def repeat(b: Builder, x: Drawn) -> list[Drawn] | None:
    if np.prod(x.shape) > 2000:
        return None
    if b.chance(0.5):
        return b.node("Tile", [x.name, b.integers([int(b.rng.integers(1, 3)) for _ in x.shape])])
    shape = [size if size > 1 else int(b.rng.integers(1, 4)) for size in x.shape]
    return b.node("Expand", [x.name, b.integers(([2] if b.chance(0.2) and x.rank < 5 else []) + shape)])


def space(b: Builder, x: Drawn) -> list[Drawn] | None:
    if x.rank != 4:
        return None
    if x.shape[1] % 4 == 0:
        return b.node("DepthToSpace", [x.name], blocksize=2, mode=b.pick(["DCR", "CRD"]))
    if x.shape[2] % 2 == 0 and x.shape[3] % 2 == 0:
        return b.node("SpaceToDepth", [x.name], blocksize=2)
    return None


def pad(b: Builder, x: Drawn) -> list[Drawn] | None:
    amounts = [int(b.rng.integers(0, 2)) if axis >= 1 and b.chance(0.4) else 0 for axis in [*range(x.rank)] * 2]
    mode = b.pick(
        ["constant", "constant", "reflect", "edge", "wrap"] if b.opset >= 19 else ["constant", "reflect", "edge"]
    )
    if mode == "reflect" and min(x.shape) < 2:
        return None
    extra = [b.weight(b.numbers([]))] if mode == "constant" and b.chance(0.4) else []
    return b.node("Pad", [x.name, b.integers(amounts), *extra], mode=mode)


def resize(b: Builder, x: Drawn) -> list[Drawn] | None:
    if x.rank != 4 or np.prod(x.shape) > 2000:
        return None
    scales = np.array([1, 1, *(b.pick([1, 2]) for _ in x.shape[2:])], np.float32)
    if b.chance(0.1):
        scales[1] = 2
    mode = b.pick(["nearest", "linear"])
    return b.node("Resize", [x.name, "", b.weight(scales, "scales")], mode=mode)


def normaliser(b: Builder, x: Drawn) -> list[Drawn] | None:
    if x.rank < 3:
        return None
    if b.chance(0.5):
        axis = int(b.rng.integers(1, x.rank))
        dims = x.shape[axis:]
        extra = [b.weight(b.numbers(dims))] if b.chance(0.6) else []
        return b.node("LayerNormalization", [x.name, b.weight(b.numbers(dims)), *extra], axis=axis)
    size = [x.shape[1]]
    return b.node("InstanceNormalization", [x.name, b.weight(b.numbers(size)), b.weight(b.numbers(size))])


TABLE: tuple[tuple[Draw, float], ...] = (
    (batchnorm, 9.0),
    (conv, 5.0),
    (conv_transpose, 1.5),
    (gemm, 3.0),
    (matmul, 2.5),
    (arithmetic, 2.0),
    (unary, 2.0),
    (transpose, 1.0),
    (flatten, 0.7),
    (reshape, 1.5),
    (squeeze, 0.7),
    (unsqueeze, 0.7),
    (pool, 1.5),
    (reduce, 1.0),
    (concat, 1.5),
    (merge, 1.5),
    (split, 1.0),
    (pick, 1.2),
    (repeat, 0.8),
    (space, 0.7),
    (pad, 1.0),
    (resize, 0.7),
    (normaliser, 0.8),
)
