"""bnfold inside an onnx_ir pipeline."""

from __future__ import annotations

import json
import logging
from typing import Any

import numpy as np
import onnx_ir
import pytest

import bnfold
from bnfold import ir as bnfold_ir
from bnfold import passes, reference
from tests.conftest import MODELS
from tests.pipeline.test_job import overflowing


def operators(model: onnx_ir.Model) -> list[str]:
    return [node.op_type for node in model.graph]


def values(model: onnx_ir.Model, feed: np.ndarray) -> list[np.ndarray]:
    loaded = bnfold_ir.load(onnx_ir.to_proto(model))
    return list(reference.evaluate(loaded, {model.graph.inputs[0].name: feed}).values())


def test_a_pipeline_upgrades_and_folds_and_computes_the_same() -> None:
    model = onnx_ir.load(MODELS / "generator.onnx")
    shape = [size if isinstance(size, int) else 2 for size in model.graph.inputs[0].shape]
    feed = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    before = values(model, feed)
    result = onnx_ir.passes.Sequential(passes.ConvertOpsetPass(18), passes.FoldBatchNormPass())(model)
    assert result.modified
    assert result.model.opset_imports[""] == 18
    assert "BatchNormalization" in operators(model)
    assert "BatchNormalization" not in operators(result.model)
    for expected, found in zip(before, values(result.model, feed), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def wide_model() -> onnx_ir.Model:
    """Two convolutions with weights beyond the size that stays outside the skeleton; one has a BatchNormalization."""
    rng = np.random.default_rng(5)

    def weight(name: str, array: np.ndarray) -> onnx_ir.Value:
        return onnx_ir.Value(
            name=name,
            const_value=onnx_ir.tensor(array.astype(np.float32), name=name),
            type=onnx_ir.TensorType(onnx_ir.DataType.FLOAT),
            shape=onnx_ir.Shape(array.shape),
        )

    x = onnx_ir.Value(name="x", type=onnx_ir.TensorType(onnx_ir.DataType.FLOAT), shape=onnx_ir.Shape([2, 24, 5, 6]))
    first = weight("first", rng.normal(size=(30, 24, 3, 3)))
    second = weight("second", rng.normal(size=(40, 30, 1, 1)))
    parameters = [weight(name, rng.uniform(0.5, 2, 30)) for name in ("scale", "bias", "mean", "var")]
    conv = onnx_ir.node("Conv", [x, first])
    norm = onnx_ir.node("BatchNormalization", [conv.outputs[0], *parameters])
    relu = onnx_ir.node("Relu", [norm.outputs[0]])
    last = onnx_ir.node("Conv", [relu.outputs[0], second])
    last.outputs[0].name = "y"
    last.outputs[0].type = onnx_ir.TensorType(onnx_ir.DataType.FLOAT)
    last.outputs[0].shape = onnx_ir.Shape([2, 40, 3, 4])
    graph = onnx_ir.Graph(
        [x], [last.outputs[0]], nodes=[conv, norm, relu, last], initializers=[first, second, *parameters],
        opset_imports={"": 17}, name="wide",
    )  # fmt: skip
    return onnx_ir.Model(graph, ir_version=8)


def test_values_of_one_name_are_told_apart() -> None:
    model = wide_model()
    feed = np.random.default_rng(2).normal(size=(2, 24, 5, 6)).astype(np.float32)
    expected = values(model, feed)
    nodes = list(model.graph)
    for node in nodes[:2]:
        node.outputs[0].name = "same"
    result = passes.FoldBatchNormPass()(model)
    assert operators(result.model) == ["Conv", "Relu", "Conv"]
    assert [node.name for node in result.model.graph] == [nodes[0].name, nodes[2].name, nodes[3].name]
    assert [value.name for value in result.model.graph.outputs] == ["y"]
    np.testing.assert_allclose(
        values(result.model, feed)[0], expected[0], rtol=0, atol=1e-5 * np.abs(expected[0]).max()
    )


def test_untouched_weights_are_the_same_objects_and_folded_ones_are_lazy() -> None:
    model = wide_model()
    result = passes.FoldBatchNormPass()(model)
    found = result.model.graph.initializers
    assert found["second"].const_value is model.graph.initializers["second"].const_value
    assert isinstance(found["first"].const_value, onnx_ir.LazyTensor)
    feed = np.random.default_rng(1).normal(size=(2, 24, 5, 6)).astype(np.float32)
    for expected, got in zip(values(model, feed), values(result.model, feed), strict=True):
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_nothing_to_do_is_reported_as_not_modified() -> None:
    once = passes.FoldBatchNormPass()(wide_model()).model
    again = passes.FoldBatchNormPass()(once)
    assert not again.modified
    assert again.model is not once


def test_the_report_of_the_last_call_is_at_hand() -> None:
    step = passes.FoldBatchNormPass()
    step(wide_model())
    assert [event.verdict for event in step.report.batchnorms] == ["folded"]


@pytest.mark.parametrize("name", ["bn15", "dense", "mlp"])
def test_decomposing_leaves_no_batchnormalization(name: str) -> None:
    result = passes.DecomposeBatchNormPass()(onnx_ir.load(MODELS / f"{name}.onnx"))
    assert result.modified
    assert "BatchNormalization" not in operators(result.model)


def test_options_are_those_of_bnfold() -> None:
    step = passes.FoldBatchNormPass(bnfold.Options(excluded=frozenset({"Conv"})))
    result = step(wide_model())
    assert not result.modified
    assert [event.reason and event.reason.code for event in step.report.batchnorms] == ["excluded"]
    assert step.options.target_opset == "keep"
    formed = passes.DecomposeBatchNormPass(bnfold.Options(decompose_form="sub_mul_add"))(wide_model())
    assert operators(formed.model) == ["Conv", "Sub", "Mul", "Add", "Relu", "Conv"]


@pytest.mark.parametrize(
    ("make", "options", "field"),
    [
        (passes.FoldBatchNormPass, bnfold.Options(target_opset=18), "target_opset"),
        (passes.FoldBatchNormPass, bnfold.Options(fold=False), "fold"),
        (passes.FoldBatchNormPass, bnfold.Options(decompose="all"), "decompose"),
        (passes.DecomposeBatchNormPass, bnfold.Options(decompose="remaining"), "decompose"),
        (lambda options: passes.ConvertOpsetPass(18, options=options), bnfold.Options(target_opset=17), "target_opset"),
    ],
)
def test_what_another_pass_does_cannot_be_asked_for(make: Any, options: bnfold.Options, field: str) -> None:
    with pytest.raises(ValueError, match=f"decides {field} by itself"):
        make(options)


def test_the_report_is_data_and_outlives_a_sequence() -> None:
    upgrade, fold = passes.ConvertOpsetPass(18), passes.FoldBatchNormPass()
    onnx_ir.passes.Sequential(upgrade, fold)(onnx_ir.load(MODELS / "generator.onnx"))
    assert (upgrade.report.opset_before, upgrade.report.opset_after) != (fold.report.opset_before, 0)
    assert {event.verdict for event in fold.report.batchnorms} == {"folded"}
    document = json.loads(json.dumps(fold.report.to_json()))
    assert [row["verdict"] for row in document["batchnorms"]] == ["folded"] * len(fold.report.batchnorms)


def test_each_pass_and_each_decision_is_a_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "bnfold"):
        passes.FoldBatchNormPass()(wide_model())
    lines = [(record.levelname, record.name, record.getMessage()) for record in caplog.records]
    (fold,) = [line for line in lines if line[2].startswith("pass fold_affines: nodes 4 -> 3, ")]
    assert fold[:2] == ("INFO", "bnfold.pipeline.passes")
    decisions = [message for level, name, message in lines if (level, name) == ("DEBUG", "bnfold.pipeline.context")]
    assert sum(line.startswith("BatchNormalization ") and " folded: " in line for line in decisions) == 1


