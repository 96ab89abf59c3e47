"""When results that agree, or differ, at small and at recorded sizes count."""

from __future__ import annotations

import numpy as np
import pytest

from bnfold import ir
from bnfold.verification.claims import Evidence
from bnfold.verification.inputs.drawing import DrawnFeeds
from bnfold.verification.subgraphs.pairs import SubgraphPair
from bnfold.verification.subgraphs.trials import TrialResult
from tests.verification.graphs import Weights, model, numbers, single
from tests.verification.subgraphs.test_verifier import check


@pytest.fixture
def fed(monkeypatch: pytest.MonkeyPatch) -> list[DrawnFeeds]:
    """What parts were fed, in order."""
    noted: list[DrawnFeeds] = []
    attempt = SubgraphPair.attempt

    def attempted(self: SubgraphPair, feeds: DrawnFeeds, kind: str, *, guessed: bool) -> TrialResult:
        noted.append(feeds)
        return attempt(self, feeds, kind, guessed=guessed)

    monkeypatch.setattr(SubgraphPair, "attempt", attempted)
    return noted


def compared(before: str, after: str, weights: Weights, boundary: str = "h") -> Evidence:
    sides = (model(text, weights, opset=15) for text in (before, after))
    return check(*sides, ir.Cut("", tuple(boundary.split()), ("y",), "rewrite"))[0]


def test_small_sizes_suffice_if_results_agree_there_and_would_show_each_fault(fed: list[DrawnFeeds]) -> None:
    head, weights = (
        "(float[1,4,640,640] x) => (float[1,4,640,640] y)",
        {"k": np.array(2.0), "W": single(np.ones((4, 4, 1, 1)))},
    )
    before = f"{head} {{ h = Relu (x)  c = Conv (h, W)  y = Mul (c, k) }}"
    after = f"{head} {{ h = Relu (x)  y = Conv (h, V) }}"
    row = compared(before, after, {**weights, "V": weights["W"] * 2})
    assert row.status == "verified", row.note
    assert max(array.size for feeds in fed for array in feeds.values()) < 1000


@pytest.mark.parametrize(("end", "status"), [(640, "verified"), (320, "failed")])
def test_declared_sizes_decide_what_small_ones_do_not_show(end: int, status: str) -> None:
    """At all sizes that are tried first, the slice takes all there is."""
    head = "(float[1,4,640,640] x) => (float[1,4,P,640] y)"
    before = f"{head} {{ h = Relu (x)  y = Neg (h) }}"
    after = f"{head} {{ h = Relu (x)  s = Slice (h, zero, end, two)  y = Neg (s) }}"
    numbers = {"zero": np.array([0]), "end": np.array([end]), "two": np.array([2])}
    assert compared(before, after, numbers).status == status


def test_a_rewrite_may_rely_on_a_size_that_is_declared() -> None:
    head = "(float[N,4,8,8] x) => (float[N,4,1,1] y)"
    before, after = (
        f"{head} {{ h = Relu (x)  y = {pool} (h) }}"
        for pool in ("GlobalAveragePool", "AveragePool <kernel_shape = [8, 8]>")
    )
    assert compared(before, after, {}).status == "verified"
    other = after.replace("[8, 8]", "[7, 8], strides = [8, 1]")
    assert compared(before, other, {}).status == "failed"


@pytest.mark.parametrize(("sizes", "status"), [("N,L", "failed"), ("N,6", "verified")])
def test_a_size_that_is_dynamic_may_be_another(sizes: str, status: str) -> None:
    """The rows of six are what the reshape takes; others it puts together otherwise."""
    head = f"(float[{sizes}] x) => (float[A,B] y)"
    before = f"{head} {{ h = Relu (x)  y = Neg (h) }}"
    after = f"{head} {{ h = Relu (x)  r = Reshape (h, dims)  y = Neg (r) }}"
    assert compared(before, after, {"dims": np.array([-1, 6])}).status == status


def test_what_follows_from_sizes_is_fed_as_it_is_recorded(fed: list[DrawnFeeds]) -> None:
    """The target of a Reshape, in the part's boundary, has to fit what is reshaped."""
    head = "(float[N,C,6] x, float[N,C,6] z) => (float[A,B] y)"
    sizes = "s = Shape (z)  r = Gather (s, zero)  t = Concat <axis = 0> (r, rest)"
    before = f"{head} {{ {sizes}  h = Relu (x)  m = Mul (h, k)  y = Reshape (m, t) }}"
    after = f"{head} {{ {sizes}  h = Relu (x)  r2 = Reshape (h, t)  y = Mul (r2, k) }}"
    weights: Weights = {"zero": np.array([0]), "rest": np.array([-1]), "k": np.array(1.5)}
    row = compared(before, after, weights, "h t")
    assert row.status == "verified", row.note
    assert all(feeds["t"].tolist() == [len(feeds["h"]), -1] for feeds in fed if "t" in feeds and feeds["t"][0] > 1)


@pytest.mark.parametrize(("factor", "status"), [(1.0, "verified"), (1 + 1e-4, "failed")])
@pytest.mark.parametrize("size", ["S", "48", "640"])
def test_parts_that_are_fed_several_levels_are_compared_in_the_sizes_of_a_run(
    size: str, factor: float, status: str
) -> None:
    """Three levels, and sizes that are rounded up at each of them."""
    rng = numbers(3)
    weights: Weights = {name: single(rng.normal(size=(3, 3, 1, 1))) for name in "UVW"}
    pool = "MaxPool <kernel_shape = [3,3], strides = [2,2], pads = [1,1,1,1]>"
    up = "ConvTranspose <strides = [4,4]>"
    head = f"(float[N,3,{size},{size}] x) => (float[N,3,P,Q] y)"
    levels = f"a = Relu (x)  b = {pool} (a)  c = {pool} (b)"
    joined = f"p = {up} (c, T)  q = Conv <strides = [1,1]> (a, U)  s = Shape (q)"
    tail = "r = Expand (zero, s)  w = Add (q, r)  d = Sub (p, r)  e = Add (w, d)"
    weights |= {"T": single(rng.normal(size=(3, 3, 4, 4))), "zero": np.zeros(1, np.float32), "k": np.array(1.5)}
    before = f"{head} {{ {levels}  {joined}  {tail}  v = Conv (e, W)  y = Mul (v, k) }}"
    after = f"{head} {{ {levels}  {joined}  {tail}  y = Conv (e, V) }}"
    found = compared(before, after, {**weights, "V": weights["W"] * 1.5 * factor}, "a c")
    assert found.status == status, found.note
