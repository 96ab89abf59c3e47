"""Sizes of parts that are fed values of several levels of a network."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from bnfold import ir
from bnfold.verification.claims import NumberKind
from bnfold.verification.inputs.drawing import DrawnFeeds
from bnfold.verification.subgraphs import fitting
from bnfold.verification.subgraphs.fitting import at_levels
from bnfold.verification.subgraphs.pairs import SubgraphPair
from bnfold.verification.subgraphs.shapes import Trial
from bnfold.verification.subgraphs.trials import PartOutcome
from tests.verification.graphs import Weights, model, numbers, single
from tests.verification.subgraphs.test_verifier import check

LEVELS = """(float[N,3,S,S] x) => (float[N,4,S,S] y) {
    a = Conv <pads = [1, 1, 1, 1]> (x, V)
    b = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (a)
    u = ConvTranspose <strides = [2, 2]> (b, T)
    s = Add (a, u)
    NODES
}"""
"""A U-net of two levels: the sizes of ``b`` are half those of ``a``."""


def _pair(factor: float, head: str = LEVELS) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    rng = numbers(2)
    weights: Weights = {
        "V": single(rng.normal(size=(4, 3, 3, 3))),
        "T": single(rng.normal(size=(4, 4, 2, 2))),
        "W": single(rng.normal(size=(4, 4, 1, 1))),
    }
    before = model(head.replace("NODES", "c = Conv (s, W)  y = Mul (c, k)"), {**weights, "k": np.array(1.5)})
    after = model(head.replace("NODES", "y = Conv (s, W)"), {**weights, "W": weights["W"] * 1.5 * factor})
    return before, after


@pytest.mark.no_cover  # takes twice as long measured, and reaches no branch that other tests do not reach
@pytest.mark.parametrize(("factor", "status"), [(1.0, "verified"), (1 + 1e-4, "failed")])
@pytest.mark.parametrize("size", ["S", "136"])
def test_levels_of_a_network_fit_together(size: str, factor: float, status: str) -> None:
    before, after = _pair(factor, LEVELS.replace("S,S", f"{size},{size}"))
    (row,) = check(before, after, ir.Cut("", ("a", "b"), ("y",), "fold"))
    assert row.status == status


MEETINGS = {
    "Mul": """(float[N,4,S,T] x, float[N,4,U,V] g) => (float[N,4,A,B] y) {
        a = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 1]> (x, W)
        c = Mul (a, k)
        i = Identity (g)
        y = Mul (c, i)
    }""",
    "Concat": """(float[N,4,S,T] x, float[N,4,1,V] g) => (float[N,8,A,B] y) {
        a = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 1]> (x, W)
        c = Mul (a, k)
        y = Concat <axis = 1> (g, c)
    }""",
    "Reshape": """(float[N,4,1,S] x, float[N,L,4] g) => (float[N,1,A,4] y) {
        a = Conv <kernel_shape = [1, 3], pads = [0, 0, 0, 0]> (x, W)
        c = Mul (a, k)
        s = Shape (c)
        t = Transpose <perm = [0, 2, 3, 1]> (c)
        r = Shape (t)
        h = Reshape (g, r)
        y = Add (h, t)
    }""",
}
"""A value of the network meets one that the part computes behind a stride."""


@pytest.mark.parametrize(("factor", "status"), [(1.0, "verified"), (1 + 1e-4, "failed")])
@pytest.mark.parametrize("operator", MEETINGS)
def test_inputs_are_as_large_as_what_they_meet(
    operator: str, factor: float, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if status == "verified":
        monkeypatch.setattr(fitting, "_fitting", lambda *_: pytest.fail("the whole network was looked at"))
    width = 1 if operator == "Reshape" else 3
    weights: Weights = {"W": single(numbers(2).normal(size=(4, 4, width, 3)))}
    before = model(MEETINGS[operator], {**weights, "k": np.array(1.5)})
    folded = MEETINGS[operator].replace("a = Conv", "c = Conv").replace("c = Mul (a, k)", "")
    after = model(folded, {"W": weights["W"] * 1.5 * factor})
    (row,) = check(before, after, ir.Cut("", ("x", "g"), ("y",), "fold"))
    assert row.status == status, row.note


def test_guessed_sizes_do_not_decide_where_a_rewrite_relies_on_the_declared_ones() -> None:
    """A window of the declared size of the image is a global one; at any other size of it the two differ."""
    channels, side = 6, 4
    image, halved = f"float[N,{channels},{2 * side},{2 * side}]", f"float[N,{channels},{side},{side}]"
    head = f"({image} x, {halved} g) => ({halved} y)"
    nodes = """{
        a = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (x, W)
        c = NODE
        y = Mul (c, g)
    }"""
    weights: Weights = {"W": single(numbers(2).normal(size=(channels, channels, 3, 3)))}
    before = model(head + nodes.replace("NODE", "GlobalAveragePool (a)"), weights)
    after = model(head + nodes.replace("NODE", f"AveragePool <kernel_shape = [{side}, {side}]> (a)"), weights)
    (row,) = check(before, after, ir.Cut("", ("x", "g"), ("y",), "fold"))
    assert row.status == "verified", row.note


TWO_LEVELS = """(float[N,4,15,40] a, float[N,4,8,20] b) => (float[N,4,8,20] y) {
    NODES
    d = Conv (b, V)
    y = Add (c, d)
}"""


@pytest.mark.parametrize(("factor", "status"), [(1.0, "verified"), (1 + 1e-4, "failed")])
def test_sizes_in_the_proportion_that_is_declared_fit_before_the_whole_model_is_asked(
    factor: float, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[tuple[int, ...]] = []
    if status == "verified":
        monkeypatch.setattr(fitting, "_fitting", lambda *_: pytest.fail("the whole model was asked"))
    attempt = SubgraphPair.attempt

    def noted(self: SubgraphPair, feeds: DrawnFeeds, numbers: NumberKind, *, guessed: bool) -> PartOutcome:
        tried.append(feeds["a"].shape)
        return attempt(self, feeds, numbers, guessed=guessed)

    monkeypatch.setattr(SubgraphPair, "attempt", noted)
    rng = numbers(4)
    weights: Weights = {name: single(rng.normal(size=(4, 4, 1, 1))) for name in "VW"}
    conv = "Conv <strides = [2, 2]>"
    before = model(TWO_LEVELS.replace("NODES", f"m = Mul (a, k)  c = {conv} (m, W)"), {**weights, "k": np.array(1.5)})
    after = model(TWO_LEVELS.replace("NODES", f"c = {conv} (a, W)"), {**weights, "W": weights["W"] * 1.5 * factor})
    (row,) = check(before, after, ir.Cut("", ("a", "b"), ("y",), "fold"))
    assert row.status == status
    assert (3, 4, 6, 8) in tried


def _at_levels(*declared: tuple[int, int]) -> Trial | None:
    """Return the trial of inputs that have four channels and declare these heights and widths."""
    shapes = [f"N,4,{height},{width}" for height, width in declared]
    inputs = ", ".join(f"float[{shape}] x{place}" for place, shape in enumerate(shapes))
    pool = "y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x0)"
    read = ir.load(model(f"({inputs}) => (float[a,b,c,d] y) {{ {pool} }}", {}))
    fed = {value.name: value for value in read.graph.inputs}
    return at_levels(fed, [*read.nodes()], dict.fromkeys(fed, (3, 4, 3, 3)))


def test_sizes_at_levels_are_rounded_either_way_beside_multiples() -> None:
    """Each level halves the one before, and rounds up or down as the declared sizes do."""
    found = _at_levels((15, 40), (8, 20), (4, 10))
    assert found is not None
    full, half, quarter = (12, 16), (6, 8), (3, 4)

    def sides(trial: dict[str, tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [shape[2:] for shape in trial.values()]

    assert sides(found.shapes) == [full, half, quarter]
    single_row, one_less, one_more = found.others
    assert (len(single_row), single_row["x0"]) == (3, (1, 4, *full))
    assert sides(one_less) == [tuple(side - 1 for side in full), half, quarter]
    assert sides(one_more) == [tuple(side + 1 for side in full), half, quarter]


@pytest.mark.parametrize(
    ("sides", "others"), [(16, 16), (16, 9), (99, 3)], ids=["alike", "in no proportion", "too far from each other"]
)
def test_sizes_that_are_alike_or_in_no_proportion_are_not_levels(sides: int, others: int) -> None:
    assert _at_levels((sides, sides), (others, others)) is None


@pytest.mark.parametrize(("mask", "status"), [("m", "verified"), ("n", "failed")])
def test_a_mask_finds_as_many_places_as_there_are_updates(mask: str, status: str) -> None:
    """Torch writes an assignment by a mask so; how many elements are assigned depends on the activations."""
    head = "(float[N,1,T] x) => (float[N,1,T] y) { m = Greater (x, zero)  n = Less (x, zero)  d = Neg (x)"
    updates = "i = NonZero (m)  j = Transpose <perm = [1,0]> (i)  g = GatherND (x, j)  u = Abs (g)"
    old = "s = Shape (d)  e = Expand (m, s)  k = NonZero (e)  p = Transpose <perm = [1,0]> (k)  y = ScatterND (d, p, u)"
    new = f"k = NonZero ({mask})  p = Transpose <perm = [1,0]> (k)  y = ScatterND (d, p, u)"
    before, after = (model(f"{head}  {updates}  {nodes} }}", {"zero": np.array(0.0)}) for nodes in (old, new))
    (row,) = check(before, after, ir.Cut("", ("x", "d", "u"), ("y",), "expand"))
    assert row.status == status, row.note
