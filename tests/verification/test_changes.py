from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest

from bnfold import ir, reference
from bnfold.verification.changes import uncovered
from bnfold.verification.clock import Clock
from bnfold.verification.request import Request
from tests.verification.graphs import model

BODY = (
    "(float[N,3] x) => (float[N,4] y) { a = Relu (x)  b = MatMul (a, W)  c = LeakyRelu <alpha = 0.2> (b)  y = Neg (c) }"
)
WEIGHTS = {"W": np.arange(12.0).reshape(3, 4)}


def changes(before: onnx.ModelProto, after: onnx.ModelProto, cuts: Sequence[ir.Cut] = ()) -> list[ir.Cut]:
    request = Request(
        before=ir.load(before),
        after=ir.load(after),
        before_file=None,
        after_file=None,
        cuts=tuple(cuts),
        depth="local",
        inputs={},
        data=None,
        samples=1,
        seed=0,
        witness="none",
        policy=reference.Policy(),
        clock=Clock(10.0),
    )
    return uncovered(request)


def test_equal_models_have_no_changes() -> None:
    assert changes(model(BODY, WEIGHTS), model(BODY, WEIGHTS)) == []


@pytest.mark.parametrize(
    ("old", "new", "made"),
    [
        ("alpha = 0.2", "alpha = 0.3", "c"),
        ("Relu (x)", "Tanh (x)", "a"),
        ("Neg (c)", "Neg (b)", "y"),
        ("Neg (c)", "Identity (c)", "y"),
    ],
)
def test_a_changed_node_becomes_a_cut(old: str, new: str, made: str) -> None:
    (cut,) = changes(model(BODY, WEIGHTS), model(BODY.replace(old, new, 1), WEIGHTS))
    assert cut.outputs == (made,)


def test_a_changed_weight_is_a_change_of_its_reader() -> None:
    (cut,) = changes(model(BODY, WEIGHTS), model(BODY, {"W": WEIGHTS["W"] * 2}))
    assert (cut.inputs, cut.outputs) == (("a",), ("b",))


def test_a_new_opset_changes_only_operators_with_a_new_version() -> None:
    cuts = changes(model(BODY, WEIGHTS, opset=13), model(BODY, WEIGHTS, opset=14))
    assert [cut.outputs for cut in cuts] == [("a",)]


def test_what_a_cut_contains_is_not_reported_again() -> None:
    after = model(BODY.replace("alpha = 0.2", "alpha = 0.3"), WEIGHTS)
    assert changes(model(BODY, WEIGHTS), after, [ir.Cut("", ("a",), ("c",), "known")]) == []
    assert changes(model(BODY, WEIGHTS), after, [ir.Cut("", ("x",), ("a",), "elsewhere")]) != []


def test_boundaries_reach_back_to_what_both_models_have() -> None:
    fused = BODY.replace("b = MatMul", "q = MatMul").replace("(b)", "(q)")
    (cut,) = changes(model(BODY, WEIGHTS), model(fused, WEIGHTS))
    assert (cut.inputs, cut.outputs) == (("a",), ("c",))


def test_a_boundary_value_that_depends_on_another_is_computed_not_fed() -> None:
    before = "(float[N,3] x) => (float[N,3] y, float[N,3] a) { a = Relu (x)  b = Neg (a)  y = Add (a, b) }"
    after = "(float[N,3] x) => (float[N,3] y, float[N,3] a) { a = Relu (x)  b = Neg (a)  y = Add (b, x) }"
    (cut,) = changes(model(before, {}), model(after, {}))
    assert cut.inputs == ("x",)


def test_changes_inside_a_body_are_found() -> None:
    body = (
        "(bool c, float[N,3] x) => (float[N,3] y) { y = If (c) <then_branch = t () => (float[N,3] u) { u = Neg (x) },"
        " else_branch = e () => (float[N,3] v) { v = Abs (x) }> }"
    )
    assert changes(model(body, {}), model(body, {})) == []
    (cut,) = changes(model(body, {}), model(body.replace("Abs", "Exp"), {}))
    assert cut.graph
    assert cut.outputs == ("v",)


def test_an_output_that_became_a_weight_is_a_change() -> None:
    constant = "(float[N,3] x) => (float[N,4] y) { a = Relu (x) }"
    cuts = changes(model(BODY, WEIGHTS), model(constant, {"y": np.ones((1, 4))}))
    assert [cut.outputs for cut in cuts] == [("y",)]


def test_a_body_without_a_counterpart_is_a_change() -> None:
    body = (
        "(bool c, float[N,3] x) => (float[N,3] y) { y = If (c) <then_branch = t () => (float[N,3] u) { u = Neg (x) },"
        " else_branch = e () => (float[N,3] v) { v = Abs (x) }> }"
    )
    assert any(
        cut.graph
        for cut in changes(model("(bool c, float[N,3] x) => (float[N,3] y) { y = Neg (x) }", {}), model(body, {}))
    )
