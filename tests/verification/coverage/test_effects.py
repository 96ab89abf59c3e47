"""Which numbers have no effect on any result."""

from __future__ import annotations

from typing import Literal

import numpy as np
import onnx
import pytest

from bnfold import ir
from bnfold.verification import verify
from bnfold.verification.changes.extract import Subgraph
from bnfold.verification.coverage.effects import is_without_effect, normalised, read_for_sizes, selects_the_same
from tests.verification.graphs import model, numbers

HEAD = "(float[N,3,H,W] x, float[N,P] z) => (float[A,B,C,D] y)"
WEIGHTS = {"w": numbers(1).normal(size=(4, 3, 1, 1)), "one": np.array([1]), "four": np.array([0, 4, 0, 0])}


def part(text: str) -> Subgraph:
    loaded = ir.load(model(f"{HEAD} {{ {text} }}", WEIGHTS))
    return Subgraph(loaded.graph.outputs, ())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("c = Conv (x, w)  s = Shape (c)  y = Reshape (z, s)", {"Conv"}),
        ("c = Conv (x, w)  r = Relu (c)  s = Shape (r)  y = Reshape (z, s)", {"Conv", "Relu"}),
        ("c = Conv (x, w)  r = Reshape (c, four)  s = Shape (r)  y = Reshape (z, s)", {"Conv", "Reshape"}),
        ("c = Conv (x, w)  s = Shape (c)  r = Reshape (z, s)  y = Add (r, c)", set()),
        ("c = Conv (x, w)  f = NonZero (c)  s = Shape (f)  y = Reshape (z, s)", set()),
        ("c = Abs (z)  i = Cast <to = 7> (c)  r = Reshape (x, i)  s = Shape (r)  y = Reshape (z, s)", {"Reshape"}),
    ],
)
def test_a_node_that_is_read_for_its_sizes(text: str, expected: set[str]) -> None:
    one = part(text)
    found = read_for_sizes(one)
    assert {node.op_type for node in found} == expected
    assert y_is_made_by(one) not in found


def y_is_made_by(one: Subgraph) -> ir.Node:
    (end,) = one.outputs
    assert end.producer is not None
    return end.producer


SIZED = "(float[N,3,H,W] x, float[N,P] z) => (float[N,4,H,W] y)"
KEPT = {"w": np.ones((4, 3, 1, 1)), "b": np.arange(4.0)}


@pytest.mark.parametrize(("read", "status"), [("x", "failed"), ("d", "verified")])
def test_a_weight_that_gives_sizes_needs_no_evidence(read: str, status: str) -> None:
    """The shape is that of a Conv which lost its bias; ``x`` has three channels for four."""
    old = model(f"{SIZED} {{ c = Conv (x, w, b)  s = Shape (c)  y = Reshape (z, s) }}", KEPT)
    new = model(f"{SIZED} {{ d = Conv (x, w)  s = Shape ({read})  y = Reshape (z, s) }}", KEPT)
    assert verify(ir.load(old), ir.load(new), depth="local", runtime="none").status == status


SHARED = "(float[N,8,H,W] x, float[P,Q] v) => (float[N,8,H,W] y, float[P,Q] u)"
AXES = {"a": np.array([0]), "e": np.array([2]), "six": np.array([1, 1, -1, 0, 0, 1]), "r": np.array([-1, 1, 0, 0])}


@pytest.mark.parametrize(("last", "status"), [("m", "verified"), ("x", "failed")])
def test_an_axis_that_a_slice_elsewhere_reads_is_no_end(last: str, status: str) -> None:
    """The Reshapes give the mean back its shape, whatever the sizes are."""
    begin = "u = Slice (v, a, e, a)  m = ReduceMean <axes = [1]> (x)"
    chain = "p = Unsqueeze (m, a)  q = Reshape (p, six)  o = Squeeze (q, a)  k = Reshape (o, r)"
    old = model(f"{SHARED} {{ {begin} {chain}  y = Sub (x, k) }}", AXES, opset=17)
    new = model(f"{SHARED} {{ {begin}  y = Sub (x, {last}) }}", AXES, opset=17)
    assert verify(ir.load(old), ir.load(new), depth="local", runtime="none").status == status


FIRST = {"o": np.array(0), "v": np.array([0])}


