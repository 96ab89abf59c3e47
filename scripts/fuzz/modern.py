"""Operators as today's exporters write them, in opsets 18 to 24: lower ones have other forms, or none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from fuzz import lacking
from fuzz.builder import Array, Builder, Drawn
from fuzz.draw import feed
from fuzz.operators import Draw

OPSETS = (18, 19, 20, 21, 22, 23, 23, 24)
SIZES = (2, 3, 4, 5, 6, 7)
LARGEST = 3000


def _shaped(b: Builder, op_type: str, inputs: Sequence[str], shape: Sequence[int], **attributes: Any) -> list[Drawn]:
    """Append a node whose shape onnx does not infer."""
    made = Drawn(b.derive(op_type, inputs, b.dtype, shape, **attributes), b.dtype, tuple(shape))
    b.values.append(made)
    return [made]


def _as_floats(b: Builder, name: str) -> list[Drawn]:
    return b.node("Cast", [name], to=b.dtype)


def _as_integers(b: Builder, x: Drawn, kind: int) -> str:
    return b.node("Cast", [b.node("Mul", [x.name, b.weight(np.asarray(b.numbers([]) * 3))])[0].name], to=kind)[0].name


def _axis(b: Builder, x: Drawn) -> int:
    return int(b.rng.integers(-x.rank, x.rank))


def normal(b: Builder, x: Drawn) -> list[Drawn] | None:
    axis = _axis(b, x)
    weights = [b.weight(b.numbers(x.shape[axis % x.rank :])) for _ in range(2)]
    if b.opset >= 23 and b.chance(0.4):
        return b.node("RMSNormalization", [x.name, weights[0]], axis=axis, epsilon=1e-5)
    outputs = int(b.pick([1, 1, 1, 3]))
    made = b.node("LayerNormalization", [x.name, *weights[: int(b.pick([1, 2]))]], outputs, axis=axis, epsilon=1e-3)
    return made[:1]


def group_normal(b: Builder, x: Drawn) -> list[Drawn] | None:
    if b.opset < 21 or x.rank < 3:
        return None
    groups = int(b.pick([size for size in range(1, x.shape[1] + 1) if x.shape[1] % size == 0]))
    weights = [b.weight(b.numbers([x.shape[1]])) for _ in range(2)]
    return _shaped(b, "GroupNormalization", [x.name, *weights], x.shape, num_groups=groups, epsilon=1e-3)


def activation(b: Builder, x: Drawn) -> list[Drawn] | None:
    op_type = b.pick(["HardSwish", "Mish", "Celu", "Gelu", "Swish", "Softplus", "Selu"])
    if op_type == "Celu" and b.dtype != TensorProto.FLOAT:
        return None
    if (op_type == "Gelu" and b.opset < 20) or (op_type == "Swish" and b.opset < 24):
        return None
    attributes: dict[str, Any] = {"Celu": {"alpha": 0.7}, "Gelu": {"approximate": b.pick(["none", "tanh"])}}.get(
        op_type, {}
    )
    return b.node(op_type, [x.name], **attributes)


def reduced(b: Builder, x: Drawn) -> list[Drawn] | None:
    op_type = b.pick(["Mean", "Max", "Min", "Sum", "L1", "L2", "SumSquare", "Prod", "LogSumExp"])
    axes = [
        int(axis) - x.rank * b.chance(0.5)
        for axis in b.rng.choice(x.rank, int(b.rng.integers(1, x.rank + 1)), replace=False)
    ]
    inputs = [x.name, b.integers(axes)] if b.chance(0.9) else [x.name]
    return b.node(f"Reduce{op_type}", inputs, keepdims=1, noop_with_empty_axes=int(b.chance(0.3)))


def split(b: Builder, x: Drawn) -> list[Drawn] | None:
    axis = _axis(b, x)
    size = x.shape[axis]
    if b.chance(0.5):
        count = int(b.rng.integers(1, min(size, 4) + 1))
        return (
            b.node("Split", [x.name], count, axis=axis, num_outputs=count)
            if -(-size // count) * (count - 1) < size
            else None
        )
    return b.node("Split", [x.name, b.integers([1, size - 1])], 2, axis=axis)


def along(b: Builder, x: Drawn) -> list[Drawn] | None:
    axis, op_type = _axis(b, x), b.pick(["Softmax", "LogSoftmax", "CumSum", "TopK", "Gather", "ArgMax", "Concat"])
    if op_type == "CumSum":
        return (
            b.node(op_type, [x.name, b.weight(np.array(axis), "i")], exclusive=int(b.chance(0.5)))
            if b.dtype != TensorProto.FLOAT16
            else None
        )
    if op_type == "TopK":
        return b.node(op_type, [x.name, b.integers([1])], 2, axis=axis, largest=int(b.chance(0.7)))[:1]
    if op_type == "Gather":
        return b.node(op_type, [x.name, b.integers([-1, 0])], axis=axis)
    if op_type == "ArgMax":
        return _as_floats(b, b.node(op_type, [x.name], axis=axis)[0].name)
    return b.node(op_type, [x.name] * (1 + (op_type == "Concat")), axis=axis)


def padded(b: Builder, x: Drawn) -> list[Drawn] | None:
    axis = _axis(b, x)
    mode = b.pick(["constant", "reflect", "edge"])
    inputs = [
        x.name,
        b.integers([1, int(b.rng.integers(0, 2))]),
        b.weight(b.numbers([])) if mode == "constant" else "",
        b.integers([axis]),
    ]
    return b.node("Pad", inputs, mode=mode)


def resized(b: Builder, x: Drawn) -> list[Drawn] | None:
    if x.rank != 4 or b.dtype != TensorProto.FLOAT:
        return None
    how: dict[str, Any] = b.pick([
        {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}, {"mode": "linear"}, {},
        {"coordinate_transformation_mode": "asymmetric", "mode": "linear"}, {"mode": "cubic", "cubic_coeff_a": -0.5},
        {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    ])  # fmt: skip
    if b.chance(0.5):
        return b.node(
            "Resize",
            [x.name, "", b.weight(np.array([2, b.pick([1, 2, 3, 1.5])], np.float32), "scales")],
            axes=[-2, 3],
            **how,
        )
    return b.node(
        "Resize",
        [x.name, "", "", b.integers([2 * x.shape[2], x.shape[3] + int(b.rng.integers(0, 2))])],
        axes=[2, 3],
        **how,
    )


def triangle(b: Builder, x: Drawn) -> list[Drawn] | None:
    if x.rank < 2:
        return None
    diagonal = [b.weight(np.array(int(b.rng.integers(-2, 3))), "i")] if b.chance(0.5) else []
    return b.node("Trilu", [x.name, *diagonal], upper=int(b.chance(0.5)))


def attention(b: Builder, x: Drawn) -> list[Drawn] | None:
    if b.opset < 23 or x.rank not in (3, 4) or b.dtype != TensorProto.FLOAT:
        return None  # the reference evaluation takes the root of the scale in float32
    attributes: dict[str, Any] = {"is_causal": int(b.chance(0.3))}
    heads = x.shape[1]
    if x.rank == 3:
        heads = b.pick([size for size in range(1, x.shape[2] + 1) if x.shape[2] % size == 0])
        attributes |= {"q_num_heads": heads, "kv_num_heads": heads}
    if b.chance(0.3):
        attributes["scale"] = 0.5
    rows = x.shape[-2]
    inputs = [x.name] * 3
    if b.chance(0.5):
        shape = b.pick([(rows, rows), (x.shape[0], heads, rows, rows), (1, 1, rows, rows)])
        inputs.append(
            b.weight(b.numbers(shape) if b.chance(0.5) else (np.eye(rows, dtype=bool) | (b.numbers(shape) > 0)), "m")
        )
    elif b.chance(0.2):
        attributes["softcap"] = 2.0
    return b.node("Attention", inputs, **attributes)


def rotary(b: Builder, x: Drawn) -> list[Drawn] | None:
    if b.opset < 23 or x.rank != 4 or x.shape[3] % 2:
        return None
    tables = [b.weight(b.numbers([x.shape[0], x.shape[2], x.shape[3] // 2])) for _ in range(2)]
    return b.node("RotaryEmbedding", [x.name, *tables], interleaved=int(b.chance(0.5)))


def shapes(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append a shape that is read in part and reassembled."""
    if x.rank < 2:
        return None
    b.leave_open(x, 0)
    first = b.derive("Shape", [x.name], TensorProto.INT64, [1], start=0, end=1)
    dims = b.derive("Concat", [first, b.integers([-1])], TensorProto.INT64, [2], axis=0)
    shape = (x.shape[0], int(np.prod(x.shape[1:])))
    return _shaped(b, "Reshape", [x.name, dims], shape, allowzero=int(b.chance(0.3)))


