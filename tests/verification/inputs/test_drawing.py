from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bnfold import ir
from bnfold.errors import BadInput
from bnfold.ir.elements import Array
from bnfold.verification.inputs.drawing import (
    MOST_SAMPLES,
    CannotFeed,
    input_shapes,
    is_of_both_signs,
    random_feeds,
    samples_for,
)
from bnfold.verification.inputs.roles import computed_bound
from bnfold.verification.inputs.shapes import sizings
from tests.verification.graphs import model, numbers, statistics

Feeds = dict[str, Any]


def feeds(loaded: ir.Model, seed: int = 0, sample: int = 0, **given: tuple[int, ...]) -> Feeds:
    return random_feeds(loaded, input_shapes(loaded, sizings()[0], given), seed, sample)


def load(body: str, weights: Feeds | None = None, opset: int = 13, ir_version: int = 8) -> ir.Model:
    return ir.load(model(body, weights or {}, opset=opset, ir_version=ir_version))


IMAGE = "(float[N,C,H,W] x) => (float[N,5,P,Q] y) { y = Conv <group = 2> (x, W) }"


def test_weights_dictate_channels_and_the_rest_is_pairwise_different() -> None:
    shape = feeds(load(IMAGE, {"W": np.ones((6, 3, 3, 3))}))["x"].shape
    assert shape[1] == 6
    assert len(set(shape)) == 4


def test_given_shapes_win() -> None:
    assert feeds(load(IMAGE, {"W": np.ones((6, 3, 3, 3))}), x=(1, 6, 8, 9))["x"].shape == (1, 6, 8, 9)


def test_scales_of_the_first_resize_are_positive() -> None:
    loaded = load("(float[1,2,4,5] x, float[4] s) => (float[A,B,C,D] y) { y = Resize (x, s) }", opset=10)
    assert (feeds(loaded)["s"] > 0).all()


def test_a_shape_for_an_input_that_is_not_there() -> None:
    with pytest.raises(BadInput, match="no input 'z'"):
        feeds(load(IMAGE, {"W": np.ones((6, 3, 3, 3))}), z=(1,))


def test_one_symbol_has_one_size() -> None:
    found = feeds(load("(float[T,K] x, float[K,T] z) => (float[T,T] y) { y = MatMul (x, z) }"))
    assert found["x"].shape == found["z"].shape[::-1]


def test_seeds_repeat_and_samples_differ_in_kind() -> None:
    loaded = load("(float[N,3,H,W] x) => (float[N,3,H,W] y) { y = Relu (x) }")
    assert np.array_equal(feeds(loaded)["x"], feeds(loaded)["x"])
    assert not np.array_equal(feeds(loaded)["x"], feeds(loaded, seed=1)["x"])
    normal, large, tiny, constant, near_zero = (feeds(loaded, sample=sample)["x"] for sample in range(5))
    assert np.abs(large).max() > 100 * np.abs(normal).max() > 1e4 * np.abs(tiny).max()
    assert all(len(np.unique(constant[:, channel])) == 1 for channel in range(3))
    assert np.all(near_zero[:, 0] == 0)


def test_large_channels_are_of_one_sign_unlike_their_neighbours() -> None:
    """What only negative numbers show is hidden by a later maximum wherever both signs mix."""
    for body in ("(float[2,3,4,5] x) => (float[2,3,4,5] y)", "(float[2,1] x) => (float[2,1] y)"):
        large = feeds(load(f"{body} {{ y = Relu (x) }}"), sample=1)["x"]
        signs = np.sign(large).reshape(*large.shape[:2], -1)
        assert np.all(signs == signs[:, :, :1])
        assert np.all(signs[0] == -signs[1])
        assert np.all(signs[:, 1:] == -signs[:, :-1])
    row = feeds(load("(float[50] x) => (float[50] y) { y = Relu (x) }"), sample=1)["x"]
    assert row.min() < 0 < row.max()


