"""Operators that make tensors or change their type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, numpy_helper

from bnfold import ir, reference
from tests.reference.models import compute, compute_all, floats, one_node


@pytest.mark.parametrize(
    ("attrs", "expected"),
    [
        ({"value": numpy_helper.from_array(np.array([1.5, 2], np.float16))}, np.array([1.5, 2])),
        ({"value_float": 0.1}, np.array(np.float32(0.1), np.float64)),
        ({"value_floats": [0.5, 0.25]}, np.array([0.5, 0.25])),
        ({"value_int": 3}, np.array(3)),
        ({"value_ints": [3, 4]}, np.array([3, 4])),
    ],
)
def test_constants(attrs: dict[str, Any], expected: Any) -> None:
    y = compute("Constant", 13, [], **attrs)
    assert y.dtype == expected.dtype
    np.testing.assert_array_equal(y, expected)


def test_constant_of_shape() -> None:
    shape = np.array([2, 3])
    np.testing.assert_array_equal(compute("ConstantOfShape", 9, [shape]), np.zeros((2, 3)))
    y = compute("ConstantOfShape", 9, [shape], value=numpy_helper.from_array(np.array([7], np.int32)))
    assert [y.dtype, y.tolist()] == [np.int32, [[7] * 3] * 2]


def test_casts_between_floats_do_not_round() -> None:
    x = np.array([1e5, 1 / 3], np.float32)
    np.testing.assert_array_equal(compute("Cast", 9, [x], to=TensorProto.FLOAT16), x.astype(float))
    model, feeds = one_node("Cast", 9, [x], to=TensorProto.FLOAT16)
    stored = reference.evaluate(ir.load(model), feeds, precision="stored")["y"]
    assert [stored.dtype, stored[0]] == [np.float16, np.inf]


def test_casts_to_integers_truncate_and_casts_to_booleans_ask_for_zero() -> None:
    x = np.array([-1.75, 0.0, 0.5], np.float32)
    assert compute("Cast", 6, [x], to=TensorProto.INT32).tolist() == [-1, 0, 0]
    assert compute("Cast", 13, [x], to=TensorProto.BOOL).tolist() == [True, False, True]


def test_cast_1_names_its_target() -> None:
    y = compute("Cast", 1, [np.array([1.75], np.float32)], to="INT64")
    assert [y.dtype, y.tolist()] == [np.int64, [1]]


def test_cast_like() -> None:
    x = np.array([2.75], np.float32)
    assert compute("CastLike", 15, [x, np.zeros(1, np.int8)]).dtype == np.int8
    assert compute("CastLike", 15, [x, np.zeros(1, np.float16)]).tolist() == [2.75]


@pytest.mark.parametrize(("saturate", "last"), [(1, 448.0), (0, np.nan)])
def test_a_cast_to_a_float_of_8_bits_saturates_unless_told_otherwise(saturate: int, last: float) -> None:
    x = np.array([-0.3, 17, 1e6], np.float32)
    y = compute("Cast", 19, [x], to=TensorProto.FLOAT8E4M3FN, saturate=saturate).astype(float)
    np.testing.assert_array_equal(y, [-0.3125, 16, last])


def test_a_cast_to_or_from_strings_is_refused() -> None:
    with pytest.raises(reference.CannotEvaluate, match="to string"):
        compute("Cast", 19, [floats(1, 3)], to=TensorProto.STRING)


def test_bits_are_read_as_another_type_of_the_same_width() -> None:
    x = np.array([1, 1 << 31], np.uint32)
    assert compute("BitCast", 26, [x], to=TensorProto.INT32).tolist() == [1, -(1 << 31)]
    assert compute("BitCast", 26, [np.array([0x3FC00000], np.int32)], to=TensorProto.FLOAT).tolist() == [1.5]
    with pytest.raises(reference.Misfit, match="differ in width"):
        compute("BitCast", 26, [x], to=TensorProto.INT64)
    with pytest.raises(reference.CannotEvaluate, match="another precision"):
        compute("BitCast", 26, [floats(1, 3)], to=TensorProto.INT32)


def test_range_and_eye_like() -> None:
    bounds = [np.array(value, np.float32) for value in (1, 7, 2.5)]
    assert compute("Range", 11, bounds).tolist() == [1, 3.5, 6]
    assert compute("Range", 11, [np.array(value) for value in (3, -4, -3)]).tolist() == [3, 0, -3]
    assert compute("Range", 27, bounds).tolist() == [1, 3.5, 6]
    np.testing.assert_array_equal(compute("EyeLike", 9, [floats(1, 2, 4)], k=1), np.eye(2, 4, 1))


@pytest.mark.parametrize("opset", [1, 6, 7, 10, 12, 13, 22])
def test_dropout_in_inference_changes_nothing(opset: int) -> None:
    x = floats(1, 3, 4)
    said = {"is_test": 1} if opset < 7 else {}
    np.testing.assert_array_equal(compute("Dropout", opset, [x], **said), x)


def test_dropout_in_training_is_random() -> None:
    x, half, yes = floats(1, 3, 4), np.array(0.5, np.float32), np.array([True])[0]
    with pytest.raises(reference.Random):
        compute("Dropout", 6, [x], is_test=0)
    with pytest.raises(reference.Random):
        compute("Dropout", 13, [x, half, yes])
    np.testing.assert_array_equal(compute("Dropout", 13, [x, np.array(0, np.float32), yes]), x)
    with pytest.raises(reference.Random):
        compute_all("Dropout", 6, [x], ("y",), policy=reference.Policy(legacy_mode="training"))


def test_the_mask_of_an_early_dropout_is_defined_by_no_text() -> None:
    with pytest.raises(reference.CannotEvaluate, match="not defined"):
        compute_all("Dropout", 7, [floats(1, 3)], ("y", "mask"))
    assert compute_all("Dropout", 12, [floats(1, 3)], ("y", "mask"))[1].tolist() == [True] * 3
