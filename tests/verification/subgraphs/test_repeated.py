from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import onnx
import pytest

from bnfold import ir
from bnfold.verification import Evidence, verify
from bnfold.verification.changes.extract import Subgraph
from bnfold.verification.claims import Why
from bnfold.verification.codes import Code
from bnfold.verification.coverage.record import Coverage, Table
from bnfold.verification.subgraphs import pairs, repeated
from bnfold.verification.subgraphs.pairs import SubgraphPair, runnable
from bnfold.verification.subgraphs.trials import PartOutcome
from bnfold.verification.tolerance.rounding import PerturbedWeights
from tests.verification.graphs import affine, along, model, numbers, single, statistics

BN = "BatchNormalization"
Arrays = dict[str, np.ndarray[Any, Any]]


def chain(
    count: int, spoil: Callable[[Arrays], None] = lambda _: None, size: int = 5
) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """Conv → BatchNormalization, one after the other, and the Convs that they fold to; ``spoil`` changes those."""
    rng = numbers(3)
    old: Arrays = {}
    new: Arrays = {}
    before, after = [], []
    for number in range(count):
        stats, weight = statistics(rng, 2), single(rng.normal(size=(2, 2, 1, 1)))
        s, t = affine(stats)
        old |= {f"W{number}": weight, **{f"{name}{number}": array for name, array in stats.items()}}
        new |= {f"F{number}": single(weight * along(s, 0, 4)), f"b{number}": single(t)}
        names = ", ".join(f"{name}{number}" for name in stats)
        before.append(f"c{number} = Conv (x{number}, W{number})  x{number + 1} = {BN} (c{number}, {names})")
        after.append(f"x{number + 1} = Conv (x{number}, F{number}, b{number})")
    spoil(new)
    head = f"(float[N,2,{size},{size}] x0) => (float[N,2,{size},{size}] x{count})"
    return model(f"{head} {{ {'  '.join(before)} }}", old), model(f"{head} {{ {'  '.join(after)} }}", new)


def rows(before: onnx.ModelProto, after: onnx.ModelProto, count: int, monkeypatch: Any) -> tuple[list[Evidence], int]:
    """One row a region, and how many of them were another one's nodes run again."""
    runs = []

    def counted(known: Any, sides: Any, noted: Any) -> Any:
        runs.append(found := repeated.repeated(known, sides, noted))
        return found

    monkeypatch.setattr("bnfold.verification.subgraphs.verifier.repeated", counted)
    cuts = [ir.Cut("", (f"x{number}",), (f"x{number + 1}",), f"fold {number}") for number in range(count)]
    verdict = verify(ir.load(before), ir.load(after), cuts=cuts, depth="local", runtime="none")
    return list(verdict.local[:count]), sum(found is not None for found in runs)


def test_regions_of_one_signature_are_compared_once_in_full(monkeypatch: Any) -> None:
    found, repeated = rows(*chain(6), 6, monkeypatch)
    assert [row.status for row in found] == ["verified"] * 6
    assert repeated == 5


@pytest.mark.no_cover  # takes twice as long measured, and reaches no branch that other tests do not reach
@pytest.mark.parametrize("name", ["F1337", "b1337"])
def test_a_fault_does_not_hide_among_many_regions_that_are_alike(name: str, monkeypatch: Any) -> None:
    def spoil(weights: Arrays) -> None:
        weights[name].reshape(-1)[1] += 1e-3

    found, repeated = rows(*chain(2000, spoil), 2000, monkeypatch)
    assert [row.label for row in found if row.status != "verified"] == ["fold 1337"]
    assert repeated == 1998


@pytest.mark.parametrize("first", [0, 1])
def test_a_fault_in_the_first_region_does_not_make_the_others_fail(first: int, monkeypatch: Any) -> None:
    def spoil(weights: Arrays) -> None:
        weights[f"b{first}"] += 1

    found, _ = rows(*chain(4, spoil), 4, monkeypatch)
    assert [row.status == "failed" for row in found] == [number == first for number in range(4)]


def test_two_faults_of_one_kind_are_both_found(monkeypatch: Any) -> None:
    def spoil(weights: Arrays) -> None:
        for number in (2, 4):
            weights[f"b{number}"][:] = 0

    found, _ = rows(*chain(6, spoil), 6, monkeypatch)
    assert [row.label for row in found if row.status == "failed"] == ["fold 2", "fold 4"]


