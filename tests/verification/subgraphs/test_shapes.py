"""Which sizes a part is tried at."""

from __future__ import annotations

from typing import Literal

import numpy as np
import onnx
import pytest

from bnfold import analysis, ir
from bnfold.verification import verify
from bnfold.verification.changes.boundaries import uncovered
from bnfold.verification.inputs.bounds import largest_bound
from bnfold.verification.subgraphs.shapes import subgraph_shapes
from tests.verification.graphs import Weights, model, numbers, single
from tests.verification.subgraphs.test_verifier import check

_LSTM = "(float[N,2,3] x) => (float[N,1,2,40] y, float[1,2,40] h) { y, h = LSTM <hidden_size = 40> (x, w, r) }"
_WEIGHTS = {"w": np.ones((1, 160, 3)), "r": np.ones((1, 160, 40))}


def longest(proto: onnx.ModelProto) -> int:
    loaded = ir.load(proto)
    analysis.infer_shapes(loaded)
    trials = [*subgraph_shapes({"x": loaded.graph.values["x"]}, loaded.graph.nodes)]
    return max(max(shapes["x"]) for trial in trials for shapes in (trial.shapes, *trial.others))


def test_a_node_that_makes_a_constant_bounds_no_size() -> None:
    """An exporter reshapes each bias: 300 is its length, and no size that an image has to reach."""
    reshaped = "(float[N,3,H,W] x) => (float[N,300,P,Q] y) { c = Conv (x, w)  r = Reshape (b, s)  y = Add (c, r) }"
    weights = {"w": np.ones((300, 3, 3, 3)), "b": np.ones(300), "s": np.array([1, 300, 1, 1])}
    assert longest(model(reshaped, weights)) < 100


def test_a_node_that_moves_an_activation_does() -> None:
    moved = "(float[N,3,H,W] x) => (float[N,3,P,Q] y) { y = Slice (x, a, e, d) }"
    weights = {"a": np.array([0]), "e": np.array([300]), "d": np.array([2])}
    assert longest(model(moved, weights)) > 300


def test_the_hidden_size_of_a_recurrent_operator_bounds_no_sequence() -> None:
    assert largest_bound(ir.load(model(_LSTM, _WEIGHTS)).graph.nodes) < 3
    stated = _LSTM.replace("(x, w, r)", "(x, w, r, , n)")
    lengths = {"n": np.array([77, 5], np.int32)}
    assert largest_bound(ir.load(model(stated, _WEIGHTS | lengths)).graph.nodes) == 77


def test_a_target_is_no_bound_and_an_end_is_one() -> None:
    """Any size beside the one that a Reshape fixes shows that it does; that a Slice ends, only larger ones show."""
    body = "(float[N,M] x) => (float[a,768] y) { s = Slice (x, zero, end, zero)  y = Reshape (s, to) }"
    numbers = {"zero": np.array([0]), "end": np.array([9]), "to": np.array([-1, 768])}
    sliced, reshaped = ir.load(model(body, numbers)).graph.nodes
    assert (largest_bound([sliced]), largest_bound([reshaped])) == (9, 0)


def test_the_outputs_of_a_recurrent_operator_are_compared_at_once() -> None:
    doubled = {name: weight * 2 for name, weight in _WEIGHTS.items()}
    (cut,) = uncovered(ir.load(model(_LSTM, _WEIGHTS)), ir.load(model(_LSTM, doubled)), ())
    assert cut.outputs == ("y", "h")


def test_no_size_is_tried_twice() -> None:
    windows = "(float[N,172,H,1] x) => (float[N,4,P,1] y) { p = Pad (x, pads)  y = Conv (p, w) }"
    loaded = ir.load(model(windows, {"w": np.ones((4, 172, 99, 1)), "pads": np.array([0, 0, 264, 0, 0, 0, 264, 0])}))
    for trial in subgraph_shapes({"x": loaded.graph.values["x"]}, loaded.graph.nodes):
        tried = [trial.shapes, *trial.others]
        assert all(shapes not in tried[:place] for place, shapes in enumerate(tried))


def test_a_region_that_takes_long_is_tried_once_more_with_one_row_of_larger_sizes() -> None:
    nodes = "h = Conv <strides = [2,2]> (x, W)  y = Slice (h, one, nine, two)"
    weights = {"W": np.ones((4, 3, 3, 3), np.float32), "one": [1], "nine": [9], "two": [2]}
    held = {name: np.array(numbers) for name, numbers in weights.items()}
    read = ir.load(model(f"(float[N,3,H,W0] x) => (float[a,b,c,d] y) {{ {nodes} }}", held))
    first, *_ = subgraph_shapes({"x": read.graph.values["x"]}, [*read.nodes()])
    (quick,) = first.quick
    assert quick["x"][0] == 1
    assert all(one > other for one, other in zip(quick["x"][2:], first.shapes["x"][2:], strict=True))
    assert len(first.others) > 1


