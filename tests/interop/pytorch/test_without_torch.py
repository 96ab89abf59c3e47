"""What needs no PyTorch: exported models without their module."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir
import onnxscript.optimizer
import pytest
from onnx import TensorProto, helper, numpy_helper

import bnfold
from bnfold import pytorch
from bnfold.errors import ExportedInTraining
from bnfold.interop.pytorch.training import training_nodes
from tests.conftest import MODELS


def exported(opset: int, *, training: bool = False, drops: bool | None = None) -> onnx.ModelProto:
    """Conv, BatchNormalization and Dropout, as PyTorch writes them at ``opset``."""
    rng = np.random.default_rng(7)
    names = ("scale", "bias", "mean", "var")
    weights = {"W": rng.normal(size=(5, 3, 1, 1)), **{name: rng.uniform(0.5, 2, 5) for name in names}}
    stored = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()]
    outputs = ["n", *(["rm", "rv", "sm", "sv"] if opset < 14 else ["rm", "rv"])] if training else ["n"]
    mode: dict[str, Any] = {"training_mode": 1} if training and opset >= 14 else {}
    nodes = [
        helper.make_node("Conv", ["x", "W"], ["c"]),
        helper.make_node("BatchNormalization", ["c", *names], outputs, name="norm", **mode),
    ]
    last = "n"
    if drops is not None:
        stored += [
            numpy_helper.from_array(np.array(0.5, np.float32), "ratio"),
            numpy_helper.from_array(np.array(drops), "on"),
        ]
        nodes.append(helper.make_node("Dropout", ["n", "ratio", "on"], ["d"], name="drop"))
        last = "d"
    shape = [2, 3, 4, 6]
    graph = helper.make_graph(
        nodes, "exported",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, [2, 5, 4, 6])],
        stored,
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def test_a_file_is_folded_and_the_two_models_compared(tmp_path: Path) -> None:
    outcome = pytorch.optimize(MODELS / "generator.onnx", tmp_path / "out.onnx")
    assert outcome.status == "verified"
    assert outcome.module is None
    assert outcome.model is None
    assert "BatchNormalization" not in {node.op_type for node in onnx.load(tmp_path / "out.onnx").graph.node}


def test_what_holds_a_model_gets_the_folded_one() -> None:
    class Program:
        def __init__(self) -> None:
            self.model = onnx_ir.from_proto(exported(18))

    program = Program()
    before = program.model
    outcome = pytorch.optimize(program)
    assert program.model is outcome.model is not before
    assert outcome.model is not None
    assert [node.op_type for node in outcome.model.graph] == ["Conv"]
    again = program.model
    assert pytorch.optimize(program).model is again


def test_a_program_that_was_not_optimised_is_first() -> None:
    """As torch 2.7 exports a ConvTranspose without a bias: the bias is computed in the graph."""
    proto = exported(18)
    proto.graph.node.insert(0, helper.make_node("CastLike", ["zero", "W"], ["made"]))
    proto.graph.initializer.append(numpy_helper.from_array(np.zeros(5, np.float64), "zero"))
    proto.graph.node[1].input.append("made")

    class Program:
        def __init__(self) -> None:
            self.model = onnx_ir.from_proto(proto)

        def optimize(self) -> None:
            onnxscript.optimizer.fold_constants(self.model)
            onnxscript.optimizer.remove_unused_nodes(self.model)

    outcome = pytorch.optimize(Program())
    assert outcome.model is not None
    assert [node.op_type for node in outcome.model.graph] == ["Conv"]
    assert outcome.notes == ("the export was not optimised: program.optimize() was called first",)


@pytest.mark.parametrize("opset", [9, 13, 14, 15, 18])
def test_training_mode_is_refused_unless_it_is_to_be_read_as_inference(opset: int) -> None:
    with pytest.raises(ExportedInTraining, match=r"BatchNormalization norm\).*force_inference=True") as caught:
        pytorch.optimize(exported(opset, training=True))
    assert caught.value.nodes == ("BatchNormalization norm",)
    inference = bnfold.Options(policy=bnfold.Policy(force_inference=True))
    outcome = pytorch.optimize(exported(opset, training=True), options=inference)
    assert [event.verdict for event in outcome.report.batchnorms] == ["folded"]


def test_dropout_that_drops_is_refused_whatever_was_asked_for() -> None:
    inference = bnfold.Options(policy=bnfold.Policy(force_inference=True))
    for options in (None, inference):
        with pytest.raises(ExportedInTraining, match=r"\(Dropout drop\): call module\.eval\(\) before torch"):
            pytorch.optimize(exported(15, drops=True), options=options)
    assert pytorch.optimize(exported(15, drops=False)).status == "verified"


def test_dropout_before_opset_12_only_copies() -> None:
    proto = exported(11)
    proto.graph.node.append(helper.make_node("Dropout", ["n"], ["d"], ratio=0.5))
    proto.graph.output[0].name = "d"
    assert not training_nodes(bnfold.ir.load(proto), bnfold.Policy())


@pytest.mark.parametrize("wrong", [3, None, object()])
def test_what_is_no_model(wrong: Any) -> None:
    with pytest.raises(bnfold.errors.BadInput, match="is wanted, not"):
        pytorch.optimize(wrong)