def test_later_samples_mirror_the_first_ones() -> None:
    """Around what they are drawn around: no sum is negative in all of them."""
    mean = np.array([[1.5], [-2.0], [3.0], [0.5]], np.float32)
    ones = dict.fromkeys(("s", "b", "v"), np.ones(4))
    body = "(float[2,4,3] x) => (float[2,4,3] y) { y = BatchNormalization (x, s, b, m, v) }"
    loaded = load(body, {**ones, "m": mean.reshape(-1)})
    for sample in range(4):
        first, later = feeds(loaded, sample=sample)["x"], feeds(loaded, sample=sample + 5)["x"]
        np.testing.assert_array_equal(first, -later)
    first, later = feeds(loaded, sample=4)["x"], feeds(loaded, sample=9)["x"]
    np.testing.assert_allclose(first - mean, mean - later, rtol=1e-5, atol=1e-6)
    assert not np.array_equal(feeds(loaded, sample=0)["x"], feeds(loaded, sample=10)["x"])


def test_behind_a_constant_the_second_factor_is_the_data() -> None:
    for body, weights in (
        ("(float[5,7] x) => (float[3,7] y) { y = MatMul (W, x) }", {"W": np.ones((3, 5))}),
        ("(float[5,7] x) => (float[3,7] y) { y = Gemm (W, x) }", {"W": np.ones((3, 5))}),
    ):
        loaded = load(body, weights)
        assert np.abs(feeds(loaded, sample=1)["x"]).min() > 10 * np.abs(feeds(loaded, sample=2)["x"]).max()


def test_integers_that_only_become_floats_have_both_signs() -> None:
    cast = load("(int32[9,9] x) => (float[9,9] y) { y = Cast <to = 1> (x) }")
    assert feeds(cast)["x"].min() < 0 < feeds(cast)["x"].max()
    counted = load("(int64[9,9] x) => (int64[9,9] y) { y = Neg (x) }")
    assert feeds(counted)["x"].min() == 0


def test_channels_sit_at_the_mean_of_their_reader() -> None:
    stats = statistics(numbers(0), 4)
    loaded = load("(float[N,4,L] x) => (float[N,4,L] y) { y = BatchNormalization (x, scale, B, mean, var) }", stats)
    value = feeds(loaded, sample=4)["x"]
    assert np.all(value[:, 2] == stats["mean"][2])


def test_half_precision_does_not_overflow() -> None:
    loaded = load("(float16[N,3] x) => (float16[N,3] y) { y = Relu (x) }")
    value = feeds(loaded, sample=1)["x"]
    assert value.dtype == np.float16
    assert np.isfinite(value).all()


def test_all_weights_as_inputs_get_the_statistics_of_trained_ones() -> None:
    loaded = load(
        "(float[2,3,8,9] x, float[5,3,3,3] w, float[5] b, float[5] s, float[5] t, float[5] m, float[5] v)"
        " => (float[2,5,P,Q] y) { c = Conv (x, w, b)  y = BatchNormalization (c, s, t, m, v) }",
        opset=7,
    )
    signs = set[float]()
    for sample in range(5):
        found = feeds(loaded, sample=sample)
        assert np.all(found["v"] > 0)
        assert np.all(np.abs(found["s"]) >= 0.5)
        signs |= set(np.sign(found["s"]))
        assert np.abs(found["w"]).max() < 1
        assert np.abs(found["b"]).max() < 1
    assert signs == {-1.0, 1.0}


def test_a_role_is_seen_through_a_transpose() -> None:
    loaded = load("(float[N,400] x, float[5,400] w) => (float[N,5] y) { t = Transpose (w)  y = MatMul (x, t) }")
    assert np.abs(feeds(loaded)["w"]).max() < 0.5


@pytest.mark.parametrize("indices", ["x, i", "x, j"])
def test_indices_stay_inside(indices: str) -> None:
    loaded = load(
        f"(int64[7] i) => (float[7,3] y) {{ j = Identity (i)  y = Gather ({indices}) }}", {"x": np.ones((4, 3))}
    )
    value = feeds(loaded)["i"]
    assert value.min() >= 0
    assert value.max() < 4


