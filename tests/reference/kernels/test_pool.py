"""Pooling against loops over windows."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from bnfold import reference
from tests.reference.models import Array, compute, compute_all, floats


def windows(
    x: Array, kernel: list[int], strides: list[int], pads: list[int], dilations: list[int], size: list[int]
) -> Any:
    """(output place, flat indices within the plane of the elements inside x, how many taps lie on x or its padding)."""
    rank = len(kernel)
    for place in product(*map(range, size)):
        taps = [
            [p * s + k * d - pads[a] for a, (p, s, k, d) in enumerate(zip(place, strides, tap, dilations, strict=True))]
            for tap in product(*map(range, kernel))
        ]
        inside = [t for t in taps if all(0 <= q < n for q, n in zip(t, x.shape[2:], strict=True))]
        padded = [
            t for t in taps if all(q < n + pads[a + rank] for a, (q, n) in enumerate(zip(t, x.shape[2:], strict=True)))
        ]
        yield place, [np.ravel_multi_index(t, x.shape[2:]) for t in inside], len(padded)


GEOMETRY: list[tuple[dict[str, Any], list[int]]] = [
    ({"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1]}, [4, 3]),
    ({"kernel_shape": [3, 2], "strides": [2, 3], "pads": [0, 1, 0, 0], "ceil_mode": 1}, [3, 3]),
    ({"kernel_shape": [2, 2], "strides": [3, 2], "pads": [0, 0, 1, 1], "ceil_mode": 1}, [3, 3]),
]


def geometry(attrs: dict[str, Any]) -> tuple[list[int], list[int], list[int], list[int]]:
    return attrs["kernel_shape"], attrs["strides"], attrs["pads"], attrs.get("dilations", [1, 1])


@pytest.mark.parametrize(("attrs", "size"), GEOMETRY)
@pytest.mark.parametrize("include_pad", [0, 1])
def test_average_pool(attrs: dict[str, Any], size: list[int], include_pad: int) -> None:
    x = floats(1, 2, 3, 7, 6)
    y = compute("AveragePool", 19, [x], count_include_pad=include_pad, **attrs)
    assert list(y.shape[2:]) == size
    planes = x.reshape(2, 3, -1).astype(np.longdouble)
    for place, inside, padded in windows(x, *geometry(attrs), size):
        expected = planes[:, :, inside].sum(2) / (padded if include_pad else len(inside))
        np.testing.assert_allclose(y[(..., *place)], expected.astype(float), rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize(
    ("attrs", "size"),
    [*GEOMETRY, ({"kernel_shape": [3, 2], "strides": [1, 1], "pads": [1, 1, 1, 0], "dilations": [2, 3]}, [5, 4])],
)
@pytest.mark.parametrize("order", [0, 1])
def test_max_pool_and_its_indices(attrs: dict[str, Any], size: list[int], order: int) -> None:
    x = floats(1, 2, 3, 7, 6)
    y, index = compute_all("MaxPool", 12, [x], ("y", "index"), storage_order=order, **attrs)
    assert list(y.shape[2:]) == size
    planes = x.reshape(2, 3, -1)
    for place, inside, _ in windows(x, *geometry(attrs), size):
        best = planes[:, :, inside].argmax(2)
        np.testing.assert_array_equal(y[(..., *place)], planes[:, :, inside].max(2))
        flat = np.asarray(inside)[best]
        if order:
            row, column = np.divmod(flat, 6)
            flat = column * 7 + row
        np.testing.assert_array_equal(index[(..., *place)], flat + np.arange(6).reshape(2, 3) * 42)


def test_nan_is_the_maximum_with_and_without_indices() -> None:
    x = np.array([[[3, np.nan, 1, 2]]], np.float32)
    y, index = compute_all("MaxPool", 12, [x], ("y", "index"), kernel_shape=[2])
    np.testing.assert_array_equal(y, [[[np.nan, np.nan, 2]]])
    np.testing.assert_array_equal(index, [[[1, 1, 3]]])
    np.testing.assert_array_equal(compute("MaxPool", 12, [x], kernel_shape=[2]), y)


def test_max_pool_of_nothing_but_minus_infinity_and_nan() -> None:
    x = np.array([[[-np.inf, -np.inf, 1, np.nan]]], np.float32)
    np.testing.assert_array_equal(compute("MaxPool", 12, [x], kernel_shape=[2]), [[[-np.inf, 1, np.nan]]])


@pytest.mark.parametrize("p", [1, 2, 3])
def test_lp_pool(p: int) -> None:
    attrs, size = GEOMETRY[0]
    x = floats(1, 2, 3, 7, 6)
    y = compute("LpPool", 11, [x], p=p, **attrs)
    planes = np.abs(x.reshape(2, 3, -1).astype(np.longdouble))
    for place, inside, _ in windows(x, *geometry(attrs), size):
        expected = (planes[:, :, inside] ** p).sum(2) ** (np.longdouble(1) / p)
        np.testing.assert_allclose(y[(..., *place)], expected.astype(float), rtol=1e-13)


def test_global_pools() -> None:
    x = floats(1, 2, 3, 5, 4)
    wide = x.astype(np.longdouble)
    np.testing.assert_allclose(
        compute("GlobalAveragePool", 1, [x])[:, :, 0, 0], wide.mean((2, 3)).astype(float), rtol=1e-14
    )
    np.testing.assert_array_equal(compute("GlobalMaxPool", 1, [x])[:, :, 0, 0], x.max((2, 3)))
    expected = np.sqrt((wide**2).sum((2, 3))).astype(float)
    np.testing.assert_allclose(compute("GlobalLpPool", 2, [x])[:, :, 0, 0], expected, rtol=1e-14)


def test_pads_of_one_entry_an_axis_are_both_ends_in_the_first_files() -> None:
    x = floats(1, 1, 2, 5, 6)
    both = compute("MaxPool", 1, [x], kernel_shape=[3, 3], pads=[1, 0, 1, 0])
    np.testing.assert_array_equal(compute("MaxPool", 1, [x], kernel_shape=[3, 3], pads=[1, 0]), both)


def test_valid_ignores_ceil_mode() -> None:
    x = floats(1, 1, 2, 6)
    y = compute("MaxPool", 12, [x], kernel_shape=[3], strides=[2], auto_pad="VALID", ceil_mode=1)
    assert y.shape == (1, 2, 2)


def test_max_roi_pool_of_regions_beside_the_image() -> None:
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    rois = np.array([[0, 0, 0, 3, 3], [0, 2, 2, 9, 9], [0, 6, 6, 7, 7]], np.float32)
    y = compute("MaxRoiPool", 22, [x, rois], pooled_shape=[2, 2])
    assert y.reshape(3, 4).tolist() == [[5, 7, 13, 15], [15, 0, 0, 0], [0, 0, 0, 0]]
    with pytest.raises(reference.Misfit, match=r"image 1\.0 of 1"):
        compute("MaxRoiPool", 22, [x, rois + 1], pooled_shape=[2, 2])
