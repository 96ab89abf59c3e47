from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

from bnfold.verification.tolerance.compare import (
    FLOOR,
    ROUNDING_FACTOR,
    compare_values,
    difference,
    magnitude,
    pattern_fault,
    tolerance,
)
from bnfold.verification.tolerance.floats import FLOAT_TYPES, float_type

SINGLE = FLOAT_TYPES[onnx.TensorProto.FLOAT]


def test_measures_what_differs() -> None:
    expected = np.array([[4.0, -2.0], [1.0, 0.0]])
    actual = expected + np.array([[0.0, 0.5], [0.0, 0.0]])
    found = difference(expected, actual, SINGLE, np.full((2, 2), 1.0))
    assert (found.scale, found.max_abs, found.relative, found.rms) == (4.0, 0.5, 0.125, 0.25)
    assert found.excess == 0.5
    assert not found.fault
    assert found.ulps == 0.5 / 2.0**-22


def test_elements_near_zero_do_not_count_in_ulps() -> None:
    expected = np.array([1.0, 1e-9])
    assert difference(expected, expected + np.array([0.0, 1e-9]), SINGLE, np.full(2, 1.0)).ulps == 0


def test_a_difference_beyond_its_tolerance_is_a_fault() -> None:
    found = difference(np.ones(3), np.array([1.0, 1.0, 1.1]), SINGLE, np.full(3, 0.01))
    assert found.excess == pytest.approx(10.0)
    assert "more than rounding" in found.fault


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_must_be_at_the_same_places(odd: float) -> None:
    expected, moved = np.array([1.0, odd, 2.0]), np.array([1.0, 2.0, odd])
    assert not pattern_fault(expected, expected.copy())
    assert difference(expected, expected.copy(), SINGLE, np.ones(3)).excess == 0
    found = difference(expected, moved, SINGLE, np.full(3, 10.0))
    assert found.fault
    assert not found.same_pattern
    assert found.excess == np.inf


def test_infinities_have_a_sign() -> None:
    assert "inf" in pattern_fault(np.array([np.inf]), np.array([-np.inf]))
    assert pattern_fault(np.array([np.nan]), np.array([-np.inf]))
    assert pattern_fault(np.array([np.inf]), np.array([np.nan]))
    assert pattern_fault(np.array([np.nan]), np.array([1.0]))


def test_shapes_must_be_equal_even_where_they_broadcast() -> None:
    assert "shape" in difference(np.ones((2, 1)), np.ones((2, 2)), SINGLE, None).fault


def test_integers_and_booleans_are_compared_exactly() -> None:
    assert not difference(np.arange(3), np.arange(3), SINGLE, None).fault
    found = difference(np.arange(3), np.array([0, 1, 5]), SINGLE, None)
    assert (found.max_abs, found.excess) == (3.0, np.inf)
    assert "1 of 3" in found.fault


def test_strings_are_compared_exactly() -> None:
    words = np.array(["a", "b"], dtype=object)
    assert not difference(words, words.copy(), SINGLE, None).fault
    assert difference(words, np.array(["a", "c"], dtype=object), SINGLE, None).fault


def test_an_unknown_tolerance_allows_nothing() -> None:
    found = difference(np.array([1.0, 2.0]), np.array([-1.0, 2.0]), SINGLE, np.array([np.nan, 1.0]))
    assert found.excess == np.inf
    assert found.fault


def test_a_difference_beyond_all_numbers_is_no_fault_where_rounding_may_cause_it() -> None:
    found = difference(np.array([1.7e308, 2.0]), np.array([-1.7e308, 2.0]), SINGLE, np.array([np.inf, 1.0]))
    assert (found.excess, found.relative, found.fault) == (1.0, np.inf, "")
    found = difference(np.array([1.7e308, 2.0]), np.array([-1.7e308, 2.0]), SINGLE, np.array([1e300, 1.0]))
    assert found.excess > 1
    assert found.fault