@pytest.mark.parametrize(
    ("body", "name", "wanted"),
    [
        ("(float[N,6] x, int64[3] s) => (float[a,b,c] y) { y = Reshape (x, s) }", "s", [1, 1, -1]),
        ("(float[2,6] x, int64[2] s) => (float[3,4] y) { y = Reshape (x, s) }", "s", [3, 4]),
        ("(float[N,6] x, int64[2] s) => (float[a,b] y) { y = Expand (x, s) }", "s", [1, 6]),
        ("(float[N,6] x, int64[1] k) => (float[N,b] y, int64[N,b] z) { y, z = TopK (x, k) }", "k", [3]),
        ("(float[N,6] x, int64[2] a, int64[2] b) => (float[p,q] y) { y = Slice (x, a, b) }", "a", [0, 1]),
    ],
)
def test_integers_that_their_reader_takes(body: str, name: str, wanted: list[int]) -> None:
    assert feeds(load(body))[name].tolist() == wanted


def test_other_types() -> None:
    loaded = load(
        "(uint8[N,3] u, bool[N] b, string[N] s) => (uint8[N,3] y, bool[N] z, string[N] w)"
        " { y = Identity (u)  z = Not (b)  w = Identity (s) }"
    )
    found = feeds(loaded)
    assert found["u"].dtype == np.uint8
    assert found["b"].dtype == bool
    assert all(isinstance(word, str) for word in found["s"])


def test_initializers_need_no_feeding_whatever_the_ir_version() -> None:
    listed = "(float[N,3] x, float[3,2] W) => (float[N,2] y) { y = MatMul (x, W) }"
    for version in (3, 8):
        assert [value.name for value in load(listed, {"W": np.ones((3, 2))}, 9, version).required_inputs()] == ["x"]


def test_a_sequence_cannot_be_made_up() -> None:
    with pytest.raises(CannotFeed, match=r"'x' is a sequence.*--data"):
        feeds(load("(seq(float[N]) x) => (int64 y) { y = SequenceLength (x) }"))


def test_a_rank_that_nothing_tells() -> None:
    loaded = load("(float[N] x) => (float[N] y) { y = Relu (x) }")
    assert loaded.graph.inputs[0].type is not None
    loaded.graph.inputs[0].type.tensor_type.ClearField("shape")
    with pytest.raises(CannotFeed, match=r"rank of input 'x'.*--input x="):
        feeds(loaded)


@pytest.mark.parametrize(
    ("body", "sample", "expected"),
    [
        ("y = Log (x)", 1, False),
        ("y = Div (x, x)", 1, False),
        ("l = Log (x)  y = Concat <axis = 0> (x, l)", 0, False),
        ("l = Log (x)  y = Concat <axis = 0> (x, l)", 1, True),
    ],
)
def test_a_value_is_of_both_signs_for_what_reads_it_beside_a_log(body: str, sample: int, expected: bool) -> None:
    loaded = load(f"(float[2,3,4,4] x) => (float[A,B,C,D] y) {{ {body} }}")
    assert is_of_both_signs(loaded.graph.values["x"], sample) is expected
    assert bool((feeds(loaded, sample=sample)["x"] < 0).any()) is (expected or "Log" not in body)


@pytest.mark.parametrize(
    ("sizes", "seconds", "samples"),
    [
        *(([64, 8], 0.0, 4), ([64], 0.0, 1), ([32], 0.0, 1), ([1], 0.0, MOST_SAMPLES), ([0], 0.0, MOST_SAMPLES)),
        *(([], 0.0, 1), ([1], 0.1, 2), ([1], 1.0, 1)),
    ],
)
def test_few_numbers_get_more_samples_if_they_take_no_time(sizes: list[int], seconds: float, samples: int) -> None:
    assert samples_for(sizes, 32, seconds) == samples


@pytest.mark.parametrize("factor", [np.array(np.nan), np.array(["word"], object)])
def test_a_factor_without_a_sign_says_nothing_of_a_bound(factor: Array) -> None:
    body = "(float[N,3] x, float f) => (float[N,3] y) { l = Mul (f, w)  y = Clip (x, l) }"
    value = ir.load(model(body, {"w": factor})).graph.values["f"]
    assert computed_bound(value) == ""