def test_a_result_is_verified_if_asked() -> None:
    fold = passes.FoldBatchNormPass(verify=bnfold.VerifyOptions(runtime="none"))
    model = wide_model()
    assert operators(fold(model).model) == ["Conv", "Relu", "Conv"]
    assert fold.verdict is not None
    assert fold.verdict.verified
    unchecked = passes.FoldBatchNormPass()
    unchecked(model)
    assert unchecked.verdict is None


def test_a_wrong_result_of_a_pass_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = bnfold.verify(MODELS / "bn9.onnx", MODELS / "mlp.onnx")
    assert failed.status == "failed"
    monkeypatch.setattr("bnfold.pipeline.formats.ONNX.verify", lambda *_, **__: failed)
    with pytest.raises(bnfold.errors.VerificationFailed):
        passes.ConvertOpsetPass(18, verify=bnfold.VerifyOptions())(wide_model())


def test_a_weight_that_overflows_is_left_to_begin_with() -> None:
    """Not found when somebody reads it: then it is too late to leave the BatchNormalization."""
    fold = passes.FoldBatchNormPass()
    result = fold(onnx_ir.from_proto(overflowing(20)))
    assert [event.reason and event.reason.code for event in fold.report.batchnorms] == ["range"]
    assert not result.modified


def test_after_the_optimizer_of_onnxscript() -> None:
    """Which fuses what follows a Conv with constant weights, and leaves the rest to bnfold."""
    optimizer = pytest.importorskip("onnxscript.optimizer")
    model = onnx_ir.load(MODELS / "dense.onnx")
    feed = np.random.default_rng(3).normal(
        size=[dim if isinstance(dim, int) else 2 for dim in model.graph.inputs[0].shape]
    )
    before = values(model, feed.astype(np.float32))
    optimizer.optimize(model)
    result = onnx_ir.passes.Sequential(passes.ConvertOpsetPass(18), passes.FoldBatchNormPass())(model).model
    for expected, found in zip(before, values(result, feed.astype(np.float32)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_simplifying_is_a_pass_of_its_own() -> None:
    model = onnx_ir.from_onnx_text("""
        <ir_version: 8, opset_import: ["": 17]> g (float[N,3] x) => (float[N,3] y) {
            i = Identity (x) t = Transpose (i) u = Transpose (t) y = Relu (u)
        }
    """)
    simplify = passes.SimplifyPass()
    result = simplify(model)
    assert (result.modified, operators(result.model)) == (True, ["Relu"])
    assert simplify.report.simplifications() == "Identity ×1, Transpose pair ×1"  # noqa: RUF001
    assert not passes.SimplifyPass()(result.model).modified
    with pytest.raises(ValueError, match="SimplifyPass decides target_opset by itself"):
        passes.SimplifyPass(bnfold.Options(target_opset=17))


def test_a_model_is_not_compared_with_itself() -> None:
    """A pass that works in place hands out what went in."""
    import onnx_ir

    model = onnx_ir.load(MODELS / "bn9.onnx")
    for after in (model, onnx_ir.passes.PassResult(model, modified=True)):
        with pytest.raises(bnfold.errors.WrongUsage, match="before and after are one object"):
            bnfold.verify(model, after)
    assert bnfold.verify(model, model.clone())
    assert bnfold.verify(MODELS / "bn9.onnx", MODELS / "bn9.onnx")


def test_options_in_the_place_of_the_output_are_told() -> None:
    with pytest.raises(bnfold.errors.WrongUsage, match="give options by name"):
        bnfold.optimize(MODELS / "bn9.onnx", bnfold.Options())  # type: ignore[arg-type] # that is the mistake