def test_regions_with_weights_that_are_not_held_are_run_with_their_own(monkeypatch: Any) -> None:
    """That the results depend on what such regions are fed, the first of them shows for all."""
    asked: list[int] = []
    monkeypatch.setattr("bnfold.verification.subgraphs.repeated.LARGEST_HELD", 3)
    other = pairs._other

    def counted(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        asked.append(array.size)
        return other(array)

    monkeypatch.setattr(pairs, "_other", counted)

    def spoil(weights: Arrays) -> None:
        weights["F4"].reshape(-1)[1] += 1e-3

    found, repeated = rows(*chain(6, spoil, size=100), 6, monkeypatch)
    assert [row.label for row in found if row.status == "failed"] == ["fold 4"]
    assert [row.status for row in found].count("verified") == 5
    assert (len(asked), repeated) == (1, 0)


SLICED = "(float[N,2,6,6] x0) => (float[N,2,P,Q] y, float[N,2,R,S] z) {{ {} }}"


def test_regions_with_other_sizes_and_places_are_not_alike() -> None:
    """Two Slices that were merged into one, the second time at wrong places."""
    nodes = [
        "p{0} = Slice (x0, a{0}, e{0}, axes)  {1} = Slice (p{0}, a{0}, e{0}, axes)",
        "{1} = Slice (x0, s{0}, t{0}, axes)",
    ]
    before, after = (
        SLICED.format("  ".join(text.format(number, name) for number, name in enumerate("yz"))) for text in nodes
    )
    whole = {name: np.array(array, np.int64) for name, array in {"axes": [2], "a0": [1], "e0": [9]}.items()}
    whole |= {"a1": np.array([1]), "e1": np.array([9])}
    merged = {"axes": np.array([2]), "s0": np.array([2]), "t0": np.array([9]), "s1": np.array([1]), "t1": np.array([9])}
    cuts = [ir.Cut("", ("x0",), (name,), name) for name in "yz"]
    old, new = model(before, whole), model(after, merged)
    verdict = verify(ir.load(old), ir.load(new), cuts=cuts, depth="local", runtime="none")
    assert [row.status for row in verdict.local[:2]] == ["verified", "failed"]


def test_bounds_are_looked_at_in_every_region() -> None:
    """A bound that no small activation reaches proves nothing, whichever region it is in."""
    text = "(float[N,3] x) => (float[N,3] y, float[N,3] z) { y = Clip (x, l, h)  z = Clip (x, m, i) }"
    bounds = {"l": np.array(-1.0), "h": np.array(1.0), "m": np.array(-1.0), "i": np.array(1.0)}
    wrong = {**bounds, "i": np.array(1e6)}
    old, new = model(text, bounds), model(text, wrong)
    verdict = verify(ir.load(old), ir.load(new), depth="local", runtime="none")
    assert verdict.status == "failed"


def kept(body: str = "y = Conv (x, w)", **changes: Any) -> SubgraphPair | None:
    """What is kept of the comparison of a region with itself, or with ``changes`` in what was found."""
    weights = {"w": np.ones((2, 2, 1, 1)), "s": np.array([2, 2, 1, 1])}
    loaded = ir.load(model(f"(float[1,2,3,3] x) => (float[1,2,3,3] y) {{ {body} }}", weights))
    cut = ir.Cut("", ("x",), ("y",), "")
    subgraph = Subgraph([loaded.graph.values["y"]], [loaded.graph.values["x"]])
    part = runnable(subgraph, subgraph.stored)
    coverage = Coverage([], follows_from_structure=lambda: True)
    tried = [({"x": np.ones((1, 2, 3, 3))}, False, PartOutcome())]
    draws = PerturbedWeights(loaded, loaded)
    given: dict[str, Any] = {"coverage": coverage, "tried": tried, **changes}
    return repeated.repeatable(SubgraphPair(cut, part, part, draws=draws, evaluate=cast(Any, None), seed=0, **given))


MISFIT = PartOutcome(doubt=Why(Code.NO_FIT, "does not fit"))
DIFFERS = PartOutcome(fault=Why(Code.DIFFERS, "differs"))
TABLE = Table(0, cast(Any, None), cast(Any, None), np.zeros(1), np.zeros(1, bool))


@pytest.mark.parametrize(
    "changes",
    [
        {"tried": []},
        {"tried": [({"x": np.ones(3)}, False, PartOutcome()), ({"x": np.ones(3)}, False, DIFFERS)]},
        {"tried": [({"x": np.ones(3)}, False, PartOutcome()), ({"x": np.ones(3)}, False, MISFIT)]},
        {"tried": [({"x": np.broadcast_to(1.0, 1 << 20)}, False, PartOutcome())] * 2},
        {"coverage": Coverage([], [TABLE], follows_from_structure=lambda: True)},
        {"coverage": Coverage([])},
        {"body": "r = Reshape (w, s)  y = Conv (x, r)"},
    ],
    ids=["none", "differs", "skipped", "large", "table", "weights", "constant"],
)
def test_what_needed_more_than_equal_results_is_not_repeated(changes: dict[str, Any]) -> None:
    assert kept() is not None
    assert kept(**changes) is None
