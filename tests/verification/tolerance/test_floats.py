from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

from bnfold.verification.tolerance.floats import FLOAT_TYPES, float_type, is_float

T = onnx.TensorProto
NUMPY: dict[int, Any] = {
    T.FLOAT: np.float32,
    T.DOUBLE: np.float64,
    T.FLOAT16: np.float16,
    T.BFLOAT16: ml_dtypes.bfloat16,
    T.FLOAT8E4M3FN: ml_dtypes.float8_e4m3fn,
    T.FLOAT8E4M3FNUZ: ml_dtypes.float8_e4m3fnuz,
    T.FLOAT8E5M2: ml_dtypes.float8_e5m2,
    T.FLOAT8E5M2FNUZ: ml_dtypes.float8_e5m2fnuz,
}


@pytest.mark.parametrize("dtype", FLOAT_TYPES)
def test_the_numbers_are_those_of_the_type(dtype: int) -> None:
    info = ml_dtypes.finfo(NUMPY[dtype])
    kind = float_type(dtype)
    assert kind.roundoff == float(info.eps) / 2
    assert kind.largest == float(info.max)
    assert 2.0**kind.min_exponent == float(info.smallest_normal)


@pytest.mark.parametrize("dtype", [T.FLOAT, T.FLOAT16])
def test_spacing_is_that_of_numpy(dtype: int) -> None:
    values = np.array([1.0, 1.5, 2.0, -3.7, 1e-7, 0.0, 6e4], NUMPY[dtype])
    assert np.array_equal(float_type(dtype).spacing(values), np.abs(np.spacing(np.abs(values))).astype(np.float64))


def test_what_is_no_float_counts_as_float32() -> None:
    assert float_type(T.INT64) is float_type(None) is FLOAT_TYPES[T.FLOAT]
    assert not is_float(T.INT64)
    assert not is_float(None)
    assert is_float(T.BFLOAT16)
