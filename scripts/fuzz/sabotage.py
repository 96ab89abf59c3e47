"""Wrong rewrites: one change to a right model that alters its results, most of the time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from fuzz.builder import Array
from fuzz.parts import nodes, pick, tensors

Fault = Callable[[onnx.ModelProto, np.random.Generator], None]
FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE)
OTHERS = {
    "Relu": "Abs", "Abs": "Relu", "Add": "Sub", "Sub": "Add", "Mul": "Add", "Max": "Min", "Min": "Max",
    "ReduceMax": "ReduceMin", "ReduceSum": "ReduceMean", "ReduceMean": "ReduceSum", "Sigmoid": "Tanh",
    "MaxPool": "AveragePool", "GlobalMaxPool": "GlobalAveragePool", "GlobalAveragePool": "GlobalMaxPool", "Div": "Mul",
}  # fmt: skip

SIBLINGS = OTHERS | {
    "Softmax": "LogSoftmax", "LogSoftmax": "Softmax", "Greater": "Less", "Less": "Greater", "ArgMax": "ArgMin",
    "Tanh": "Sigmoid", "Floor": "Ceil", "Ceil": "Floor", "Round": "Floor", "Neg": "Identity", "Exp": "Identity",
    "ReduceMin": "ReduceMax", "LeakyRelu": "Elu", "Elu": "LeakyRelu", "AveragePool": "LpPool", "Sum": "Mean",
    "Mean": "Sum", "And": "Or", "Or": "And",
}  # fmt: skip
ELEMENTS: tuple[Callable[[Any], Any], ...] = (
    lambda x: x + 1, lambda x: x - 1, lambda x: -x, lambda x: 2 * x + 1, lambda x: 0 * x, lambda x: 0 * x - 2
)  # fmt: skip
"""Operands in which one number is changed: integers are targets, axes, pads and indices as well."""


def _weights(model: onnx.ModelProto) -> list[onnx.TensorProto]:
    return [tensor for tensor in tensors(model) if tensor.data_type in FLOATS and numpy_helper.to_array(tensor).size]


def _put(tensor: onnx.TensorProto, array: Array) -> None:
    tensor.CopyFrom(numpy_helper.from_array(np.asarray(array, order="C"), tensor.name))


def change_weight(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Change one element, or one slice, of one weight."""
    tensor = pick(rng, _weights(model))
    if tensor is None:
        return
    array = numpy_helper.to_array(tensor).copy()
    index = int(rng.integers(array.size))
    factor = pick(rng, (-1.0, 0.0, 1.5, 2.0, 0.5))
    if rng.random() < 0.5 or array.ndim < 2:
        array.reshape(-1)[index] = array.reshape(-1)[index] * factor + (factor == 0)
    else:
        array[int(rng.integers(array.shape[0]))] *= factor
    _put(tensor, array)


