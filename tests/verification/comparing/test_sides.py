"""What is moved to find out what rounding does to the original."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from bnfold import ir
from bnfold.ir.elements import Array
from bnfold.verification.comparing.sides import ModelRun, ModelRuns, SideResults, evaluator
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


@pytest.mark.parametrize("is_enough", [True, False])
def test_one_perturbed_group_may_be_enough(is_enough: bool) -> None:
    """The second group is then not moved; without that, a whole round is, and more as long as there is doubt."""
    body = "(float[2] x) => (float[2] y) { z = Mul (x, a)  y = Add (z, b) }"
    after = ir.load(model(body, {"a": np.array([1.1, 1.3]), "b": np.array([0.1, 0.3])}))
    run = ModelRun(after, {"x": np.ones(2)}, ["y"], evaluator(None, Clock(60.0)))
    expected = run()
    seen: list[list[int]] = []

    def compare(rounds: Sequence[Sequence[SideResults]]) -> int:
        seen.append([*map(len, rounds)])
        return len(rounds)

    runs = ModelRuns(run, run, PerturbedWeights(NOTHING, after))
    enough = (lambda _: True) if is_enough else None
    assert runs.explained(expected, expected, compare, lambda found, _: found < 2, enough) == (1 if is_enough else 2)
    assert seen == ([[1]] if is_enough else [[2], [2, 2]])
