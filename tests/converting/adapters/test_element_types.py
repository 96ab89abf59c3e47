"""Operators that move or choose elements, of types that the target lacks: bit for bit what they were."""

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

PADS = "p = Constant <value_ints = [0, 1, 1, 2]> ()"
WHOLE = {"int8": np.int8, "uint8": np.uint8, "int16": np.int16, "int32": np.int32, "uint32": np.uint32}


def numbers(kind: str, shape: tuple[int, ...] = (3, 4)) -> np.ndarray[Any, Any]:
    """Return numbers of the whole range of a type, its ends among them."""
    info = np.iinfo(kind)
    drawn = np.random.default_rng(0).integers(info.min, info.max, shape, dtype=kind, endpoint=True)
    drawn.reshape(-1)[:4] = info.min, info.max, info.max - 1, 0
    return drawn


def model(
    text: Text, kind: str, body: str, *, opset: int = 13, dims: str = "3, 4", outputs: str = ""
) -> onnx.ModelProto:
    return onnx.parser.parse_model(text(opset, f"{kind}[{dims}] x", body, outputs=outputs or f"{kind}[n, m] y"))


@pytest.mark.parametrize("kind", ["int32", "uint32", "uint8", "int8", "int64"])
@pytest.mark.parametrize("target", [10, 9, 7])
def test_pad(lowered: Lowered, text: Text, kind: str, target: int) -> None:
    x = numbers(kind)
    assert "Pad" in lowered(model(text, kind, f"{PADS} y = Pad (x, p)"), target, feeds={"x": x}).ops


@pytest.mark.parametrize("mode", ["reflect", "edge"])
@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_pad_in_other_modes(lowered: Lowered, text: Text, mode: str, kind: str) -> None:
    source = model(text, kind, f'{PADS} y = Pad <mode = "{mode}"> (x, p)')
    assert lowered(source, 9, feeds={"x": numbers(kind)}).ops.count("Pad") == 1 + (kind == "int64")


@pytest.mark.parametrize(("kind", "filling"), [("int32", -7), ("int64", -(2**40) - 3), ("uint8", 200), ("int64", 5)])
def test_pad_with_a_number(lowered: Lowered, text: Text, kind: str, filling: int) -> None:
    body = f"{PADS} v = Constant <value = {kind} {{{filling}}}> () y = Pad (x, p, v)"
    outcome = lowered(model(text, kind, body), 9, feeds={"x": numbers(kind)})
    assert outcome.results["y"][0, 0] == filling


def test_long_integers_that_are_sizes_or_places_are_padded_once(lowered: Lowered, text: Text) -> None:
    body = "p = Constant <value_ints = [1, 2]> () a = ArgMax <keepdims = 0> (x) y = Pad (a, p)"
    source = model(text, "float", body, outputs="int64[m] y")
    assert lowered(source, 9).ops.count("Pad") == 1


@pytest.mark.parametrize("target", [12, 9])
def test_pad_of_booleans(lowered: Lowered, text: Text, target: int) -> None:
    source = model(text, "bool", f"{PADS} v = Constant <value = bool {{1}}> () y = Pad (x, p, v)")
    assert lowered(source, target).results["y"][0, 0]


def test_a_number_that_no_attribute_holds(text: Text, lowered: Lowered) -> None:
    body = f"{PADS} v = Constant <value = int64 {{16777217}}> () y = Pad (x, p, v)"
    with pytest.raises(ConversionBlocked, match="pads with 16777217, which is no float32"):
        lowered(model(text, "int64", body), 9)


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_top_k(lowered: Lowered, text: Text, kind: str) -> None:
    """Of long integers only of those that are known to have at most 53 bits."""
    cast = "c = Identity (x)" if kind == "int32" else "c = Cast <to = 7> (x)"
    body = f"k = Constant <value_ints = [3]> () {cast} y, i = TopK <axis = 1> (c, k)"
    source = model(text, "int32", body, outputs=f"{kind}[n, m] y, int64[n, m] i")
    x = np.array([[1, 1, 2**31 - 1, 2**31 - 2], [-5, 3, 3, 3], [-(2**31), 0, 0, -1]], np.int32)
    for target in (10, 9):
        outcome = lowered(source, target, feeds={"x": x})
        assert outcome.results["i"].tolist() == [[2, 3, 0], [1, 2, 3], [1, 2, 3]]


def test_top_k_of_any_long_integers(lowered: Lowered, text: Text) -> None:
    body = "k = Constant <value_ints = [3]> () y, i = TopK <axis = 1> (x, k)"
    source = model(text, "int64", body, outputs="int64[n, m] y, int64[n, m] i")
    with pytest.raises(ConversionBlocked, match=r"does not take tensor\(int64\)"):
        lowered(source, 10)


@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize(
    "operator",
    ["MaxPool <kernel_shape = [2, 2], pads = [1, 1, 1, 1]>", "ReduceMax <axes = [2], keepdims = 1>",
     "ReduceMin <axes = [2, 3], keepdims = 1>"],
)  # fmt: skip
def test_the_largest_of_small_integers(lowered: Lowered, text: Text, kind: str, operator: str) -> None:
    source = model(text, kind, f"y = {operator} (x)", dims="1, 2, 4, 4", outputs=f"{kind}[a, b, c, d] y")
    for target in (11, 9):
        lowered(source, target, feeds={"x": numbers(kind, (1, 2, 4, 4))})


@pytest.mark.parametrize("kind", ["int8", "int32"])
def test_relu_of_integers(lowered: Lowered, text: Text, kind: str) -> None:
    outcome = lowered(model(text, kind, "y = Relu (x)", opset=14), 13, feeds={"x": numbers(kind)})
    assert outcome.ops == ["Cast", "Relu", "Cast"]


def test_booleans_are_reduced_as_integers(lowered: Lowered, text: Text) -> None:
    source = model(text, "bool", "a = Constant <value_ints = [1]> () y = ReduceMax (x, a)", opset=20)
    assert lowered(source, 13).ops[-1] == "Cast"


def test_texts_have_no_wider_type(text: Text) -> None:
    head = "x = Constant <value_strings = ['a', 'b']> () p = Constant <value_ints = [1, 1]> ()"
    source = text(13, "float[1] z", f"{head.replace(chr(39), chr(34))} y = Pad (x, p)", outputs="string[n] y")
    with pytest.raises(ConversionBlocked, match=r"does not take tensor\(string\)"):
        convert(ir.load(onnx.parser.parse_model(source)), 12)


@pytest.mark.parametrize("axes", ["[1]", "[0, 1]"])
def test_an_axis_that_may_be_empty_is_not_reduced_in_another_type(lowered: Lowered, text: Text, axes: str) -> None:
    source = model(text, "uint8", f"y = ReduceMax <axes = {axes}> (x)", dims="3, n")
    with pytest.raises(ConversionBlocked, match=r"does not take tensor\(uint8\)"):
        lowered(source, 11)
    lowered(model(text, "uint8", "y = ReduceMax <axes = [0]> (x)", dims="3, n"), 11)


def test_a_dilated_window_is_not_widened(lowered: Lowered, text: Text) -> None:
    operator = "MaxPool <kernel_shape = [2, 2], dilations = [2, 2]>"
    source = model(text, "int8", f"y = {operator} (x)", dims="1, 2, 4, 4", outputs="int8[a, b, c, d] y")
    with pytest.raises(ConversionBlocked, match=r"does not take tensor\(int8\)"):
        lowered(source, 11)