@pytest.mark.parametrize(("batch", "status"), [("x", "verified"), ("z", "unverified")])
def test_which_row_gives_a_size_does_not_matter(batch: str, status: str) -> None:
    head = "(float[N,2,2] x, float[M,3] z, float[1] u) => (float[K] y)"
    old = model(f"{head} {{ g = Gather (x, o)  h = Gather (g, o)  s = Shape (h)  y = Expand (u, s) }}", FIRST)
    new = model(f"{head} {{ n = Shape ({batch})  s = Gather (n, v)  y = Expand (u, s) }}", FIRST)
    old.graph.node[0].attribute.append(onnx.helper.make_attribute("axis", 1))
    old.graph.node[1].attribute.append(onnx.helper.make_attribute("axis", 1))
    assert verify(ir.load(old), ir.load(new), depth="local", runtime="none").status == status


TOKENS = "(int64[N,L] i, float[M,P] z) => (float[A,B,C] y)"
TABLE = {"e": np.arange(80.0).reshape(20, 4), "last": np.array([-1]), "l": np.array([1]), "o": np.array([0])}


@pytest.mark.parametrize(("made", "status"), [("j", "verified"), ("r", "failed")])
def test_a_size_that_is_inferred_is_no_size_that_is_copied(made: str, status: str) -> None:
    """A Reshape to -1 and the length: what the -1 is moved by must not say "as it was"."""
    text = "s = Shape (i)  n = Gather (s, l)  t = Concat <axis = 0> (last, n)  j = Reshape (i, t)"
    old = model(f"(int64[N,L] i) => (float[A,B,4] y) {{ {text}  y = Gather (e, j) }}", TABLE)
    end = "y = Gather (e, i)" if made == "j" else "r = Transpose <perm = [1, 0]> (i)  y = Gather (e, r)"
    new = model(f"(int64[N,L] i) => (float[A,B,4] y) {{ {end} }}", TABLE)
    assert verify(ir.load(old), ir.load(new), depth="local", runtime="none").status == status


@pytest.mark.parametrize(("rows", "status"), [("i", "verified"), ("z", "failed")])
def test_a_table_that_gives_sizes_may_be_read_anywhere(rows: str, status: str) -> None:
    old = model(f"{TOKENS} {{ g = Gather (e, i)  h = Tanh (g)  s = Shape (h)  y = Expand (z, s) }}", TABLE)
    sizes = f"n = Shape ({rows})  f = Constant <value = int64[1] {{4}}> ()  t = Concat <axis = 0> (n, f)"
    new = model(f"{TOKENS} {{ {sizes}  y = Expand (z, t) }}", TABLE)
    assert verify(ir.load(old), ir.load(new), depth="local", runtime="none").status == status


HALVES = "(float[N,{},L] x) => (float[N,2,L] y)"
PLACES = {"one": np.array([1]), "two": np.array([2]), "four": np.array([4]), "five": np.array([5])}


@pytest.mark.parametrize(("channels", "status"), [("4", "verified"), ("C", "failed")])
def test_an_end_at_the_end_of_an_axis_may_lie_beyond_it(channels: str, status: str) -> None:
    """The end follows from the size of the axis; where that is not known, 4 would be another end than 5."""
    end = "s = Shape (x)  g = Gather (s, one)" if channels == "4" else "g = Identity (five)"
    head = HALVES.format(channels)
    old = model(f"{head} {{ {end}  y = Slice (x, two, g, one) }}", PLACES)
    new = model(f"{head} {{ y = Slice (x, two, four, one) }}", PLACES)
    assert verify(ir.load(old), ir.load(new), depth="local", runtime="none").status == status


@pytest.mark.parametrize("depth", ["auto", "full", "local"])
@pytest.mark.parametrize(("node", "rest"), [("Mul", (1,)), ("MatMul", (4, 1))])
def test_a_constant_that_stretches_an_open_size_gives_that_size(
    node: str, rest: tuple[int, ...], depth: Literal["auto", "full", "local"]
) -> None:
    """Of three rows or one, which shows with one row only; no number of the constant does."""
    head = "(float[N,4] x) => (float[P] y)" if node == "Mul" else "(float[N,4,4] x) => (float[P] y)"
    body = f"t = {node} (x, c)  s = Shape (t)  n = Gather (s, v)  r = ReduceSum <keepdims = 0> (x)  y = Expand (r, n)"
    before, after = (
        ir.load(model(f"{head} {{ {body} }}", {"c": np.ones((rows, *rest)), "v": np.array([0])})) for rows in (3, 1)
    )
    assert verify(before, after, depth=depth, runtime="none").status != "verified"


def test_a_slice_without_a_step_is_no_crash() -> None:
    """No runtime takes a step of 0; the comparison says so."""
    head = "(float[N,8] x) => (float[N,A] y)"
    weights = {
        "a": np.array([0]),
        "b": np.array([5]),
        "axis": np.array([1]),
        "step": np.array([1]),
        "none": np.array([0]),
    }
    before, after = (
        ir.load(model(f"{head} {{ s = Slice (x, a, b, axis, {step})  y = Neg (s) }}", weights))
        for step in ("step", "none")
    )
    for depth in ("local", "auto"):
        assert not verify(before, after, depth=depth, runtime="none").verified


