"""Parts that differ on drawn numbers only: they are compared from values further back, which the model makes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bnfold import ir
from bnfold.verification import Verdict, parts, verify
from bnfold.verification.codes import Code
from bnfold.verification.inputs import adjusting
from bnfold.verification.subgraphs import nearer
from tests.verification.graphs import Depth, Weights, model, numbers

HEAD = "(float[N,8] x) => (float[N,8] y)"
PLAIN = "a = MatMul (x, w) "
WEIGHTS: Weights = {
    "w": numbers(1).normal(size=(8, 8)) * 0.4,
    "wide": np.array(numbers(2).normal(size=(8, 8)) ** 2),
    "tenth": np.array(0.1),
    "half": np.array(0.5),
    "cent": np.array(0.01),
    "two": np.array(2.0),
    "minus": np.array(-2.0),
    "far": np.array(1e4),
    "low": np.full(8, -6.0),
    "rare": np.array(0.001),
    "axes": np.array([1]),
}


def verdict(old: str, new: str, *, depth: Depth = "local", head: str = HEAD, more: Weights | None = None) -> Verdict:
    before, after = (ir.load(model(f"{head} {{ {text} }}", {**WEIGHTS, **(more or {})})) for text in (old, new))
    return verify(before, after, depth=depth, runtime="none")


def without(front: str, what: str, *, read: str = "s") -> tuple[str, str]:
    """A step that makes ``r`` is left out behind what makes ``s``."""
    return f"{front} r = {what} y = Neg (r)", f"{front} y = Neg ({read})"


@pytest.mark.parametrize("depth", ["auto", "local"])
@pytest.mark.parametrize(
    ("front", "what"),
    [
        (f"{PLAIN} s = Sigmoid (a)", "Relu (s)"),
        (f"{PLAIN} s = Exp (a)", "Relu (s)"),
        (f"{PLAIN} s = Exp (a)", "Abs (s)"),
        (f"{PLAIN} s = Softmax <axis = 1> (a)", "Relu (s)"),
        (f"{PLAIN} s = Abs (a)", "Relu (s)"),
        (f"{PLAIN} q = Mul (a, a) s = MatMul (q, wide)", "Relu (s)"),
        (f"{PLAIN} t = Sigmoid (a) s = Mul (t, two)", "Relu (s)"),
        (f"{PLAIN} t = Abs (a) u = Add (t, t) v = Mul (u, two) s = Sqrt (v)", "Relu (s)"),
        (f"{PLAIN} b = Relu (a) s = Identity (b)", "Max (s, a)"),
        (f"{PLAIN} m = ReduceMax <axes = [1]> (a) s = Add (a, m)", "Max (s, s)"),
    ],
)
def test_what_has_no_effect_on_what_the_model_makes_may_be_left_out(front: str, what: str, depth: Depth) -> None:
    assert verdict(*without(front, what), depth=depth).status == "verified"


@pytest.mark.parametrize("depth", ["auto", "local"])
@pytest.mark.parametrize(
    ("front", "what"),
    [
        (f"{PLAIN} s = Tanh (a)", "Relu (s)"),
        (f"{PLAIN} t = Sigmoid (a) s = Sub (t, half)", "Relu (s)"),
        (f"{PLAIN} s = Sigmoid (a)", "Clip (s, cent)"),
        ("a = Add (x, low) s = Sigmoid (a)", "Clip (s, rare, two)"),
        ("q = Mul (x, x) s = ReduceSum (q, axes)", "Clip (s, cent)"),
        ("q = Softmax <axis = 1> (x) s = ReduceMax <axes = [1]> (q)", "Clip (s, rare, half)"),
        ("t = Tanh (x) q = ReduceMean <axes = [1]> (t) s = Add (q, half)", "Abs (s)"),
        ("t = Sigmoid (x) q = ReduceMean <axes = [1]> (t) s = Sub (q, tenth)", "Abs (s)"),
        ("q = Sqrt (x) s = Sub (q, half)", "Abs (s)"),
        ("s = Add (x, far)", "Abs (s)"),
        ("s = Add (x, far)", "Relu (s)"),
    ],
)
def test_what_has_an_effect_on_some_of_it_stays_different(front: str, what: str, depth: Depth) -> None:
    """Some is rare: an offset of 10,000, or a mean of eight sigmoids below a tenth."""
    found = verdict(*without(f"{front} z = Identity (s)", what, read="z")).status
    assert found == "failed" if depth == "local" else found != "verified"


@pytest.mark.parametrize("depth", ["auto", "local"])
@pytest.mark.parametrize(
    ("front", "read"),
    [
        ("t = Tanh (x) q = ReduceMean <axes = [1]> (t) s = Add (q, most)", "Abs (s)"),
        ("t = Sigmoid (x) q = ReduceMean <axes = [1]> (t) s = Sub (q, tenth)", "Abs (s)"),
        ("s = Add (x, far) t = Neg (x)", "Max (s, t)"),
    ],
)
def test_what_depends_on_another_value_at_the_boundary_has_to_come_close_as_well(
    front: str, read: str, depth: Depth
) -> None:
    """Computed from what is read beside it alone, it agrees on numbers of all usual kinds."""
    old, new = f"{front} r = {read} y = Add (r, x)", f"{front} y = Add (s, x)"
    assert verdict(old, new, depth=depth, more={"most": np.array(0.9)}).status != "verified"


@pytest.mark.parametrize("depth", ["auto", "local"])
@pytest.mark.parametrize(
    ("front", "what"),
    [(f"{PLAIN} s = Tanh (a)", "Clip (s, minus, two)"), (f"{PLAIN} t = Exp (a) s = Add (t, two)", "Clip (s, half)")],
)
def test_where_nothing_comes_close_to_what_differs_it_is_open(front: str, what: str, depth: Depth) -> None:
    """Whether the model's values end there, or were not met, cannot be told."""
    found = verdict(*without(front, what), depth=depth)
    assert (found.status, found.code) == ("unverified", Code.HIDDEN)
    assert "it differs on numbers drawn for 's', and what the model computes there never comes close" in found.reason


