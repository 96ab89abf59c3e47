from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bnfold.errors import UpgradeBlocked

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


def test_bits_need_where(lowered: Lowered, text: Text) -> None:
    with pytest.raises(UpgradeBlocked, match="needs the Where of opset 9"):
        lowered(text(18, "int32[2] x", "y = BitwiseAnd (x, x)", outputs="int32[2] y"), 8)
