"""Linear quantisation: saturation, granularity, rounding."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from bnfold import ir, reference
from tests.reference.models import compute, compute_all, floats

SCALE = np.array([0.5, 0.25, 2], np.float32)


def test_quantise_rounds_halves_to_even_and_saturates() -> None:
    x = np.array([0.25, 0.75, -0.25, 100, -100], np.float32)
    zero = np.array(3, np.int8)
    y = compute("QuantizeLinear", 10, [x, np.array(0.5, np.float32), zero])
    assert [y.dtype, y.tolist()] == [np.int8, [3, 5, 3, 127, -128]]
    assert compute("QuantizeLinear", 10, [x, np.array(0.5, np.float32)]).tolist() == [0, 2, 0, 200, 0]


@pytest.mark.parametrize("axis", [1, -1])
def test_scales_along_an_axis(axis: int) -> None:
    x = np.arange(-9, 9, dtype=np.int8).reshape(2, 3, 3)
    zero = np.array([1, 0, -2], np.int8)
    shape = (1, 3, 1) if axis == 1 else (1, 1, 3)
    y = compute("DequantizeLinear", 13, [x, SCALE, zero], axis=axis)
    np.testing.assert_array_equal(y, (x - zero.reshape(shape).astype(float)) * SCALE.reshape(shape))
    np.testing.assert_array_equal(compute("QuantizeLinear", 13, [y.astype(np.float32), SCALE, zero], axis=axis), x)


def test_blocks() -> None:
    x = np.arange(12, dtype=np.int8).reshape(2, 6)
    scale = floats(1, 2, 3)
    y = compute("DequantizeLinear", 21, [x, scale], axis=1, block_size=2)
    np.testing.assert_array_equal(y, x * scale.repeat(2, 1).astype(float))
    with pytest.raises(reference.CannotEvaluate, match="scale or zero point"):
        compute("DequantizeLinear", 21, [x, scale], axis=1)


def test_blocks_of_a_vector() -> None:
    """The last one may be shorter."""
    y = compute("DequantizeLinear", 21, [np.arange(5, dtype=np.int8), SCALE[:2]], axis=0, block_size=3)
    assert y.tolist() == [0, 0.5, 1, 0.75, 1]
    with pytest.raises(reference.CannotEvaluate, match="scale or zero point"):
        compute("DequantizeLinear", 21, [np.arange(7, dtype=np.int8), SCALE[:2]], axis=0, block_size=3)


def test_four_bits() -> None:
    x = np.array([-8, 7, 1], ml_dtypes.int4)
    assert compute("DequantizeLinear", 21, [x, np.array(0.5, np.float32)]).tolist() == [-4, 3.5, 0.5]


def test_dynamic_quantisation_of_a_range_without_negatives_keeps_zero() -> None:
    x = np.array([1.0, 3.0, 5.1], np.float32)
    y, scale, zero = compute_all("DynamicQuantizeLinear", 11, [x], ("y", "scale", "zero"))
    assert zero == 0
    assert scale == pytest.approx(float(x[2]) / 255)
    assert y.tolist() == [50, 150, 255]


def test_the_quotient_is_float32() -> None:
    """8.5, as every runtime has it; in float64 it would be more."""
    scale = np.array(0.01, np.float32)
    x = np.array([8.5], np.float32) * scale
    node = helper.make_node("QuantizeLinear", ["x", "scale"], ["y"])
    made = helper.make_tensor_value_info("y", TensorProto.UINT8, [1])
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    scales, numbers = numpy_helper.from_array(scale, "scale"), numpy_helper.from_array(x, "x")
    constant = helper.make_model(helper.make_graph([node], "g", [], [made], [scales, numbers]))
    computed = helper.make_model(helper.make_graph([node], "g", [given], [made], [scales]))
    assert reference.evaluate(ir.load(constant), {})["y"] == 8
    assert reference.evaluate(ir.load(computed), {"x": x})["y"] == 8


def test_a_zero_point_is_of_the_type_of_what_is_quantised() -> None:
    with pytest.raises(reference.CannotEvaluate, match="type uint8 beside int8"):
        compute("DequantizeLinear", 13, [np.ones(3, np.int8), SCALE[:1], np.zeros(1, np.uint8)])
