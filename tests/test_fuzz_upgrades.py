"""What mode ``upgrade`` draws beside chains of old operators, and that it sees what was once wrong with that."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from fuzz import detours, distance, downward, draw, faults, forms, functions, legacy, narrow, rewriting, upgrades
from fuzz import verifying as verify_mode
from fuzz.case import Case
from onnx import TensorProto

from bnfold import ir, reference
from bnfold.converting import downgrade
from bnfold.errors import ConversionBlocked
from bnfold.pipeline import passes
from bnfold.verification import Code, Verdict

pytestmark = pytest.mark.large  # a script, which changes seldom

ONCE_WRONG: Mapping[str, tuple[int, ...]] = {
    "text for a type in a file of opset 6 or later": (388, 661),
    "a Gemm that broadcasts without saying so": (531, 596),
    "a Tile of two inputs before opset 6": (401, 518),
    "an Upsample in a file of opset 10 or later": (31, 219),
    "attributes that became inputs: Clip, Pad, Slice": (2059, 89, 187),
    "attributes that became inputs: Split, TopK, Unsqueeze, Reshape": (603, 414, 453, 2975),
    "axes of an output that are counted from the end": (71, 266, 409, 747),
    "a Resize without regions": (565, 1124),
    "attributes of functions by reference": (7, 33, 72, 150, 371, 488),
    "a dilated pooling whose padding is automatic": (3602, 7345, 9039),
}
"""Seeds of mode ``upgrade`` whose cases were findings once."""


@pytest.mark.parametrize("what", ONCE_WRONG)
def test_what_was_once_wrong_is_right(what: str, tmp_path: Path) -> None:
    found = {}
    for seed in ONCE_WRONG[what]:
        (tmp_path / str(seed)).mkdir()
        found[seed] = rewriting.judge("upgrade", rewriting.draw("upgrade", seed), tmp_path / str(seed)).error
    assert set(found.values()) == {""}, found


@pytest.mark.parametrize("seed", [857, 2157])
def test_a_narrow_nan_is_no_difference(seed: int, tmp_path: Path) -> None:
    case = verify_mode.draw(seed)
    assert case.settings["fault"] is None
    assert verify_mode.judge(case, tmp_path).error == ""


@pytest.mark.parametrize("seed", [4, 5, 6, 8])
def test_functions_that_were_specialised_are_verified(seed: int, tmp_path: Path) -> None:
    model, feeds, rewrite = functions.draw(seed)
    settings = {
        "rewrite": rewrite | {"fold": False}, "fault": None, "near": False, "depth": "auto", "cuts": True,
        "witness": "none", "seed": seed,
    }  # fmt: skip
    outcome = verify_mode.judge(Case(model.SerializeToString(), feeds=feeds, settings=settings), tmp_path)
    assert (outcome.error, outcome.refused) == ("", False)


@pytest.mark.parametrize("seed", [64, 246, 482])
def test_an_epsilon_that_rounding_takes_away_may_go(seed: int, tmp_path: Path) -> None:
    case = faults.draw(seed)
    assert case.settings["right"]
    assert faults.judge(case, tmp_path).error == ""


def test_every_kind_is_drawn_and_nothing_that_only_judges_is_an_option() -> None:
    assert {forms.draw, downward.draw, narrow.draw, legacy.draw} < {*upgrades.KINDS}
    drawn = [rewriting.draw("upgrade", seed).settings for seed in range(2 * len(upgrades.KINDS))]
    assert any(forms.WRITTEN in settings for settings in drawn)
    assert any(upgrades.COMPLETE in settings for settings in drawn)
    assert all(rewriting.options(dict(settings)) for settings in drawn)


def test_forms_of_other_versions_are_drawn() -> None:
    found = set()
    for seed in range(300):
        model, _, settings = forms.draw(seed)
        earlier = settings[forms.WRITTEN] < model.opset_import[0].version
        found |= {(node.op_type, earlier) for node in model.graph.node}
    for op in ("Cast", "Upsample", "Clip", "Pad", "Slice", "Split", "TopK", "BatchNormalization", "Dropout"):
        assert (op, True) in found
    for op in ("Cast", "Gemm", "Tile", "Clip", "Pad", "Slice"):
        assert (op, False) in found
    assert found & {(op, False) for op in ("Add", "Sub", "Mul", "Div", "Pow")}


TWO = {"y": np.array([1.0, 2.0])}
THREE = {"y": np.array([1.0, 3.0])}


@pytest.mark.parametrize(
    ("before", "after", "status", "finding"),
    [
        (TWO, TWO, "verified", ""),
        (TWO, TWO, "unverified", ""),
        (TWO, TWO, "failed", "accused"),
        (TWO, THREE, "failed", "form: the result"),
        (THREE, TWO, "failed", "form: the referee computes"),
        ("no", TWO, "unverified", "form: the upgrade reads it"),
        ("no", "no", "unverified", ""),
        ("no", "no", "verified", "missed"),
    ],
)
def test_a_form_is_read_alike_by_all(before: Any, after: Any, status: Any, finding: str) -> None:
    error = forms._finding(TWO, before, after, Verdict(status, "why", "float64", code=Code.TESTED))
    assert error.startswith(finding)
    assert bool(error) is bool(finding)


def test_functions_read_their_attributes_twice_nested_and_by_default() -> None:
    seen = set()
    for seed in range(60):
        model = functions.draw(seed)[0]
        calls = [node for node in model.graph.node if node.domain == functions.DOMAIN]
        if len({str(node.attribute) for node in calls}) > 1:
            seen.add("twice")
        for function in model.functions:
            seen |= {"default"} if function.attribute_proto else set()
            for node in function.node:
                refers = any(attribute.ref_attr_name for attribute in node.attribute)
                seen |= {"nested"} if refers and node.domain else {"read"} if refers else set()
        reference.evaluate(ir.load(model), functions.draw(seed)[1])
    assert seen == {"twice", "default", "nested", "read"}


def test_a_refusal_that_need_not_be_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ConversionBlocked("why not")

    monkeypatch.setattr(passes, "rewrite", refuse)
    kinds = {upgrades.KINDS[seed % len(upgrades.KINDS)]: seed for seed in range(len(upgrades.KINDS))}
    errors = {}
    for kind, seed in kinds.items():
        (tmp_path / str(seed)).mkdir()
        errors[kind] = rewriting.judge("upgrade", rewriting.draw("upgrade", seed), tmp_path / str(seed)).error
    assert {kind for kind, error in errors.items() if error.startswith("refused: ")} == {upgrades._functions}


def test_axes_that_are_counted_wrongly_on_the_way_down_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = downgrade.axes_from_front

    def off(node: ir.Node, *rest: Any) -> str | None:
        """Of the input's axes, as if the output had no more."""
        given, reason = node.attr("axis", 0), right(node, *rest)
        if node.is_op("OneHot") and given < 0 <= node.attr("axis", 0):
            node.set_attr("axis", node.attr("axis", 0) - 1)
        return reason

    monkeypatch.setattr(downgrade, "axes_from_front", off)
    errors = []
    for seed in range(60):
        (tmp_path / str(seed)).mkdir()
        model, feeds, settings = downward.draw(seed)
        case = Case(model.SerializeToString(), feeds=feeds, settings=rewriting.DEFAULTS["upgrade"] | settings)
        errors.append(rewriting.judge("upgrade", case, tmp_path / str(seed)).error)
    assert any("became" in error or "relative error" in error for error in errors)