def squeezed(b: Builder, x: Drawn) -> list[Drawn] | None:
    axis = int(b.rng.integers(-x.rank - 1, x.rank + 1))
    made = b.node("Unsqueeze", [x.name, b.integers([axis])])[0]
    return b.node("Squeeze", [b.node("Neg", [made.name])[0].name, b.integers([axis])])


def bounded(b: Builder, x: Drawn) -> list[Drawn] | None:
    kind = b.pick([b.dtype, TensorProto.INT32, TensorProto.INT64])
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    low, high = b.weight(np.array(-1, dtype), "c"), b.weight(np.array(2, dtype), "c")
    value = x.name if kind == b.dtype else _as_integers(b, x, kind)
    op_type = b.pick(["Clip", "Clip", "Max", "Min", "GreaterOrEqual", "LessOrEqual"])
    inputs = b.pick([[value, low, high], [value, "", high], [value, low]]) if op_type == "Clip" else [value, high]
    return _as_floats(b, b.node(op_type, inputs)[0].name)


def like(b: Builder, x: Drawn) -> list[Drawn] | None:
    whole = b.node("CastLike", [x.name, b.weight(np.array([1], np.int64), "i")])[0]
    return b.node("CastLike", [whole.name, x.name])


def powered(b: Builder, x: Drawn) -> list[Drawn] | None:
    return b.node("Pow", [x.name, b.weight(np.array(b.pick([2, 3]), b.pick([np.int64, np.float32, np.int32])), "p")])