def transpose_weight(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Reorder the elements of a weight."""
    tensor = pick(rng, _weights(model))
    if tensor is None:
        return
    array = numpy_helper.to_array(tensor)
    turned = np.roll(array, 1, axis=int(rng.integers(array.ndim))) if array.ndim else array * 2
    _put(tensor, turned)


def swap_weights(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Swap the contents of two weights of one shape."""
    found = _weights(model)
    first = pick(rng, found)
    alike = [other for other in found if other is not first and list(other.dims) == list(first.dims)] if found else []
    if first is None or not alike:
        return
    second = pick(rng, alike)
    one, two = numpy_helper.to_array(first), numpy_helper.to_array(second)
    if one.dtype == two.dtype:
        _put(first, two)
        _put(second, one)


def change_attribute(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    node = pick(rng, [node for node in model.graph.node if node.attribute])
    if node is None:
        return
    attribute = pick(rng, node.attribute)
    if attribute.type == onnx.AttributeProto.INT:
        attribute.i += int(pick(rng, (-1, 1)))
    elif attribute.type == onnx.AttributeProto.FLOAT:
        attribute.f = attribute.f * 4 + 0.25
    elif len(attribute.ints) > 1:
        attribute.ints[:] = [*attribute.ints[1:], attribute.ints[0]]
    elif attribute.name != "value":
        node.attribute.remove(attribute)


def bypass(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Leave a node out."""
    ends = {output.name for output in model.graph.output}
    node = pick(rng, [node for node in model.graph.node if len(node.output) == 1 and node.input])
    if node is None:
        return
    if node.output[0] in ends or node.op_type == "Constant":
        node.op_type = "Identity"
        del node.input[1:], node.attribute[:]
        return
    made, source = node.output[0], node.input[0]
    model.graph.node.remove(node)
    for other in model.graph.node:
        other.input[:] = [source if name == made else name for name in other.input]


def swap_inputs(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    node = pick(rng, [node for node in model.graph.node if len(node.input) > 1])
    if node is None:
        return
    first, second = (int(rng.integers(len(node.input))) for _ in range(2))
    node.input[first], node.input[second] = node.input[second], node.input[first]


def other_operator(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    _rename(model, rng, OTHERS)


def sibling(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    _rename(model, rng, SIBLINGS)


def _rename(model: onnx.ModelProto, rng: np.random.Generator, others: Mapping[str, str]) -> None:
    node = pick(rng, [node for node in model.graph.node if node.op_type in others])
    if node is not None:
        node.op_type = others[node.op_type]


def drop_bias(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    node = pick(rng, [node for node in model.graph.node if len(node.input) == 3])
    if node is not None:
        del node.input[2:]


def reconnect(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Let a node read another value."""
    node = pick(rng, [node for node in model.graph.node if node.input])
    if node is None:
        return
    made = [name for other in model.graph.node for name in other.output]
    node.input[0] = pick(rng, [*made, *(info.name for info in model.graph.input)])


def insert(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Insert one more node between two."""
    places = [index for index, node in enumerate(model.graph.node) if node.input and node.op_type != "Constant"]
    at = pick(rng, places)
    if at is None:
        return
    node = model.graph.node[at]
    ops = ["Neg", "Relu", "Abs", "Tanh"]
    if node.op_type in ("Sqrt", "Log"):  # subgraphs get positive numbers for these, and do not see the others
        ops = ["Neg", "Tanh"]
    made = helper.make_node(str(pick(rng, ops)), [node.input[0]], ["put between"])
    node.input[0] = "put between"
    model.graph.node.insert(at, made)


def _change(tensor: onnx.TensorProto, rng: np.random.Generator) -> None:
    """Change one element of any type, one row, or the order of all."""
    array = numpy_helper.to_array(tensor)
    if not array.size or array.dtype.kind not in "fiuV" or tensor.data_type == TensorProto.STRING:
        return
    values = array.astype(np.float64 if tensor.data_type not in (TensorProto.INT64, TensorProto.INT32) else np.int64)
    kind, change = rng.random(), pick(rng, ELEMENTS)
    if kind < 0.2 and values.ndim:
        values = np.roll(values, 1, int(rng.integers(values.ndim)))
    else:
        rows = values if kind < 0.4 and values.ndim else values.reshape(-1)
        at = int(rng.integers(len(rows)))
        rows[at] = change(rows[at])
    with np.errstate(all="ignore"):
        _put(tensor, values.astype(array.dtype))


def change_number(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Change a number of a constant of any type."""
    found = tensors(model)
    if found:
        _change(pick(rng, found), rng)


def change_integer(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Change an integer of a target, axes, pads, indices or a quantised weight."""
    found = [tensor for tensor in tensors(model) if tensor.data_type not in (*FLOATS, TensorProto.FLOAT16)]
    if found:
        _change(pick(rng, found), rng)


def change_visible(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Change a constant of the interface: an output, or the default of an input."""
    seen = {info.name for info in (*model.graph.input, *model.graph.output)}
    found = [tensor for tensor in model.graph.initializer if tensor.name in seen]
    if found:
        _change(pick(rng, found), rng)


def rewire_output(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Put another value under the name of an output."""
    output = pick(rng, [info.name for info in model.graph.output])
    made = [name for node in model.graph.node for name in node.output if name and name != output]
    source = pick(rng, [*made, *(info.name for info in model.graph.input)])
    producer = next((node for node in model.graph.node if output in node.output), None)
    if source is None or producer is None:
        return
    for node in nodes(model):
        for names in (node.input, node.output):
            names[:] = ["what it was" if name == output else name for name in names]
    model.graph.node.append(helper.make_node("Identity", [source], [output]))


FAULTS: tuple[Fault, ...] = (
    change_weight, change_weight, change_weight, transpose_weight, swap_weights, change_attribute, change_attribute,
    bypass, swap_inputs, other_operator, drop_bias, reconnect, insert,
)  # fmt: skip
"""The mode ``verify`` stores a change by its place in this list."""

ALL: tuple[Fault, ...] = (
    *FAULTS, *[change_number] * 3, *[change_integer] * 6, *[change_visible] * 2, sibling, sibling, rewire_output,
)  # fmt: skip