def test_ways_down_omit_inputs_and_count_from_the_end() -> None:
    drawn = [downward.draw(seed)[0] for seed in range(500)]
    nodes = [node for model in drawn for node in model.graph.node]
    negative = {
        node.op_type
        for node in nodes
        for attribute in node.attribute
        if attribute.name in ("axis", "axes") and min([*attribute.ints, attribute.i]) < 0
    }
    assert {"OneHot", "Unsqueeze", "Softmax", "ArgMax", "Gather", "Concat", "Split", "Squeeze"} <= negative
    assert any(node.op_type == "Resize" and not node.input[1] for node in nodes)
    assert {tuple(map(bool, node.input)) for node in nodes if node.op_type == "OptionalHasElement"} == {
        (), (False,), (True,),
    }  # fmt: skip


def test_narrow_outputs_are_nan_and_nan_is_nan() -> None:
    seen = set()
    for seed in range(80):
        model, feeds, _ = narrow.draw(seed)
        made = reference.evaluate(ir.load(model), feeds)["y"]
        if np.isnan(made.astype(np.float64)).any():
            seen.add(model.graph.output[0].type.tensor_type.elem_type)
    assert {*narrow.EIGHT} <= seen
    one = np.array([np.nan, 1.0]).astype(ml_dtypes.float8_e4m3fn)
    assert distance.relative(one, one.copy()) == 0
    assert distance.relative(one, np.array([1.0, 1.0]).astype(ml_dtypes.float8_e4m3fn)) == 1