def test_the_evidence_names_where_it_begins_and_began() -> None:
    found = verdict(*without(f"{PLAIN} t = Sigmoid (a) s = Mul (t, two)", "Relu (s)"))
    assert [(row.boundary, row.status) for row in found.ledger] == [
        (("s",), "failed"),
        (("t",), "failed"),
        (("a",), "verified"),
    ]
    [row] = found.local
    assert {"normal", "large", "tiny", "constant", "at mean", "far"} == {run.numbers for run in row.experiments}


@pytest.mark.parametrize(
    ("made", "filled", "status"),
    [("Expand (zeros, sizes)", "zeros", "verified"), ("Add (zeros, corner)", "zeros", "failed")],
)
def test_a_part_that_nothing_drawn_fits_is_compared_from_where_its_sizes_come_from(
    made: str, filled: str, status: str
) -> None:
    """Three rows and columns from where a number says: what is drawn in the place of zeros has other sizes."""
    window = (
        "f = Gather (x, nil) i = Cast <to = 7> (f) j = Add (i, three) k = Unsqueeze (i, first) "
        "l = Unsqueeze (j, first) across = Slice (ones, k, l, first) s = Slice (across, k, l, axes) sizes = Shape (s) "
        "zeros = ConstantOfShape (sizes) n = Slice (places, k, l) m = Reshape (n, column) "
        "grid = Add (n, m) size = Shape (grid) asked = Concat <axis = 0> (size, four)"
    )
    more = {
        "nil": np.array(0),
        "three": np.array(3),
        "first": np.array([0]),
        "column": np.array([-1, 1]),
        "ones": np.ones((8, 8, 4)),
        "places": np.arange(8),
        "four": np.array([4]),
        "corner": np.eye(4)[0],
    }
    old = f"{window} r = {made} y = Reshape (r, asked)"
    new = f"{window} y = Reshape ({filled}, asked)"
    assert verdict(old, new, head="(float[8] x) => (float[a,b,4] y)", more=more).status == status


BODY = (
    "{} y = If (k) <then_branch = t () => (float[N,8] o) {{ {} }},"
    " else_branch = e () => (float[N,8] p) {{ p = Neg (x) }}>"
)
INSIDE = "b = MatMul (x, w) s = {} (b)"


