"""Real exports of real torch, folded and compared with the modules that they came from."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest

import bnfold
from bnfold import errors, ir
from bnfold.pipeline import passes

torch = pytest.importorskip("torch")

from bnfold import pytorch  # noqa: E402 - only now is it known that torch is there
from tests.interop.pytorch import networks  # noqa: E402
from tests.interop.pytorch.networks import DenseNet, Generator, MobileNet, ResNet, Stylist, UNet, count  # noqa: E402

PRESERVE = torch.onnx.TrainingMode.PRESERVE

# What stays in DenseNet: a Relu behind each does not let negative scales through, and upward others read the value.
LEFT = {DenseNet: Counter({"negative-scale": 3}), UNet: Counter({"no-gain": 1})}

# BatchNormalizations: in the module, and what the exporter's own fusions leave for bnfold (dynamo, TorchScript).
SIZES = {ResNet: (7, 0, 0), MobileNet: (12, 1, 2), DenseNet: (9, 5, 5), UNet: (13, 1, 3), Generator: (3, 1, 3),
         Stylist: (3, 1, 2)}  # fmt: skip
FAMILIES = [pytest.param(family, id=family.__name__) for family in SIZES]


def open_dims(family: Any) -> tuple[dict[int, str], ...]:
    return ({0: "batch"},) if family is Generator else ({0: "batch", 2: "height", 3: "width"},)


def check_reasons(outcome: pytorch.TorchOutcome, family: Any) -> None:
    kept = Counter(event.reason.code for event in outcome.report.batchnorms if event.reason is not None)
    assert kept == LEFT.get(family, Counter())


def check_verdicts(outcome: pytorch.TorchOutcome) -> None:
    assert outcome.status == "verified"
    assert outcome.verdict is not None
    assert outcome.module is not None
    assert outcome.module.precision == "float64"
    assert {row.sample for row in outcome.module.rows} == {0, 1, 2}
    assert all(row.relative <= row.allowed < 1e-3 for row in outcome.module.rows)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("fused", [True, False], ids=["as exported", "nothing fused"])
def test_a_program_is_folded_in_place_and_computes_what_the_module_does(family: Any, fused: bool) -> None:
    module, x = networks.drawn(family()), networks.example(family)
    export = networks.exported if fused else networks.plainly_exported
    program = export(module, x, dynamic_shapes=open_dims(family))
    assert count(program.model) == SIZES[family][1 if fused else 0]
    before = program.model
    outcome = pytorch.optimize(program, module=module)
    assert count(program.model) == sum(LEFT.get(family, Counter()).values())
    assert count(program.model, "InstanceNormalization") == (2 if family is Stylist else 0)
    if outcome.report.batchnorms:
        check_verdicts(outcome)
    check_reasons(outcome, family)
    if outcome.report.count("folded"):  # a smaller BatchNormalization is a change, too, and no fold
        assert program.model is not before
    assert outcome.module is None or len({tuple(row.shapes.items()) for row in outcome.module.rows}) >= 2
    expected = module(x)
    for found, right in zip(program(x), expected if isinstance(expected, tuple) else (expected,), strict=True):
        np.testing.assert_allclose(found, right, rtol=0, atol=1e-5 * float(right.abs().max()))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("opset", "fused"), [(9, False), (11, True), (13, False), (15, False)],
    ids=["9, nothing fused", "11, as exported", "13, nothing fused", "15, nothing fused"],
)  # fmt: skip
def test_a_file_of_the_older_exporter(family: Any, opset: int, fused: bool, tmp_path: Path) -> None:
    module, x = networks.drawn(family()), networks.example(family)
    source, target = tmp_path / "in.onnx", tmp_path / "out.onnx"
    # In evaluation mode PRESERVE says the same as the default, but keeps the exporter from folding Conv by itself.
    source.write_bytes(networks.scripted(module, x, opset_version=opset, **({} if fused else {"training": PRESERVE})))
    assert count(onnx.load(source)) == SIZES[family][2 if fused else 0]
    outcome = pytorch.optimize(source, target, module=module, example_inputs=x)
    written = onnx.load(target)
    assert count(written) == sum(LEFT.get(family, Counter()).values())
    assert written.opset_import[0].version == 15
    check_verdicts(outcome)
    check_reasons(outcome, family)


def small() -> Any:
    nn = torch.nn
    return networks.drawn(nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 20, 1)))


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # torch 2.13 warns of what its exporter itself does
def test_an_exported_program_is_exported_folded_and_compared_with_what_it_computes(tmp_path: Path) -> None:
    module, x = networks.drawn(MobileNet()), networks.example(MobileNet)
    outcome = pytorch.optimize(torch.export.export(module, (x,)), tmp_path / "out.onnx")
    check_verdicts(outcome)
    assert outcome.notes == ()
    assert count(outcome.program.model) == count(onnx.load(tmp_path / "out.onnx")) == 0
    np.testing.assert_allclose(outcome.program(x)[0], module(x).detach(), rtol=0, atol=1e-5)


def test_without_a_batchnorm_the_module_is_not_run() -> None:
    module, x = torch.nn.Conv2d(3, 4, 3).eval(), networks.example(ResNet)
    program = networks.exported(module, x)
    module.forward = None
    outcome = pytorch.optimize(program, module=module)
    assert (outcome.status, outcome.module) == ("verified", None)


def test_untouched_weights_of_a_program_are_the_same_objects() -> None:
    module, x = small(), networks.example(ResNet)
    program = networks.plainly_exported(module, x)
    kept, folded = (program.model.graph.initializers[name].const_value for name in ("3.weight", "0.weight"))
    pytorch.optimize(program, module=module)
    assert program.model.graph.initializers["3.weight"].const_value is kept
    assert program.model.graph.initializers["0.weight"].const_value is not folded


def test_a_session_of_the_old_model_is_let_go() -> None:
    module, x = small(), networks.example(ResNet)
    program = networks.plainly_exported(module, x)
    program(x)
    assert program._inference_session is not None
    pytorch.optimize(program, module=module)
    assert program._inference_session is None
    np.testing.assert_allclose(program(x)[0], module(x), rtol=0, atol=1e-5)


def test_a_program_and_a_file_at_once(tmp_path: Path) -> None:
    module, x = small(), networks.example(ResNet)
    program = networks.plainly_exported(module, x)
    outcome = pytorch.optimize(program, tmp_path / "out.onnx", module=module)
    assert outcome.outcome.output == tmp_path / "out.onnx"
    assert outcome.model is program.model
    assert count(onnx.load(tmp_path / "out.onnx")) == count(program.model) == count(outcome.to_proto()) == 0


FUNCTIONS = [bnfold.optimize, bnfold.fold, bnfold.decompose, bnfold.convert]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_every_function_takes_a_program_and_leaves_it_as_it_is(function: Any, tmp_path: Path) -> None:
    module, x = small(), networks.example(ResNet)
    program = networks.plainly_exported(module, x)
    model, before = program.model, onnx_ir.to_proto(program.model).SerializeToString(deterministic=True)
    outcome = function(program, opset=17)
    assert outcome.verified
    assert bnfold.verify(program, outcome.to_proto())
    assert program.model is model
    assert onnx_ir.to_proto(model).SerializeToString(deterministic=True) == before
    program.model = outcome.to_onnx_ir()
    np.testing.assert_allclose(program(x)[0], module(x), rtol=0, atol=1e-5)
    program.save(tmp_path / "out.onnx")
    assert onnx.load(tmp_path / "out.onnx").opset_import[0].version == 17
    again = pickle.loads(pickle.dumps(outcome))
    assert again.to_proto() == outcome.to_proto()


def test_the_keywords_are_those_of_optimize() -> None:
    module, x = small(), networks.example(ResNet)
    told: list[str] = []
    program = networks.plainly_exported(module, x)
    outcome = pytorch.optimize(
        program, module=module, opset=17, excluded={"Conv"}, progress=lambda *row: told.append(row[0])
    )
    assert (outcome.report.opset_after, outcome.report.left) == (17, 1)
    assert "fold" in told
    with pytest.raises(errors.BadSetting, match="opset: 17 and target_opset=18"):
        pytorch.optimize(program, opset=17, target_opset=18)
    with pytest.raises(TypeError, match="there is no option max_growht"):
        pytorch.optimize(program, max_growht=3)  # type: ignore[call-arg]


def test_an_onnx_ir_model_comes_back_as_a_new_one() -> None:
    module, x = small(), networks.example(ResNet)
    model = networks.plainly_exported(module, x).model
    outcome = pytorch.optimize(model, module=module, example_inputs=x)
    assert isinstance(outcome.model, onnx_ir.Model)
    assert (count(model), count(outcome.model)) == (1, 0)
    assert outcome.status == "verified"


def test_options_and_the_target_opset_hold_for_programs_too() -> None:
    module, x = small(), networks.example(ResNet)
    program = networks.plainly_exported(module, x, opset_version=18)
    options = bnfold.Options(target_opset=21, excluded=frozenset({"Conv"}), decompose="remaining")
    outcome = pytorch.optimize(program, module=module, options=options)
    assert program.model.opset_imports[""] == 21
    assert [event.verdict for event in outcome.report.batchnorms] == ["decomposed"]
    assert outcome.status == "verified"


def test_without_a_module_only_the_two_models_are_compared() -> None:
    program = networks.plainly_exported(small(), networks.example(ResNet))
    outcome = pytorch.optimize(program)
    assert outcome.module is None
    assert outcome.verdict is not None
    assert outcome.status == outcome.verdict.status == "verified"


def test_with_depth_none_nothing_is_compared() -> None:
    program = networks.plainly_exported(small(), networks.example(ResNet))
    outcome = pytorch.optimize(program, module=small(), verify=bnfold.VerifyOptions(depth="none"))
    assert (outcome.status, outcome.verdict, outcome.module) == (None, None, None)
    assert count(program.model) == 0


def test_the_report_as_data() -> None:
    module, x = small(), networks.example(ResNet)
    document = pytorch.optimize(networks.plainly_exported(module, x), module=module).to_json()
    assert [row["verdict"] for row in document["batchnorms"]] == ["folded"]
    assert document["verify"]["status"] == document["module"]["status"] == "verified"
    assert document["module"]["rows"][0]["shapes"] == {"input": [2, 3, 16, 24]}
    assert document["export_notes"] == []


def test_another_module_fails_and_nothing_is_replaced_or_written(tmp_path: Path) -> None:
    program = networks.plainly_exported(small(), networks.example(ResNet))
    before = program.model
    other = small()
    other[1].running_mean += 1
    with pytest.raises(bnfold.errors.VerificationFailed, match=r"as it was exported is not what module\.eval"):
        pytorch.optimize(program, tmp_path / "out.onnx", module=other)
    assert program.model is before
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_fold_fails_although_the_export_was_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison with the module stands by itself: here the other one is made to see nothing."""
    module, x = small(), networks.example(ResNet)
    program = networks.plainly_exported(module, x)
    rewrite = passes.rewrite

    def spoiled(model: ir.Model, *args: Any, **given: Any) -> Any:
        report = rewrite(model, *args, **given)
        bias = model.graph.values["3.bias"]
        bias.tensor = ir.Exact(1, bias.tensor.float64() + np.eye(20)[3] * 1e-3)  # type: ignore[union-attr]
        return report

    monkeypatch.setattr("bnfold.pipeline.passes.rewrite", spoiled)
    monkeypatch.setattr("bnfold.pipeline.job._verified", lambda outcome, *_: outcome)
    with pytest.raises(errors.VerificationFailed, match="differs by more than rounding the new weights can cause"):
        pytorch.optimize(program, module=module)


