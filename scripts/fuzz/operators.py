"""The table of operators to draw from: each entry appends a legal node for a value, or returns None."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper

from fuzz.branching import parallel
from fuzz.builder import Builder, Drawn
from fuzz.carriers import (
    flatten,
    pad,
    pick,
    pool,
    reduce,
    repeat,
    reshape,
    resize,
    space,
    squeeze,
    transpose,
    unsqueeze,
)
from fuzz.convolutions import bias, conv, conv_transpose
from fuzz.far import clip, noisy, undefined
from fuzz.fills import filled
from fuzz.fused import fused_conv, fused_matmul
from fuzz.instances import as_training, of_groups
from fuzz.leftovers import expanded_product, filled_up, half_read, reshaped_product, zeros_before_pool
from fuzz.near import alike, two_open
from fuzz.pairs import pairs
from fuzz.positions import mask, positions
from fuzz.sampling import choice, deform_conv, einsum, grid_sample, recurrent, reverse_sequence
from fuzz.scopes import looped, one_branch, ranked, scanned

Draw = Callable[[Builder, Drawn], "list[Drawn] | None"]


def batchnorm(b: Builder, x: Drawn) -> list[Drawn] | None:
    if x.rank < 2:
        return None
    channels = x.shape[1]
    scale = b.numbers([channels])
    kind = b.rng.random()
    if kind < 0.4:
        scale = abs(scale) + scale.dtype.type(0.25)
    elif kind < 0.5 and channels:
        scale[int(b.rng.integers(channels))] = 0
    shift = b.numbers([channels]) * (0 if b.chance(0.1) else 1)
    arrays = [scale, shift, b.numbers([channels]), b.numbers([channels], 0.5, 2.0)]
    return b.node(
        "BatchNormalization", [x.name, *(b.weight(array, "bn") for array in arrays)], epsilon=b.pick([1e-5, 1e-3])
    )


def padded_mean(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append a Conv, an average that counts its padding or does not, a BatchNormalization."""
    grown = conv(b, x) if x.rank == 4 and min(x.shape[2:]) > 1 else None
    if grown is None or min(grown[0].shape[2:]) < 2:
        return grown
    pads = [int(b.rng.integers(0, 2)) for _ in range(4)]
    mean = b.node("AveragePool", [grown[0].name], kernel_shape=[2, 2], pads=pads, count_include_pad=int(b.chance(0.5)))
    return batchnorm(b, mean[0])


