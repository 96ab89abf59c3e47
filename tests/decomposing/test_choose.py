"""What is declined, each with its reason, and a model that is then as it was, to the byte."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from bnfold import ir
from bnfold.decomposing import decompose, left
from bnfold.report.events import BatchNormEvent, Report
from bnfold.report.reasons import Reason
from bnfold.semantics import Policy
from tests.decomposing.cases import OPERATORS, PARAMETERS, STATISTICS, Case

CASE = Case()
INSTANCE = Case("InstanceNormalization", opset=9)


def edited(case: Case, edit: Callable[[onnx.GraphProto], Any]) -> onnx.ModelProto:
    model = case.proto()
    edit(model.graph)
    return model


def parameters_of(sizes: Sequence[int]) -> Callable[[onnx.GraphProto], None]:
    def edit(graph: onnx.GraphProto) -> None:
        del graph.initializer[:]
        for name, size in zip(PARAMETERS, sizes, strict=False):
            graph.initializer.append(helper.make_tensor(name, TensorProto.FLOAT, [size], [1.0] * size))

    return edit


def from_elsewhere(graph: onnx.GraphProto) -> None:
    """Of an operator that nobody knows."""
    graph.input[0].name = "raw"
    graph.node.insert(0, helper.make_node("Mystery", ["raw"], ["x"], domain="custom"))
    del graph.output[:]
    graph.node.append(helper.make_node("Mystery", ["y"], ["z"], domain="custom"))
    graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, [1]))


def of_integers(graph: onnx.GraphProto) -> None:
    graph.input[0].type.tensor_type.elem_type = TensorProto.INT32


def scalar(graph: onnx.GraphProto) -> None:
    del graph.input[0].type.tensor_type.shape.dim[:]


REFUSALS: dict[str, tuple[onnx.ModelProto, Reason]] = {
    "broadcasting before opset 7": (replace(CASE, opset=6, attributes={"is_test": 1}).proto(), Reason.LEGACY_BROADCAST),
    "training in an unknown rank before opset 14": (
        replace(CASE, opset=9, annotation=None, outputs=STATISTICS).proto(),
        Reason.RANK_UNKNOWN,
    ),
    "instances in an unknown rank before opset 14": (replace(INSTANCE, annotation=None).proto(), Reason.RANK_UNKNOWN),
    "instances without inner axes before opset 14": (
        replace(INSTANCE, dims=(4, 3), annotation=(4, 3)).proto(),
        Reason.RANK_UNKNOWN,
    ),
    "rank 1 of instances": (replace(INSTANCE, dims=(4,), annotation=(4,)).proto(), Reason.UNREADABLE),
    "a scalar": (edited(CASE, scalar), Reason.UNREADABLE),
    "six inputs": (edited(CASE, lambda graph: graph.node[0].input.append("mean")), Reason.UNREADABLE),
    "two inputs of an instance": (edited(INSTANCE, lambda graph: graph.node[0].input.pop()), Reason.UNREADABLE),
    "no first output": (
        edited(replace(CASE, outputs=STATISTICS[:2]), lambda graph: graph.node[0].output.__setitem__(0, "")),
        Reason.UNREADABLE,
    ),
    "more parameters than channels": (edited(CASE, parameters_of([5, 5, 5, 5])), Reason.UNREADABLE),
    "parameters of different sizes": (
        edited(replace(CASE, annotation=(4, "c", 5)), parameters_of([3, 3, 1, 3])),
        Reason.UNREADABLE,
    ),
    "instances and parameters that differ": (edited(INSTANCE, parameters_of([5, 5])), Reason.UNREADABLE),
    "two channels in rank 1": (
        edited(replace(CASE, dims=(4,), annotation=(4,)), parameters_of([2, 2, 2, 2])),
        Reason.UNREADABLE,
    ),
    "an epsilon that is no number": (
        edited(CASE, lambda graph: graph.node[0].attribute.append(helper.make_attribute("epsilon", "small"))),
        Reason.UNREADABLE,
    ),
    "a type that nobody tells": (edited(CASE, from_elsewhere), Reason.TYPE_UNKNOWN),
    "a type that is no float": (edited(CASE, of_integers), Reason.TYPE),
    "single activations of an unknown number": (
        replace(CASE, opset=7, annotation=(4, 3, "w"), shape=(15,), attributes={"spatial": 0}).proto(),
        Reason.NOT_STATIC,
    ),
}


@pytest.mark.parametrize(("source", "reason"), REFUSALS.values(), ids=REFUSALS)
def test_refusals(source: onnx.ModelProto, reason: Reason) -> None:
    model, report = ir.load(source), Report()
    node = next(node for node in model.nodes() if node.is_op(*OPERATORS))
    event = BatchNormEvent("norm", "", 15, "inference")
    before = model.proto.SerializeToString(deterministic=True)
    decompose(model, {node: event}, report, policy=Policy(), operators=OPERATORS)
    model.remove_dead_nodes()
    model.sync()
    assert (event.reason, event.verdict, event.into) == (reason, "kept", ())
    assert model.proto.SerializeToString(deterministic=True) == before
    assert not report.cuts
    ((label, path, why),) = left(model, OPERATORS)
    assert (label, path) == ("norm", "")
    assert why.startswith(reason.value)
