"""Initializers that callers could override: whose file lists all of them by habit, and whose some by choice."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnxruntime as ort
import pytest
from click.testing import CliRunner
from onnx import numpy_helper

import bnfold
from bnfold.cli.commands import main
from bnfold.pipeline import passes
from bnfold.pipeline.context import PassContext
from bnfold.report.events import BatchNormEvent
from bnfold.settings import VerifyOptions

rng = np.random.default_rng(7)
WEIGHTS = {
    "w": rng.normal(size=(4, 3, 1, 1)), "s": rng.uniform(0.5, 2, 4), "b": rng.normal(size=4), "m": rng.normal(size=4),
    "v": rng.uniform(0.5, 2, 4),
}  # fmt: skip
CONV = "c = Conv (x, w)"
NORM = "y = BatchNormalization (c, s, b, m, v)"
ALL = ", float[4,3,1,1] w, float[4] s, float[4] b, float[4] m, float[4] v"
SHOWN = "float[1,4,5,5] y"


def made(
    listed: str = ALL, *, body: str = f"{CONV} {NORM}", outputs: str = SHOWN, ir_version: int = 8, opset: int = 15
) -> onnx.ModelProto:
    head = f'<ir_version: {ir_version}, opset_import: ["" : {opset}, "f" : 1]>'
    model = onnx.parser.parse_model(f"{head} g (float[1,3,5,5] x{listed}) => ({outputs}) {{ {body} }}")
    stored = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in WEIGHTS.items()]
    model.graph.initializer.extend(stored)
    return model


def left(outcome: bnfold.Outcome) -> int:
    return sum(node.op_type == "BatchNormalization" for node in outcome.to_proto().graph.node)


def results(model: onnx.ModelProto) -> list[np.ndarray]:
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    x = np.random.default_rng(3).normal(size=(1, 3, 5, 5)).astype(np.float32)
    found: list[np.ndarray] = session.run(None, {"x": x})
    return found


def test_where_every_initializer_is_listed_they_are_frozen_and_it_is_said() -> None:
    model = made()
    outcome = bnfold.optimize(model)
    assert outcome.verdict is not None
    assert outcome.verdict.verified
    assert left(outcome) == 0
    assert [info.name for info in outcome.to_proto().graph.input] == ["x"]
    assert outcome.report.frozen == list(ALL.replace(",", "").split()[1::2])
    (note,) = outcome.report.notes
    assert "callers can no longer feed the weights that were also inputs (5)" in note
    assert 'overridable="keep"' in note
    for before, after in zip(results(model), results(outcome.to_proto()), strict=True):
        np.testing.assert_allclose(before, after, rtol=1e-4, atol=1e-5)


def test_what_callers_feed_stays_an_input_where_that_is_asked_for() -> None:
    outcome = bnfold.optimize(made(), options=bnfold.Options(overridable="keep"))
    assert left(outcome) == 1
    assert outcome.report.frozen == []
    assert len(outcome.to_proto().graph.input) == 6
    (note,) = outcome.report.notes
    assert note.startswith('overridable="freeze" would fold more BatchNormalizations (1)')


@pytest.mark.parametrize("listed", [ALL.rpartition(", ")[0], ", float[4] s", ", float[4,3,1,1] w"])
def test_who_lists_some_of_them_has_chosen(listed: str) -> None:
    outcome = bnfold.optimize(made(listed))
    assert left(outcome) == 1
    assert outcome.report.frozen == []
    assert 'overridable="freeze"' in outcome.report.notes[0]
    assert left(bnfold.optimize(made(listed), options=bnfold.Options(overridable="freeze"))) == 0


@pytest.mark.parametrize(
    ("listed", "body", "trials"),
    [
        (ALL, f"{CONV} {NORM}", [True]),
        (", float[4,3,1,1] w", f"{CONV} {NORM}", [True, False]),
        (ALL, f"{CONV} {NORM} u = BatchNormalization (c, s, b, m, v)", [True]),
    ],
    ids=["all", "parameters are constants", "one is dead"],
)
def test_a_second_trial_is_for_what_may_fold_without_freezing(
    monkeypatch: pytest.MonkeyPatch, listed: str, body: str, trials: list[bool]
) -> None:
    made_trials: list[bool] = []
    trial = passes._folded_trial

    def counted(run: PassContext, freezes: bool) -> list[BatchNormEvent]:
        made_trials.append(freezes)
        return trial(run, freezes)

    monkeypatch.setattr(passes, "_folded_trial", counted)
    checks = VerifyOptions(depth="none")
    (note,) = bnfold.optimize(made(listed, body=body), verify=checks).report.notes
    assert made_trials == trials
    assert "(1)" in note


def test_a_sparse_initializer_that_is_not_listed_is_a_choice() -> None:
    model = made(outputs=f"{SHOWN}, float[2] z", body=f"{CONV} {NORM} z = Identity (k)")
    values = numpy_helper.from_array(np.ones(1, np.float32), "k")
    indices = numpy_helper.from_array(np.zeros(1, np.int64), "places")
    model.graph.sparse_initializer.append(onnx.helper.make_sparse_tensor(values, indices, [2]))
    assert bnfold.optimize(model, verify=VerifyOptions(depth="none")).report.frozen == []


def test_nothing_is_frozen_where_nothing_folds_by_it() -> None:
    alone = bnfold.optimize(made(body="c = Sigmoid (x) y = Conv (c, w)"))
    assert (alone.report.frozen, alone.report.notes) == ([], [])
    stays = bnfold.optimize(made(", float[3] s, float[3] b, float[3] m, float[3] v", body="y = Relu (x)"))
    assert (stays.report.frozen, stays.report.notes) == ([], [])


def test_an_upgrade_never_freezes() -> None:
    outcome = bnfold.upgrade(made(opset=9, ir_version=4), target_opset=15)
    assert outcome.report.frozen == []
    assert len(outcome.to_proto().graph.input) == 6


def test_before_ir_version_4_they_are_constants_whatever_is_asked() -> None:
    for asked in ("auto", "freeze", "keep"):
        outcome = bnfold.optimize(made(ir_version=3, opset=9), options=bnfold.Options(overridable=asked))
        assert left(outcome) == 0
        assert outcome.report.frozen == []


def test_a_listed_initializer_may_be_an_output_too() -> None:
    model = made(outputs=f"{SHOWN}, float[4,3,1,1] w")
    outcome = bnfold.optimize(model)
    assert outcome.verdict is not None
    assert outcome.verdict.verified
    assert left(outcome) == 0
    for before, after in zip(results(model), results(outcome.to_proto()), strict=True):
        np.testing.assert_allclose(before, after, rtol=1e-4, atol=1e-5)


def test_a_body_that_captures_them_computes_the_same() -> None:
    then = f"t () => (float[1,4,5,5] i) {{ {CONV} i = BatchNormalization (c, s, b, m, v) }}"
    other = "e () => (float[1,4,5,5] j) { j = Conv (x, w) }"
    branches = f"then_branch = {then}, else_branch = {other}"
    body = f"sum = ReduceSum <keepdims = 0> (x) ok = Cast <to = 9> (sum) y = If (ok) <{branches}>"
    model = made(body=body)
    outcome = bnfold.optimize(model)
    assert outcome.report.frozen
    assert outcome.verdict is not None
    assert outcome.verdict.verified
    for before, after in zip(results(model), results(outcome.to_proto()), strict=True):
        np.testing.assert_allclose(before, after, rtol=1e-4, atol=1e-5)


def test_a_function_that_is_given_them_computes_the_same() -> None:
    model = made(body="c = Conv (x, w) y = f.norm (c, s, b, m, v)")
    node = onnx.helper.make_node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"])
    imports = [onnx.helper.make_opsetid("", 15)]
    model.functions.append(onnx.helper.make_function("f", "norm", ["x", "s", "b", "m", "v"], ["y"], [node], imports))
    outcome = bnfold.optimize(model)
    for before, after in zip(results(model), results(outcome.to_proto()), strict=True):
        np.testing.assert_allclose(before, after, rtol=1e-4, atol=1e-5)
    if outcome.report.frozen:
        assert outcome.report.notes


def test_a_later_verify_says_that_the_inputs_are_gone(tmp_path: Path) -> None:
    model = made()
    onnx.save(model, tmp_path / "before.onnx")
    bnfold.optimize(model, tmp_path / "after.onnx")
    verdict = bnfold.verify(tmp_path / "before.onnx", tmp_path / "after.onnx")
    assert not verdict.verified
    assert "which had a default" in verdict.reason


def test_a_result_is_compared_with_its_original_once_more(tmp_path: Path) -> None:
    """Callers can no longer feed its weights, which is a difference, and the next step says what settles it."""
    onnx.save(made(), tmp_path / "before.onnx")
    outcome = bnfold.optimize(tmp_path / "before.onnx", tmp_path / "after.onnx")
    assert outcome.report.frozen
    both = tmp_path / "before.onnx", tmp_path / "after.onnx"
    verdict = bnfold.verify(*both)
    assert (verdict.status, verdict.code) == ("failed", "interface")
    assert verdict.next is not None
    assert verdict.next.tried
    assert verdict.next.text.startswith("bnfold.VerifyOptions(frozen=True) verifies it, if no caller feeds")
    frozen = bnfold.verify(*both, options=VerifyOptions(frozen=True))
    assert frozen.verified
    assert any("frozen=True) says: other numbers" in note for note in frozen.notes)
    line = ["verify", *map(str, both)]
    told = CliRunner().invoke(main, line)
    assert (told.exit_code, "next: --frozen verifies it" in told.stderr) == (1, True)
    assert CliRunner().invoke(main, [*line, *verdict.next.options]).exit_code == 0
    assert (
        CliRunner().invoke(main, ["verify", *[str(tmp_path)] * 2, "--frozen", "--exclude", "after.onnx"]).exit_code == 0
    )


def test_frozen_weights_hide_no_other_difference() -> None:
    other = made()
    other.graph.initializer[0].CopyFrom(numpy_helper.from_array(2 * WEIGHTS["w"].astype(np.float32), "w"))
    del other.graph.input[1:]
    verdict = bnfold.verify(made(), other)
    assert verdict.next is not None
    assert "frozen" not in verdict.next.text
    assert bnfold.verify(made(), other, options=VerifyOptions(frozen=True)).status == "failed"
    assert "frozen" not in (bnfold.verify(made(""), other).next or verdict.next).text


def test_a_tool_that_makes_constants_of_weights_is_kept_if_that_is_meant(tmp_path: Path) -> None:
    onnx.save(made(), tmp_path / "before.onnx")
    frozen = bnfold.optimize(made(), overridable="freeze").to_proto()
    onnx.save(frozen, tmp_path / "frozen.onnx")
    copy = "import shutil, sys; shutil.copy(sys.argv[1], sys.argv[3])"
    command = [sys.executable, "-c", copy, str(tmp_path / "frozen.onnx"), "{input}", "{output}"]
    with pytest.raises(bnfold.errors.StepRefused) as refused:
        bnfold.run(tmp_path / "before.onnx", tmp_path / "out.onnx", command)
    assert refused.value.verdict is not None
    assert refused.value.verdict.next is not None
    assert "frozen=True" in refused.value.verdict.next.text
    row = bnfold.run(tmp_path / "before.onnx", tmp_path / "out.onnx", command, verify=VerifyOptions(frozen=True))
    assert row.status == "verified"


def test_a_rewrite_has_its_own_option() -> None:
    with pytest.raises(bnfold.errors.BadSetting, match=r'frozen: .*overridable="freeze" makes constants'):
        bnfold.optimize(made(), verify=VerifyOptions(frozen=True))
