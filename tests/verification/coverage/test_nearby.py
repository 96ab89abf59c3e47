"""What a changed value has no effect on is not computed again, and what it has an effect on is the same as in full."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from bnfold import ir, reference
from bnfold.ir.elements import Array
from bnfold.verification.comparing.sides import ModelRun
from bnfold.verification.coverage.record import Nearby
from bnfold.verification.inputs.drawing import DrawnFeeds
from tests.verification.graphs import model, numbers

TEXT = (
    "(float[2,3] x, bool c) => (float[2,3] y, float[2,3] z) { a = Add (x, one)  b = Mul (a, two)  d = Relu (b)"
    "  e = If (c) <then_branch = t () => (p) { p = Sub (b, three) }, else_branch = f () => (q) { q = Identity (x) }>"
    "  y = Add (d, e)  g = Exp (x)  z = MORE }"
)
WEIGHTS = {"one": np.array(1.0), "two": np.array(2.0), "three": np.array(3.0), "four": np.array(4.0)}
PLAIN = "Mul (g, four)"


class Counted:
    """A model on one input, with the names of all values that are computed."""

    def __init__(self, more: str, *names: str) -> None:
        self.model = ir.load(model(TEXT.replace("MORE", more), WEIGHTS))
        feeds = {"x": numbers(1).normal(size=(2, 3)), "c": np.array(True)}
        self.run = ModelRun(self.model, feeds, names or ("y", "z"), self._evaluate)
        self.computed: list[str] = []

    def _evaluate(
        self, asked: ir.Model, feeds: DrawnFeeds, names: Sequence[str], known: Any = None, **options: Any
    ) -> dict[str, Array]:
        def note(name: str, _: object) -> None:
            self.computed.append(name)

        return reference.evaluate(asked, {**feeds, **(known or {})}, names, observer=note, **options)

    def values(self, *names: str) -> list[ir.Value]:
        return [self.model.graph.values[name] for name in names]


def moved(by: float, array: Any) -> Any:
    return array + by


@pytest.mark.parametrize(
    ("name", "computed"),
    [("two", ["b", "d", "e", "y"]), ("b", ["b", "d", "e", "y"]), ("four", ["z"]), ("d", ["d", "y"]), ("y", ["y"])],
)
def test_only_what_depends_on_a_value_is_computed(name: str, computed: list[str]) -> None:
    side = Counted(PLAIN)
    nearby = Nearby(side.run, side.values("two", "b", "four", "d", "y"))
    side.computed.clear()
    (value,) = side.values(name)
    changed = nearby({value: partial(moved, 0.5)})
    assert side.computed == computed
    full = side.run(altered={value: partial(moved, 0.5)})
    assert changed.keys() == {each for each in ("y", "z") if each in computed}
    assert all((changed[each] == full[each]).all() for each in changed)


def test_a_value_without_effect_has_no_results() -> None:
    side = Counted(PLAIN, "z")
    assert Nearby(side.run, side.values("two", "b", "d", "y"))({side.values("d")[0]: partial(moved, 1.0)}) == {}


def test_a_model_runs_as_a_whole_if_little_is_saved() -> None:
    side = Counted(PLAIN)
    nearby = Nearby(side.run, side.values("two", "b", "d"))
    assert not side.computed
    assert nearby({side.values("d")[0]: partial(moved, 1.0)}).keys() == {"y", "z"}
    assert "a" in side.computed


def test_nothing_is_kept_beside_random_numbers() -> None:
    """They would be others than those that the results were computed from."""
    side = Counted("Bernoulli (g)")
    Nearby(side.run, side.values("two", "b", "d", "y"))
    assert not side.computed


def test_values_of_bodies_are_changed_in_the_whole_model() -> None:
    side = Counted(PLAIN)
    inside = next(graph for graph in side.model.graphs() if "p" in graph.values).values["p"]
    nearby = Nearby(side.run, [*side.values("two", "b", "d", "y"), inside])
    changed = nearby({inside: partial(moved, 1.0)})
    assert changed.keys() == {"y", "z"}
