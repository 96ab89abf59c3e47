"""Operators without a schema."""

from __future__ import annotations

import numpy as np
import pytest

from bnfold import reference
from tests.reference.models import compute, floats

X = floats(1, 2, 3, 5, 7)


def test_image_scaler_has_a_bias_a_channel() -> None:
    bias = np.array([1, 2, 3], np.float32)
    y = compute("ImageScaler", 1, [X], scale=0.5, bias=bias.tolist())
    np.testing.assert_array_equal(y, X * 0.5 + bias.reshape(1, 3, 1, 1).astype(float))


def test_affine_and_scale() -> None:
    np.testing.assert_array_equal(compute("Affine", 7, [X], alpha=2.0, beta=-1.0), 2.0 * X.astype(float) - 1)
    np.testing.assert_array_equal(compute("Scale", 7, [X], scale=0.25), X * 0.25)


def test_crop_by_border_and_to_a_size() -> None:
    np.testing.assert_array_equal(compute("Crop", 7, [X], border=[1, 2, 3, 0]), X[:, :, 2:, 1:4])
    np.testing.assert_array_equal(compute("Crop", 7, [X], border=[1, 2, 0, 0], scale=[2, 4]), X[:, :, 2:4, 1:5])
    with pytest.raises(reference.CannotEvaluate, match="9 x 4 elements"):
        compute("Crop", 7, [X], border=[1, 2, 0, 0], scale=[9, 4])


def test_constant_fill() -> None:
    assert compute("ConstantFill", 1, [], shape=[2, 3], value=1.5).tolist() == [[1.5] * 3] * 2
    assert compute("ConstantFill", 1, [np.array([2, 4])], input_as_shape=1).shape == (2, 4)
    assert compute("ConstantFill", 1, [X], extra_shape=[6]).shape == (2, 3, 5, 7, 6)


def test_scaled_functions_need_their_factors() -> None:
    np.testing.assert_allclose(compute("ScaledTanh", 1, [X], alpha=2.0, beta=0.5), 2 * np.tanh(X.astype(float) / 2))
    expected = 2 * np.log1p(np.exp(X.astype(float) / 2))
    np.testing.assert_allclose(compute("ParametricSoftplus", 1, [X], alpha=2.0, beta=0.5), expected)
    for op in ("ScaledTanh", "ParametricSoftplus"):
        with pytest.raises(reference.CannotEvaluate, match="alpha and beta"):
            compute(op, 1, [X], alpha=2.0)


def test_thresholded_relu_before_its_schema() -> None:
    np.testing.assert_array_equal(compute("ThresholdedRelu", 7, [X], alpha=0.5), np.where(X > 0.5, X, 0))
