"""Upsample and Resize against a direct sum over all source elements, one axis at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bnfold import reference
from tests.reference.models import Array, compute, floats

EMPTY = np.zeros(0, np.float32)
X = floats(1, 1, 2, 5, 6)


def triangle(distance: float) -> float:
    return max(0.0, 1 - abs(distance))


def keys(a: float) -> Callable[[float], float]:
    """The cubic convolution kernel, by its definition."""

    def weight(distance: float) -> float:
        d = abs(distance)
        if d <= 1:
            return (a + 2) * d**3 - (a + 3) * d**2 + 1
        return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0

    return weight


def along(x: Array, axis: int, positions: list[float], weight: Callable[[float], float]) -> Array:
    """Each new element: the weighted sum of the (edge-extended) old ones around its position."""
    length = x.shape[axis]
    rows = []
    for position in positions:
        base = int(np.floor(position))
        taps = range(base - 2, base + 4)
        parts = [weight(position - tap) * np.take(x, min(max(tap, 0), length - 1), axis).astype(float) for tap in taps]
        rows.append(np.sum(parts, 0))
    return np.stack(rows, axis)


def position(coordinates: str, i: int, old: int, new: int) -> float:
    """Where element i of ``new`` ones lies among ``old`` ones, as the operator text says for each mode."""
    if coordinates == "align_corners":
        return i * (old - 1) / (new - 1) if new > 1 else 0
    if coordinates == "asymmetric":
        return i * old / new
    return 0 if coordinates == "pytorch_half_pixel" and new == 1 else (i + 0.5) * old / new - 0.5


COORDINATES = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("size", [(8, 3), (1, 12), (5, 9)])
@pytest.mark.parametrize("opset", [11, 13, 18, 19])
def test_interpolation(opset: int, size: tuple[int, int], coordinates: str, mode: str) -> None:
    weight = triangle if mode == "linear" else keys(-0.5)
    expected: Array = X
    for axis, new in zip((2, 3), size, strict=True):
        old = X.shape[axis]
        expected = along(expected, axis, [position(coordinates, i, old, new) for i in range(new)], weight)
    attrs: dict[str, Any] = {"cubic_coeff_a": -0.5} if mode == "cubic" else {}
    sizes = np.array([1, 2, *size])
    y = compute(
        "Resize", opset, [X, EMPTY, EMPTY, sizes], mode=mode, coordinate_transformation_mode=coordinates, **attrs
    )
    np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    ("rounding", "expected"),
    [
        ("round_prefer_floor", [0, 0, 1, 1, 2]),
        ("round_prefer_ceil", [0, 1, 1, 2, 2]),
        ("floor", [0, 0, 1, 1, 2]),
        ("ceil", [0, 1, 1, 2, 2]),
    ],
)
def test_nearest_rounding(rounding: str, expected: list[int]) -> None:
    x = np.arange(3, dtype=np.float32)
    y = compute(
        "Resize",
        13,
        [x, EMPTY, EMPTY, np.array([5])],
        nearest_mode=rounding,
        coordinate_transformation_mode="align_corners",
    )
    assert y.tolist() == expected


def test_upsample_repeats() -> None:
    expected = X.repeat(2, 2).repeat(3, 3)
    scales = [1.0, 1.0, 2.0, 3.0]
    np.testing.assert_array_equal(compute("Upsample", 1, [X], height_scale=2.0, width_scale=3.0), expected)
    np.testing.assert_array_equal(compute("Upsample", 7, [X], scales=scales), expected)
    np.testing.assert_array_equal(compute("Upsample", 9, [X, np.array(scales, np.float32)]), expected)
    np.testing.assert_array_equal(compute("Resize", 10, [X, np.array(scales, np.float32)]), expected)


def test_upsample_linear_is_asymmetric() -> None:
    x = np.array([[[0.0, 2.0, 6.0]]], np.float32)
    assert compute("Upsample", 7, [x], scales=[1.0, 1.0, 2.0], mode="linear").tolist() == [[[0, 1, 2, 4, 6, 6]]]


def test_sizes_come_from_float32_products() -> None:
    x = np.zeros((1, 1, 10), np.float32)
    assert np.floor(10 * float(np.float32(0.7))) == 6
    assert compute("Resize", 13, [x, EMPTY, np.array([1, 1, 0.7], np.float32)]).shape == (1, 1, 7)


def test_crop_and_resize_fills_what_lies_outside() -> None:
    x = np.arange(5, dtype=np.float32)
    y = compute(
        "Resize",
        13,
        [x, np.array([0.25, 1.5], np.float32), EMPTY, np.array([6])],
        mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize",
        extrapolation_value=-7.0,
    )
    np.testing.assert_allclose(y, [1, 2, 3, 4, -7, -7], rtol=1e-15)


def test_proportions_are_kept() -> None:
    sizes = np.array([10, 9])
    attrs: dict[str, Any] = {"axes": [2, 3], "mode": "linear"}
    for policy, shape in (("not_larger", (8, 9)), ("not_smaller", (10, 12)), ("stretch", (10, 9))):
        y = compute("Resize", 19, [X, None, None, sizes], keep_aspect_ratio_policy=policy, **attrs)
        assert y.shape == (1, 2, *shape)


def test_excluded_neighbours_leave_weights_of_sum_one() -> None:
    x = np.ones((7,), np.float32)
    y = compute("Resize", 13, [x, EMPTY, EMPTY, np.array([12])], mode="cubic", exclude_outside=1)
    np.testing.assert_allclose(y, np.ones(12), rtol=1e-14)


@pytest.mark.parametrize(
    ("op", "opset", "inputs", "attrs", "reason"),
    [
        ("Resize", 10, [X, np.array([1, 1, 0.7, 1], np.float32)], {}, "rounding"),
        (
            "Resize",
            13,
            [X, EMPTY, np.array([1, 1, 0.7, 1], np.float32)],
            {"coordinate_transformation_mode": "align_corners"},
            "no integer",
        ),
        (
            "Resize",
            18,
            [X, EMPTY, np.array([1, 1, 0.5, 1], np.float32)],
            {"antialias": 1, "mode": "linear"},
            "antialias",
        ),
        ("Upsample", 7, [X], {"scales": [1.0, 1.0, 2.0, 2.0], "mode": "cubic"}, "mode"),
        ("Upsample", 7, [X], {"scales": [2.0, 2.0]}, r"scales \[2.0, 2.0\] for rank 4"),
    ],
)
def test_refusals(op: str, opset: int, inputs: list[Array], attrs: dict[str, Any], reason: str) -> None:
    with pytest.raises(reference.CannotEvaluate, match=reason):
        compute(op, opset, [*inputs], **attrs)
