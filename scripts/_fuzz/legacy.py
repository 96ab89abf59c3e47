"""Mode ``upgrade``: chains of operators in the versions of old opsets, upgraded and compared.

Each entry of the table appends a node that is legal at the builder's opset, or answers None. Shapes come from running the
node: old versions have no shape inference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from _fuzz.builder import Array, Builder, Drawn
from bnfold import ir, reference
from bnfold.errors import BnfoldError

OPSETS = (1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14)
TARGETS = (None, None, 13, 15, 18, 21, 25)
LARGEST = 4000
Entry = Callable[["Legacy", Drawn], "list[Drawn] | None"]


class NotLegal(Exception):
    """The node does not run with these sizes."""


class Legacy(Builder):
    """A builder that asks the referee for shapes."""

    def _infer(self, node: onnx.NodeProto) -> list[tuple[int, tuple[int, ...]]]:
        known = {value.name: value for value in [*self.inputs, *self.values]}
        infos = [
            helper.make_tensor_value_info(name, known[name].dtype, known[name].shape)
            for name in dict.fromkeys(node.input)
            if name in known
        ]
        ends = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        constants = [other for other in self.nodes if other.op_type in ("Constant", "Identity")]
        graph = helper.make_graph([*constants, node], "g", infos, ends, self.weights)
        model = ir.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8))
        feeds = {info.name: _numbers(known[info.name]) for info in infos}
        try:
            found = reference.evaluate(model, feeds)
        except BnfoldError as error:
            raise NotLegal(str(error)) from error
        floats = next((known[name].dtype for name in node.input if name in known), self.dtype)
        return [_described(found[name], floats) for name in node.output if name]


def _numbers(value: Drawn) -> Array:
    kind = helper.tensor_dtype_to_np_dtype(value.dtype)
    return np.ones(value.shape, kind)


def _described(array: Array, floats: int) -> tuple[int, tuple[int, ...]]:
    dtype = floats if array.dtype == np.float64 else helper.np_dtype_to_tensor_dtype(array.dtype)
    return dtype, array.shape


def draw(seed: int) -> tuple[onnx.ModelProto, dict[str, Array], dict[str, Any]]:
    """A model, its inputs, and what to upgrade it to."""
    rng = np.random.default_rng(seed)
    b = Legacy(rng, opset=int(rng.choice(OPSETS)), dtype=TensorProto.FLOAT)
    sizes = rng.choice((2, 3, 4, 5, 6, 7), 5, replace=bool(rng.random() < 0.2))
    shape = tuple(int(size) for size in sizes[: int(rng.choice([1, 2, 3, 4, 4, 4, 5]))])
    b.inputs.append(Drawn(b.fresh("x"), b.dtype, shape))
    b.values.append(b.inputs[0])
    for _ in range(int(rng.integers(1, 7))):
        _grow(b)
    if not b.nodes:
        b.node("Relu", [b.inputs[0].name], **({"consumed_inputs": [0]} if b.opset < 6 else {}))
    read = {name for node in b.nodes for name in node.input}
    ends = [value for value in b.values[1:] if value.name not in read]
    model = b.model(ends or b.values[-1:])
    model.ir_version = 3 if b.opset < 9 and rng.random() < 0.5 else 8
    if model.ir_version == 3:  # in its days every initializer was an input too
        for tensor in model.graph.initializer:
            model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    target = TARGETS[int(rng.integers(len(TARGETS)))]
    feeds = {value.name: rng.standard_normal(value.shape).astype(np.float32) for value in b.inputs}
    return model, feeds, {"target_opset": target if target is None or target >= b.opset else None}


def _grow(b: Legacy) -> None:
    at = int(b.rng.integers(len(b.values))) if b.chance(0.25) else -1
    value = b.values[at]
    if value.dtype != b.dtype or np.prod(value.shape) > LARGEST or 0 in value.shape or not value.rank:
        value = b.inputs[0]
    kept = len(b.nodes), len(b.weights), len(b.values)
    try:
        b.pick(TABLE)(b, value)
    except (NotLegal, onnx.defs.SchemaError, ValueError):
        del b.nodes[kept[0] :], b.weights[kept[1] :], b.values[kept[2] :]


def _axis(b: Legacy, x: Drawn, since: int = 11) -> int:
    axis = int(b.rng.integers(x.rank))
    return axis - x.rank if b.opset >= since and b.chance(0.3) else axis


def unary(b: Legacy, x: Drawn) -> list[Drawn] | None:
    old: dict[str, Any] = {"consumed_inputs": [0]} if b.opset < 6 and b.chance(0.5) else {}
    op = b.pick(["Relu", "Abs", "Exp", "Sigmoid", "Tanh", "LeakyRelu", "Elu", "Selu", "HardSigmoid", "Neg", "Floor"])
    return b.node(op, [x.name], **({} if op == "HardSigmoid" and b.opset >= 6 else old))


def broadcast(b: Legacy, x: Drawn) -> list[Drawn] | None:
    op = b.pick(["Add", "Sub", "Mul", "Div", "Pow"] if b.chance(0.9) else ["PRelu"])
    if op == "PRelu":
        return b.node(op, [x.name, b.weight(b.numbers([x.shape[1]] if x.rank > 1 else [1]))])
    if b.opset >= 7:
        shape = [size if b.chance(0.5) else 1 for size in x.shape]
        return b.node(op, [x.name, b.weight(b.numbers(shape[int(b.rng.integers(x.rank)) :], 0.5, 2))])
    if b.chance(0.3):
        return b.node(op, [x.name, b.weight(b.numbers(x.shape, 0.5, 2))])
    start = int(b.rng.integers(x.rank))
    stop = int(b.rng.integers(start, x.rank)) + 1
    attributes = {"axis": start} if stop < x.rank or b.chance(0.5) else {}
    return b.node(op, [x.name, b.weight(b.numbers(x.shape[start:stop], 0.5, 2))], broadcast=1, **attributes)


def merge(b: Legacy, x: Drawn) -> list[Drawn] | None:
    same = [value.name for value in b.values if value.shape == x.shape and value.dtype == x.dtype]
    op = b.pick(["Sum", "Max", "Min", "Mean", "Add", "Concat"])
    parts = [x.name, b.pick(same)]
    if op == "Concat":
        default = b.opset < 4 and x.rank > 1 and b.chance(0.3)
        return b.node(op, parts, **({} if default else {"axis": _axis(b, x)}))
    return b.node(op, parts)


def softmax(b: Legacy, x: Drawn) -> list[Drawn] | None:
    attributes = {"axis": _axis(b, x)} if b.chance(0.7) else {}
    return b.node(b.pick(["Softmax", "LogSoftmax", "Hardmax"]), [x.name], **attributes)


def batchnorm(b: Legacy, x: Drawn) -> list[Drawn] | None:
    if x.rank < 2:
        return None
    attributes: dict[str, Any] = {"epsilon": b.pick([1e-5, 1e-2])}
    spatial = b.opset >= 9 or b.chance(0.7)
    if b.opset < 9 and (not spatial or b.chance(0.3)):
        attributes["spatial"] = int(spatial)
    if b.opset < 7:
        attributes["is_test"] = 1
    if b.opset < 6:
        attributes["consumed_inputs"] = [0, 0, 0, 1, 1]
    shape = [x.shape[1]] if spatial else list(x.shape[1:])
    arrays = [b.numbers(shape), b.numbers(shape), b.numbers(shape), b.numbers(shape, 0.5, 2)]
    return b.node("BatchNormalization", [x.name, *(b.weight(array, "bn") for array in arrays)], **attributes)


def training(b: Legacy, x: Drawn) -> list[Drawn] | None:
    """Statistics as outputs, which somebody reads."""
    if x.rank < 2:
        return None
    attributes: dict[str, Any] = {"momentum": b.pick([0.9, 0.5])}
    if b.opset < 6:
        attributes["consumed_inputs"] = [0, 0, 0, 1, 1]
    if b.opset < 7:
        attributes["is_test"] = 0
    if b.opset >= 14:
        attributes["training_mode"] = 1
    arrays = [b.numbers([x.shape[1]]) for _ in range(3)] + [b.numbers([x.shape[1]], 0.5, 2)]
    inputs = [x.name, *(b.weight(array, "bn") for array in arrays)]
    return b.node("BatchNormalization", inputs, 3 if b.opset >= 14 else int(b.pick([3, 5])), **attributes)[:3]


def instancenorm(b: Legacy, x: Drawn) -> list[Drawn] | None:
    if x.rank < 3:
        return None
    old = {"consumed_inputs": [0]} if b.opset < 6 else {}
    return b.node("InstanceNormalization", [x.name, *(b.weight(b.numbers([x.shape[1]])) for _ in range(2))], **old)


def reduce(b: Legacy, x: Drawn) -> list[Drawn] | None:
    op = b.pick(["ReduceMean", "ReduceSum", "ReduceMax", "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare"])
    axes = sorted(int(axis) for axis in b.rng.choice(x.rank, int(b.rng.integers(1, x.rank + 1)), replace=False))
    keepdims = int(b.chance(0.7))
    if op == "ReduceSum" and b.opset >= 13:
        return b.node(op, [x.name, b.integers(axes)], keepdims=keepdims)
    return b.node(op, [x.name], keepdims=keepdims, **({"axes": axes} if b.chance(0.8) else {}))


def layout(b: Legacy, x: Drawn) -> list[Drawn] | None:
    op = b.pick(["Transpose", "Flatten", "Reshape", "Unsqueeze", "Squeeze"])
    if op == "Transpose":
        return b.node(op, [x.name], perm=[int(axis) for axis in b.rng.permutation(x.rank)])
    if op == "Flatten":
        return b.node(op, [x.name], axis=int(b.rng.integers(0, x.rank + 1)))
    if op == "Reshape":
        shape = [0, -1] if x.rank > 1 and b.chance(0.5) else [-1, x.shape[-1]]
        if b.opset < 5:
            return b.node(op, [x.name], shape=shape)
        return b.node(op, [x.name, b.integers(shape)])
    axes = [int(b.rng.integers(x.rank))]
    if op == "Squeeze":
        axes = [axis for axis, size in enumerate(x.shape) if size == 1][:1]
        if not axes or x.rank < 2:
            return None
    return b.node(op, [x.name, b.integers(axes)]) if b.opset >= 13 else b.node(op, [x.name], axes=axes)


def window(b: Legacy, x: Drawn) -> list[Drawn] | None:
    axis = int(b.rng.integers(x.rank))
    start, end = int(b.rng.integers(x.shape[axis])), int(b.pick([x.shape[axis], 1000, -1]))
    if end == -1 and start >= x.shape[axis] - 1:
        return None
    if b.opset < 10:
        return b.node("Slice", [x.name], axes=[axis], starts=[start], ends=[end])
    return b.node("Slice", [x.name, *(b.integers([number]) for number in (start, end, axis))])


def pad(b: Legacy, x: Drawn) -> list[Drawn] | None:
    pads = [int(b.rng.integers(0, 3)) for _ in range(2 * x.rank)]
    mode = b.pick(["constant", "constant", "edge", "reflect"])
    if b.opset >= 11:
        return b.node("Pad", [x.name, b.integers(pads)], mode=mode)
    return b.node("Pad", [x.name], mode=mode, value=b.pick([0.0, 1.5]), **{"pads" if b.opset > 1 else "paddings": pads})


def clip(b: Legacy, x: Drawn) -> list[Drawn] | None:
    if b.opset >= 11:
        low = b.weight(np.array(-0.5, np.float32)) if b.chance(0.7) else ""
        return b.node("Clip", [x.name, low, *([b.weight(np.array(0.7, np.float32))] if b.chance(0.7) else [])])
    bounds = {"min": -0.5} if b.chance(0.7) else {}
    return b.node("Clip", [x.name], **bounds, **({"max": 0.75} if b.chance(0.7) else {}))


def split(b: Legacy, x: Drawn) -> list[Drawn] | None:
    axis = int(b.rng.integers(x.rank))
    if x.shape[axis] < 2:
        return None
    sizes = [1, x.shape[axis] - 1]
    if b.opset >= 13:
        return b.node("Split", [x.name, b.integers(sizes)], 2, axis=axis)
    if b.opset < 2 and b.chance(0.5):
        return b.node("Split", [x.name, b.integers(sizes)], 2, axis=axis)
    return b.node("Split", [x.name], 2, axis=axis, split=sizes)


def dropout(b: Legacy, x: Drawn) -> list[Drawn] | None:
    if b.opset >= 12:
        return b.node("Dropout", [x.name, b.weight(np.array(0.3, np.float32))] if b.chance(0.5) else [x.name])
    attributes: dict[str, Any] = {"ratio": 0.3} | ({"is_test": 1} if b.opset < 7 else {})
    return b.node("Dropout", [x.name], **attributes)


def enlarge(b: Legacy, x: Drawn) -> list[Drawn] | None:
    if x.rank != 4 or np.prod(x.shape) > LARGEST / 6:
        return None
    mode = b.pick(["nearest", "linear", "bilinear"])
    scales = np.array([1, 1, 2, 3], np.float32)
    if b.opset < 7:
        mode = "nearest" if mode == "linear" else mode
        return b.node("Upsample", [x.name], height_scale=2.0, width_scale=3.0, mode=mode)
    mode = "linear" if mode == "bilinear" else mode
    if b.opset < 9:
        return b.node("Upsample", [x.name], scales=[1.0, 1.0, 2.0, 3.0], mode=mode)
    if b.opset < 11:
        return b.node("Upsample" if b.opset < 10 else "Resize", [x.name, b.weight(scales)], mode=mode)
    roi = b.weight(np.zeros(0, np.float32))
    how = b.pick(["asymmetric", "half_pixel", "align_corners", "pytorch_half_pixel"])
    extra = {"nearest_mode": b.pick(["floor", "ceil", "round_prefer_floor"])} if mode == "nearest" else {}
    inputs = [x.name, roi, b.weight(scales)]
    return b.node("Resize", inputs, mode=mode, coordinate_transformation_mode=how, **extra)


def linear(b: Legacy, x: Drawn) -> list[Drawn] | None:
    columns = 3
    if x.rank == 2 and b.chance(0.7):
        attributes: dict[str, Any] = {"transB": 1} | ({"broadcast": 1} if b.opset < 7 else {})
        inputs = [x.name, b.weight(b.numbers([columns, x.shape[1]])), b.weight(b.numbers([columns]))]
        return b.node("Gemm", inputs, **attributes)
    if x.rank >= 3 and b.chance(0.8):
        kernel = [1] * (x.rank - 2)
        return b.node("Conv", [x.name, b.weight(b.numbers([columns, x.shape[1], *kernel]))], kernel_shape=kernel)
    return b.node("MatMul", [x.name, b.weight(b.numbers([x.shape[-1], columns]))]) if x.rank > 1 else None


def pool(b: Legacy, x: Drawn) -> list[Drawn] | None:
    if x.rank < 3 or min(x.shape[2:]) < 2:
        return None
    op = b.pick(["MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LpPool", "LRN"])
    if op.startswith("Global"):
        return b.node(op, [x.name])
    if op == "LRN":
        return b.node(op, [x.name], size=3, alpha=0.1, beta=0.75, bias=1.0) if x.rank == 4 else None
    padding = {"auto_pad": "SAME_UPPER"} if b.chance(0.3) and op != "LpPool" else {}
    return b.node(op, [x.name], kernel_shape=[2] * (x.rank - 2), strides=[1] * (x.rank - 2), **padding)


def gather(b: Legacy, x: Drawn) -> list[Drawn] | None:
    axis = int(b.rng.integers(x.rank))
    indices = b.rng.integers(0, x.shape[axis], b.pick([[2], [2, 2], []]))
    return b.node("Gather", [x.name, b.weight(np.asarray(indices, np.int64))], axis=axis) if x.rank < 5 else None


def compare(b: Legacy, x: Drawn) -> list[Drawn] | None:
    """To another type and back."""
    kind: Any = "INT32" if b.opset < 6 else TensorProto.INT32
    back: Any = "FLOAT" if b.opset < 6 else TensorProto.FLOAT
    made = b.node("Cast", [x.name], to=kind)
    return b.node("Cast", [made[0].name], to=back)


def top(b: Legacy, x: Drawn) -> list[Drawn] | None:
    axis = int(b.rng.integers(x.rank))
    if b.opset < 10:
        return b.node("TopK", [x.name], 2, axis=axis, k=1)[:1]
    return b.node("TopK", [x.name, b.integers([1])], 2, axis=axis)[:1]


TABLE: Sequence[Entry] = (
    *[batchnorm] * 4, *[broadcast] * 3, *[reduce] * 2, *[layout] * 3, *[linear] * 2, *[unary] * 2, training, instancenorm,
    merge, softmax, window, pad, clip, split, dropout, enlarge, pool, gather, compare, top,
)  # fmt: skip