def chosen(b: Builder, x: Drawn) -> list[Drawn] | None:
    truth = b.node("Greater", [x.name, b.weight(b.numbers([]))])[0]
    other = b.node("Where", [truth.name, b.node("Not", [truth.name])[0].name, b.weight(np.array(True), "c")])[0]
    return b.node("Where", [other.name, x.name, b.weight(b.numbers([]))])


def quantized(b: Builder, x: Drawn) -> list[Drawn] | None:
    if b.dtype != TensorProto.FLOAT:
        return None
    axis = _axis(b, x)
    kind = b.pick([np.uint8, np.int8, np.uint8, np.int16 if b.opset >= 21 else np.int8])
    shape = b.pick([[], [x.shape[axis]]])
    numbers = [b.weight(abs(b.numbers(shape)) + np.float32(0.01), "scale"), b.weight(np.ones(shape, kind), "zero")]
    made = b.node("QuantizeLinear", [x.name, *numbers], axis=axis)[0]
    return b.node("DequantizeLinear", [made.name, *numbers], axis=axis)


def product(b: Builder, x: Drawn) -> list[Drawn] | None:
    if x.rank not in (2, 3):
        return None
    other = b.weight(b.numbers([x.shape[-1], 3]))
    first = "abc"[: x.rank]
    return b.node(
        "Einsum",
        [x.name, other],
        equation=b.pick(
            [f"{first},{first[-1]}d->{first[:-1]}d", "...i,ij->...j", f"{first},{first[-1]}d->d{first[:-1]}"]
        ),
    )


def pooled(b: Builder, x: Drawn) -> list[Drawn] | None:
    if x.rank != 4:
        return None
    kernel = [min(2, size) for size in x.shape[2:]]
    return b.node(
        b.pick(["MaxPool", "AveragePool"]), [x.name], kernel_shape=kernel, strides=[2, 1], ceil_mode=int(b.chance(0.5))
    )


def kept(b: Builder, x: Drawn) -> list[Drawn] | None:
    return b.node("Dropout", [x.name, b.weight(np.array(0.5, np.float32), "c")])


def branch(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append an If whose branches capture an axis and a value."""
    if x.rank < 1:
        return None
    axis, made = b.integers([_axis(b, x)]), Drawn(b.fresh("v"), x.dtype, x.shape)
    graphs = {}
    for key, op_type in (("then_branch", "ReduceMean"), ("else_branch", "ReduceMax")):
        inner, end = b.fresh("inner"), b.fresh("end")
        nodes = [helper.make_node(op_type, [x.name, axis], [inner]), helper.make_node("Sub", [x.name, inner], [end])]
        graphs[key] = helper.make_graph(nodes, key, [], [helper.make_tensor_value_info(end, x.dtype, None)])
    b.nodes.append(helper.make_node("If", [b.weight(np.array(b.chance(0.5)), "c")], [made.name], **graphs))
    b.values.append(made)
    return [made]


TABLE: tuple[Draw, ...] = (
    *(normal, normal, group_normal, activation, activation, reduced, reduced, split, along, along, padded, resized),
    *(triangle, attention, attention, rotary, shapes, squeezed, bounded, bounded, like, powered, chosen, quantized),
    *(product, pooled, kept, branch, *lacking.TABLE),
)


def draw(seed: int) -> tuple[onnx.ModelProto, dict[str, Array], int]:
    """Draw a model, its inputs, and its opset."""
    rng = np.random.default_rng([seed, 23])
    dtype = int(rng.choice([TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16]))
    b = Builder(rng, opset=int(rng.choice(OPSETS)), dtype=dtype)
    shape = tuple(int(size) for size in rng.choice(SIZES, int(rng.choice([1, 2, 3, 3, 4, 4])), replace=False))
    b.inputs.append(Drawn(b.fresh("x"), b.dtype, shape))
    b.values.append(b.inputs[0])
    for _ in range(int(rng.integers(1, 6))):
        _grow(b)
    if not b.nodes:
        b.node("Relu", [b.inputs[0].name])
    read = {name for node in b.nodes for name in node.input}
    made = {name for node in b.nodes for name in node.output}
    ends = [value for value in b.values if value.name in made and value.name not in read and value.dtype == b.dtype]
    floats = [value for value in b.values if value.name in made and value.dtype == b.dtype]
    model = b.model(ends or floats[-1:])
    model.ir_version = 10
    return model, {value.name: feed(rng, value) for value in b.inputs}, b.opset


def _grow(b: Builder) -> None:
    value = b.pick(b.values) if b.chance(0.25) else b.values[-1]
    if value.dtype != b.dtype or not 0 < np.prod(value.shape) <= LARGEST or not value.rank:
        value = b.inputs[0]
    before = b.size
    try:
        b.pick(TABLE)(b, value)
    except (
        onnx.shape_inference.InferenceError,
        onnx.checker.ValidationError,
        onnx.defs.SchemaError,
        ValueError,
        KeyError,
    ):
        b.cut(before)