@pytest.mark.parametrize("depth", ["auto", "local"])
@pytest.mark.parametrize(
    ("front", "inside", "status"),
    [
        ("s = Sigmoid (x)", "", "verified"),
        ("", INSIDE.format("Sigmoid"), "verified"),
        ("s = Tanh (x)", "", "failed"),
        ("", INSIDE.format("Tanh"), "failed"),
    ],
)
def test_a_body_goes_back_to_what_is_captured(front: str, inside: str, status: str, depth: Depth) -> None:
    head = "(float[N,8] x, bool k) => (float[N,8] y)"
    old, new = (BODY.format(front, f"{inside} {rest}") for rest in ("r = Relu (s) o = Neg (r)", "o = Neg (s)"))
    assert verdict(old, new, depth=depth, head=head).status == status


POOLED = "(float[N,3,8,8] x) => (float[N,3,4,4] y)"
POOL = "y = MaxPool <kernel_shape = [3,3], strides = [2,2]{}> ({})"


@pytest.mark.parametrize(
    ("front", "status"),
    [
        ("c = Sigmoid (x)", "verified"),
        ("c = Clip (x, tenth, two)", "unverified"),
        ("c = Clip (x, minus, two)", "failed"),
        ("c = Tanh (x)", "failed"),
    ],
)
def test_zeros_around_what_a_pool_reads_become_its_pads(front: str, status: str) -> None:
    """The zeros have an effect where all numbers beside them are negative; a smallest of .1 is not close to that."""
    old = f"{front} p = Pad (c, pads) {POOL.format('', 'p')}"
    new = f"{front} {POOL.format(', pads = [1,1,1,1]', 'c')}"
    more = {"pads": np.array([0, 0, 1, 1, 0, 0, 1, 1])}
    assert verdict(old, new, head=POOLED, more=more).status == status


def test_a_number_that_nothing_reads_is_no_evidence() -> None:
    """The fifth channel is zero, whatever is drawn; a weight that reads it is another one."""
    wrong = {**WEIGHTS, "v": np.array(WEIGHTS["w"])}
    wrong["v"][4, 3] += 1
    dead = {"dead": np.where(np.arange(8) == 4, -1e9, 0.0)}
    front = "t = Tanh (x) a = Add (t, dead) s = Relu (a)"
    for depth in ("auto", "local"):
        found = verdict(f"{front} y = MatMul (s, w)", f"{front} y = MatMul (s, v)", more={**wrong, **dead}, depth=depth)
        assert found.status != "verified"


