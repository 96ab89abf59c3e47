"""How whole models are run to see whether a fault would show: as often as it takes, and no more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bnfold import ir, reference
from bnfold.verification.comparing.sides import ModelRun
from bnfold.verification.coverage import Comparison, Coverage, same_place
from bnfold.verification.coverage.mutants import nudged
from bnfold.verification.inputs.drawing import DrawnFeeds
from tests.verification.graphs import Array, model

TEXT = """(float[N,3] x) => (float[N,3] y) {
    b = Neg (x)  c = Relu (b)  g = Abs (x)  e = Mul (g, zero)  f = Add (c, e)  t = Sign (g)  s = Shape (t)
    y = Reshape (f, s)
}"""
RUNS: list[str] = []


def evaluate(asked: ir.Model, feeds: DrawnFeeds, names: Sequence[str], **options: Any) -> dict[str, Array]:
    """Note which values were altered."""
    RUNS.extend(value.name for value in options.get("altered") or ())
    return reference.evaluate(asked, feeds, names, **options)


def observed(*names: str, samples: Sequence[float], seconds: float = 60.0) -> Coverage:
    """Look for faults in these values, in one comparison for each number that the inputs have."""
    RUNS.clear()
    read = ir.load(model(TEXT, {"zero": np.array(0.0)}))
    coverage = Coverage([nudged(1, read.graph.values[name]) for name in names], seconds=seconds)

    def compared() -> Iterator[Comparison]:
        for number in samples:
            run = ModelRun(read, {"x": np.full((2, 3), number)}, ["y"], evaluate)
            yield (run, run), (run(), run())

    coverage.observe_until_unseen(compared, same_place)
    return coverage


def test_a_fault_has_to_show_in_one_comparison() -> None:
    assert not observed("c", "f", samples=[-1.0, 1.0]).uncovered
    assert RUNS == ["c", "f"]
    assert not observed("b", samples=[1.0, -1.0]).uncovered
    assert RUNS == ["b", "b"], "a Relu hides the first"
    assert observed("b", samples=[1.0, 2.0]).uncovered


def test_nothing_is_looked_for_behind_a_fault_that_never_shows() -> None:
    coverage = observed("c", "g", "f", samples=[1.0, -1.0])
    assert RUNS == ["c", "g", "g"], "it is multiplied by zero"
    assert coverage.uncovered == 2
    assert coverage.example == "value 'g'"


def test_where_only_sizes_are_read_nothing_is_run() -> None:
    coverage = observed("t", "c", samples=[1.0])
    assert not RUNS
    assert coverage.uncovered == 2
    assert coverage.example == "value 't'"


def test_when_the_time_is_over_what_was_not_looked_for_is_uncovered() -> None:
    assert observed("c", "f", samples=[1.0], seconds=-1.0).uncovered == 2
    assert not RUNS