@pytest.mark.parametrize(
    ("program", "module", "message"),
    [
        (3, None, "an ONNXProgram, an ExportedProgram, .* or an onnx.ModelProto is wanted, not int"),
        (b"", torch.relu, "a torch.nn.Module is wanted, not builtin_function_or_method"),
    ],
)
def test_wrong_arguments(program: Any, module: Any, message: str) -> None:
    with pytest.raises(errors.BadInput, match=message):
        pytorch.optimize(program, module=module)


def test_examples_that_do_not_fit() -> None:
    module, x = small(), networks.example(ResNet)
    program = networks.plainly_exported(module, x)
    before = program.model
    with pytest.raises(errors.BadInput, match="'input' has the shape"):
        pytorch.optimize(program, module=module, example_inputs=x[:, :2])
    with pytest.raises(errors.BadInput, match="hold 2 tensors, the model has 1 inputs"):
        pytorch.optimize(program, module=module, example_inputs=(x, x))
    assert program.model is before


def test_a_program_without_weights_is_told() -> None:
    """Exported from fake tensors, to have the weights applied later."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        program = networks.plainly_exported(ResNet().eval(), torch.randn(2, 3, 16, 24))
    with pytest.raises(errors.BadInput, match="has it all its weights"):
        pytorch.optimize(program)


def test_a_file_without_examples_is_compared_on_made_up_ones() -> None:
    module, x = small(), networks.example(ResNet)
    axes = {"x": {0: "batch", 2: "height", 3: "width"}}
    data = networks.scripted(module, x, opset_version=13, input_names=["x"], dynamic_axes=axes, training=PRESERVE)
    outcome = pytorch.optimize(data, module=module, verify=bnfold.VerifyOptions(samples=2, inputs={"x": (1, 3, 9, 10)}))
    assert outcome.module is not None
    assert [row.shapes["x"] for row in outcome.module.rows] == [(1, 3, 9, 10), (2, 3, 18, 20)]
    assert outcome.status == "verified"