def into_padding(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append a BatchNormalization, a Conv that pads, and often an operator that could absorb the border."""
    normalised = batchnorm(b, x) if 3 <= x.rank <= 5 and min(x.shape[2:]) > 1 else None
    if normalised is None:
        return None
    spatial, columns = x.rank - 2, int(b.rng.integers(2, 6))
    attributes: dict[str, Any] = {"strides": [int(b.rng.integers(1, 3)) for _ in range(spatial)]}
    if b.chance(0.3):
        attributes["auto_pad"] = b.pick(["SAME_UPPER", "SAME_LOWER"])
    else:
        attributes["pads"] = [int(b.rng.integers(0, 3)) for _ in range(2 * spatial)]
        attributes["dilations"] = [int(b.rng.integers(1, 3)) for _ in range(spatial)]
    kernel = b.numbers([columns, x.shape[1], *(int(b.rng.integers(1, 3)) for _ in range(spatial))])
    y = b.node("Conv", [normalised[0].name, b.weight(kernel), *bias(b, columns)], **attributes)
    if b.chance(0.5):
        y = b.node("GlobalAveragePool", [y[0].name]) if b.chance(0.5) else (reduce(b, y[0]) or y)
    if b.chance(0.5):
        flat = b.node("Flatten", [y[0].name], axis=1)[0]
        y = b.node("Gemm", [flat.name, b.weight(b.numbers([flat.shape[1], 3]))])
    return y


def gemm(b: Builder, x: Drawn) -> list[Drawn] | None:
    if x.rank != 2:
        return None
    trans_a, trans_b = int(b.chance(0.2)), int(b.chance(0.5))
    rows, inner = (x.shape[1], x.shape[0]) if trans_a else x.shape
    columns = int(b.rng.integers(2, 8))
    matrix = b.numbers([columns, inner] if trans_b else [inner, columns])
    shapes = [[], [1], [columns], [1, columns], [rows, 1], [rows, columns]]
    c = b.pick([[], [""], *([b.weight(b.numbers(shape))] for shape in shapes)])
    attributes: dict[str, Any] = {"alpha": 0.5} if b.chance(0.3) else {}
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


def channelwise(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append a number for each channel, or for all of them."""
    channels = x.shape[1] if x.rank > 1 and b.chance(0.8) else 1
    operands = [x.name, b.weight(b.numbers([channels, *[1] * max(x.rank - 2, 0)]))]
    return b.node(b.pick(["Mul", "Add"]), operands[::-1] if b.chance(0.4) else operands)


def decomposed(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append a decomposed BatchNormalization, frozen: stored or computed constants, in two steps or four."""
    if x.rank < 2:
        return None
    shape = [1] * int(b.rng.integers(2)) + [x.shape[1], *[1] * (x.rank - 2)]
    scale, shift, mean = (b.weight(b.numbers(shape)) for _ in range(3))
    root = b.node("Sqrt", [b.weight(b.numbers(shape, 0.5, 2.0))])[0].name
    if b.chance(0.4):
        steps = [("Sub", mean), ("Div", root), ("Mul", scale), ("Add", shift)]
    else:
        if b.chance(0.5):
            scale = b.node("Mul", [scale, b.node("Reciprocal", [root])[0].name])[0].name
            shift = b.node("Sub", [shift, b.node("Mul", [mean, scale])[0].name])[0].name
        steps = [("Mul", scale), ("Add", shift)]
    made = [x]
    for op, constant in steps:
        operands = [made[0].name, constant]
        made = b.node(op, operands[::-1] if op in ("Mul", "Add") and b.chance(0.4) else operands)
    return made


def unary(b: Builder, x: Drawn) -> list[Drawn] | None:
    op = b.pick(
        ["Relu", "Relu", "LeakyRelu", "Abs", "PRelu", "Identity", "Dropout", "Sigmoid", "Mish", "Cast", "CastLike"]
    )
    if op == "PRelu":
        return b.node("PRelu", [x.name, b.weight(b.numbers([x.shape[1], *[1] * (x.rank - 2)] if x.rank > 1 else [1]))])
    if op == "Cast":
        return b.node("Cast", [x.name], to=x.dtype)
    return b.node(op, [x.name, *([b.weight(b.numbers([]))] if op == "CastLike" else [])])


def concat(b: Builder, x: Drawn) -> list[Drawn] | None:
    axis = int(b.rng.integers(x.rank))
    fitting = [
        other
        for other in b.values
        if other.rank == x.rank
        and other.dtype == x.dtype
        and all(a == c for i, (a, c) in enumerate(zip(x.shape, other.shape, strict=True)) if i != axis)
    ]
    parts = [x.name, *(b.pick(fitting).name for _ in range(int(b.rng.integers(1, 3))))]
    if b.chance(0.2):
        shape = list(x.shape)
        shape[axis] = 2
        parts.append(b.weight(b.numbers(shape)))
    order = b.rng.permutation(len(parts))
    return b.node("Concat", [parts[index] for index in order], axis=axis - x.rank if b.chance(0.3) else axis)


def concat_one_left(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append a Concat and a BatchNormalization that at most one of its parts cannot absorb."""
    if not 3 <= x.rank <= 4 or 1 in x.shape[2:]:
        return None
    made = [b.node("Conv", [x.name, b.weight(b.numbers([size, x.shape[1], *[1] * (x.rank - 2)]))]) for size in (2, 3)]
    parts = [x.name, *(value.name for (value,) in made[: int(b.rng.integers(1, 3))])]
    joined = b.node("Concat", [parts[index] for index in b.rng.permutation(len(parts))], axis=1)
    return batchnorm(b, joined[0])


def merge(b: Builder, x: Drawn) -> list[Drawn] | None:
    fitting = [other for other in b.values if other.dtype == x.dtype and _broadcasts(other.shape, x.shape)]
    op = b.pick(["Add", "Add", "Sub", "Mul", "Sum", "Mean", "Max", "Min"])
    others = [b.pick(fitting).name for _ in range(1 if op in ("Add", "Sub", "Mul") else int(b.rng.integers(1, 3)))]
    if op in ("Sum", "Max", "Min", "Mean") and b.chance(0.4):
        others.append(b.weight(b.numbers(b.pick([[], x.shape[-1:], x.shape]))))
    parts = [x.name, *others]
    order = b.rng.permutation(len(parts))
    return b.node(op, [parts[index] for index in order])


def broadcast_sum(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append a sum with one operand that has one channel for all, then a BatchNormalization."""
    if not 3 <= x.rank <= 4:
        return None
    ones = [1] * (x.rank - 2)
    wide, narrow = (b.node("Conv", [x.name, b.weight(b.numbers([size, x.shape[1], *ones]))]) for size in (3, 1))
    operands = [wide[0].name, narrow[0].name]
    total = b.node(b.pick(["Add", "Sub", "Sum", "Mean"]), operands if b.chance(0.5) else operands[::-1])
    return batchnorm(b, total[0])


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


def rejoin(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Split a value into two parts, perhaps overlapping, and join them again."""
    if x.rank < 2 or x.shape[1] < 2:
        return None
    size = x.shape[1]
    if b.chance(0.5):
        first = size // 2 if size % 2 == 0 else int(b.rng.integers(1, size))
        parts = b.node("Split", [x.name, b.integers([first, size - first])], outputs=2, axis=1)
    else:
        cuts = [sorted(int(at) for at in b.rng.choice(size + 1, 2, replace=False)) for _ in range(2)]
        parts = [b.node("Slice", [x.name, *(b.integers([number]) for number in (*cut, 1))])[0] for cut in cuts]
    if b.chance(0.3):
        parts[0] = (unary(b, parts[0]) or parts)[0]
    if parts[0].shape == parts[1].shape and b.chance(0.5):
        return b.node(b.pick(["Add", "Sub", "Sum"]), [part.name for part in parts[::-1]])
    return b.node("Concat", [part.name for part in parts[::-1]], axis=1)


def normaliser(b: Builder, x: Drawn) -> list[Drawn] | None:
    if x.rank < 3:
        return None
    if b.chance(0.5):
        axis = int(b.rng.integers(1, x.rank))
        dims = x.shape[axis:]
        extra = [b.weight(b.numbers(dims))] if b.chance(0.6) else []
        return b.node("LayerNormalization", [x.name, b.weight(b.numbers(dims)), *extra], axis=axis)
    size = [x.shape[1]]
    op = "GroupNormalization" if b.opset >= 21 and b.chance(0.5) else "InstanceNormalization"
    groups = {"num_groups": x.shape[1]} if op == "GroupNormalization" else {}
    return b.node(op, [x.name, b.weight(b.numbers(size)), b.weight(b.numbers(size))], **groups)


def biased_instance(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append a biased convolution and an InstanceNormalization that may cancel the bias; mostly with a node between."""
    grown: list[Drawn] | None = b.pick([conv, conv, conv_transpose])(b, x)
    if grown is None:
        return None
    for entry in (arithmetic, unary, pool, pad)[: int(b.rng.integers(0, 4))]:
        grown = (entry(b, grown[0]) if b.chance(0.4) else None) or grown
    if grown[0].rank < 3:
        return grown
    size = [grown[0].shape[1]]
    return b.node("InstanceNormalization", [grown[0].name, b.weight(b.numbers(size)), b.weight(b.numbers(size))])


MOVING: list[Draw] = [transpose, flatten, reshape, squeeze, unsqueeze, pool, pick]


def quantised(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Quantise and dequantise, mostly with a node between that only moves or selects integers; perhaps by channel."""
    if x.dtype != TensorProto.FLOAT:
        (x,) = b.node("Cast", [x.name], to=TensorProto.FLOAT)
    wide = [np.int16(5), np.uint16(40000), ml_dtypes.int4(1), ml_dtypes.uint4(8)] if b.opset >= 21 else []
    zero = b.pick([np.int8(0), np.int8(3), np.uint8(128), np.uint8(0), *wide])
    by_channel = (x.shape[1],) if b.opset >= 13 and x.rank > 1 and b.chance(0.2) else ()
    scale = b.pick([0.05, 0.1, 0.5]) * b.rng.integers(1, 4, by_channel)
    parameters = [b.weight(scale.astype(np.float32), "qp"), b.weight(np.full(by_channel, zero), "qp")]
    (made,) = b.node("QuantizeLinear", [x.name, *parameters])
    between = [] if by_channel or zero.dtype.itemsize != 1 or zero.dtype.name.endswith("4") else MOVING
    for entry in between[: int(b.rng.integers(15))]:
        made = ((entry(b, made) if b.chance(0.2) else None) or [made])[0]
    made = b.node("DequantizeLinear", [made.name, *parameters])[0]
    return b.node("Cast", [made.name], to=b.dtype) if b.dtype != TensorProto.FLOAT else [made]


def product_of_integers(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append onnxruntime's dynamic quantisation: the product of both operands' scales multiplies the result."""
    if x.dtype != TensorProto.FLOAT or x.rank < 2 or min(x.shape) < 1:
        return None
    q, scale, zero = b.node("DynamicQuantizeLinear", [x.name], outputs=3)
    is_conv = x.rank > 2 and b.chance(0.6)
    channels = int(b.rng.integers(2, 5))
    shape = (channels, x.shape[1], *[1] * (x.rank - 2)) if is_conv else (x.shape[-1], channels)
    weight = b.weight(b.rng.integers(-127, 128, shape).astype(np.int8), "qw")
    (made,) = b.node("ConvInteger" if is_conv else "MatMulInteger", [q.name, weight, zero.name])
    (made,) = b.node("Cast", [made.name], to=b.dtype)
    by_channel = (channels, *[1] * (x.rank - 2)) if is_conv else (channels,)
    both = [scale.name, b.weight(b.numbers(by_channel if b.chance(0.5) else (), 0.01, 0.02))]
    (factor,) = b.node("Mul", both if b.chance(0.5) else both[::-1])
    made = b.node("Mul", [made.name, factor.name] if b.chance(0.7) else [factor.name, made.name])[0]
    return b.node("Add", [made.name, b.weight(b.numbers(by_channel))]) if b.chance(0.5) else [made]


def discrete(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append a discontinuous operator."""
    op = b.pick(["Floor", "Ceil", "Round", "Sign", "Cast", "ArgMax", "Greater"])
    if op == "ArgMax":
        made = b.node(op, [x.name], axis=int(b.rng.integers(x.rank)), keepdims=int(b.chance(0.5)))
    elif op == "Greater":
        made = b.node(op, [x.name, b.weight(b.numbers([]))])
    else:
        made = b.node(op, [x.name], **({"to": TensorProto.INT32} if op == "Cast" else {}))
    return b.node("Cast", [made[0].name], to=b.dtype) if made[0].dtype != b.dtype else made


def branches(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append an If whose branches capture a value of the outer graph."""
    if x.rank < 2:
        return None
    shared, bound = b.weight(b.numbers([x.shape[1], *[1] * (x.rank - 2)], 0.5, 2.0)), b.weight(b.numbers([]))
    around = b.node("Mul", [x.name, shared])[0]
    condition = b.node("Greater", [b.node("ReduceSum", [x.name], keepdims=0)[0].name, bound])[0]
    parameters = [b.weight(b.numbers([x.shape[1]], 0.5, 2.0), "bn") for _ in range(4)]
    bodies = []
    for op in (b.pick(["Mul", "Add"]), b.pick(["Sub", "Div"])):
        made, end = b.fresh("branch"), b.fresh("branch")
        inside = [helper.make_node(op, [b.pick([x, around]).name, shared], [made], name=b.fresh("in"))]
        inside += [helper.make_node("BatchNormalization", [made, *parameters], [end], name=b.fresh("in"))]
        ends = [helper.make_tensor_value_info(end, x.dtype, [None] * x.rank)]
        bodies.append(helper.make_graph(inside, b.fresh("body"), [], ends))
    name = b.fresh("v")
    then, other = bodies
    b.nodes.append(helper.make_node("If", [condition.name], [name], then_branch=then, else_branch=other))
    b.values.append(Drawn(name, x.dtype, x.shape))
    return [b.values[-1]]


TABLE: tuple[tuple[Draw, float], ...] = (
    (batchnorm, 9.0),
    (decomposed, 2.0),
    (conv, 5.0),
    (into_padding, 0.8),
    (padded_mean, 0.4),
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
    (concat_one_left, 0.5),
    (merge, 1.5),
    (broadcast_sum, 0.3),
    (split, 1.0),
    (rejoin, 0.8),
    (pick, 1.2),
    (repeat, 0.8),
    (space, 0.7),
    (pad, 1.0),
    (resize, 0.7),
    (normaliser, 0.8),
    (biased_instance, 0.6),
    (as_training, 0.4),
    (of_groups, 0.4),
    (quantised, 0.6),
    (product_of_integers, 0.4),
    (discrete, 0.4),
    (clip, 0.5),
    (branches, 0.4),
    (parallel, 0.8),
    (grid_sample, 0.4),
    (deform_conv, 0.4),
    (recurrent, 0.5),
    (reverse_sequence, 0.3),
    (choice, 0.5),
    (einsum, 0.5),
    (fused_conv, 0.4),
    (fused_matmul, 0.4),
    (positions, 0.8),
    (mask, 0.3),
    (one_branch, 0.4),
    (ranked, 0.2),
    (looped, 0.3),
    (scanned, 0.3),
    (half_read, 0.6),
    (reshaped_product, 0.5),
    (expanded_product, 0.4),
    (filled_up, 0.4),
    (zeros_before_pool, 0.4),
    (alike, 0.8),
    (two_open, 0.5),
    (pairs, 0.8),
    (filled, 0.5),
    (undefined, 0.2),
    (noisy, 0.2),
)
