"""Scatter operators that reduce, at constant places that are each written once: bit for bit what they were."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

from bnfold import ir
from bnfold.converting import convert
from bnfold.errors import ConversionBlocked

Lowered = Callable[..., Any]
Text = Callable[..., str]

PLACES = "i = Constant <value = int64[2, 2] {{0, {second}, -1, 0}}> ()"


def model(text: Text, body: str, opset: int = 18, inputs: str = "float[3, 4] x, float[2, 2] u") -> onnx.ModelProto:
    kind = inputs.split("[", 1)[0]
    return onnx.parser.parse_model(text(opset, inputs, body, outputs=f"{kind}[3, 4] y"))


@pytest.mark.parametrize("reduction", ["add", "mul", "max", "min"])
@pytest.mark.parametrize("target", [17, 15, 11, 10, 9])
def test_elements(lowered: Lowered, text: Text, reduction: str, target: int) -> None:
    body = f'{PLACES.format(second=2)} y = ScatterElements <axis = 1, reduction = "{reduction}"> (x, i, u)'
    outcome = lowered(model(text, body), target)
    if target < 16:
        assert "Scatter" + "Elements" * (target > 10) in outcome.ops


@pytest.mark.parametrize("reduction", ["add", "mul", "max", "min"])
@pytest.mark.parametrize("target", [17, 15, 11, 9])
def test_rows(lowered: Lowered, text: Text, reduction: str, target: int) -> None:
    body = f'i = Constant <value = int64[2, 1] {{2, -3}}> () y = ScatterND <reduction = "{reduction}"> (x, i, u)'
    outcome = lowered(model(text, body, inputs="float[3, 4] x, float[2, 4] u"), target)
    assert "ScatterND" in outcome.ops or target < 11


def test_of_integers(lowered: Lowered, text: Text) -> None:
    body = f'{PLACES.format(second=2)} y = ScatterElements <axis = 1, reduction = "add"> (x, i, u)'
    x = np.full((3, 4), 2**31 - 1, np.int32)
    source = model(text, body, inputs="int32[3, 4] x, int32[2, 2] u")
    outcome = lowered(source, 13, feeds={"x": x, "u": np.ones((2, 2), np.int32)})
    assert outcome.results["y"][0, 0] == -(2**31)


def test_without_a_reduction_nothing_is_read(lowered: Lowered, text: Text) -> None:
    body = f'{PLACES.format(second=2)} y = ScatterElements <axis = 1, reduction = "none"> (x, i, u)'
    assert lowered(model(text, body), 13).ops == ["Constant", "ScatterElements"]


@pytest.mark.parametrize(
    ("body", "inputs", "why"),
    [
        # The place 0 is written twice in a row, and by its number from the end.
        (PLACES.format(second=0), "float[3, 4] x, float[2, 2] u", "may be written several times"),
        (PLACES.format(second=-4), "float[3, 4] x, float[2, 2] u", "may be written several times"),
        (PLACES.format(second=2), "float[3, n] x, float[2, 2] u", "may be written several times"),
        ("i = Identity (k)", "float[3, 4] x, float[2, 2] u, int64[2, 2] k", "at places that are computed"),
        (PLACES.format(second=2), "int8[3, 4] x, int8[2, 2] u", "of a type that Add does not take"),
    ],
)
def test_what_is_refused(lowered: Lowered, text: Text, body: str, inputs: str, why: str) -> None:
    body = f'{body} y = ScatterElements <axis = 1, reduction = "add"> (x, i, u)'
    with pytest.raises(ConversionBlocked, match=f"has reduction=add .*{why}"):
        lowered(
            model(text, body, 16, inputs), 15, feeds={} if "n]" not in inputs else {"x": np.ones((3, 4), np.float32)}
        )


def test_largest_in_a_model_of_an_opset_without_it(text: Text) -> None:
    body = f'{PLACES.format(second=2)} y = ScatterElements <axis = 1, reduction = "max"> (x, i, u)'
    source = model(text, body, 18)
    source.opset_import[0].version = 16
    with pytest.raises(ConversionBlocked, match="reduction=max does not exist before opset 18"):
        convert(ir.load(source), 15)
