"""Reading images at computed positions; random grids are compared with onnxruntime in test_witness."""

from __future__ import annotations

import numpy as np
import pytest

from bnfold import reference
from tests.reference.models import Array, compute, floats

X = floats(1, 2, 3, 4, 5)
IDENTITY = np.broadcast_to(np.eye(2, 3, dtype=np.float32), (2, 2, 3)).copy()


def grid_at(*points: tuple[float, float]) -> Array:
    """A grid (1, 1, points, 2) over X's last axes for ``align_corners``: rows and columns as numbers of elements."""
    return np.array([[[(2 * column / 4 - 1, 2 * row / 3 - 1) for row, column in points]]], np.float64)


def sample(points: Array, **attrs: str | int) -> Array:
    return compute("GridSample", 20, [X[:1], points], align_corners=1, **attrs)[0, :, 0]


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_the_identity_transform_gives_the_image_back(mode: str, corners: int) -> None:
    grid = compute("AffineGrid", 20, [IDENTITY, np.array(X.shape)], align_corners=corners)
    y = compute("GridSample", 20, [X, grid], mode=mode, align_corners=corners, padding_mode="border")
    np.testing.assert_allclose(y, X, rtol=1e-12, atol=1e-13)


def test_between_elements() -> None:
    wide = X[0].astype(float)
    y = sample(grid_at((1.25, 2), (0, 3.5)), mode="linear")
    np.testing.assert_allclose(y[:, 0], 0.75 * wide[:, 1, 2] + 0.25 * wide[:, 2, 2], rtol=1e-12)
    np.testing.assert_allclose(y[:, 1], (wide[:, 0, 3] + wide[:, 0, 4]) / 2, rtol=1e-12)


def test_outside_the_image() -> None:
    points = grid_at((-1, 2), (3.5, 4))
    wide = X[0].astype(float)
    zeros = sample(points, mode="linear", padding_mode="zeros")
    np.testing.assert_allclose(zeros, np.stack([0 * wide[:, 0, 0], wide[:, 3, 4] / 2], 1), rtol=1e-12, atol=1e-15)
    border = sample(points, mode="linear", padding_mode="border")
    np.testing.assert_allclose(border, np.stack([wide[:, 0, 2], wide[:, 3, 4]], 1), rtol=1e-12)
    mirror = sample(points, mode="linear", padding_mode="reflection")
    half = (wide[:, 2, 4] + wide[:, 3, 4]) / 2
    np.testing.assert_allclose(mirror, np.stack([wide[:, 1, 2], half], 1), rtol=1e-12)


def test_grids_of_volumes_run_over_three_axes() -> None:
    theta = np.array([[[0.5, 0, 0, 0.25], [0, 1, 0, 0], [0, 0, 1, -0.5]]], np.float32)
    grid = compute("AffineGrid", 20, [theta, np.array([1, 1, 2, 3, 5])], align_corners=1)
    assert grid.shape == (1, 2, 3, 5, 3)
    np.testing.assert_allclose(grid[0, 0, 0, :, 0], 0.5 * np.linspace(-1, 1, 5) + 0.25)
    np.testing.assert_allclose(grid[0, :, 2, 3, 2], np.array([-1.0, 1]) - 0.5)
    np.testing.assert_allclose(grid[0, 1, :, 0, 1], [-1, 0, 1])


def test_what_does_not_fit() -> None:
    with pytest.raises(reference.CannotEvaluate, match="mode 'area'"):
        sample(grid_at((0, 0)), mode="area")
    with pytest.raises(reference.CannotEvaluate, match="padding_mode 'wrap'"):
        sample(grid_at((0, 0)), padding_mode="wrap")


def test_deformed_convolution_without_offsets_is_a_convolution() -> None:
    w, b, attrs = floats(2, 4, 3, 2, 3), floats(3, 4), {"pads": [1, 0, 0, 2], "strides": [2, 1], "dilations": [1, 2]}
    plain = compute("Conv", 22, [X, w, b], **attrs)
    offset = np.zeros((2, 2 * 6, *plain.shape[2:]), np.float32)
    np.testing.assert_allclose(compute("DeformConv", 22, [X, w, offset, b], **attrs), plain, rtol=1e-12, atol=1e-12)


def test_deformed_convolution_in_three_dimensions() -> None:
    x, w = floats(1, 1, 2, 3, 4, 5), floats(2, 3, 2, 1, 1, 1)
    offset = np.zeros((1, 3, 3, 4, 5), np.float32)
    offset[:, 1] = 0.5
    y = compute("DeformConv", 19, [x, w, offset], kernel_shape=[1, 1, 1])
    after = np.concatenate([x[:, :, :, 1:], np.zeros_like(x[:, :, :, :1])], 3)
    np.testing.assert_allclose(y, compute("Conv", 11, [(x + after) / 2, w]), rtol=1e-6, atol=1e-6)
