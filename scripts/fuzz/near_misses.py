"""Wrong rewrites that show on few models, sizes, inputs or numbers: all else is right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from fuzz.fills import change_filled, change_one, store_filled
from fuzz.learned import change_learned
from fuzz.parts import graphs, nodes, pick, reads
from fuzz.sequences import change_sequence
from fuzz.zeros import change_zero

Fault = Callable[[onnx.ModelProto, np.random.Generator], None]
KEEPING = (
    *("Expand", "Reshape", "Tile", "Slice", "Pad", "Resize", "Upsample", "Flatten", "Squeeze", "Unsqueeze"),
    *("Transpose", "Concat", "Gather"),
)
"""Operators that may leave a value as it is."""
TARGETS = {
    ("Reshape", 1), ("Expand", 1), ("Tile", 1), ("Slice", 1), ("Slice", 2), ("Pad", 1), ("Resize", 3),
    ("ConstantOfShape", 0),
}  # fmt: skip
LOGIC = ("And", "Or", "Xor")
RECURRENT = ("RNN", "GRU", "LSTM")
CHOOSING = ("Slice", "Gather", "GatherND", "GatherElements", "Where")


def reorder_inputs(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Reorder the inputs, as do tools that collect them anew."""
    _reorder(model.graph.input, rng)