@pytest.mark.parametrize("size", [7e307, 1.7e308], ids=["almost all numbers", "more than all numbers"])
def test_how_far_one_channel_moves_leaves_the_others_their_tolerance(size: float) -> None:
    actual = np.array([[1e300, size]])
    allowed = tolerance(actual, actual, [[np.array([[1.001e300, -size]])]], SINGLE, by_channel=True)
    assert 1e297 < allowed[0, 0] < 1e302
    assert allowed[0, 1] == np.inf


@pytest.mark.parametrize("zeros", [np.zeros(3), -np.zeros(3), np.array([0.0, -0.0, 0.0])])
@pytest.mark.parametrize("off", [7.0, -7.0, 1e-300])
def test_beside_zeros_nothing_is_allowed(zeros: np.ndarray, off: float) -> None:
    for by_channel in (False, True):
        found = compare_values(
            zeros, zeros + np.array([off, 0.0, 0.0]), (), onnx.TensorProto.FLOAT, by_channel=by_channel
        )
        assert (found.excess, found.max_abs) == (np.inf, abs(off))
        assert found.fault


def test_the_largest_magnitude_is_that_of_either_end_whatever_the_type() -> None:
    for values in (np.array([1.0, -3.0, np.inf, np.nan]), np.array([-3, 1]), np.array([3, 1], np.uint8)):
        assert magnitude(values) == 3.0
    assert magnitude(np.array([True, False])) == 1.0
    assert magnitude(np.array([3.0j, 1.0])) == 3.0


def test_empty_arrays_are_equal() -> None:
    empty = np.zeros((0, 3))
    assert difference(empty, empty, SINGLE, tolerance(empty, empty, [], SINGLE, by_channel=True)).excess == 0


def test_without_new_weights_only_the_floor_is_allowed() -> None:
    values = np.array([[1.0, -8.0]])
    allowed = tolerance(values, values, [[]], SINGLE, by_channel=False)
    assert np.broadcast_to(allowed, (1, 2)) == pytest.approx(np.full((1, 2), FLOOR * SINGLE.roundoff * 8.0), rel=1e-3)


def test_noise_is_half_of_what_a_whole_unit_moves() -> None:
    values = np.zeros((1, 2))
    draws = [[values + 1e-3]]
    assert tolerance(values, values, draws, SINGLE, by_channel=False) == pytest.approx(
        np.full((1, 2), ROUNDING_FACTOR * 0.5e-3)
    )


def test_groups_add_up_in_squares_and_the_largest_round_counts() -> None:
    values = np.zeros((1, 2))
    groups = [values + 3e-3, values - 4e-3]
    one = tolerance(values, values, [groups], SINGLE, by_channel=False)
    assert one == pytest.approx(np.full((1, 2), ROUNDING_FACTOR * 2.5e-3))
    assert np.array_equal(tolerance(values, values, [groups, [values]], SINGLE, by_channel=False), one)


def test_a_fault_does_not_widen_its_own_tolerance() -> None:
    expected, actual = np.ones((2, 3)), np.full((2, 3), 1.5)
    allowed = tolerance(expected, actual, [[actual]], SINGLE, by_channel=False)
    assert difference(expected, actual, SINGLE, allowed).excess > 1e5


def test_a_quiet_channel_is_held_to_its_own_noise() -> None:
    values = np.stack([np.full((2, 4), 1.0), np.full((2, 4), 1000.0)], axis=1)
    moved = values * (1 + 1e-7)
    by_channel = tolerance(values, values, [[moved]], SINGLE, by_channel=True)
    assert by_channel[0, 0, 0] < by_channel[0, 1, 0] / 500
    assert len(np.unique(tolerance(values, values, [[moved]], SINGLE, by_channel=False))) <= 2


