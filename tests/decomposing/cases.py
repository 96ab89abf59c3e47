"""Models of one normalisation, drawn in every form, and how far from the referee rounding may take them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from bnfold import ir, reference
from bnfold.converting import convert as upgrade
from bnfold.converting import imports
from bnfold.decomposing import OPERATORS as NORMALISATIONS
from bnfold.decomposing import Form, decompose
from bnfold.report.events import BatchNormEvent, Report
from bnfold.semantics import Policy

Array = np.ndarray[Any, Any]
OPERATORS = frozenset(NORMALISATIONS)
PARAMETERS = ("scale", "bias", "mean", "var")
SIZES = (4, 3, 5, 2, 6)
STATISTICS = ("running_mean", "running_var", "saved_mean", "saved_var")


@dataclass(frozen=True)
class Case:
    """One node.

    Attributes:
        opset: That the node is written in.
        dims: Of x.
        annotation: What the model says of the dims of x; None where it hides even the rank, behind a Reshape.
        types: Element types of x, of scale and bias, of mean and variance.
        inputs: The parameters that are graph inputs; the others are initializers.
        outputs: Names behind y, "" for one that is left out.
        shape: Of the parameters, if not (C).
    """

    op_type: str = "BatchNormalization"
    opset: int = 15
    dims: tuple[int, ...] = (4, 3, 5)
    annotation: tuple[int | str | None, ...] | None = (4, 3, 5)
    types: tuple[int, int, int] = (TensorProto.FLOAT,) * 3
    inputs: frozenset[str] = frozenset()
    outputs: tuple[str, ...] = ()
    shape: tuple[int, ...] | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0

    @property
    def parameters(self) -> tuple[str, ...]:
        return PARAMETERS if self.op_type == "BatchNormalization" else PARAMETERS[:2]

    @property
    def training(self) -> bool:
        return bool(self.outputs) or self.attributes.get("training_mode") == 1

    def type_of(self, name: str) -> int:
        return self.types[{"x": 0, "y": 0, "scale": 1, "bias": 1}.get(name, 2)]

    def values(self) -> dict[str, Array]:
        """Activation and parameters: scales of both signs, means off zero."""
        draw = np.random.default_rng(self.seed)
        shape = self.shape or ((self.dims[1] if len(self.dims) > 1 else 1),)
        raw = {
            "x": draw.normal(0.5, 2, self.dims),
            "scale": draw.uniform(0.4, 2, shape) * draw.choice([-1, 1], shape),
            "bias": draw.normal(size=shape),
            "mean": draw.normal(0.3, 1, shape),
            "var": draw.uniform(0.1, 3, shape),
        }
        return {name: raw[name].astype(numpy_type(self.type_of(name))) for name in ("x", *self.parameters)}

    def feeds(self) -> dict[str, Array]:
        values = self.values()
        feeds = {name: values[name] for name in ("x", *sorted(self.inputs))}
        if self.annotation is None:
            feeds |= {"given": feeds.pop("x"), "dims": np.array(self.dims, np.int64)}
        return feeds

    def proto(self) -> onnx.ModelProto:
        values = self.values()
        nodes = [
            helper.make_node(
                self.op_type, ["x", *self.parameters], ["y", *self.outputs], name="norm", **self.attributes
            )
        ]
        if self.annotation is None:
            nodes.insert(0, helper.make_node("Reshape", ["given", "dims"], ["x"], name="hide"))
            inputs = [
                helper.make_tensor_value_info("given", self.types[0], self.dims),
                helper.make_tensor_value_info("dims", TensorProto.INT64, ["rank"]),
            ]
        else:
            inputs = [helper.make_tensor_value_info("x", self.types[0], self.annotation)]
        inputs += [
            helper.make_tensor_value_info(name, self.type_of(name), values[name].shape) for name in sorted(self.inputs)
        ]
        outputs = [helper.make_tensor_value_info("y", self.types[0], [f"y{axis}" for axis in range(len(self.dims))])]
        statistics = [str(axis) for axis in range(len(self.shape or (1,)))]
        outputs += [helper.make_tensor_value_info(n, self._made_type(n), statistics) for n in self.outputs if n]
        held = [numpy_helper.from_array(values[name], name) for name in self.parameters if name not in self.inputs]
        graph = helper.make_graph(nodes, "g", inputs, outputs, held)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)

    def _made_type(self, name: str) -> int:
        return self.types[2] if name.startswith("running") else self.types[0]


@dataclass(frozen=True)
class Done:
    """A decomposed model, synced, with what was reported."""

    model: ir.Model
    report: Report
    event: BatchNormEvent | None

    @property
    def ops(self) -> list[str]:
        return [node.op_type for node in self.model.graph.nodes]

    @property
    def initializers(self) -> dict[str, Array]:
        return {value.name: value.tensor.numpy() for value in self.model.graph.values.values() if value.tensor}


def decomposed(
    source: onnx.ModelProto,
    form: Form = "mul_add",
    *,
    target: int | None = None,
    policy: Policy | None = None,
) -> Done:
    """``source``, brought to opset ``target`` if that is given, with every normalisation written out."""
    model, report = ir.load(source), Report()
    if target is None:
        imports.strip_initializer_inputs(model)
    else:
        upgrade(model, target, policy=policy)
    nodes = [node for node in model.nodes() if node.is_op("BatchNormalization")]
    events = {node: BatchNormEvent(node.label, node.graph.path, 15, "inference") for node in nodes}
    decompose(model, events, report, policy=policy or Policy(), form=form, operators=OPERATORS)
    model.remove_dead_nodes()
    model.sync()
    onnx.checker.check_model(model.proto)
    return Done(model, report, next(iter(events.values()), None))


def numpy_type(dtype: int) -> np.dtype[Any]:
    return np.dtype(helper.tensor_dtype_to_np_dtype(dtype))


def unit(*dtypes: int) -> float:
    """Half the distance from 1 to the next number, of the coarsest of several types."""
    return max(float(ml_dtypes.finfo(numpy_type(dtype)).eps) / 2 for dtype in dtypes)


def size_of_terms(case: Case, expected: Mapping[str, Array]) -> dict[str, Array]:
    """What the sums that make each output consist of, in absolute value: rounding errors are relative to that."""
    values = {name: value.astype(np.float64) for name, value in case.values().items()}
    x, rank = values["x"], len(case.dims)
    column = (-1, *(1,) * (rank - 2)) if case.shape is None else (1, *case.dims[1:])
    scale, bias = (np.abs(values[name].reshape(column)) for name in ("scale", "bias"))
    if case.op_type == "InstanceNormalization":
        axes: tuple[int, ...] = tuple(range(2, rank))
    else:
        axes = tuple(axis for axis in range(rank) if axis != 1) if case.shape is None else (0,)
    epsilon = float(np.float32(case.attributes.get("epsilon", 1e-5)))
    if case.training or case.op_type == "InstanceNormalization":
        mean, var = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    else:
        mean, var = values["mean"].reshape(column), values["var"].reshape(column)
    largest = np.abs(x).max(axes, keepdims=True, initial=0) + np.abs(mean)
    terms = {"y": largest * scale / np.sqrt(var + epsilon) + bias}
    for name, value in expected.items():
        if name != "y":
            terms[name] = np.abs(value) + float((largest**2).max(initial=1))
    return terms


def evaluated(model: ir.Model | onnx.ModelProto, feeds: Mapping[str, Array], **options: Any) -> dict[str, Array]:
    loaded = model if isinstance(model, ir.Model) else ir.load(model)
    return reference.evaluate(loaded, feeds, **options)
