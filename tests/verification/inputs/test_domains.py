"""Numbers that operators accept where they read places, counts and sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bnfold import ir
from bnfold.verification import verify
from bnfold.verification.inputs.drawing import random_value
from tests.verification.graphs import model

MODELS = [
    "(float[N,4] x, int64 i) => (float[a,b] y) { n = Neg (x)  q = SequenceConstruct (x, n)  y = SequenceAt (q, i) }",
    "(float[N,7] x, int64[A] i) => (float[a,b] y) { y = Gather <axis = 1> (x, i) }",
    "(float[N,7] x, int64[N,B] i) => (float[a,b] y) { y = GatherElements <axis = 1> (x, i) }",
    "(float[5,7] x, int64[4,2] i) => (float[a] y) { y = GatherND (x, i) }",
    "(float[5,7] x, int64[4,2] i, float[4] u) => (float[a,b] y) { y = ScatterND (x, i, u) }",
    "(float[5,7] x, int64[3,7] i, float[3,7] u) => (float[a,b] y) { y = ScatterElements (x, i, u) }",
    "(float[5,7] x, int64[5,3] i, float[5,3] u) => (float[a,b] y) { y = ScatterElements <axis = -1> (x, i, u) }",
    "(float[N,C] x, int64[M] t) => (float y) { y = SoftmaxCrossEntropyLoss (x, t) }",
    "(float[N,3,8,9] x, float[R,4] r, int64[S] b) => (float[a,b,c,d] y) { y = RoiAlign (x, r, b) }",
    "(float[N,3,H,W] x, float[A,B,C,2] g) => (float[a,b,c,d] y) { y = GridSample (x, g) }",
    "(float[T,N,4] x, int64[N] l) => (float[a,b,c] y) { y = ReverseSequence <time_axis = 0, batch_axis = 1> (x, l) }",
    "(float[N,9] x, int64[1] k) => (float[a,b] y, int64[a,b] z) { y, z = TopK (x, k) }",
    "(float[N,9] x, int64[1] s, int64[1] e, int64[1] p) => (float[a,b] y) { y = Slice (x, s, e, p) }",
    "(float[9,N] x, int64[2] s) => (float[a,b] y, float[c,d] z) { y, z = Split (x, s) }",
    "(float[N,1] x, int64[2] s) => (float[a,b] y) { y = Expand (x, s) }",
    "(float[N,4] x, int64[2] r) => (float[a,b] y) { y = Tile (x, r) }",
    "(float s, float l, float d) => (float[a] y) { y = Range (s, l, d) }",
    "(int64[N,4] x, int64[N,4] z) => (int64[a,b] y) { y = Div (x, z) }",
    "(float[N,4] x) => (float[a,b] y) { y = Acos (x) }",
    "(uint8[N,4] x, float s, uint8 z) => (float[a,b] y) { y = DequantizeLinear (x, s, z) }",
    (
        "(uint8[N,4] a, float s, uint8 z, uint8[4,5] b, float t, uint8 w, float u, uint8 v) => (uint8[c,d] y)"
        " { y = QLinearMatMul (a, s, z, b, t, w, u, v) }"
    ),
    "(float[N,4] x, float r, bool t) => (float[a,b] y) { y = Dropout (x, r, t) }",
    "(float[N,4] x, float l, float h) => (float[a,b] y) { y = Clip (x, l, h) }",
    "(float[N,4] x) => (float[a,b] y) { i = Cast <to = 7> (x)  y = Gather (W, i) }",
]


LATE = [
    "(float[2,3,4,5] x, int64[2,3,4,5] i) => (float[a,b,c,d] y) { y = MaxUnpool <kernel_shape = [2,2]> (x, i) }",
    (
        "(float[1,2,3,4] x, int64[1,2,3,4] i) => (float[a,b,c,d] y)"
        " { y = MaxUnpool <kernel_shape = [3,2], strides = [2,2], pads = [1,0,1,0]> (x, i) }"
    ),
    "(float[2,3,6] x, int64[2] s, int64[2] b) => (float[a,b,c,d] y) { y = Col2Im (x, s, b) }",
    "(float[2,3,6] x, int64[2] s, int64[2] b) => (float[a,b,c,d] y) { y = Col2Im <strides = [2,3]> (x, s, b) }",
    (
        "(float[9,4] x, int64[3] s) => (float[a,b] y)"
        " { q = SplitToSequence (x, s)  y = ConcatFromSequence <axis = 1> (q) }"
    ),
    (
        "(float[9,4] x, int64 s) => (float[a,b] y)"
        " { q = SplitToSequence <axis = 1> (x, s)  y = ConcatFromSequence <axis = 0> (q) }"
    ),
    "(float[2,3,8,5] x, float[2,3,3,5] u, int64[2] i) => (float[a,b,c,d] y) { y = TensorScatter (x, u, i) }",
    (
        "(float[2,8,5] x, float[2,3,5] u, int64[2] i) => (float[a,b,c] y)"
        ' { y = TensorScatter <mode = "circular", axis = 1> (x, u, i) }'
    ),
    (
        "(float[2,3,4,5] q, float[2,3,6,5] k, float[2,3,6,5] v, int64[2] l) => (float[a,b,c,d] y)"
        ' { y = Attention (q, k, v, "", "", "", l) }'
    ),
    (
        "(float[2,4,6] q, float[2,5,6] k, float[2,5,6] v, int64[2] l) => (float[a,b,c] y)"
        ' { y = Attention <q_num_heads = 2, kv_num_heads = 2> (q, k, v, "", "", "", l) }'
    ),
    "(float[3,4] x, int64 a) => (float[b,c] y) { y = CumProd (x, a) }",
]


@pytest.mark.parametrize("body", LATE)
@pytest.mark.parametrize("seed", range(3))
def test_a_model_that_runtimes_need_not_know_runs_too(body: str, seed: int) -> None:
    loaded = ir.load(model(body, {}, opset=26))
    verdict = verify(loaded, loaded, depth="full", seed=seed, samples=3, runtime="none")
    assert verdict.verified, verdict.reason


@pytest.mark.parametrize("body", MODELS)
@pytest.mark.parametrize("seed", range(3))
def test_a_model_runs_on_what_is_drawn_for_it(body: str, seed: int) -> None:
    loaded = ir.load(model(body, {"W": np.arange(12.0).reshape(6, 2)}, opset=17))
    verdict = verify(loaded, loaded, seed=seed, samples=3)
    assert (verdict.status, verdict.decided_by) == ("verified", "float64"), verdict.reason
    assert [row.ran_before for row in verdict.witnesses] == [True], verdict.witnesses


def drawn(body: str, name: str, shape: tuple[int, ...], **weights: Any) -> Any:
    return random_value(ir.load(model(body, weights, opset=17)).graph.values[name], shape, 0, 0)


def test_an_update_has_a_place_of_its_own() -> None:
    body = "(float[5,7] x, int64[5,7] i, float[5,7] u) => (float[a,b] y) { y = ScatterElements <axis = 1> (x, i, u) }"
    assert all(sorted(row) == [*range(7)] for row in drawn(body, "i", (5, 7)).tolist())
    body = "(float[2,3] x, int64[6,2] i, float[6] u) => (float[a,b] y) { y = ScatterND (x, i, u) }"
    assert len({*map(tuple, drawn(body, "i", (6, 2)).tolist())}) == 6


def test_a_slice_leaves_something_out() -> None:
    body = "(float[8,3] x, int64[1] s, int64[1] e) => (float[a,b] y) { y = Slice (x, s, e) }"
    assert (drawn(body, "s", (1,)).tolist(), drawn(body, "e", (1,)).tolist()) == ([2], [6])


def test_parts_make_up_an_axis() -> None:
    body = "(float[9,N] x, int64[4] s) => (float[a,b] y, float[c,d] z, float[e,f] p, float[g,h] q)"
    assert sum(drawn(f"{body} {{ y, z, p, q = Split (x, s) }}", "s", (4,))) == 9


def test_the_last_number_of_a_type_is_drawn_too() -> None:
    body = "(uint8[N] x) => (uint8[N] y) { y = Identity (x) }"
    assert {*drawn(body, "x", (20000,)).tolist()} == {*range(256)}


def test_every_axis_is_drawn_from_either_end_and_none_twice() -> None:
    body = "(float[2,3,4] x, int64[2] a) => (float[b,c,d] y) { y = ReduceSum (x, a) }"
    value = ir.load(model(body, {}, opset=17)).graph.values["a"]
    found = [random_value(value, (2,), 0, sample).tolist() for sample in range(12)]
    assert {axis for axes in found for axis in axes} == {*range(-3, 3)}
    assert all(len({axis % 3 for axis in axes}) == 2 for axes in found)


@pytest.mark.parametrize(("dtype", "opset", "shifts"), [("uint8", 17, range(8)), ("int16", 28, range(-1, 17))])
def test_bits_to_shift_by_cover_the_width_of_the_type(dtype: str, opset: int, shifts: range) -> None:
    body = f'({dtype}[40] x, {dtype}[40] s) => ({dtype}[40] y) {{ y = BitShift <direction = "LEFT"> (x, s) }}'
    value = ir.load(model(body, {}, opset=opset)).graph.values["s"]
    assert {*random_value(value, (40,), 0, 0).tolist()} == {*shifts}


@pytest.mark.parametrize(("step", "limits"), [(-2, range(-9, -4)), (3, range(5, 10))])
def test_a_range_ends_in_the_direction_of_its_step(step: int, limits: range) -> None:
    body = "(int64 s, int64 l) => (int64[a] y) { y = Range (s, l, W) }"
    assert int(drawn(body, "l", (), W=np.array(step))) in limits


def test_each_member_of_a_sequence_is_chosen() -> None:
    text = "(float[N,4] x, int64 i) => (float[a,b] y) {{ n = {} (x)  q = SequenceConstruct (x, n)"
    text += "  y = SequenceAt (q, i) }}"
    before, after = (ir.load(model(text.format(made), {})) for made in ("Neg", "Abs"))
    assert verify(before, after, runtime="none", depth="local").status == "failed"


SEQUENCE = """(float[3,4] x, int64 i, int64 k) => (float[3,4] y) {{ a = Add (x, w)  b = Sub (x, w)  c = Neg (x)
    q = SequenceConstruct ({})  r = {}  y = SequenceAt (r, k) }}"""


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("made", ["SequenceInsert (q, c, i)", "SequenceErase (q, i)", "Identity (q)"])
def test_each_element_of_a_sequence_is_read(made: str, seed: int) -> None:
    weights = {"w": np.array(1.1)}
    before, same, other = (SEQUENCE.format(it, made) for it in ("x, x, a", "x, x, d", "x, b, x"))
    same = same.replace("(x, w)  b", "(x, w)  e = Neg (a)  d = Neg (e)  b")
    assert verify(ir.load(model(before, weights)), ir.load(model(same, weights)), runtime="none").verified
    protos = [model(text, weights) for text in (before, other)]
    for proto in protos:
        proto.graph.input[2].type.tensor_type.ClearField("shape")  # few of the samples that are tried fit
    for depth in ("local", "auto"):
        verdict = verify(*map(ir.load, protos), runtime="none", depth=depth, seed=seed)
        assert verdict.status == "failed"


def test_an_element_that_no_position_chooses_is_not_verified() -> None:
    """Positions are computed, and always the same: nothing shows the other element."""
    text = """(float[3,4] x) => (float[3,4] y) { s = Size (x)  k = Sub (s, s)  d = Mul (x, x)
        q = SequenceConstruct (x, d)  y = SequenceAt (q, k) }"""
    verdicts = [
        verify(ir.load(model(text, {})), ir.load(model(text.replace("Mul (x, x)", other), {})), runtime="none")
        for other in ("Abs (x)", "Mul (x, x)")
    ]
    assert [verdict.status for verdict in verdicts] == ["unverified", "verified"]


SCATTERED = """j = Reshape (i, ones)  u = Reshape (i, ones)  v = Cast <to = 1> (u)
    z = ScatterElements <axis = AXIS> (x, j, v)"""


@pytest.mark.parametrize(
    "read",
    [
        "j = Unsqueeze (i, nought)  z = GatherND (x, j)",
        *(SCATTERED.replace("AXIS", str(axis)) for axis in (0, 1, -1, -2)),
    ],
)
def test_a_position_may_get_axes_before_it_is_read(read: str) -> None:
    text = f"(float[3,4] x, int64 i) => (float[a,b] y) {{ {read}  y = Reshape (z, flat) }}"
    weights = {"nought": np.array([0]), "ones": np.array([1, 1]), "flat": np.array([1, -1])}
    before, after = (ir.load(model(body, weights)) for body in (text, text.replace("flat)", "flat)  w = Neg (y)")))
    assert verify(before, after, runtime="none", depth="full").verified


@pytest.mark.parametrize("erased", [1, 12])
def test_a_sequence_may_be_shorter_than_what_is_taken_from_it(erased: int) -> None:
    """Its length is not known, nor is it less than 0."""
    taken = "  ".join(f"s{turn + 1} = SequenceErase (s{turn}, i)" for turn in range(erased))
    body = f"""(float[N,4] x, int64 i, int64 k) => (float[a,b] y) {{ s0 = SplitToSequence (x)  {taken}
        q = SequenceInsert (s{erased}, x, k)  y = SequenceAt (q, i) }}"""
    values = ir.load(model(body, {})).graph.values
    assert all(random_value(values[name], (), 0, sample) >= 0 for name in "ik" for sample in range(12))


def test_the_samples_take_the_elements_of_a_sequence_in_turn() -> None:
    body = """(float[4] x, int64 i, int64 k) => (float[4] y) { q = SequenceConstruct (x, x, x)  r = Identity (q)
        s = SequenceInsert (r, x, k)  y = SequenceAt (s, i) }"""
    values = ir.load(model(body, {})).graph.values
    assert [int(random_value(values["i"], (), 7, sample)) for sample in range(6)] == [0, 1, 2, 3, 0, 1]
    assert {int(random_value(values["k"], (), 7, sample)) for sample in range(40)} == {0, 1, 2, 3}
