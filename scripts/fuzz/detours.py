"""Steps of simplifiers, reversed: detours that exporters write and that other tools remove."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from fuzz.builder import Array
from fuzz.parts import pick

Shape = tuple[int, ...]
TINY = 1e-16
"""An epsilon that rounding removes beside any number but zero."""


SMOOTH = ("Add", "Sub", "Sum", "Mean", "Neg", "Abs", "Relu", "Concat", "Transpose", "Identity")
"""Operators whose results cannot show such an epsilon before them: they have no pole and no discontinuity."""


POLES = ("Div", "Reciprocal", "Log")
"""Operators that make NaN or an infinity of the zero that is left without the epsilon."""


class Detour:
    """Nodes between a value and one consumer of it, under construction."""

    def __init__(self, value: str, shape: Shape, dtype: int, hint: str, *, hides_tiny: bool) -> None:
        self.value, self.shape, self.dtype, self.hides_tiny = value, shape, dtype, hides_tiny
        self.nodes: list[onnx.NodeProto] = []
        self._hint = hint

    def node(self, op_type: str, inputs: Sequence[str], **attributes: Any) -> str:
        name = f"{self._hint} {len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], name=name, **attributes))
        return name

    def held(self, array: Array) -> str:
        """Append a constant of its own, equal to others or not."""
        return self.node("Constant", [], value=numpy_helper.from_array(np.asarray(array)))

    def number(self, number: float, shape: Sequence[int] = ()) -> str:
        return self.held(np.full(shape, number, helper.tensor_dtype_to_np_dtype(self.dtype)))


def add_nothing(d: Detour, rng: np.random.Generator) -> str:
    shape = pick(rng, [(), (1,) * len(d.shape)])
    number = TINY if d.hides_tiny and rng.random() < 0.7 else 0.0
    return d.node("Add", [d.value, d.number(number, shape)])


def times_one(d: Detour, rng: np.random.Generator) -> str:
    return d.node(str(pick(rng, ["Mul", "Div"])), [d.value, d.number(1.0)])


def join_nothing(d: Detour, rng: np.random.Generator) -> str:
    axis = int(rng.integers(len(d.shape)))
    nothing = d.number(0.0, [0 if place == axis else size for place, size in enumerate(d.shape)])
    return d.node("Concat", [d.value, nothing], axis=axis)


def own_shape(d: Detour, _: np.random.Generator) -> str:
    """Reshape to stored sizes, and then to those of the first step, one by one."""
    made = d.node("Reshape", [d.value, d.held(np.array(d.shape))])
    sizes = d.node("Shape", [made])
    each = [d.node("Gather", [sizes, d.held(np.array([axis]))], axis=0) for axis in range(len(d.shape))]
    return d.node("Reshape", [d.value, d.node("Concat", each, axis=0)])


def own_size(d: Detour, _: np.random.Generator) -> str:
    """Expand as PyTorch writes `expand`: a size of −1 becomes 1."""
    wanted = d.held(np.array(d.shape))
    ones = d.node("ConstantOfShape", [d.node("Shape", [wanted])], value=numpy_helper.from_array(np.array([1])))
    none = d.node("Equal", [wanted, d.node("Mul", [ones, d.held(np.array(-1))])])
    return d.node("Expand", [d.value, d.node("Where", [none, ones, wanted])])


def whole_range(d: Detour, rng: np.random.Generator) -> str:
    """Gather all rows, whose indices are counted from the sizes."""
    axis = int(rng.integers(len(d.shape)))
    made = d.node("Reshape", [d.value, d.held(np.array(d.shape))])
    size = d.node("Gather", [d.node("Shape", [made]), d.held(np.array(axis))], axis=0)
    rows = d.node("Range", [d.held(np.array(0)), size, d.held(np.array(1))])
    return d.node("Gather", [d.value, rows], axis=axis)


def no_difference(d: Detour, _: np.random.Generator) -> str:
    """Add the size of the value less itself."""
    size = d.node("Cast", [d.node("Size", [d.node("Reshape", [d.value, d.held(np.array(d.shape))])])], to=d.dtype)
    return d.node("Add", [d.value, d.node("Sub", [size, d.number(float(np.prod(d.shape)))])])


def in_a_branch(d: Detour, rng: np.random.Generator) -> str:
    """Return what the branch of an If makes by negating twice; a constant or a size decides on it."""
    truth = bool(rng.random() < 0.5)
    made = d.node("Reshape", [d.value, d.held(np.array(d.shape))])
    if rng.random() < 0.5:
        condition = d.held(np.array(truth))
    else:
        size = d.node("Gather", [d.node("Shape", [made]), d.held(np.array(0))], axis=0)
        condition = d.node("Greater" if truth else "Less", [size, d.held(np.array(0))])
    name = f"{d.value} in a branch"
    twice = [("Neg", made, f"{name} 0"), ("Neg", f"{name} 0", f"{name} 1")]
    graphs = []
    for is_taken in (truth, not truth):
        rows = twice if is_taken else [("Abs", made, f"{name} 2"), ("Exp", f"{name} 2", f"{name} 3")]
        nodes = [helper.make_node(op_type, [source], [result], name=result) for op_type, source, result in rows]
        end = helper.make_tensor_value_info(rows[-1][2], d.dtype, d.shape)
        graphs.append(helper.make_graph(nodes, name, [], [end]))
    return d.node("If", [condition], then_branch=graphs[0], else_branch=graphs[1])


def unsqueezed_twice(d: Detour, rng: np.random.Generator) -> str:
    """Put in two axes one after the other, and take them out together."""
    first, second = int(rng.integers(len(d.shape) + 1)), int(rng.integers(len(d.shape) + 2))
    inner = d.node("Unsqueeze", [d.value, d.held(np.array([first]))])
    outer = d.node("Unsqueeze", [inner, d.held(np.array([second]))])
    return d.node("Squeeze", [outer, d.held(np.array([second, first + (first >= second)]))])


def joined_and_turned(d: Detour, rng: np.random.Generator) -> str:
    """Turn the axes, and turn them back with some joined, whose sizes are read from what was turned first."""
    rank = len(d.shape)
    order = [int(axis) for axis in rng.permutation(rank)]
    turned = d.node("Transpose", [d.value], perm=order)
    first = int(rng.integers(rank))
    last = int(rng.integers(first, rank)) + 1
    groups = [[axis] for axis in range(first)] + [[*range(first, last)]] + [[axis] for axis in range(last, rank)]
    sizes = d.node("Shape", [turned])
    each = [d.node("Gather", [sizes, d.held(np.array([axis]))], axis=0) for axis in range(rank)]
    product = d.node("ReduceProd", [d.node("Concat", each[first:last], axis=0)], keepdims=1)
    parts = [product if group == groups[first] else each[group[0]] for group in groups]
    joined = d.node("Reshape", [turned, d.node("Concat", parts, axis=0)])
    perm = [int(place) for place in rng.permutation(len(groups))]
    moved = [axis for place in perm for axis in groups[place]]
    parted = d.node(
        "Reshape", [d.node("Transpose", [joined], perm=perm), d.node("Concat", [each[a] for a in moved], axis=0)]
    )
    now = [order[axis] for axis in moved]
    return d.node("Transpose", [parted], perm=[now.index(axis) for axis in range(rank)])


OF_NUMBERS = (add_nothing, times_one)
KINDS: tuple[Callable[[Detour, np.random.Generator], str], ...] = (
    *OF_NUMBERS, join_nothing, own_shape, own_size, whole_range, no_difference, in_a_branch, unsqueezed_twice,
    joined_and_turned,
)  # fmt: skip


def lengthened(model: onnx.ModelProto, rng: np.random.Generator) -> tuple[onnx.ModelProto, str]:
    """Insert one to three detours; return the model and their names, or the model itself if it has no place for one."""
    copy, kinds = onnx.ModelProto.FromString(model.SerializeToString()), []
    if max(entry.version for entry in model.opset_import if not entry.domain) < 13:
        return copy, ""
    shapes, has_pole = _shapes(model), any(node.op_type in POLES for node in model.graph.node)
    places = [(node, slot) for node in copy.graph.node for slot, name in enumerate(node.input) if name in shapes]
    for index in map(int, rng.permutation(len(places))[: int(rng.integers(1, 4))]):
        node, slot = places[index]
        shape, dtype = shapes[node.input[slot]]
        hides_tiny = node.op_type in SMOOTH and not has_pole
        detour = Detour(node.input[slot], shape, dtype, f"detour {index}", hides_tiny=hides_tiny)
        kind = pick(rng, KINDS if shape else OF_NUMBERS)
        node.input[slot] = kind(detour, rng)
        kinds.append(kind.__name__)
        at = [*copy.graph.node].index(node)
        for place, made in enumerate(detour.nodes):
            copy.graph.node.insert(at + place, made)
    return copy, " ".join(sorted(kinds))


def _shapes(model: onnx.ModelProto) -> dict[str, tuple[Shape, int]]:
    """Return the shapes of computed floats whose sizes are all static and not 0, whatever callers feed.

    There are none if inference cannot read a node, because it has the form of another version: a TopK-1 in opset 13
    has no input 1, and that is an error even if inference is not strict.
    """
    bare, given = onnx.ModelProto.FromString(model.SerializeToString()), {info.name for info in model.graph.input}
    defaults = [tensor for tensor in bare.graph.initializer if tensor.name in given]
    for tensor in defaults:
        bare.graph.initializer.remove(tensor)
    try:
        graph = onnx.shape_inference.infer_shapes(bare).graph
    except onnx.shape_inference.InferenceError:
        return {}
    found: dict[str, tuple[Shape, int]] = {}
    for info in (*graph.value_info, *graph.input):
        kind = info.type.tensor_type
        shape = tuple(dim.dim_value for dim in kind.shape.dim)
        if kind.elem_type in (TensorProto.FLOAT, TensorProto.DOUBLE) and kind.HasField("shape") and all(shape):
            found[info.name] = shape, kind.elem_type
    stored = {tensor.name for tensor in model.graph.initializer}
    return {name: known for name, known in found.items() if name not in stored}
