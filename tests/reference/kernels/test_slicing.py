"""Slice and Split."""

from __future__ import annotations

import numpy as np
import pytest

from bnfold import reference
from tests.reference.models import compute, compute_all, floats

X = floats(1, 5, 6, 7)


def test_slice_by_attributes() -> None:
    y = compute("Slice", 1, [X], starts=[1, -3], ends=[1000, -1], axes=[0, 2])
    np.testing.assert_array_equal(y, X[1:, :, -3:-1])
    np.testing.assert_array_equal(compute("Slice", 1, [X], starts=[1, 0], ends=[4, -1]), X[1:4, :-1])


@pytest.mark.parametrize("opset", [10, 11, 13])
def test_slice_by_inputs(opset: int) -> None:
    bounds = [np.array(value) for value in ([4, -1], [0, -1000], [0, 2], [-2, -1])]
    np.testing.assert_array_equal(compute("Slice", opset, [X, *bounds]), X[4:0:-2, :, ::-1])
    np.testing.assert_array_equal(compute("Slice", opset, [X, np.array([2]), np.array([5])]), X[2:5])


def test_a_backward_slice_starts_on_an_element() -> None:
    bounds = [np.array([value]) for value in (-9, -1000, 0, -1)]
    np.testing.assert_array_equal(compute("Slice", 13, [X, *bounds]), X[:1])


def test_split_forms() -> None:
    wanted = np.split(X, [2], 1)
    lengths = np.array([2, 4])
    for actual in (
        compute_all("Split", 1, [X, lengths.astype(np.float32)], ("a", "b"), axis=1),
        compute_all("Split", 2, [X], ("a", "b"), axis=1, split=[2, 4]),
        compute_all("Split", 11, [X], ("a", "b"), axis=-2, split=[2, 4]),
        compute_all("Split", 13, [X, lengths], ("a", "b"), axis=1),
        compute_all("Split", 18, [X, lengths], ("a", "b"), axis=1),
    ):
        for part, expected in zip(actual, wanted, strict=True):
            np.testing.assert_array_equal(part, expected)


def test_split_in_parts() -> None:
    assert [part.shape[1] for part in compute_all("Split", 13, [X], ("a", "b", "c"), axis=1)] == [2, 2, 2]
    assert [part.shape[2] for part in compute_all("Split", 18, [X], ("a", "b", "c"), axis=2, num_outputs=3)] == [
        3,
        3,
        1,
    ]
    with pytest.raises(reference.CannotEvaluate, match=r"parts \[3, 3\] of 7"):
        compute_all("Split", 13, [X], ("a", "b"), axis=2)
    with pytest.raises(reference.CannotEvaluate, match=r"parts \[2, 3\] of 6"):
        compute_all("Split", 2, [X], ("a", "b"), axis=1, split=[2, 3])
