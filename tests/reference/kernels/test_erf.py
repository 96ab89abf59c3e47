from __future__ import annotations

import math

import numpy as np
import pytest

from bnfold.reference.kernels.erf import erf


def test_erf_is_that_of_the_c_library_to_two_ulp() -> None:
    rng = np.random.default_rng(0)
    edges = np.array([0.0, 5e-324, 1 / 512, 3 / 512, 5.99, 6.0, 6.01, 40.0, np.inf])
    x = np.concatenate(
        [rng.normal(size=9000), rng.uniform(-7, 7, 9000), 10.0 ** rng.uniform(-300, 1, 9000), edges, -edges]
    )
    truth = np.array([math.erf(value) for value in x])
    found = erf(x)
    assert (np.abs(found - truth) <= 2 * np.spacing(np.abs(truth))).all()
    assert (np.signbit(found) == np.signbit(x)).all()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_erf_keeps_type_and_shape(dtype: type, shape: tuple[int, ...]) -> None:
    found = erf(np.full(shape, 0.5, dtype))
    assert (found.dtype, found.shape) == (np.dtype(dtype), shape)
    assert (found == np.asarray(math.erf(0.5)).astype(dtype)).all()


def test_erf_of_nan_is_nan() -> None:
    assert np.isnan(erf(np.array([np.nan, 1.0]))).tolist() == [True, False]
