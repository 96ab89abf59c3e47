"""A graph under construction: every value has its static shape and type, so that only legal nodes are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = npt.NDArray[Any]
WEIGHTS = ("w", "bn")
"""Hints of inputs that take any number; other hints say how often, how large or where."""
FLOAT_TYPES = (TensorProto.DOUBLE, TensorProto.FLOAT, TensorProto.FLOAT16)


@dataclass(frozen=True)
class Drawn:
    """A value: its name, its element type, and its shape in the run that is compared."""

    name: str
    dtype: int
    shape: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)


@dataclass
class Builder:
    """Collects nodes, weights and inputs; ``rng`` decides everything."""

    rng: np.random.Generator
    opset: int = 18
    dtype: int = TensorProto.DOUBLE
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)
    inputs: list[Drawn] = field(default_factory=list)
    values: list[Drawn] = field(default_factory=list)
    derived: list[Drawn] = field(default_factory=list)
    """Results that nodes compute from weights and sizes."""
    fed: dict[str, Array] = field(default_factory=dict)
    """Arrays for inputs that do not take any number."""
    opened: set[tuple[str, int]] = field(default_factory=set)
    """Axes of inputs whose sizes decide the result: mostly dynamic."""
    owned: set[str] = field(default_factory=set)
    """Weights with consumers in nested graphs only: often inputs with a default."""
    counter: int = 0
    plain: bool = False
    """Every weight an initializer, every dim static: for models that are written by hand, not drawn."""

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def pick(self, options: Sequence[Any]) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def fresh(self, hint: str) -> str:
        self.counter += 1
        return f"{hint}{self.counter}"

    @property
    def size(self) -> tuple[int, int, int, int]:
        """Numbers of nodes, weights, values and inputs."""
        return len(self.nodes), len(self.weights), len(self.values), len(self.inputs)

    def cut(self, size: tuple[int, int, int, int]) -> None:
        """Remove everything that was added after `size` returned these numbers."""
        for drawn in self.inputs[size[3] :]:
            self.fed.pop(drawn.name)
        for things, kept in zip((self.nodes, self.weights, self.values, self.inputs), size, strict=True):
            del things[kept:]  # type: ignore[attr-defined]

    def weight(self, array: Array, hint: str = "w") -> str:
        """Append a constant: initializer, Constant node, behind an Identity, quantised, narrower, or an old one."""
        kind = 0.0 if self.plain else self.rng.random()
        if kind > 0.87 and hint in WEIGHTS and (made := self.varied(array, kind)):
            return made
        name = self.fresh(hint)
        tensor = numpy_helper.from_array(np.asarray(array, order="C"), name)
        if kind < 0.75:
            self.weights.append(tensor)
        elif kind < 0.82:
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        else:
            tensor.name = f"{name}_stored"
            self.weights.append(tensor)
            self.nodes.append(helper.make_node("Identity", [tensor.name], [name]))
        return name

    def varied(self, array: Array, kind: float) -> str | None:  # noqa: ARG002 - for child classes
        """Append a constant that is not stored as it is, by ``kind`` (up to 1); None if that chooses no way."""
        return None

    def own(self, array: Array) -> str:
        """Append an initializer that only nested graphs read."""
        self.owned.add(name := self.fresh("own"))
        self.weights.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def feed(self, array: Array) -> Drawn:
        """Append an input that gets this array."""
        made = Drawn(self.fresh("fed"), helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        self.inputs.append(made)
        self.fed[made.name] = array
        return made

    def leave_open(self, value: Drawn, axis: int) -> None:
        """Make the axis of an input dynamic, or that of all inputs if the value is none: it may come from there."""
        names = [value.name] if value in self.inputs else [other.name for other in self.inputs]
        self.opened |= {(name, axis) for name in names}

    def integers(self, numbers: Sequence[int]) -> str:
        """Append a constant list of int64."""
        return self.weight(np.array(numbers, np.int64), "i")

    def numbers(self, shape: Sequence[int], low: float = -2.0, high: float = 2.0) -> Array:
        """Draw random numbers in the type of the graph."""
        drawn = self.rng.uniform(low, high, tuple(shape))
        return np.asarray(drawn).astype(helper.tensor_dtype_to_np_dtype(self.dtype))

    def node(self, op_type: str, inputs: Sequence[str], outputs: int = 1, **attributes: Any) -> list[Drawn]:
        """Append a node; return its outputs with the shapes that onnx infers."""
        names = [self.fresh("v") for _ in range(outputs)]
        node = helper.make_node(op_type, list(inputs), names, name=self.fresh(op_type.lower()), **attributes)
        made = [Drawn(name, *described) for name, described in zip(names, self._infer(node), strict=True)]
        if any(size < 0 for value in made for size in value.shape):
            raise ValueError("inference takes a kernel larger than its image")
        self.nodes.append(node)
        self.values.extend(made)
        return made

    def derive(self, op_type: str, inputs: Sequence[str], dtype: int, shape: Sequence[int], **attributes: Any) -> str:
        """Append a node whose output has the given type and shape, which may follow from sizes."""
        name = self.fresh("d")
        self.nodes.append(
            helper.make_node(op_type, list(inputs), [name], name=self.fresh(op_type.lower()), **attributes)
        )
        self.derived.append(Drawn(name, dtype, tuple(shape)))
        return name

    def _infer(self, node: onnx.NodeProto) -> list[tuple[int, tuple[int, ...]]]:
        known = {value.name: value for value in [*self.inputs, *self.values, *self.derived]}
        stored = {tensor.name: tensor for tensor in self.weights}
        for other in self.nodes:
            if other.op_type == "Constant":
                stored[other.output[0]] = other.attribute[0].t
            elif other.op_type == "Identity" and other.input[0] in stored:
                stored[other.output[0]] = stored[other.input[0]]
        types, data = {}, {}
        for name in filter(None, node.input):
            if name in known:
                types[name] = helper.make_tensor_type_proto(known[name].dtype, known[name].shape)
            else:
                types[name] = helper.make_tensor_type_proto(stored[name].data_type, stored[name].dims)
                data[name] = stored[name]
        schema = onnx.defs.get_schema(node.op_type, self.opset)
        found = onnx.shape_inference.infer_node_outputs(
            schema, node, types, data, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10
        )
        return [
            (found[name].tensor_type.elem_type, tuple(dim.dim_value for dim in found[name].tensor_type.shape.dim))
            for name in node.output
        ]

    def model(self, outputs: Sequence[Drawn]) -> onnx.ModelProto:
        """Return the graph as a model; some dims of its inputs are symbolic, unknown, or declared as 0."""
        infos = [self._input(value) for value in self.inputs]
        is_open = any(not all(dim.dim_value for dim in info.type.tensor_type.shape.dim) for info in infos)
        known = self.plain or (not is_open and self.chance(0.5))
        name = "o" if self.chance(0.3) else None
        ends = []
        for value in outputs:
            dims = [size if known else name and f"{name}{axis}_{value.name}" for axis, size in enumerate(value.shape)]
            ends.append(helper.make_tensor_value_info(value.name, value.dtype, dims))
        share = 0.0 if self.plain or self.chance(0.85) else float(self.pick([1.0, 0.5, 0.2]))
        listed = [tensor for tensor in self.weights if self.chance(max(share, 0.6 * (tensor.name in self.owned)))]
        infos += [helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims) for tensor in listed]
        graph = helper.make_graph(self.nodes, "drawn", infos, ends, self.weights)
        version = 3 if self.weights and len(listed) == len(self.weights) and self.chance(0.5) else 8
        versions = [helper.make_opsetid("", self.opset)]
        versions += [helper.make_opsetid(domain, 1) for domain in sorted({node.domain for node in self.nodes} - {""})]
        return helper.make_model(graph, opset_imports=versions, ir_version=version)

    def _input(self, value: Drawn) -> onnx.ValueInfoProto:
        """Declare an input; some sizes are declared as 0 although they differ, and now and then without a rank."""
        if self.plain:
            return helper.make_tensor_value_info(value.name, value.dtype, value.shape)
        dims: list[int | str | None] = list(value.shape)
        for axis in range(len(dims)):
            chance = 0.7 if (value.name, axis) in self.opened else 0.2 if axis != 1 else 0.01
            if self.chance(chance):
                dims[axis] = self.pick([f"d{axis}_{value.name}", None])
            elif self.chance(0.01):
                dims[axis] = 0
        return helper.make_tensor_value_info(value.name, value.dtype, dims if self.chance(0.97) else None)