@pytest.mark.parametrize("depth", ["auto", "full", "local"])
def test_no_number_of_rows_is_mistaken_for_a_declared_size(depth: Literal["auto", "full", "local"]) -> None:
    """Which size is read shows only where they differ: usually three rows are tried."""
    head, weights = "(float[N,3,6] x) => (int64[K] y)", {"i": np.array([1]), "j": np.array([0])}
    texts = (f"{head} {{ s = Shape (x)  n = Gather (s, {place})  y = Add (n, n) }}" for place in ("i", "j"))
    before, after = (ir.load(model(text, weights)) for text in texts)
    assert verify(before, after, depth=depth, runtime="none").status == "failed"


@pytest.mark.parametrize("depth", ["auto", "full", "local"])
def test_a_declared_size_that_is_read_is_not_another_one(depth: Literal["auto", "full", "local"]) -> None:
    """As many rows as the last axis is long, which is two, or all: with a longer axis, both are all."""
    head, weights = "(float[N,S,2] x) => (float[A,B,C] y)", {"z": np.array([0]), "two": np.array([2])}
    sizes = "s = Shape (x)  e = Gather (s, two)  h = Relu (x)"
    texts = (f"{head} {{ {sizes}  c = Slice (h, z, e, {axis})  y = Neg (c) }}" for axis in ("z", "two"))
    before, after = (ir.load(model(text, weights)) for text in texts)
    assert verify(before, after, depth=depth, runtime="none").status == "failed"


@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_a_batch_that_a_target_fixes_shows_at_another_one(rows: int) -> None:
    """Three rows are what parts are tried with."""
    head = "(float[N,8,8,8] x) => (float[A,B] y)"
    before = model(f"{head} {{ q = Relu (x)  y = Flatten (q) }}", {})
    after = model(f"{head} {{ q = Relu (x)  y = Reshape (q, s) }}", {"s": np.array([rows, -1])})
    verdict = verify(ir.load(before), ir.load(after), depth="local", runtime="none")
    assert verdict.status == "failed", verdict.reason


@pytest.mark.parametrize("size", ["H", "0"])
def test_a_reshape_that_takes_multiples_is_compared_at_two_of_them(size: str) -> None:
    """At the first one, it has no effect; exporters write a size of 0 for an open one."""
    head = f"(float[3,{size},4] x) => (float[A,B,C] y)"
    before = model(f"{head} {{ y = Reshape (x, s) }}", {"s": np.array([-1, 7, 4])})
    after = model(f"{head} {{ y = Identity (x) }}", {})
    verdict = verify(ir.load(before), ir.load(after), depth="local", runtime="none")
    assert verdict.status == "unverified", verdict.reason
    assert "(3, 14, 4)" in verdict.reason


def test_half_of_an_odd_number_of_rows_is_rounded() -> None:
    """The usual numbers of rows are odd, so that halves are not mistaken for each other."""
    head = "(float[N,4] x) => (float[P,4] y) { s = Shape (x)  n = Gather (s, z)"
    numbers = {"z": np.array([0]), "one": np.array([1]), "two": np.array([2])}
    before = model(f"{head}  e = Div (n, two)  y = Slice (x, z, e, z) }}", numbers)
    after = model(f"{head}  m = Sub (n, one)  e = Div (m, two)  y = Slice (x, z, e, z) }}", numbers)
    verdict = verify(ir.load(before), ir.load(after), depth="local", runtime="none")
    assert verdict.status == "failed", verdict.reason


def _tried(body: str, weights: Weights) -> list[tuple[int, ...]]:
    """Return the shapes of ``x`` in all trials of a model's nodes."""
    read = ir.load(model(body, weights))
    return [trial.shapes["x"] for trial in subgraph_shapes({"x": read.graph.values["x"]}, [*read.nodes()])]


def test_windows_that_reach_far_slide_over_rows_that_are_no_longer_than_declared() -> None:
    """A row is declared shorter than the window. With ten times as many channels it is too large to be fed."""
    dilation, taps = 32768, 3
    length = 65000
    assert length < (taps - 1) * dilation + 1

    def tried(channels: int) -> list[tuple[int, ...]]:
        head = f"(float[N,{channels},{length}] x) => (float[N,1,P] y)"
        return _tried(f"{head} {{ y = Conv <dilations = [{dilation}]> (x, W) }}", {"W": np.ones((1, channels, taps))})

    assert tried(64) == [(1, 64, length), (2, 64, length)]
    assert tried(640) == []


