"""Elementwise operators of several operands: the two broadcasting rules, and what integers do."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from bnfold import ir, reference
from tests.reference.models import Array, compute, floats, one_node

RUNS: list[tuple[tuple[int, ...], int | None, tuple[int, ...]]] = [
    ((5,), None, (1, 1, 1, 5)),
    ((4, 5), None, (1, 1, 4, 5)),
    ((3, 4), 1, (1, 3, 4, 1)),
    ((2,), 0, (2, 1, 1, 1)),
    ((3,), -3, (1, 3, 1, 1)),
    ((1, 1), None, (1, 1, 1, 1)),
    ((), None, (1, 1, 1, 1)),
]


@pytest.mark.parametrize("opset", [1, 6])
@pytest.mark.parametrize(("shape", "axis", "aligned"), RUNS)
def test_limited_broadcasting_places_a_run_of_dims(
    opset: int, shape: tuple[int, ...], axis: int | None, aligned: tuple[int, ...]
) -> None:
    a, b = floats(1, 2, 3, 4, 5), floats(2, *shape)
    said: dict[str, Any] = {} if axis is None else {"axis": axis}
    y = compute("Sub", opset, [a, b], broadcast=1, **said)
    np.testing.assert_array_equal(y, a.astype(float) - b.reshape(aligned).astype(float))


def test_limited_broadcasting_must_be_asked_for() -> None:
    with pytest.raises(reference.CannotEvaluate, match="broadcast is not set"):
        compute("Add", 6, [floats(1, 2, 3), floats(2, 3)])
    with pytest.raises(reference.CannotEvaluate, match="no run"):
        compute("Add", 6, [floats(1, 2, 3, 4), floats(2, 2, 4)], broadcast=1)


def test_both_rules_differ_where_sizes_coincide() -> None:
    a, b = floats(1, 3, 3), floats(2, 3)
    early = compute("Mul", 6, [a, b], broadcast=1, axis=0)
    late = compute("Mul", 7, [a, b])
    np.testing.assert_array_equal(early, a.astype(float) * b[:, None])
    np.testing.assert_array_equal(late, a.astype(float) * b)


@pytest.mark.parametrize("opset", [6, 13])
def test_an_operand_of_several_is_left_out(opset: int) -> None:
    with pytest.raises(reference.CannotEvaluate, match="a required input is missing"):
        compute("Sum", opset, [None, floats(1, 2)])


def test_old_attributes_at_a_later_opset_are_meant() -> None:
    a, b = floats(1, 3, 3), floats(2, 3)
    np.testing.assert_array_equal(compute("Mul", 9, [a, b], broadcast=1, axis=0), a.astype(float) * b[:, None])


@pytest.mark.parametrize(
    ("op", "expected"), [("And", [True, False, False]), ("Or", [True, True, True]), ("Xor", [False, True, True])]
)
def test_logic(op: str, expected: list[bool]) -> None:
    a, b = np.array([True, True, False]), np.array([True, False, True])
    assert compute(op, 7, [a, b]).tolist() == expected
    assert compute(op, 1, [np.stack([a, a]), b], broadcast=1).tolist() == [expected, expected]


def test_integer_division_truncates_towards_zero() -> None:
    a, b = np.array([7, -7, 7, -7, 6, 0]), np.array([2, 2, -2, -2, -3, -5])
    assert compute("Div", 14, [a, b]).tolist() == [3, -3, -3, 3, -2, 0]
    assert compute("Div", 14, [np.array([250], np.uint8), np.array([4], np.uint8)]).tolist() == [62]


def test_mod_takes_the_sign_of_the_divisor_or_of_the_dividend() -> None:
    a, b = np.array([7, -7, 7, -7]), np.array([3, 3, -3, -3])
    assert compute("Mod", 13, [a, b]).tolist() == [1, 2, -2, -1]
    assert compute("Mod", 13, [a, b], fmod=1).tolist() == [1, -1, 1, -1]


def test_power_has_the_type_of_its_base() -> None:
    y = compute("Pow", 15, [np.array([2, 3]), np.array([3.0, 0.5], np.float32)])
    assert y.dtype == np.int64
    assert y.tolist() == [8, 1]


def test_shifting_everything_out() -> None:
    a, b = np.array([200, 3], np.uint8), np.array([3, 9], np.uint8)
    assert compute("BitShift", 11, [a, b], direction="LEFT").tolist() == [64, 0]
    assert compute("BitShift", 11, [a, b], direction="RIGHT").tolist() == [25, 0]


@pytest.mark.parametrize(
    ("op", "expected"), [("Sum", [3.0, 9.0]), ("Mean", [1.0, 3.0]), ("Max", [4.0, 7.0]), ("Min", [-2.0, -1.0])]
)
@pytest.mark.parametrize("opset", [1, 6, 8, 13])
def test_many_operands(op: str, expected: list[float], opset: int) -> None:
    rows = [np.array(row, np.float32) for row in ([1, -1], [4, 7], [-2, 3])]
    assert compute(op, opset, rows).tolist() == expected


def test_many_operands_broadcast_from_version_8_on() -> None:
    rows: list[Array | None] = [floats(1, 2, 3), floats(2, 3)]
    assert compute("Sum", 8, rows).shape == (2, 3)
    with pytest.raises(reference.CannotEvaluate, match="differ in shape"):
        compute("Sum", 6, rows)


@pytest.mark.parametrize(("opset", "shape"), [(6, (3,)), (6, (1,)), (7, (3, 1, 1)), (16, (3, 1, 1))])
def test_prelu_slopes(opset: int, shape: tuple[int, ...]) -> None:
    x, slope = floats(1, 2, 3, 4, 5), floats(2, *shape)
    wide = slope.reshape(-1, 1, 1).astype(float)
    np.testing.assert_array_equal(compute("PRelu", opset, [x, slope]), np.where(x < 0, wide * x, x))


def test_prelu_6_needs_a_slope_a_channel() -> None:
    with pytest.raises(reference.CannotEvaluate, match="5 slopes for 3 channels"):
        compute("PRelu", 6, [floats(1, 2, 3, 5), floats(2, 5)])


def test_a_node_of_a_later_form_is_read_so_where_it_is_asked_for() -> None:
    a, b = floats(1, 2, 3), floats(2, 3)
    early, feeds = one_node("Add", 6, [a, b])
    (y,) = reference.evaluate(ir.load(early), feeds, later=True).values()
    np.testing.assert_array_equal(y, a.astype(float) + b.astype(float))
    named, feeds = one_node("Add", 6, [a, b], broadcast=0)  # what a later version does not know, it cannot mean
    with pytest.raises(reference.Misfit, match="broadcast is not set"):
        reference.evaluate(ir.load(named), feeds, later=True)
    cast, feeds = one_node("Cast", 5, [a], to=onnx.TensorProto.INT64)
    (y,) = reference.evaluate(ir.load(cast), feeds, later=True).values()
    np.testing.assert_array_equal(y, a.astype(np.int64))
    fits, feeds = one_node("Softmax", 12, [floats(1, 2, 3, 4)], axis=1)
    plain, later = (reference.evaluate(ir.load(fits), feeds, later=later)["y"] for later in (False, True))
    np.testing.assert_array_equal(plain, later)