@pytest.mark.parametrize(("stated", "expected"), [([1, 1], None), ([3, 3], [3, 3])])
def test_a_kernel_shape_that_a_fed_weight_implies_says_nothing(stated: list[int], expected: list[int] | None) -> None:
    loaded = ir.load(model("(float[N,3,H,W] x, float[4,3,1,1] v) => (float[N,4,H,W] y) { y = Conv (x, v) }", {}))
    assert normalised(loaded.graph.nodes[0], "kernel_shape", stated) == expected


def slicing(*, dims: str = "2,9", starts: int = 1, ends: int = 7, axes: int = 1, steps: int = 2) -> ir.Node:
    weights = {name: np.array([number]) for name, number in zip("seat", (starts, ends, axes, steps), strict=True)}
    loaded = ir.load(model(f"(float[{dims}] x) => (float[a,b] y) {{ y = Slice (x, s, e, a, t) }}", weights))
    (node,) = loaded.nodes()
    return node


@pytest.mark.parametrize(
    ("slot", "goal", "is_same"),
    [
        (0, 1, False),  # the data themselves
        (1, 1, True),
        (1, 2, False),
        (2, 6, True),  # the places 1, 3 and 5 end before either
        (2, 8, False),
        (3, 0, False),  # along another axis, unless all of that is taken
        (4, 3, False),
        (4, 2, True),
    ],
)
def test_a_slice_that_selects_the_same(slot: int, goal: int, *, is_same: bool) -> None:
    assert selects_the_same(slicing(), slot, np.array([goal])) == is_same


@pytest.mark.parametrize(("dims", "end"), [("2,9", 2**31 - 1), ("n,m", 2**31 - 1)])
def test_a_slice_of_everything_takes_all_along_any_axis(dims: str, end: int) -> None:
    assert selects_the_same(slicing(dims=dims, starts=0, ends=end, steps=1), 3, np.array([0]))
    assert not selects_the_same(slicing(dims=dims, starts=0, ends=end - 1, steps=1), 3, np.array([0]))
    assert not selects_the_same(slicing(dims=dims, starts=0, ends=end, steps=2), 3, np.array([0]))


@pytest.mark.parametrize(("other", "is_same"), [(6, True), (8, False)])
def test_a_slice_of_an_axis_of_unknown_size(other: int, *, is_same: bool) -> None:
    assert selects_the_same(slicing(dims="n,m"), 2, np.array([other])) == is_same
    assert not selects_the_same(slicing(dims="n,m", ends=65), 2, np.array([64])), "lengths up to 64 are tried"
    assert selects_the_same(slicing(dims="n,m", ends=64), 2, np.array([64]))


@pytest.mark.parametrize(
    ("node", "slot", "expected"),
    [
        ("y = Dropout (x, ratio)", 1, True),
        ("y = Dropout (x, ratio, no)", 1, True),
        ("y = Dropout (x, ratio, no)", 2, True),
        ("y = Dropout (x, ratio, yes)", 1, False),
        ("y = Dropout (x, ratio)", 0, False),
        ("y = CastLike (x, ratio)", 1, True),
        ("y = CastLike (x, ratio)", 0, False),
        ("y = Where (yes, x, x)", 0, True),
        ("y = Where (yes, x, ratio)", 0, False),
    ],
)
def test_an_input_without_effect(node: str, slot: int, *, expected: bool) -> None:
    weights = {"ratio": np.array(0.5), "no": np.array(False), "yes": np.array(True)}
    (found,) = ir.load(model(f"(float[2,3] x) => (float[a,b] y) {{ {node} }}", weights, opset=15)).nodes()
    assert is_without_effect(found, slot) == expected


@pytest.mark.parametrize(("mask", "expected"), [(True, {"Relu"}), (False, set())])
def test_what_a_stored_mask_never_chooses_is_read_for_its_sizes(mask: bool, expected: set[str]) -> None:
    """Of Where (mask, Sigmoid, Relu), the Relu is the third input."""
    weights = {**WEIGHTS, "mask": np.full((1, 1, 1, 1), mask)}
    body = "s = Sigmoid (x)  r = Relu (x)  w2 = Where (mask, s, r)  y = Neg (w2)"
    loaded = ir.load(model(f"{HEAD} {{ {body} }}", weights))
    found = {node.op_type for node in read_for_sizes(Subgraph(loaded.graph.outputs, ()))}
    assert found == (expected or {"Sigmoid"})
