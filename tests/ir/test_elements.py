"""Element types: their bytes, and rounding to them, judged by exact rational arithmetic."""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bnfold.ir.elements import (
    FLOATS,
    RAW_TYPES,
    TP,
    from_raw,
    numpy_type,
    raw_length,
    round_once,
    to_raw,
)

# Bits of the significand, and exponents of the smallest number and of the first one that is too large.
FORMATS: dict[int, tuple[int, int, int]] = {
    TP.FLOAT: (24, -149, 128),
    TP.DOUBLE: (53, -1074, 1024),
    TP.FLOAT16: (11, -24, 16),
    TP.BFLOAT16: (8, -133, 128),
}


def nearest(value: float, dtype: int) -> float:
    """The number of the type nearest to ``value``, ties to even; by integers alone."""
    bits, smallest, limit = FORMATS[dtype]
    if math.isnan(value) or math.isinf(value) or value == 0:
        return value
    exact = abs(Fraction(value))
    exponent = max(math.frexp(value)[1] - bits, smallest)
    steps = exact / Fraction(2) ** exponent
    whole = steps.numerator // steps.denominator
    rest = steps - whole
    whole += rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1)
    rounded = whole * Fraction(2) ** exponent
    result = math.inf if rounded >= Fraction(2) ** limit else float(rounded)
    return math.copysign(result, value)


def _same(actual: Any, expected: float) -> bool:
    got = float(actual)
    return (math.isnan(got) and math.isnan(expected)) or (
        got == expected and math.copysign(1, got) == math.copysign(1, expected)
    )


@settings(max_examples=400)
@given(st.floats(), st.sampled_from(sorted(FLOATS)))
def test_any_number_is_rounded_to_the_nearest(value: float, dtype: int) -> None:
    assert _same(round_once(np.array([value]), dtype)[0], nearest(value, dtype))


@pytest.mark.parametrize("dtype", sorted(FLOATS))
def test_ties_and_their_neighbours(dtype: int) -> None:
    """Half-way between two numbers of the type, and a float64 step beside it: where rounding twice goes wrong."""
    bits, smallest, limit = FORMATS[dtype]
    values = [2.0**smallest, 1.5 * 2.0**smallest, 0.5 * 2.0**smallest, 2.0 ** (limit - 1) * (2 - 2.0 ** (1 - bits))]
    if dtype != TP.DOUBLE:
        values += [(1 + 2.0 ** (1 - bits) * (step + 0.5)) * 2.0**power for step in range(6) for power in (-3, 0, 5)]
        values += [(2.0**bits - 0.5) * 2.0 ** (limit - bits)]  # half a step beyond the largest: infinity
    for value in values:
        for near in (math.nextafter(value, 0), value, math.nextafter(value, math.inf)):
            for signed in (near, -near):
                assert _same(round_once(np.array([signed]), dtype)[0], nearest(float(signed), dtype)), signed


def test_rounding_to_bfloat16_by_way_of_float32_would_be_wrong() -> None:
    """The sticky bit lies beyond float32: 1 + 2⁻⁸ is a tie, and a hair more than that is not."""
    value = np.array([1 + 2.0**-8 + 2.0**-40])
    assert float(value.astype(np.float32).astype(ml_dtypes.bfloat16)[0]) == 1.0
    assert float(round_once(value, TP.BFLOAT16)[0]) == 1 + 2.0**-7


@pytest.mark.parametrize("dtype", sorted(FLOATS))
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (2, 3)])
def test_rounding_keeps_the_shape(dtype: int, shape: tuple[int, ...]) -> None:
    rounded = round_once(np.full(shape, 0.1), dtype)
    assert rounded.shape == shape
    assert rounded.dtype == numpy_type(dtype)


@pytest.mark.parametrize("dtype", sorted(RAW_TYPES))
def test_raw_data_is_that_of_onnx(dtype: int) -> None:
    values = np.array([[0, 1, 2], [3, 1, 0]]).astype(numpy_type(dtype))
    raw = bytes(to_raw(values, dtype))
    assert raw == onnx.numpy_helper.from_array(values).raw_data
    assert len(raw) == raw_length(dtype, 6)
    np.testing.assert_array_equal(from_raw(raw, dtype, values.shape), values)


@pytest.mark.parametrize(
    ("dtype", "kind", "length"),
    [
        (TP.INT4, ml_dtypes.int4, 3),
        (TP.UINT4, ml_dtypes.uint4, 3),
        (TP.FLOAT4E2M1, ml_dtypes.float4_e2m1fn, 3),
    ],
)
def test_sub_byte_elements_are_packed(dtype: int, kind: Any, length: int) -> None:
    values = np.array([1, 0, 1, 1, 0]).astype(kind)
    raw = bytes(to_raw(values, dtype))
    assert len(raw) == raw_length(dtype, 5) == length
    back = onnx.numpy_helper.to_array(TP(data_type=dtype, dims=[5], raw_data=raw))
    np.testing.assert_array_equal(back.astype(np.float32), values.astype(np.float32))


def test_two_bits_go_four_to_a_byte() -> None:
    assert [raw_length(25, size) for size in (0, 1, 4, 5)] == [0, 1, 1, 2]


def test_strings_and_types_to_come_have_no_length() -> None:
    assert raw_length(TP.STRING, 3) is None
    assert raw_length(999, 3) is None


def test_views_that_are_not_contiguous_are_written_in_row_major_order() -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert bytes(to_raw(values.T, TP.FLOAT)) == values.T.copy().tobytes()
    assert bytes(to_raw(np.broadcast_to(np.float32(2), (3,)), TP.FLOAT)) == np.full(3, 2, np.float32).tobytes()
    assert bytes(to_raw(np.array(7.0, np.float32), TP.FLOAT)) == np.float32(7).tobytes()
    assert bytes(to_raw(np.zeros((2, 0), np.float32), TP.FLOAT)) == b""


def test_a_host_of_the_other_byte_order_swaps_what_numpy_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """bfloat16 has no byte order of its own; here the host says it is big-endian, and everything comes out swapped."""
    values = np.array([1.5, -2.0]).astype(ml_dtypes.bfloat16)
    plain = bytes(to_raw(values, TP.BFLOAT16))
    monkeypatch.setattr(sys, "byteorder", "big")
    swapped = bytes(to_raw(values, TP.BFLOAT16))
    assert swapped == bytes(byte for pair in zip(plain[1::2], plain[::2], strict=True) for byte in pair)
    np.testing.assert_array_equal(from_raw(swapped, TP.BFLOAT16, values.shape), values)