def reorder_outputs(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    _reorder(model.graph.output, rng)


def _reorder(infos: Any, rng: np.random.Generator) -> None:
    kept = [*infos]
    order = rng.permutation(len(kept))
    del infos[:]
    infos.extend(kept[index] for index in order)


def narrow_output(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Declare a dynamic size of an output as 1, as if the model had been traced at that size, or as another one."""
    _narrow(model.graph.output, rng)


def narrow_input(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    _narrow(model.graph.input, rng)


def _narrow(infos: Any, rng: np.random.Generator) -> None:
    shapes = [info.type.tensor_type.shape for info in infos]
    dim = pick(rng, [dim for shape in shapes for dim in shape.dim if not dim.HasField("dim_value")])
    if dim is not None:
        dim.dim_value = int(pick(rng, (1, 1, 1, 0, 2, 3)))


def drop_default(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Remove an input that has a default, or remove its default."""
    listed = [tensor for tensor in model.graph.initializer if _is_listed(model, tensor.name)]
    tensor = pick(rng, listed)
    if tensor is None:
        return
    if rng.random() < 0.3:
        model.graph.initializer.remove(tensor)
        return
    kept = [info for info in model.graph.input if info.name != tensor.name]
    del model.graph.input[:]
    model.graph.input.extend(kept)


def _is_listed(model: onnx.ModelProto, name: str) -> bool:
    return any(info.name == name for info in model.graph.input)


def freeze_default(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Let some consumers of a default, in any graph, read a copy of it: callers change nothing there."""
    tensor = pick(rng, [tensor for tensor in model.graph.initializer if _is_listed(model, tensor.name)])
    if tensor is None:
        return
    copy = onnx.TensorProto()
    copy.CopyFrom(tensor)
    copy.name = f"frozen {tensor.name}"
    model.graph.initializer.append(copy)
    consumers = [node for node in nodes(model) if tensor.name in node.input]
    for node in consumers if rng.random() < 0.3 else [pick(rng, consumers)] if consumers else ():
        node.input[:] = [copy.name if name == tensor.name else name for name in node.input]


def leave_out_keeping(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Leave out an operator that keeps its input as it is, at some sizes."""
    node = pick(rng, [node for node in nodes(model) if node.op_type in KEEPING])
    if node is not None:
        node.op_type, node.domain = "Identity", ""
        del node.input[1:], node.attribute[:]


def change_target(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Change a size or bound: to an open one, a copied one, 1, or any that occurs."""
    read = {node.input[slot] for node in nodes(model) for op, slot in TARGETS if reads(node, op, slot)}
    found = [tensor for tensor in _integers(model) if tensor.name in read]
    tensor = pick(rng, found)
    if tensor is None:
        return
    array = numpy_helper.to_array(tensor).copy()
    there = [int(number) for other in found for number in numpy_helper.to_array(other).reshape(-1)[:8]]
    if array.size:
        array.reshape(-1)[int(rng.integers(array.size))] = pick(rng, [0, 1, -1, *there])
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def _integers(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    for graph in graphs(model):
        yield from (tensor for tensor in getattr(graph, "initializer", ()) if tensor.data_type == TensorProto.INT64)


def other_shape(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Read the sizes of another value."""
    node = pick(rng, [node for node in nodes(model) if node.op_type in ("Shape", "Size")])
    if node is not None:
        made = [name for other in model.graph.node for name in other.output]
        node.input[0] = pick(rng, [*made, *(info.name for info in model.graph.input)])


def change_chosen(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Change one row, element or boolean of a constant that indices select from."""
    read = {name for node in nodes(model) if node.op_type in CHOOSING for name in node.input[:1]}
    tensor = pick(rng, [tensor for tensor in model.graph.initializer if tensor.name in read])
    if tensor is not None:
        change_one(tensor, rng)


def clip_by_bounds(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Replace a Clip by Min and Max, in the wrong order if the upper bound comes first: crossed bounds show it."""
    found = [node for node in nodes(model) if node.op_type == "Clip" and len(node.input) > 2 and all(node.input)]
    node = pick(rng, found)
    if node is None:
        return
    graph = next(graph for graph in graphs(model) if any(other is node or other == node for other in graph.node))
    low, high = (("Max", node.input[1]), ("Min", node.input[2]))
    first, second = (high, low) if rng.random() < 0.7 else (low, high)
    between = helper.make_node(first[0], [node.input[0], first[1]], [f"{node.output[0]} bounded"])
    node.op_type = second[0]
    node.input[:] = [between.output[0], second[1]]
    graph.node.insert([*graph.node].index(node), between)


def nudge_scale(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Change a factor of a Resize by a little or by a step."""
    read = {name for node in nodes(model) if node.op_type in ("Resize", "Upsample") for name in node.input[1:3]}
    tensor = pick(rng, [tensor for tensor in model.graph.initializer if tensor.name in read and tensor.dims != [0]])
    if tensor is None or tensor.data_type != TensorProto.FLOAT:
        return
    array = numpy_helper.to_array(tensor).copy()
    array[-1 - int(rng.integers(max(len(array) - 2, 1)))] *= pick(rng, (1.0005, 0.999, 1.05, 1.5))
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def drop_state(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Leave out an initial state of a recurrent operator: no fault if it is zero in every run."""
    found = [(node, slot) for node in nodes(model) for op in RECURRENT for slot in (5, 6) if reads(node, op, slot)]
    node, slot = pick(rng, [(node, slot) for node, slot in found if node.input[slot]]) or (None, 0)
    if node is not None:
        node.input[slot] = ""


def change_logic(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Combine two booleans in another way, which shows at one pair of them."""
    node = pick(rng, [node for node in nodes(model) if node.op_type in LOGIC])
    if node is not None:
        node.op_type = pick(rng, [op for op in LOGIC if op != node.op_type])


INTERFACE: tuple[Fault, ...] = (
    reorder_inputs, reorder_outputs, narrow_output, narrow_output, narrow_input, drop_default
)  # fmt: skip
RARE: tuple[Fault, ...] = (
    freeze_default, leave_out_keeping, change_target, other_shape, change_chosen, clip_by_bounds, nudge_scale,
    change_filled, store_filled, drop_state, change_sequence, change_logic,
    change_learned, change_zero,
)  # fmt: skip
"""Changes that few models have a place for."""


def near_miss(model: onnx.ModelProto, rng: np.random.Generator) -> Fault | None:
    """Make one of the changes above that the model has a place for; return its name, or None if there is none."""
    was = model.SerializeToString()
    faults = RARE if rng.random() < 0.7 else INTERFACE
    for index in map(int, rng.permutation(len(faults))):
        faults[index](model, rng)
        if model.SerializeToString() != was:
            return faults[index]
    return None
