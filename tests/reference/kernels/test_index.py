"""Operators that pick or place elements by index."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tests.reference.models import compute, compute_all, floats

X = floats(1, 4, 5, 3)


def test_gather() -> None:
    index = np.array([[0, -1, 2], [3, 4, -5]])
    np.testing.assert_array_equal(compute("Gather", 11, [X, index], axis=1), X[:, index])
    np.testing.assert_array_equal(compute("Gather", 1, [X, np.array(2)]), X[2])


def test_gather_elements() -> None:
    index = np.array([[[0, -1, 2], [3, 4, 1]], [[1, 1, 0], [2, 0, -5]]])
    y = compute("GatherElements", 13, [X, index], axis=1)
    for i, j, k in product(range(2), range(2), range(3)):
        assert y[i, j, k] == X[i, index[i, j, k], k]


def test_gather_nd() -> None:
    index = np.array([[0, 1], [3, -1]])
    np.testing.assert_array_equal(compute("GatherND", 11, [X, index]), X[[0, 3], [1, 4]])
    batched = np.array([[[0]], [[2]], [[4]], [[-1]]])
    y = compute("GatherND", 12, [X, batched], batch_dims=1)
    np.testing.assert_array_equal(y, np.stack([X[i, batched[i, :, 0]] for i in range(4)]))


@pytest.mark.parametrize(
    ("reduction", "expected"),
    [("none", [9, 7, 3]), ("add", [17, 9, 3]), ("mul", [63, 14, 3]), ("max", [9, 7, 3]), ("min", [1, 2, 3])],
)
def test_scatter_elements(reduction: str, expected: list[float]) -> None:
    x = np.array([1, 2, 3], np.float32)
    index, updates = np.array([0, 0, 1]), np.array([7, 9, 7], np.float32)
    assert compute("ScatterElements", 18, [x, index, updates], reduction=reduction).tolist() == expected


def test_scatter_nd_and_scatter_9() -> None:
    updates = floats(2, 2, 5, 3)
    expected = X.copy()
    expected[[1, 3]] = updates
    np.testing.assert_array_equal(compute("ScatterND", 11, [X, np.array([[1], [3]]), updates]), expected)
    y = compute("Scatter", 9, [X[:, :, 0], np.array([[4, 0]]), np.array([[8, 9]], np.float32)], axis=1)
    assert y[0, [4, 0]].tolist() == [8, 9]


def test_non_zero_and_compress() -> None:
    x = np.array([[0, 2], [3, 0]], np.float32)
    assert compute("NonZero", 9, [x]).tolist() == [[0, 1], [1, 0]]
    assert compute("NonZero", 13, [np.array(5.0, np.float32)]).shape == (0, 1)
    np.testing.assert_array_equal(compute("Compress", 9, [X, np.array([False, True])], axis=1), X[:, 1:2])
    np.testing.assert_array_equal(compute("Compress", 11, [X, np.array([True, False, True])]), X.ravel()[[0, 2]])


def test_one_hot() -> None:
    values = np.array([0.5, 2], np.float32)
    y = compute("OneHot", 11, [np.array([[0, -1], [3, 9]]), np.array(4), values], axis=1)
    assert y.shape == (2, 4, 2)
    assert y[0].T.tolist() == [[2, 0.5, 0.5, 0.5], [0.5, 0.5, 0.5, 2]]
    assert y[1].T.tolist() == [[0.5, 0.5, 0.5, 2], [0.5] * 4]


def test_one_hot_casts_its_indices() -> None:
    """As onnxruntime does: -0.5 is the first place."""
    indices = np.array([-0.5, -1.5, 1.5, 2.7, 3.2], np.float32)
    y = compute("OneHot", 11, [indices, np.array(3.7, np.float32), np.array([0, 1], np.float32)])
    np.testing.assert_array_equal(y, [[1, 0, 0], [0, 0, 1], [0, 1, 0], [0, 0, 1], [0, 0, 0]])


def test_top_k() -> None:
    x = np.array([[3, 1, 3, 2], [0, 5, 4, 5]], np.float32)
    values, index = compute_all("TopK", 11, [x, np.array([3])], ("values", "index"))
    assert values.tolist() == [[3, 3, 2], [5, 5, 4]]
    assert index.tolist() == [[0, 2, 3], [1, 3, 2]]
    values, index = compute_all("TopK", 11, [x.T, np.array([2])], ("values", "index"), axis=0, largest=0)
    assert values.T.tolist() == [[1, 2], [0, 4]]
    assert index.T.tolist() == [[1, 3], [0, 2]]
    unsigned = compute_all("TopK", 11, [np.array([1, 200, 0], np.uint8), np.array([2])], ("values", "index"))
    assert unsigned[0].tolist() == [200, 1]
    assert compute_all("TopK", 1, [x], ("values", "index"), k=1)[1].tolist() == [[0], [1]]


def test_unique() -> None:
    x = np.array([[3, 1], [3, 2]], np.float32)
    names = ("y", "first", "which", "counts")
    assert [part.tolist() for part in compute_all("Unique", 11, [x], names)] == [
        [1, 2, 3],
        [1, 3, 0],
        [2, 0, 2, 1],
        [1, 1, 2],
    ]
    assert [part.tolist() for part in compute_all("Unique", 11, [x], names, sorted=0)] == [
        [3, 1, 2],
        [0, 1, 3],
        [0, 1, 0, 2],
        [2, 1, 1],
    ]
    rows = np.array([[2, 1], [0, 0], [2, 1]], np.float32)
    assert compute("Unique", 11, [rows], axis=0, sorted=0).tolist() == [[2, 1], [0, 0]]
