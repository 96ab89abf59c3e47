"""What is moved to find out what rounding does to the original."""

from __future__ import annotations

import numpy as np

from bnfold import ir
from bnfold.ir.elements import Array
from bnfold.verification.comparing.sides import ModelRun, ModelRuns, evaluator
from bnfold.verification.request import Clock
from bnfold.verification.tolerance.rounding import PerturbedWeights
from tests.verification.graphs import model

NOTHING = ir.load(model("(float[2] x) => (float[2] y) { y = Neg (x) }", {}))


def test_what_the_original_computes_from_constants_is_also_taken_as_a_runtime_rounds_it() -> None:
    """A rewrite may store the sum as float32 makes it, and lose the digits that float64 keeps."""
    body = "(float[2] x) => (float[2] y) { c = Add (a, b)  y = Mul (x, c) }"
    before = ir.load(model(body, {"a": np.array([1.0, 1e8]), "b": np.array([1e-9, 1.0])}))
    feeds = {"x": np.ones(2)}
    run = ModelRun(before, feeds, ["y"], evaluator(None, Clock(60.0)))
    *moved, rounded = ModelRuns(run, run, PerturbedWeights(before, NOTHING))._errs()
    assert [[value.name for value in group] for group in moved] == [["a"], ["b"]]
    made: Array = run(altered=rounded)["y"]
    assert np.array_equal(made, np.array([1.0, 1e8]))
    assert not np.array_equal(run()["y"], made)


def test_an_original_without_such_constants_is_only_moved() -> None:
    before = ir.load(model("(float[2] x) => (float[2] y) { y = Mul (x, a) }", {"a": np.ones(2)}))
    run = ModelRun(before, {"x": np.ones(2)}, ["y"], evaluator(None, Clock(60.0)))
    assert ModelRuns(run, run, PerturbedWeights(before, before))._errs() == []