@pytest.mark.parametrize(("share", "boundaries"), [(0.0, {("s",)}), (1e-12, {("s",), ("t",)})])
def test_where_it_costs_too_much_it_still_differs(
    share: float, boundaries: set[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a step took is known behind it; the next one takes longer."""
    pair = without(f"{PLAIN} t = Sigmoid (a) s = Mul (t, two)", "Relu (s)")
    monkeypatch.setattr(parts, "_GOING_BACK", share)
    found = verdict(*pair)
    assert found.status == "failed"
    assert {row.boundary for row in found.ledger} == boundaries


def test_behind_a_discontinuity_agreement_says_nothing() -> None:
    """One of three hundred numbers would have to be the largest."""
    front = "(float[300] x) => (float[1] y) {{ h = Hardmax <axis = 0> (x) {} }}"
    before, after = (
        ir.load(model(front.format(text), {"place": np.array([7])}))
        for text in ("y = Gather (h, place)", "n = Neg (h) y = Gather (n, place)")
    )
    assert verify(before, after, depth="local", runtime="none").status == "failed"


def test_at_some_step_it_agrees_by_chance_and_differs_behind() -> None:
    """What is open from nearby differs from what callers feed."""
    deep = "b = Mul (x, x) c = Sub (b, far) d = Neg (c) s = Neg (d)"
    found = verdict(*without(deep, "Clip (s, minus)"))
    assert found.status == "failed"
    assert found.local[0].boundary == ("x",)


def test_a_fault_that_a_part_cannot_show_is_looked_for_from_further_back() -> None:
    """Only what an Exp makes of large numbers is beyond the bound; what is drawn in its place is not."""
    bound = {"high": np.array(65504.0), "least": np.array(-65504.0)}
    front = "s = Exp (x) r = Clip (s, least, high)"
    assert verdict(f"{front} y = Mul (r, x)", f"{front} y = Mul (s, x)", more=bound).status == "failed"


def test_where_numbers_decide_on_sizes_none_is_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Range up to a million times as many would take all memory."""
    monkeypatch.setattr(nearer, "far", lambda *_, **__: pytest.fail("it was asked for"))
    front = "c = ReduceSum <keepdims = 0> (x, axes) q = Mul (c, c) n = ReduceMax <keepdims = 0> (q)"
    rest = "g = Range (nil, n, one) h = ReduceSum (g) s = Sigmoid (x) r = Add (s, h)"
    head = "(float[N,8] x) => (float[N,8] y)"
    more = {"nil": np.array(0.0), "one": np.array(100.0)}
    old, new = (f"{front} {rest} {text}" for text in ("p = Relu (r) y = Neg (p)", "y = Neg (r)"))
    assert verdict(old, new, head=head, more=more).status == "verified"


def test_numbers_that_are_far_stay_within_their_type() -> None:
    text = "(float16[N,2] x, int64[N] i, float[N] z) => (float16[N,2] y) { y = Neg (x) }"
    inputs = {value.name: value for value in ir.load(model(text, {})).graph.inputs}
    feeds: Any = {"x": np.array([[1.0, -2.0]], np.float16), "i": np.array([3]), "z": np.array([-4.0], np.float32)}
    drawn = [*adjusting.far(inputs, feeds, with_zeros=True)]
    assert [float(each["x"].min()) for each in drawn] == pytest.approx([-65504, -2 / 2**20, 65504, -65504, 0], abs=1e-7)
    assert all(each["i"].tolist() == [3] for each in drawn)
    assert drawn[2]["z"] == 4 * 2**20
    assert len([*adjusting.far(inputs, feeds, with_zeros=False)]) == len(drawn) - 1


UNKNOWN = "q = SplitToSequence <axis = 0> (x) d = ConcatFromSequence <axis = 0> (q) v = Mul (d, two) "
"""Of what comes out of a sequence, no size follows."""


@pytest.mark.parametrize("depth", ["auto", "full", "local"])
@pytest.mark.parametrize(
    ("old", "more", "status"),
    [
        ("r = Range (s, e, one) g = Gather <axis = 1> (v, r) y = Neg (g)", {"e": np.array(5)}, "verified"),
        ("r = Range (s, e, one) g = Gather <axis = 1> (v, r) y = Neg (g)", {"e": np.array(4)}, "failed"),
        ("r = Range (s, e, one) g = Gather <axis = 2> (v, r) y = Neg (g)", {"e": np.array(3)}, "failed"),
        ("g = Reshape (v, e) y = Neg (g)", {"e": np.array([2, 5, 4])}, "verified"),
        ("g = Reshape (v, e) y = Neg (g)", {"e": np.array([5, 2, 4])}, "failed"),
        ("g = Reshape (v, e) y = Neg (g)", {"e": np.array([2, 4, 5])}, "failed"),
        ("g = Clip (v, low, high) y = Neg (g)", {"low": np.array(-30.0), "high": np.array(30.0)}, "failed"),
        ("g = Clip (v, low, high) y = Neg (g)", {"low": np.array(-1000.0), "high": np.array(1000.0)}, "failed"),
    ],
)
def test_sizes_that_the_model_never_makes_there_are_no_difference(
    old: str, more: Weights, status: str, depth: Depth
) -> None:
    """What differs by numbers alone does so at the sizes that it makes as well."""
    constants: Weights = {"s": np.array(0), "one": np.array(1), **more}
    head = "(float[2,5,4] x) => (float[A,B,C] y)"
    found = verdict(f"{UNKNOWN} {old}", f"{UNKNOWN} y = Neg (v)", depth=depth, head=head, more=constants).status
    assert found == status if status == "verified" else found != "verified"


def test_what_agrees_further_back_and_is_never_finite_is_open() -> None:
    """A Relu behind a Sigmoid is no difference, and a channel of NaN shows none."""
    head, weights = "(float[3,4] x) => (float[3,4] y) { s = Sigmoid (x)", {"k": np.array([[1.0, np.nan, 2.0, 1.0]])}
    before = ir.load(model(f"{head}  r = Relu (s)  z = Exp (r)  y = Mul (z, k) }}", weights))
    after = ir.load(model(f"{head}  e = Exp (s)  y = Mul (e, k) }}", weights))
    assert verify(before, after, runtime="none", depth="local").code is Code.NEVER_FINITE
