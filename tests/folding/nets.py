"""Small graphs in a few lines, folded and compared with what they were, in float64."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from bnfold import analysis, ir, reference
from bnfold.equalize import equalize as even_out
from bnfold.folding import Limits, SizeBudget, fold
from bnfold.report.events import BatchNormEvent, Report
from bnfold.semantics import Policy

Array = npt.NDArray[Any]
PLENTY = 1 << 30


class Net:
    """Builds a model. Weights are random, seeded, of both signs; every value that a test names is a string."""

    def __init__(self, opset: int = 17, dtype: Any = np.float64, ir_version: int = 8) -> None:
        self.opset, self.ir_version = opset, ir_version
        self.dtype = np.dtype(dtype)
        self.rng = np.random.default_rng(7)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.feeds: dict[str, Array] = {}
        self.count = 0

    def name(self, hint: str) -> str:
        self.count += 1
        return f"{hint}{self.count}"

    def input(self, *shape: int, declared: Sequence[int | str | None] | None = None, name: str = "x") -> str:
        """An input that is fed ``shape``; ``declared`` is what the model says of it."""
        name = self.name(name)
        kind = helper.np_dtype_to_tensor_dtype(self.dtype)
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape if declared is None else declared))
        self.feeds[name] = self.rng.standard_normal(shape).astype(self.dtype)
        return name

    def const(self, *shape: int, value: Any = None, hint: str = "w") -> str:
        """An initializer: random numbers of a shape, or the given ones."""
        array = self.rng.standard_normal(shape) if value is None else np.asarray(value)
        return self.tensor(array.astype(self.dtype) if array.dtype.kind == "f" else array, hint)

    def tensor(self, array: Array, hint: str = "w") -> str:
        """An initializer of the array's own type."""
        self.weights.append(numpy_helper.from_array(array, self.name(hint)))
        return self.weights[-1].name

    def ints(self, *numbers: int) -> str:
        return self.const(value=np.array(numbers, np.int64), hint="i")

    def node(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """A node with one output."""
        return self.nodes_of(op_type, *inputs, outputs=1, **attributes)[0]

    def nodes_of(self, op_type: str, *inputs: str, outputs: int, **attributes: Any) -> list[str]:
        names = [self.name(op_type.lower()) for _ in range(outputs)]
        self.nodes.append(helper.make_node(op_type, list(inputs), names, name=f"{op_type}_{self.count}", **attributes))
        return names

    def batchnorm(
        self, x: str, channels: int, *, scale: Any = None, shift: Any = None, positive: bool = False, **attributes: Any
    ) -> str:
        """A BatchNormalization with scales of both signs (all positive where asked) and a shift."""
        drawn = self.rng.uniform(0.5, 2.0, channels)
        signs = np.ones(channels) if positive else np.where(np.arange(channels) % 2, -1.0, 1.0)
        s = self.const(value=drawn * signs if scale is None else np.asarray(scale, np.float64), hint="scale")
        b = self.const(
            value=self.rng.standard_normal(channels) if shift is None else np.asarray(shift, np.float64), hint="bias"
        )
        mean = self.const(value=self.rng.standard_normal(channels) * (shift is None), hint="mean")
        var = self.const(value=self.rng.uniform(0.5, 2.0, channels), hint="var")
        return self.node("BatchNormalization", x, s, b, mean, var, epsilon=1e-3, **attributes)

    def model(self, *outputs: str) -> onnx.ModelProto:
        kind = helper.np_dtype_to_tensor_dtype(self.dtype)
        ends = [onnx.ValueInfoProto(name=name, type=helper.make_tensor_type_proto(kind, None)) for name in outputs]
        graph = helper.make_graph(self.nodes, "net", self.inputs, ends, self.weights)
        domains = sorted({node.domain for node in self.nodes} - {""})
        versions = [helper.make_opsetid("", self.opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
        model = helper.make_model(graph, opset_imports=versions, ir_version=self.ir_version)
        known = onnx.shape_inference.infer_shapes(model, data_prop=True).graph.output
        for end, described in zip(model.graph.output, known, strict=True):
            end.CopyFrom(described)  # outputs need shapes; what is between them shall be found out by the search
            if not end.type.tensor_type.HasField("shape"):
                dims = reference.evaluate(ir.load(model), self.feeds, [end.name])[end.name].shape
                end.type.CopyFrom(helper.make_tensor_type_proto(kind, dims))
        return model


class Folded:
    """What folding made of a model, and what it says about it."""

    def __init__(self, model: ir.Model, report: Report) -> None:
        self.model, self.report = model, report
        self.proto = saved(model)

    @property
    def ops(self) -> list[str]:
        """The operators left, in order, Constant nodes aside."""
        return [node.op_type for node in self.model.graph.nodes if node.op_type != "Constant"]

    @property
    def reasons(self) -> list[str]:
        return [event.reason.code for event in self.report.batchnorms if event.reason is not None]

    def node(self, op_type: str) -> ir.Node:
        return next(node for node in self.model.graph.nodes if node.op_type == op_type)

    def weight(self, op_type: str, slot: int = 1) -> Array:
        """The constant that the first node of a kind reads at ``slot``, as it is stored."""
        held = analysis.constant(self.node(op_type).input(slot))
        assert held is not None
        return held.numpy()


def fold_only(
    proto: onnx.ModelProto,
    *,
    growth: int | None = PLENTY,
    policy: Policy | None = None,
    equalize: bool = False,
    **limits: Any,
) -> Folded:
    """Fold a copy of the model, without comparing anything.

    Whether an Add pays is for tests/folding/test_gain.py to ask: others see what an operator can take.
    """
    model = ir.load(proto)
    events = {
        node: BatchNormEvent(node.label, node.graph.path, node.graph.opset(), "")
        for node in model.nodes()
        if node.is_op("BatchNormalization")
    }
    report = Report(batchnorms=list(events.values()), names_before=model.original_names)
    known, budget = Limits(**({"exchange": "always"} | limits)), SizeBudget(growth)
    fold(model, events, report, policy=policy or Policy(), limits=known, budget=budget, progress=lambda *_: None)
    if equalize:
        even_out(model, report, known, budget)
    model.remove_dead_nodes()
    model.sync()
    result = Folded(model, report)
    onnx.checker.check_model(result.proto)
    return result


def saved(model: ir.Model) -> onnx.ModelProto:
    """The model as it is written, every weight in its place."""
    with tempfile.TemporaryDirectory() as folder:
        ir.save(model, Path(folder) / "model.onnx")
        return onnx.load(Path(folder) / "model.onnx")


def folded(net: Net, *outputs: str, tolerance: float = 1e-10, **limits: Any) -> Folded:
    """Fold the net, and assert that every output is what it was, relative to its largest value."""
    proto = net.model(*outputs)
    result = fold_only(proto, **limits)
    compare(proto, result.proto, net.feeds, tolerance)
    return result


def compare(before: onnx.ModelProto, after: onnx.ModelProto, feeds: dict[str, Array], tolerance: float = 1e-10) -> None:
    """Assert that both compute the same."""
    expected = reference.evaluate(ir.load(before), feeds)
    found = reference.evaluate(ir.load(after), feeds)
    assert list(expected) == list(found)
    for name, array in expected.items():
        assert found[name].shape == array.shape
        assert np.isfinite(array).all()
        np.testing.assert_allclose(found[name], array, rtol=0, atol=tolerance * max(1.0, float(np.abs(array).max())))


def declined(net: Net, *outputs: str, **limits: Any) -> list[str]:
    """Assert that no BatchNormalization is gone and no weight is changed; the reasons."""
    proto = net.model(*outputs)
    result = fold_only(proto, **limits)
    assert result.ops == [node.op_type for node in proto.graph.node if node.op_type != "Constant"]
    kept = {tensor.name: numpy_helper.to_array(tensor) for tensor in result.proto.graph.initializer}
    for tensor in proto.graph.initializer:
        np.testing.assert_array_equal(kept[tensor.name], numpy_helper.to_array(tensor))
    return result.reasons
