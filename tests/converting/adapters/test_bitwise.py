from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from bnfold import ir
from bnfold.converting import convert
from bnfold.errors import ConversionBlocked

Lowered = Callable[..., Any]
Text = Callable[..., str]
TYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


def _numbers(dtype: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Draw numbers of every size and sign, the outermost among them, and others that broadcast to them."""
    limits, rng = np.iinfo(dtype), np.random.default_rng(1)
    drawn = rng.integers(limits.min, limits.max, (3, 6), dtype, endpoint=True)
    drawn[0, :3] = [limits.min, limits.max, 0]
    return drawn, np.array([limits.max, limits.min, 0, 1, drawn[1, 1], limits.max - 1], dtype)


@pytest.mark.parametrize("op_type", ["BitwiseAnd", "BitwiseOr", "BitwiseXor"])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("target", [17, 9])
def test_bits_of_two_numbers(lowered: Lowered, text: Text, op_type: str, dtype: str, target: int) -> None:
    source = text(18, f"{dtype}[3, 6] x, {dtype}[6] z", f"y = {op_type} (x, z)", outputs=f"{dtype}[3, 6] y")
    first, second = _numbers(dtype)
    lowered(source, target, feeds={"x": first, "z": second})


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_shifts(lowered: Lowered, text: Text, direction: str, dtype: str) -> None:
    body = f'y = BitShift <direction = "{direction}"> (x, z)'
    source = text(11, f"{dtype}[3, 6] x, {dtype}[6] z", body, outputs=f"{dtype}[3, 6] y")
    numbers, places = _numbers(dtype)[0], np.array([0, 1, 2, 3, 5, 7], dtype)
    lowered(source, 9, feeds={"x": numbers, "z": places})


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("target", [27, 17, 9])
def test_signed_and_far_shifts(text: Text, direction: str, dtype: str, target: int) -> None:
    """What no runtime computes yet is compared with the text: nothing is shifted in but the sign."""
    body = f'y = BitShift <direction = "{direction}"> (x, z)'
    source = text(28, f"{dtype}[3, 9] x, {dtype}[9] z", body, outputs=f"{dtype}[3, 9] y")
    bits, signed = np.iinfo(dtype).bits, np.iinfo(dtype).min < 0
    far = [-1, -5] if signed else [1, 0]
    places = np.array([0, 1, 3, bits - 2, bits - 1, bits, bits + 3, *far], dtype)
    numbers = np.concatenate([_numbers(dtype)[0]] * 2, 1)[:, :9]
    shifted = [[_shifted(int(x), int(z), bits, direction) for x, z in zip(row, places, strict=True)] for row in numbers]
    expected = np.array([[_wrapped(value, bits, signed=signed) for value in row] for row in shifted], dtype)
    model = ir.load(onnx.parser.parse_model(source))
    convert(model, target)
    if target >= 11 and not signed:
        assert [node.op_type for node in model.graph.nodes] == ["BitShift"]
        return
    evaluator = ReferenceEvaluator(ir.load(ir.encode(model)).proto)
    (made,) = list(evaluator.run(None, {"x": numbers, "z": places}))
    np.testing.assert_array_equal(np.asarray(made), expected)


def _shifted(number: int, places: int, bits: int, direction: str) -> int:
    if not 0 <= places < bits:
        return -1 if number < 0 and direction == "RIGHT" else 0
    return number << places if direction == "LEFT" else number >> places


def _wrapped(number: int, bits: int, *, signed: bool) -> int:
    """Return the number that the low bits of another one are."""
    low = number & ((1 << bits) - 1)
    return low - (1 << bits) if signed and low >> (bits - 1) else low


def test_bits_need_where(lowered: Lowered, text: Text) -> None:
    with pytest.raises(ConversionBlocked, match="needs Less: version 7 does not take tensor\\(int64\\)"):
        lowered(text(18, "int32[2] x", "y = BitwiseAnd (x, x)", outputs="int32[2] y"), 8)