def test_elements_that_see_more_keep_their_own_noise() -> None:
    values = np.zeros((1, 1, 4))
    moved = np.array([[[1e-3, 1e-3, 1e-3, 1.0]]])
    allowed = tolerance(values, values, [[moved]], SINGLE, by_channel=True)
    assert allowed[0, 0, 3] == pytest.approx(ROUNDING_FACTOR * 0.5)
    assert allowed[0, 0, 0] < allowed[0, 0, 3]


def test_noise_that_is_not_finite_explains_nothing() -> None:
    values = np.array([[1.0, 2.0]])
    allowed = tolerance(values, values, [[np.array([[np.nan, np.inf]])]], SINGLE, by_channel=False)
    assert np.isfinite(allowed).all()
    assert allowed.max() < 1e-6


def test_noise_whose_square_no_number_holds_is_still_noise() -> None:
    actual = np.array([[1e200, 3e200], [1.0, 2.0]])
    allowed = tolerance(actual, actual, [[actual * (1 + 2.0**-23)]], SINGLE, by_channel=False)
    assert np.isfinite(allowed).all()
    modest = tolerance(actual / 1e200, actual / 1e200, [[actual / 1e200 * (1 + 2.0**-23)]], SINGLE, by_channel=False)
    np.testing.assert_allclose(allowed, modest * 1e200, rtol=1e-6)


def test_half_precision_is_allowed_what_it_can_show() -> None:
    half = float_type(onnx.TensorProto.FLOAT16)
    values = np.ones((1, 2))
    assert tolerance(values, values, [], half, by_channel=False)[0, 0] == pytest.approx(2.0**-10, rel=1e-6)


def test_differences_beyond_all_numbers_are_faults() -> None:
    found = difference(np.array([1e308, 1e-300]), np.array([-1e308, 1.0]), SINGLE, np.full(2, 1e-310))
    assert (found.excess, bool(found.fault)) == (np.inf, True)


