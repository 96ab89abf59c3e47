"""Wrong rewrites: one change to a right model that makes it compute something else, most of the time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from _fuzz.builder import Array
from _fuzz.parts import pick, tensors

Fault = Callable[[onnx.ModelProto, np.random.Generator], None]
FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE)
OTHERS = {
    "Relu": "Abs", "Abs": "Relu", "Add": "Sub", "Sub": "Add", "Mul": "Add", "Max": "Min", "Min": "Max",
    "ReduceMax": "ReduceMin", "ReduceSum": "ReduceMean", "ReduceMean": "ReduceSum", "Sigmoid": "Tanh",
    "MaxPool": "AveragePool", "GlobalMaxPool": "GlobalAveragePool", "GlobalAveragePool": "GlobalMaxPool", "Div": "Mul",
}  # fmt: skip


def _weights(model: onnx.ModelProto) -> list[onnx.TensorProto]:
    return [tensor for tensor in tensors(model) if tensor.data_type in FLOATS and numpy_helper.to_array(tensor).size]


def _put(tensor: onnx.TensorProto, array: Array) -> None:
    tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array), tensor.name))


def change_weight(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """One element, or one slice, of one weight."""
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
    """Elements of a weight in another order."""
    tensor = pick(rng, _weights(model))
    if tensor is None:
        return
    array = numpy_helper.to_array(tensor)
    turned = np.roll(array, 1, axis=int(rng.integers(array.ndim))) if array.ndim else array * 2
    _put(tensor, turned)


def swap_weights(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """The contents of two weights of one shape."""
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
    """A node left out."""
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
    node = pick(rng, [node for node in model.graph.node if node.op_type in OTHERS])
    if node is not None:
        node.op_type = OTHERS[node.op_type]


def drop_bias(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    node = pick(rng, [node for node in model.graph.node if len(node.input) == 3])
    if node is not None:
        del node.input[2:]


def reconnect(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """A reader of another value."""
    node = pick(rng, [node for node in model.graph.node if node.input])
    if node is None:
        return
    made = [name for other in model.graph.node for name in other.output]
    node.input[0] = pick(rng, [*made, *(info.name for info in model.graph.input)])


def insert(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """One more node between two."""
    places = [index for index, node in enumerate(model.graph.node) if node.input and node.op_type != "Constant"]
    at = pick(rng, places)
    if at is None:
        return
    node = model.graph.node[at]
    made = helper.make_node(str(pick(rng, ["Neg", "Relu", "Abs", "Tanh"])), [node.input[0]], ["put between"])
    node.input[0] = "put between"
    model.graph.node.insert(at, made)


FAULTS: tuple[Fault, ...] = (
    change_weight, change_weight, change_weight, transpose_weight, swap_weights, change_attribute, change_attribute,
    bypass, swap_inputs, other_operator, drop_bias, reconnect, insert,
)  # fmt: skip
