"""Sizes that models are compared at: those that fit, and others at which a fault shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
import pytest

from bnfold import ir
from bnfold.ir.value import Known
from bnfold.verification import Verdict, verify
from bnfold.verification.inputs import choices as module
from bnfold.verification.inputs import sized
from bnfold.verification.inputs.bounds import size_changes
from bnfold.verification.inputs.choices import Choice, choices, united
from bnfold.verification.inputs.drawing import known_sizes
from bnfold.verification.inputs.shapes import ChosenShapes
from tests.verification.graphs import model

IMAGE = "(float[N,3,H,W] x) => (float[a,b,c,d] y)"


def compared(head: str, before: str, after: str, weights: dict[str, Any], **options: Any) -> Verdict:
    old, new = (ir.load(model(f"{head} {{ {nodes} }}", weights, opset=17)) for nodes in (before, after))
    return verify(old, new, runtime="none", **options)


POOL = "kernel_shape = [2,2], strides = [2,2]"
FAULTS = [
    ("(float[N,3,1] x) => (float[a,b] y)", "y = Squeeze (x, two)", "y = Squeeze (x)", {}),
    ("(float[N,T,4] x) => (float[a,b] y)", "y = ReduceSum <keepdims = 0> (x, one)", "y = ReduceSum (x, one)", {}),
    (
        IMAGE,
        *(f"y = AveragePool <kernel_shape = [2,2], strides = [2,2]{more}> (x)" for more in ("", ", ceil_mode = 1")),
        {},
    ),
    (IMAGE, "y = Slice (x, zero, s, two)", "y = Slice (x, zero, e, two)", {"s": [64], "e": [100]}),
    (IMAGE, "y = Slice (x, zero, s, two)", "y = Slice (x, zero, e, two)", {"s": [150], "e": [200]}),
    (IMAGE, "y = Slice (x, zero, s, zero)", "y = Slice (x, zero, e, zero)", {"s": [3], "e": [5]}),
    ("(float[T,4] x) => (float[a,b] y)", "y = Slice (x, s, big)", "y = Slice (x, e, big)", {"s": [-20], "e": [-30]}),
    ("(float[N,T] x) => (float[a,b] y)", "y = Concat <axis = 1> (x, x)", "y = Tile (x, t)", {"t": [1, 1]}),
    (
        IMAGE,
        'y = Conv <auto_pad = "SAME_UPPER", strides = [2,2]> (x, W)',
        "y = Conv <pads = [0,0,1,1], strides = [2,2]> (x, W)",
        {"W": np.ones((2, 3, 3, 3))},
    ),
]


@pytest.mark.no_cover  # takes twice as long measured, and reaches no branch that other tests do not reach
@pytest.mark.parametrize(("head", "before", "after", "more"), FAULTS)
def test_what_differs_at_some_sizes_only_is_found(head: str, before: str, after: str, more: dict[str, Any]) -> None:
    weights = {"zero": [0], "one": [1], "two": [2], "big": [2**31 - 1], **more}
    held = {name: np.array(numbers) for name, numbers in weights.items()}
    for one, other in ((before, after), (after, before)):
        for depth in ("auto", "local"):
            assert compared(head, one, other, held, depth=depth).status == "failed"
            assert compared(head, one, one, held, depth=depth).verified


@pytest.mark.parametrize("depth", ["auto", "local", "full"])
def test_an_axis_that_may_be_stretched_is_tried_at_full_size(depth: str) -> None:
    """Stretched, all of its numbers are equal, in any order."""
    head = "(float[1,C,H,W] x, float[5,7,K,L] z) => (float[a,b,c,d] y)"
    nodes = "s = Shape (z)  e = Expand (x, s)  l = Slice (e, {}, {}, one)  r = Slice (e, {}, {}, one)"
    nodes += "  y = Concat <axis = 1> (l, r)"
    before, after = nodes.format("five", "six", "four", "five"), nodes.format("four", "six", "four", "four")
    held = {"one": np.array([1]), "four": np.array([4]), "five": np.array([5]), "six": np.array([6])}
    assert compared(head, before, before, held, depth=depth).verified
    assert not compared(head, before, after, held, depth=depth).verified


@pytest.mark.parametrize(("shape", "times"), [("4,3", 1), ("N,3", 2)])
def test_a_model_that_leaves_nothing_open_is_followed_once(
    shape: str, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def watched(one: ir.Model, shapes: Any) -> ir.Model | None:
        asked.append(shapes)
        return sized.fitted(one, shapes)

    monkeypatch.setattr(module, "fitted", watched)
    old = ir.load(model(f"(float[{shape}] x) => (float[{shape}] y) {{ y = Neg (x) }}", {}))
    choice = next(choices(old, known_sizes(old, {})[0]))
    assert (choice.model.graph.values["y"].shape, len(asked)) == (choice.shapes["x"], times)


def test_another_batch_is_tried_of_the_only_sizes_that_fit() -> None:
    nodes = [f"f = Flatten <axis = {axis}> (x)  y = BatchNormalization (f, W, W, W, W)" for axis in (1, 0)]
    before, after = nodes
    verdict = compared("(float[N,C,D] x) => (float[a,b] y)", before, after, {"W": np.ones(12)}, depth="full")
    assert verdict.status == "failed"


def test_sides_stay_odd_behind_several_poolings() -> None:
    before = f"a = AveragePool <{POOL}> (x)  b = MaxPool <{POOL}> (a)  y = AveragePool <{POOL}> (b)"
    after = before.replace(f"y = AveragePool <{POOL}", f"y = AveragePool <{POOL}, ceil_mode = 1")
    assert compared(IMAGE, before, after, {}).status == "failed"
    assert compared(IMAGE, before, before, {}).verified


def test_samples_are_of_several_sizes() -> None:
    shapes = set()
    nodes = "y = Relu (x)"
    for count in (1, 6):
        verdict = compared(IMAGE, nodes, nodes, {}, samples=count, progress=lambda *_: None)
        shapes.add(verdict.samples)
    assert shapes == {1 + 3, 6 + 3}


def test_declared_sizes_are_the_only_ones() -> None:
    loaded = ir.load(model("(float[2,3] x) => (float[2,3] y) { y = Relu (x) }", {}))
    assert [choice.shapes for choice in choices(loaded, known_sizes(loaded, {})[0])] == [{"x": (2, 3)}]
    assert verify(loaded, loaded, runtime="none", samples=1).samples <= 10


@pytest.mark.parametrize(
    ("head", "nodes", "weights"),
    [
        ("(float[N,3,H,W] x)", "c = Conv (x, K)  f = Flatten (c)  y = Gemm (f, W)", {"W": (4 * 26 * 26, 5)}),
        ("(float[N,K] x)", "r = Reshape (x, s)  y = MatMul (r, V)", {"s": np.array([-1, 37]), "V": (37, 4)}),
        ("(float[N,K] x)", "r = Reshape (x, s)  y = MatMul (r, V)", {"s": np.array([6, 11]), "V": (11, 4)}),
        ("(float[N,C,H,W] x)", "d = DepthToSpace <blocksize = 3> (x)  y = Relu (d)", {}),
        ("(float[N,T,4] x)", "g = Gather <axis = 1> (x, i)  y = Relu (g)", {"i": np.array([20, 3])}),
        ("(float[A,B] x, float[C] z)", "r = Reshape (z, s)  y = MatMul (x, r)", {"s": np.array([3, -1])}),
    ],
)
def test_sizes_that_fit_are_looked_for(head: str, nodes: str, weights: dict[str, Any]) -> None:
    held = {name: held if isinstance(held, np.ndarray) else np.ones(held) for name, held in weights.items()}
    held["K"] = np.ones((4, 3, 3, 3))
    loaded = ir.load(model(f"{head} => (float[a,b] y) {{ {nodes} }}", held))
    assert verify(loaded, loaded, runtime="none").decided_by == "float64"


def test_only_operators_that_sizes_matter_to_are_told_apart() -> None:
    def changes(before: str, after: str, opsets: tuple[int, int] = (13, 13), **weights: Any) -> list[str]:
        models = [
            ir.load(model(f"{IMAGE} {{ {nodes} }}", weights, opset=opset))
            for nodes, opset in zip((before, after), opsets, strict=True)
        ]
        return sorted(kind for kind, _ in size_changes(*models))

    assert not changes("a = Add (x, k)  y = Relu (a)", "y = Relu (x)", k=np.ones(1))
    assert not changes(
        "y = Conv (x, V, b)",
        "z = Conv (x, V, c)  y = Identity (z)",
        V=np.ones((2, 3, 1, 1)),
        b=np.ones(2),
        c=np.zeros(2),
    )
    assert not changes("y = Squeeze <axes = [2]> (x)", "y = Squeeze (x, i)", (11, 13), i=np.array([2]))
    assert changes("y = Squeeze (x)", "y = Squeeze (x, i)", i=np.array([2])) == ["Squeeze", "Squeeze"]


@pytest.mark.parametrize(
    ("before", "after", "weights"),
    [
        ("e = Expand (x, s)  y = Relu (e)", "y = Relu (x)", {"s": [2, 64]}),
        ("e = Add (x, w)  y = Relu (e)", "y = Relu (x)", {"w": np.zeros(64, np.float32)}),
    ],
)
@pytest.mark.parametrize("depth", ["auto", "full"])
def test_what_is_broadcast_may_be_one_wide(before: str, after: str, weights: dict[str, Any], depth: Any) -> None:
    held = {name: np.array(numbers) for name, numbers in weights.items()}
    found = compared("(float[N,D] x) => (float[A,B] y)", before, after, held, depth=depth)
    assert (found.status, "shape (" in found.reason) == ("failed", True)


def test_an_expand_may_make_rows() -> None:
    """The original takes one row as well, of which the rewritten model makes no two."""
    head, held = "(float[N,D] x) => (float[A,B] y)", {"s": np.array([2, 64])}
    assert compared(head, "e = Expand (x, s)  y = Relu (e)", "y = Relu (x)", held, depth="local").status == "failed"
    assert compared(head, "y = Expand (x, s)", "e = Identity (x)  y = Expand (e, s)", held).status == "verified"


@pytest.mark.parametrize("depth", ["auto", "full"])
@pytest.mark.parametrize("shape", ["x", "z"])
def test_of_two_open_inputs_one_may_be_one_wide(shape: str, depth: Any) -> None:
    head = "(float[A,3] x, float[B,3] z) => (float[C,D] y)"
    after = f"s = Shape ({shape})  a = Add (x, z)  y = Reshape (a, s)"
    assert compared(head, "y = Add (x, z)", after, {}, depth=depth).status == "failed"
    head = head.replace("B", "A")
    assert compared(head, "y = Add (x, z)", after, {}, depth=depth).verified


@pytest.mark.parametrize("depth", ["auto", "full"])
def test_what_is_expanded_to_the_sizes_of_another_input_may_be_one_wide(depth: Any) -> None:
    head = "(float[A,B,C] x, float[D,E,F] z) => (float[G,H,I] y)"
    before = "s = Shape (x)  e = Expand (z, s)  y = Neg (e)"
    assert compared(head, before, "y = Neg (z)", {}, depth=depth).status == "failed"
    assert compared(head, before, "s = Shape (x)  n = Neg (z)  y = Expand (n, s)", {}, depth=depth).verified


@pytest.mark.parametrize("depth", ["auto", "full"])
def test_of_what_a_reshape_takes_only_multiples_of_one_is_tried(depth: Any) -> None:
    head = "(float[N,4,K] x) => (float[A,4,B] y)"
    held = {"t": np.array([-1, 0, 7])}
    assert compared(head, "y = Reshape (x, t)", "y = Identity (x)", held, depth=depth).status == "failed"


@pytest.mark.parametrize(
    ("head", "axis", "place"),
    [
        ("(float[N,3] x) => (float[a,b] y)", 0, 2),
        ("(float[N,3] x) => (float[a,b] y)", 0, 33),
        ("(float[N,T,8] x) => (float[a,b,c] y)", 1, 7),
        ("(float[1,T,8] x) => (float[a,b,c] y)", 1, 100),
    ],
)
def test_what_turns_round_all_behind_a_place_is_found(head: str, axis: int, place: int) -> None:
    """Of a single element there, nobody sees it."""
    held = {"zero": [0], "axis": [axis], "k": [place], "j": [place - 1], "last": [-1]}
    turned = "p = Slice (n, zero, k, axis)  q = Slice (n, last, j, axis, last)"
    nodes = "y = Neg (x)", f"n = Neg (x)  {turned}  y = Concat <axis = {axis}> (p, q)"
    weights = {name: np.array(numbers) for name, numbers in held.items()}
    for one, other in (nodes, nodes[::-1]):
        assert compared(head, one, other, weights).status == "failed"
        assert not compared(head, one, other, weights, depth="local").verified


def test_where_one_is_the_first_size_that_fits_another_is_tried() -> None:
    """As much of the table is read as the input is long, and what is tried first is longer than the table."""
    nodes = "s = Shape (x)  n = Gather (s, last)  t = Slice (T, zero, n)  y = Add (x, t)"
    held = {"T": np.ones(7, np.float32), "last": np.array([3]), "zero": np.array([0])}
    before, after = (f"(float[4,2,7,N] x) => (float[a,b,c,{size}] y) {{ {nodes} }}" for size in ("d", "1"))
    found = verify(*(ir.load(model(body, held)) for body in (before, after)), runtime="none")
    assert (found.status, found.decided_by) == ("failed", "interface")


def test_two_sizes_that_have_to_be_equal_are_tried_early_and_stay_equal() -> None:
    nodes = "t = Transpose (s)  y = Concat <axis = 1> (x, t)"
    read = ir.load(model(f"(float[N,4] x, float[3,M] s) => (float[a,b] y) {{ {nodes} }}", {}))
    known: dict[str, Known] = {"x": ["N", 4], "s": [3, "M"]}
    first, second = list(islice(_distinct_sizes(read, known), 2))
    assert first["x"][0] != first["s"][1]
    assert second["x"][0] == second["s"][1]
    together = united([*read.nodes()], known, Choice(second, read))
    assert together["x"][0] == together["s"][1]
    assert united([*read.nodes()], known, Choice(first, read)) == known


def _distinct_sizes(read: ir.Model, known: Mapping[str, Known]) -> Iterator[ChosenShapes]:
    return module._distinct(known, module._usual([*read.nodes()], ["N", "M"]), [])


@pytest.mark.parametrize("most", [0, 2, 100])
def test_other_sizes_are_inferred_as_often_as_is_said(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    read = ir.load(model(f"{IMAGE} {{ y = Relu (x) }}", {}))
    known: dict[str, Known] = {"x": ["N", 3, "H", "W"]}
    main = Choice({"x": (2, 3, 8, 10)}, read)
    asked: list[ChosenShapes] = []

    def count(_: ir.Model, shapes: ChosenShapes) -> Choice:
        asked.append(shapes)
        return main

    monkeypatch.setattr(module, "_choice", count)
    groups = len([*module.other_choices(read, known, main, Counter(), iter(()))])
    turns = [iter(range(most)) for _ in range(2)]
    found = [next(found, None) for found in module.other_choices(read, known, main, Counter(), turns[0])]
    assert len(asked) == sum(choice is not None for choice in found) == min(most, groups)
    asked.clear()
    changed = size_changes(read, ir.load(model(f"{IMAGE} {{ y = AveragePool <{POOL}> (x) }}", {})))
    for group in module.further_choices(read, known, main, [], changed, turns[1]):
        next(group, None)
    assert len(asked) == most or (most == 100 and groups < len(asked) < most)


def test_a_large_model_has_fewer_turns() -> None:
    assert len([*module.turns_for(ir.load(model(f"{IMAGE} {{ y = Relu (x) }}", {})))]) == 4_000


@pytest.mark.parametrize("is_shared", [True, False])
def test_what_fits_at_open_sizes_is_inferred_once(is_shared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    read = ir.load(model("(float[N,3] x) => (float[a,b] y) { y = Relu (x) }", {}))
    known, copy = known_sizes(read, {})
    assert copy is not None
    asked: list[Mapping[str, Known | None]] = []
    infer = sized.fitted

    def count(one: ir.Model, shapes: Mapping[str, Known | None]) -> ir.Model | None:
        asked.append(shapes)
        return infer(one, shapes)

    monkeypatch.setattr(module, "fitted", count)
    assert next(choices(read, known, copy if is_shared else None)).shapes["x"] == (2, 3)
    assert len(asked) == (1 if is_shared else 2)


def test_one_of_two_sizes_that_seem_equal_is_stretched() -> None:
    """The batch of ``z`` is that of ``x``, or 1."""
    head = "(float[?,?] x, float[?,C] z) => (float[A,B] y)"
    body = "g = Gemm (x, w)  s = Shape (g)  d = {}  y = ReduceMin <axes = [1], keepdims = 1> (d)"
    texts = (f"{head} {{ {body.format(made)} }}" for made in ("Expand (z, s)", "Identity (z)"))
    before, after = (ir.load(model(text, {"w": np.ones((7, 5))})) for text in texts)
    assert verify(before, after, runtime="none").status == "failed"
