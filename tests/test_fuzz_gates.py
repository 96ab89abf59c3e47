"""That the fuzzer draws signed zeros, learned models, narrower versions and what runtimes refuse, and judges them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from fuzz import (
    builder,
    case,
    delivered,
    draw,
    learned,
    near_misses,
    refused,
    rewriting,
    runtime,
    verifying,
    within,
    zeros,
)
from fuzz.case import Case
from onnx import TensorProto, helper, numpy_helper

import bnfold
from bnfold import ir, verification
from bnfold.converting import repairing
from bnfold.semantics import neutral

pytestmark = pytest.mark.large  # a script, which changes seldom

FLOAT = TensorProto.FLOAT


def judged(model: onnx.ModelProto, feeds: dict[str, builder.Array], folder: Path) -> str:
    """Return the finding of mode ``optimize``."""
    settings = rewriting.DEFAULTS["optimize"] | {"equalize": False, "overridable": "freeze", "drawn": True}
    stored = {tensor.name for tensor in model.graph.initializer}
    feeds = {name: array for name, array in feeds.items() if name not in stored}
    folder.mkdir(parents=True)
    return str(
        rewriting.judge("optimize", Case(model.SerializeToString(), feeds=feeds, settings=settings), folder).error
    )


def test_zeros_of_both_signs_are_drawn_and_read() -> None:
    signs, ops = set(), Counter[str]()
    for seed in range(80):
        model, feeds = zeros.draw(seed)
        ops.update(node.op_type for node in model.graph.node)
        arrays = [*feeds.values(), *map(numpy_helper.to_array, model.graph.initializer)]
        signs |= {bool(sign) for array in arrays if array.dtype.kind == "f" for sign in np.signbit(array[array == 0])}
    assert signs == {False, True}
    assert {*zeros.SIDES, "Neg", "Clip", "Transpose", "Reciprocal", "Relu", "Ceil"} <= ops.keys()


def test_an_operand_that_is_neutral_but_for_signs_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    element = neutral.element

    def unsigned(op_type: str, dtype: int) -> builder.Array | None:
        return element("Sub" if op_type == "Add" else op_type, dtype)

    monkeypatch.setattr(neutral, "element", unsigned)
    errors = [judged(*zeros.draw(seed), tmp_path / str(seed)) for seed in range(60)]
    assert any("relative error" in error for error in errors)


def test_learned_models_run_and_cover_the_domain() -> None:
    ops = Counter[str]()
    for seed in range(120):
        model, feeds = learned.draw(seed)
        assert runtime.runs(runtime.session(model.SerializeToString()), feeds)
        ops.update(node.op_type for node in model.graph.node if node.domain == learned.DOMAIN)
    trees = {"TreeEnsemble", "TreeEnsembleRegressor", "TreeEnsembleClassifier"}
    assert trees | {"LinearRegressor", "LinearClassifier", "LabelEncoder", "OneHotEncoder", "Scaler"} <= ops.keys()


def test_a_wrong_number_in_what_was_learned_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save = ir.save

    def spoiled(model: ir.Model, path: Path) -> None:
        save(model, path)
        proto = onnx.load(path)
        learned.change_learned(proto, np.random.default_rng(0))
        onnx.save(proto, path)

    monkeypatch.setattr(ir, "save", spoiled)
    errors = [judged(*learned.draw(seed), tmp_path / str(seed)) for seed in range(30)]
    assert sum(map(bool, errors)) > 3


def test_words_are_fed_again_as_they_were_kept(tmp_path: Path) -> None:
    words = next(made for made in map(learned.draw, range(80)) if made[1]["x"].dtype.kind == "O")
    Case(words[0].SerializeToString(), feeds=words[1]).keep(tmp_path)
    again = case.read(tmp_path).feeds["x"]
    assert again.dtype == object
    assert again.tolist() == words[1]["x"].tolist()


@pytest.mark.parametrize(("fault", "kind"), [(learned.change_learned, learned.draw), (zeros.change_zero, zeros.draw)])
def test_their_faults_change_them(fault: near_misses.Fault, kind: Callable[[int], tuple[Any, ...]]) -> None:
    models = [kind(seed)[0] for seed in range(40)]
    changed = 0
    for seed, model in enumerate(models):
        before = model.SerializeToString()
        fault(model, np.random.default_rng(seed))
        changed += before != model.SerializeToString()
    assert changed > 8
    assert fault in near_misses.RARE


@pytest.mark.parametrize("place", range(len(delivered.DAMAGES)))
def test_damage_is_what_onnxruntime_refuses(place: int) -> None:
    taken = Counter[tuple[bool, bool]]()
    for seed in range(30):
        model = draw.draw(seed, FLOAT)[0]
        pair = delivered.sound_and_damaged(model, 3 * seed + place)[:2]
        sound, damaged = (can_load(proto) for proto in pair)
        taken[sound, damaged] += 1
    assert taken[True, False] > 3
    assert not taken[False, True]


def can_load(proto: onnx.ModelProto) -> bool:
    try:
        runtime.session(proto.SerializeToString())
    except Exception:  # noqa: BLE001 - whatever it raises
        return False
    return True


def deliver(place: int, folder: Path, count: int = 12) -> list[str]:
    how = bnfold.Options(overridable="freeze")
    errors = []
    for seed in range(count):
        settings = {"deliver": 3 * seed + place}
        drawn = Case(draw.draw(seed, FLOAT)[0].SerializeToString(), settings=settings)
        errors.append(delivered.judge(drawn, folder / str(seed), how).error)
    return errors


def test_damage_that_is_not_mended_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repairing, "_return_own_values", lambda _: [])
    assert any(error.startswith("refused: onnxruntime does not load") for error in deliver(1, tmp_path))


def narrower(place: int) -> Case:
    """Return a case with a float16 version."""
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[2,3] x) => (float[2,4] y) { y = MatMul (x, w) }'
    model = onnx.parser.parse_model(text)
    rng = np.random.default_rng(place)
    model.graph.initializer.append(numpy_helper.from_array(rng.random((3, 4)).astype(np.float32), "w"))
    after = within.halved(model, keeps_interface=bool(place % 2))
    feeds = {"x": rng.standard_normal((2, 3)).astype(np.float32)}
    files = {within.AFTER: after.SerializeToString()}
    return Case(model.SerializeToString(), files, feeds=feeds, settings={within.WITHIN: 0.01})


def within_verdict(
    asked: float, relative: float = 1e-4, status: verification.verdict.VerdictStatus = "verified"
) -> verification.Verdict:
    row = verification.OutputRow("y", "float", (2, 4), 1.0, relative, relative, relative, 1.0, asked, same_pattern=True)
    return verification.Verdict(status, "why", "tolerance", code=verification.Code.TESTED, outputs=(row,))


@pytest.mark.parametrize("place", range(4))
def test_narrower_versions_are_judged_and_right(place: int, tmp_path: Path) -> None:
    outcome = within.judge(narrower(place), tmp_path)
    assert (outcome.error, outcome.compared) == ("", True)


LIES = {
    "contradiction: verified": verification.Verdict("verified", "why", "tolerance", code=verification.Code.TESTED),
    "contradiction: failed": within_verdict(0.01, status="failed"),
    "contradiction: verified, and rows ['y']": within_verdict(0.01, relative=0.5),
    "row: y": within_verdict(0.01, relative=5e-3),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_verdict_that_its_rows_or_onnxruntime_contradict_is_found(
    lie: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification, "verify", lambda *_, **__: LIES[lie])
    assert within.judge(narrower(0), tmp_path).error.startswith(lie)


def test_an_error_beyond_the_tolerance_is_found() -> None:
    one = {"y": np.array([1.0, 2.0], np.float32)}
    other = {"y": np.array([1.0, 2.5], np.float32)}
    verdict = within_verdict(0.5, relative=0.25)
    assert within.finding(0.5, verdict, one, other) == ""
    assert within.finding(0.1, verdict, one, other).startswith("missed: in onnxruntime alone, y is 0.25 off")
    assert within.finding(0.5, verdict, one, None).startswith("missed: onnxruntime does not run")
    fault = replace(verdict, status="failed", outputs=(replace(verdict.outputs[0], fault="it differs"),))
    assert within.finding(0.5, fault, one, other).startswith("accused: ")
    assert within.finding(0.1, fault, one, other) == ""


def test_versions_of_every_kind_are_drawn() -> None:
    ops, types = Counter[str](), Counter[int]()
    for seed in range(40):
        after = onnx.ModelProto.FromString(within.draw(seed).files[within.AFTER])
        ops.update(node.op_type for node in after.graph.node)
        types.update(info.type.tensor_type.elem_type for info in after.graph.input)
    assert {"DequantizeLinear", "Cast"} <= ops.keys()
    assert {TensorProto.FLOAT16, FLOAT} <= types.keys()


def test_each_change_that_is_refused_is_drawn_and_refused() -> None:
    models = [draw.draw(seed, FLOAT)[0] for seed in range(25)]
    models = [model for model in models if can_load(model)]
    for fault in {*refused.FAULTS}:
        lost = 0
        for seed, model in enumerate(models):
            copy = onnx.ModelProto.FromString(model.SerializeToString())
            fault(copy, np.random.default_rng(seed))
            lost += not can_load(copy)
        assert lost, fault.__name__


@pytest.mark.parametrize("asked", ["onnxruntime", "none"])
def test_a_refused_model_that_is_verified_is_found(asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = verification.Verdict("verified", "why", "nothing", code=verification.Code.TESTED)
    monkeypatch.setattr(verification, "verify", lambda *_, **__: verdict)
    errors = []
    for seed in range(10):
        drawn = verifying.draw(10 * (2 * seed + (asked == "none")) + 4)
        assert drawn.settings["witness"] == asked
        errors.append(verifying.judge(drawn, tmp_path / str(seed)).error)
    assert any(error.startswith("refused: ") for error in errors)


def test_two_labels_are_not_the_same(tmp_path: Path) -> None:
    for name, value in (("before", 1), ("after", 2)):
        node = helper.make_node("Constant", [], ["y"], value_int=value)
        info = helper.make_tensor_value_info("y", TensorProto.INT64, [])
        graph = helper.make_graph([node], "g", [], [info])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / name)
    assert "another label" in runtime.compare(tmp_path / "before", tmp_path / "after", {})[0]
    assert runtime.compare(tmp_path / "before", tmp_path / "before", {}) == ("", True)
