"""Operators that only move elements."""

from __future__ import annotations

import numpy as np
import pytest

from bnfold import reference
from tests.reference.models import compute, floats


def test_reshape_by_attribute_and_by_input() -> None:
    x = floats(1, 2, 3, 4)
    np.testing.assert_array_equal(compute("Reshape", 1, [x], shape=[0, -1]), x.reshape(2, 12))
    np.testing.assert_array_equal(compute("Reshape", 5, [x, np.array([0, 2, -1])]), x.reshape(2, 2, 6))
    empty = np.zeros((0, 3), np.float32)
    assert compute("Reshape", 14, [empty, np.array([3, 0])], allowzero=1).shape == (3, 0)
    with pytest.raises(reference.CannotEvaluate, match="copies a dim"):
        compute("Reshape", 5, [x, np.array([6, 4, 1, 0])])
    with pytest.raises(reference.Misfit, match="below -1"):  # which numpy takes for -1
        compute("Reshape", 5, [x, np.array([2, -2])])


@pytest.mark.parametrize(("axis", "shape"), [(0, (1, 120)), (1, (2, 60)), (3, (24, 5)), (4, (120, 1)), (-1, (24, 5))])
def test_flatten(axis: int, shape: tuple[int, int]) -> None:
    assert compute("Flatten", 13, [floats(1, 2, 3, 4, 5)], axis=axis).shape == shape


def test_squeeze_and_unsqueeze_in_both_forms() -> None:
    x = floats(1, 3, 1, 4, 1)
    assert compute("Squeeze", 11, [x], axes=[-1]).shape == (3, 1, 4)
    assert compute("Squeeze", 13, [x, np.array([1])]).shape == (3, 4, 1)
    assert compute("Squeeze", 1, [x]).shape == (3, 4)
    assert compute("Unsqueeze", 11, [floats(1, 3, 4)], axes=[3, 0]).shape == (1, 3, 4, 1)
    assert compute("Unsqueeze", 13, [floats(1, 3, 4), np.array([-1, 1])]).shape == (3, 1, 4, 1)


def test_concat_1_has_a_default_axis_and_concat_4_has_none() -> None:
    a, b = floats(1, 2, 3), floats(2, 2, 4)
    np.testing.assert_array_equal(compute("Concat", 1, [a, b]), np.concatenate([a, b], 1))
    np.testing.assert_array_equal(compute("Concat", 13, [a, b], axis=-1), np.concatenate([a, b], 1))
    with pytest.raises(reference.CannotEvaluate, match="is missing: axis"):
        compute("Concat", 4, [a, b])


def test_transpose_reverses_by_default() -> None:
    x = floats(1, 2, 3, 4)
    np.testing.assert_array_equal(compute("Transpose", 1, [x]), x.T)
    np.testing.assert_array_equal(compute("Transpose", 13, [x], perm=[1, 2, 0]), x.transpose(1, 2, 0))


def test_depth_to_space_orders() -> None:
    x = np.arange(8, dtype=np.float32).reshape(1, 8, 1, 1)
    assert compute("DepthToSpace", 11, [x], blocksize=2).tolist() == [[[[0, 2], [4, 6]], [[1, 3], [5, 7]]]]
    assert compute("DepthToSpace", 11, [x], blocksize=2, mode="CRD").tolist() == [[[[0, 1], [2, 3]], [[4, 5], [6, 7]]]]


def test_space_to_depth_undoes_depth_to_space() -> None:
    x = floats(1, 2, 12, 3, 4)
    np.testing.assert_array_equal(
        compute("SpaceToDepth", 13, [compute("DepthToSpace", 1, [x], blocksize=2)], blocksize=2), x
    )


def test_expand_and_tile() -> None:
    x = floats(1, 3, 1, 4)
    assert compute("Expand", 13, [x, np.array([2, 1, 5, 1])]).shape == (2, 3, 5, 4)
    np.testing.assert_array_equal(compute("Tile", 6, [x, np.array([1, 2, 3])]), np.tile(x, (1, 2, 3)))
    np.testing.assert_array_equal(
        compute("Tile", 1, [x, np.array(3.0, np.float32), np.array(2.0, np.float32)]), np.tile(x, (1, 1, 3))
    )


def test_shape_and_size() -> None:
    x = floats(1, 3, 1, 4)
    assert compute("Shape", 13, [x]).tolist() == [3, 1, 4]
    assert compute("Shape", 15, [x], start=-2, end=9).tolist() == [1, 4]
    assert compute("Size", 1, [x]).tolist() == 12


def test_an_axis_outside_the_rank_is_refused() -> None:
    with pytest.raises(reference.CannotEvaluate, match="outside rank 2"):
        compute("Concat", 4, [floats(1, 2, 3)], axis=2)


def test_tile_needs_a_number_for_each_axis() -> None:
    with pytest.raises(reference.Misfit, match=r"repeats \[1, 2, 1\] for rank 2"):
        compute("Tile", 6, [np.ones((2, 3)), np.array([1, 2, 1])])