def test_sizes_that_runtimes_and_inference_dispute_are_drawn_before_what_asks_for_them() -> None:
    seen = set()
    for seed in range(800):
        nodes = legacy.draw(seed)[0].graph.node
        asked = {name for node in nodes if node.op_type in ("Softmax", "LogSoftmax", "Hardmax") for name in node.input}
        for node in nodes:
            names = {attribute.name for attribute in node.attribute}
            if node.op_type == "MaxPool" and asked.intersection(node.output):
                seen |= {name for name in ("ceil_mode", "auto_pad") if {name, "dilations"} <= names}
    assert seen == {"ceil_mode", "auto_pad"}


def test_a_node_that_inference_cannot_read_gets_no_detour() -> None:
    """Mode `faults` draws files whose nodes have the form of another version: seed 17691 killed the worker."""
    text = '<ir_version: 8, opset_import: ["": 13]> g (float[2,3] x) => (float[2,2] y) { y, i = TopK <k = 2> (x) }'
    model = onnx.parser.parse_model(text)
    assert detours.lengthened(model, np.random.default_rng(0)) == (model, "")


def test_detours_change_nothing() -> None:
    seen = set()
    for seed in range(60):
        model, feeds = draw.alone(seed, TensorProto.DOUBLE)
        longer, kinds = detours.lengthened(model, np.random.default_rng(seed))
        seen |= {*kinds.split()}
        expected, found = (reference.evaluate(ir.load(one), feeds) for one in (model, longer))
        assert max(distance.relative(array, found[name], at_least=1.0) for name, array in expected.items()) < 1e-6
    assert seen == {kind.__name__ for kind in detours.KINDS}


def test_an_old_file_gets_no_detour_that_it_does_not_know() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 9]> g (float[2] x) => (float[2] y) { y = Exp (x) }'
    )
    assert detours.lengthened(model, np.random.default_rng(0)) == (model, "")


def listed(factor: float) -> onnx.ModelProto:
    """A weight that is an input as well, as files of IR version 3 have it."""
    text = f"""<ir_version: 3, opset_import: ["" : 8]> g (float[2] x, float[2] w) => (float[2] y)
        <float[2] w = {{1, {factor}}}> {{ y = Mul (x, w) }}"""
    return onnx.parser.parse_model(text)


def test_weights_that_are_inputs_are_drawn_and_a_fault_in_one_is_no_empty_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = [upgrades.draw(seed)[0] for seed in range(200)]
    assert any(model.ir_version == 3 and len(model.graph.input) > 1 for model in drawn)
    case = Case(
        listed(2).SerializeToString(), {faults.AFTER: listed(3).SerializeToString()},
        feeds={"x": np.ones(2, np.float32)}, settings={"by": "change_weight", "right": False, "seed": 0},
    )  # fmt: skip
    (tmp_path / "seen").mkdir()
    assert faults.judge(case, tmp_path / "seen").error == ""
    monkeypatch.setattr(faults, "diff", lambda *_, **__: {"equal": True})
    (tmp_path / "unseen").mkdir()
    assert faults.judge(case, tmp_path / "unseen").error == "unseen: diff finds nothing, shows"