@pytest.mark.parametrize(("factor", "status"), [(1.0, "verified"), (1 + 1e-4, "failed")])
def test_two_rows_are_compared_where_three_are_too_large(
    factor: float, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bnfold.verification.subgraphs.shapes.LARGEST_FEED", 50)
    weight = single(numbers(5).normal(size=(2, 4, 3)))
    head = "(float[N,4,9] x) => (float[N,2,9] y)"
    conv = "Conv <dilations = [4], pads = [4, 4]>"
    before = model(f"{head} {{ c = {conv} (x, W)  y = Mul (c, k) }}", {"W": weight, "k": np.array(1.5)})
    after = model(f"{head} {{ y = {conv} (x, W) }}", {"W": weight * 1.5 * factor})
    (row,) = check(before, after, ir.Cut("", ("x",), ("y",), "fold"))
    assert row.status == status


def test_of_many_places_before_channels_few_are_drawn() -> None:
    body = "(float[N,300,384] x) => (float[N,300,8] y) { y = MatMul (x, W) }"
    weights: Weights = {"W": np.ones((384, 8))}
    first, *_ = _tried(body, weights)
    assert first[2] == 384
    assert 1 < first[1] < 10
    assert first[0] not in (1, first[1])  # rows and places that are exchanged have to show


@pytest.mark.parametrize(
    "nodes",
    [
        "a = Add (x, c)  y = MatMul (a, W)",  # a constant has a number for each place
        "r = Reshape (x, s)  y = MatMul (r, W)",  # a target may ask for as many
        "y = Relu (x)",  # channels may be axis 1
    ],
)
def test_places_stay_where_their_number_may_matter(nodes: str) -> None:
    weights: Weights = {"W": np.ones((384, 8)), "c": np.ones((300, 1)), "s": np.array([-1, 300, 384])}
    first, *_ = _tried(f"(float[N,300,384] x) => (float[a,b,c0] y) {{ {nodes} }}", weights)
    assert first[1] == 300


def test_few_places_stay() -> None:
    first, *_ = _tried("(float[N,30,8] x) => (float[N,30,8] y) { y = MatMul (x, W) }", {"W": np.ones((8, 8))})
    assert first[1] == 30


@pytest.mark.parametrize(
    ("declared", "made", "rows"),
    [
        ("N,64,200,200", "Add (x, x)", 1),
        ("N,3,720,720", "Pad <pads = [0, 0, 1, 0, 0, 0, 0, 1]> (x)", 1),
        ("N,3,720,720", "Pad <pads = [1, 0, 0, 0, 0, 0, 0, 0]> (x)", 5),
        ("N,3,720,720", "Concat <axis = 1> (x, x)", 1),
        ("N,3,720,720", "Concat <axis = 0> (x, x)", 5),
        ("N,3,720,720", "ReduceMax <axes = [0]> (x)", 5),
        ("N,3,720,720", "Slice (x, c, c, c)", 5),
        ("N,64,20,20", "Add (x, x)", 3),
        ("N,64,200,200", "Reshape (x, c)", 3),
    ],
)
def test_of_large_rows_one_does_where_nothing_mixes_them(declared: str, made: str, rows: int) -> None:
    """What an operator makes of each row by itself, it makes of any number of rows."""
    loaded = ir.load(
        model(f"(float[{declared}] x) => (float[a,b,c,d] y) {{ y = {made} }}", {"c": np.array([0, 0, -1])})
    )
    trials = subgraph_shapes({"x": loaded.graph.values["x"]}, loaded.graph.nodes)
    sizes = tuple(map(int, declared.split(",")[1:]))
    assert next(trial.shapes["x"][0] for trial in trials if trial.shapes["x"][1:] == sizes) == rows


@pytest.mark.parametrize(
    ("behind", "rows"), [("InstanceNormalization (c, b, b)", 1), ("ReduceMax <axes = [0]> (c)", 2)]
)
def test_of_what_is_large_whatever_it_is_fed_few_rows_are_compared_first(behind: str, rows: int) -> None:
    grown = "c = ConvTranspose <output_shape = [361, 361]> (x, w)"
    text = f"(float[N,1,90,90] x) => (float[N,4,P,Q] y) {{ {grown}  y = {behind} }}"
    loaded = ir.load(model(text, {"w": np.ones((1, 4, 3, 3)), "b": np.ones(4)}))
    first = next(subgraph_shapes({"x": loaded.graph.values["x"]}, loaded.graph.nodes))
    assert first.shapes["x"][0] == rows
    assert [shapes["x"][0] for shapes in first.quick] == [1]