def test_complex_numbers_may_be_off_by_a_rounding_and_no_more() -> None:
    """In a damaged file a Conv may read them; its fold is right all the same."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(2, 3, 4)) + 1j * rng.normal(size=(2, 3, 4))
    for found, is_near in ((numbers * (1 + 2.0**-52), True), (numbers.conj(), False), (numbers.real, False)):
        draws = [[found * (1 + 2.0**-51)]] * 2
        assert (compare_values(numbers, found, draws, None, by_channel=True).excess <= 1) == is_near


SMALL = ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"]


@pytest.mark.parametrize("name", [*SMALL, "bfloat16", "float32"])
def test_nan_of_any_float_is_nan(name: str) -> None:
    kind = np.dtype(getattr(ml_dtypes, name, np.float32))
    before = np.array([np.nan, 1.0, 2.0], np.float32).astype(kind)
    assert compare_values(before, before.copy(), (), None, by_channel=False).excess == 0
    moved = np.array([1.0, np.nan, 2.0], np.float32).astype(kind)
    assert compare_values(before, moved, (), None, by_channel=False).excess == np.inf
    other = np.array([np.nan, 1.0, 1.5], np.float32).astype(kind)
    found = compare_values(before, other, (), None, by_channel=True)
    assert (found.max_abs, found.scale) == (0.5, 2.0)
    assert found.excess > 1


@pytest.mark.parametrize("name", SMALL)
def test_floats_of_a_byte_are_compared_exactly(name: str) -> None:
    before, after = (np.array([1.0, number], np.float32).astype(getattr(ml_dtypes, name)) for number in (1.25, 1.5))
    found = compare_values(before, after, (), onnx.TensorProto.FLOAT8E5M2, by_channel=False)
    assert "none may" in found.fault


def test_4_bit_floats_are_compared_exactly() -> None:
    if not hasattr(ml_dtypes, "float4_e2m1fn"):
        pytest.skip("this ml_dtypes has none")
    before, after = (np.array([1.0, number], np.float32).astype(ml_dtypes.float4_e2m1fn) for number in (1.0, 1.5))
    assert compare_values(before, before.copy(), (), None, by_channel=False).excess == 0
    assert compare_values(before, after, (), None, by_channel=False).excess == np.inf


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        ([np.ones(2)], [np.ones(2), np.ones(2)]),
        ([np.ones(2)], np.ones(2)),
        (np.ones(2, np.int32), np.ones(2, np.int64)),
        (np.ones(2, np.int32), np.ones(2)),
        (np.ones((1, 2)), np.ones(2)),
    ],
)
def test_equal_numbers_of_another_kind_are_a_fault(expected: Any, actual: Any) -> None:
    for one, other in ((expected, actual), (actual, expected)):
        found = compare_values(one, other, (), None, by_channel=False)
        assert found.excess == np.inf
        assert found.fault
    assert not compare_values(expected, expected, (), None, by_channel=False).fault


@pytest.mark.parametrize("channel", [None, 2])
@pytest.mark.parametrize("special", [0.0, np.inf, np.nan])
@pytest.mark.parametrize("wrong", [0.0, 1e-8, 1e-3])
def test_a_large_result_is_compared_as_a_small_one_is(channel: int | None, special: float, wrong: float) -> None:
    """One channel is compared after the other where all would take long."""
    small = np.random.default_rng(3).standard_normal((2, 3, 8, 9)) * np.array([1, 100, 0.01]).reshape(1, 3, 1, 1)
    other = small.copy()
    small[1, 1, 2, 3] = special
    other[1, 1, 2, 3] = special if channel is None else 1.0
    other[0, 0, 1, 1] += wrong
    found, whole = (
        compare_values(np.tile(small, (1, 1, many, 1)), np.tile(other, (1, 1, many, 1)), (), None, by_channel=True)
        for many in (1, 4000)
    )
    alike = ["scale", "max_abs", "allowed", "excess", "same_pattern"]
    assert [getattr(found, name) for name in alike] == [getattr(whole, name) for name in alike]
    assert bool(found.fault) is bool(whole.fault) is (wrong > 1e-6 or channel is not None)


def test_what_is_allowed_is_below_a_difference_that_is_too_large() -> None:
    """Of elements with a tolerance each, the one that is too far off need not be the one with the largest tolerance."""
    expected = np.array([[100.0, 1.0, 2.0, 3.0]])
    actual = expected + np.array([[0.5, 0.4, 0.0, -0.1]])
    found = difference(expected, actual, SINGLE, np.array([[1.0, 0.1, 0.1, 0.2]]))
    assert found.fault
    assert (found.relative, found.allowed) == pytest.approx((0.005, 0.001))
    assert (found.mean, found.beyond) == pytest.approx((0.25 / 100, 0.25))
    fine = difference(expected, actual, SINGLE, np.full((1, 1), 0.5))
    assert (fine.fault, fine.allowed, fine.beyond) == ("", 0.005, 0.0)


def test_the_share_beyond_counts_nan_and_infinities_in_other_places() -> None:
    expected = np.array([np.nan, np.inf, -np.inf, 1.0, 2.0, 4.0])
    actual = np.array([np.nan, np.inf, np.inf, np.nan, 3.0, 4.1])
    found = difference(expected, actual, SINGLE, np.full(1, 0.5))
    assert (found.same_pattern, found.beyond) == (False, 0.5)
    same = difference(expected, expected, SINGLE, np.full(1, 0.5))
    assert (same.fault, same.mean, same.beyond) == ("", 0.0, 0.0)


def test_of_integers_the_share_is_of_those_that_differ() -> None:
    found = difference(np.array([1, 2, 3, 4]), np.array([1, 2, 3, 8]), SINGLE, None)
    assert (found.mean, found.beyond, found.relative) == (0.25, 0.25, 1.0)
    shaped = difference(np.zeros(3), np.zeros(4), SINGLE, None)
    assert (shaped.beyond, shaped.fault) == (1.0, "shape (3,) became (4,)")
