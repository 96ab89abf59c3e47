from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

import bnfold
from bnfold import reference
from bnfold.errors import ConversionBlocked

Converted = Callable[..., Any]
Text = Callable[..., str]

SHAPES = [
    ("2, 3, 4, 5", "5", None),
    ("2, 3, 4, 5", "4, 5", None),
    ("2, 3, 4, 5", "1", None),
    ("2, 3, 4, 5", "", None),
    ("2, 3, 4, 5", "1, 1", None),
    ("5", "1, 1", None),
    ("2, 3, 4, 5", "3, 4", 1),
    ("2, 3, 4, 5", "3", 1),
    ("2, 3, 4, 5", "2", 0),
    ("2, 3, 4, 5", "4, 5", 2),
    ("2, 3, 4, 5", "3", -3),
    ("2, 3, 4, 5", "1", 1),
    ("n, 3, h, w", "3", 1),
    ("n, 3, 4", "n, 3", 0),
    ("3, 3, 3", "3", 0),
    ("3, 3, 3", "3", 1),
]


def operands(kind: str, left: str, right: str) -> str:
    """The text form of two inputs; without dims a scalar."""
    return ", ".join(
        f"{kind}[{dims}] {name}" if dims else f"{kind} {name}" for name, dims in (("a", left), ("b", right))
    )


@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Div"])
@pytest.mark.parametrize(("left", "right", "axis"), SHAPES)
@pytest.mark.parametrize("opset", [1, 6])
def test_arithmetic(
    upgraded: Converted, text: Text, op_type: str, left: str, right: str, axis: int | None, opset: int
) -> None:
    attrs = "broadcast = 1" if axis is None else f"broadcast = 1, axis = {axis}"
    outcome = upgraded(text(opset, operands("float", left, right), f"y = {op_type} <{attrs}> (a, b)"))
    assert "Shape" not in outcome.ops
    assert not outcome.model.graph.nodes[-1].attrs


@pytest.mark.parametrize("op_type", ["And", "Or", "Xor"])
@pytest.mark.parametrize(("left", "right", "axis"), SHAPES)
def test_logic(upgraded: Converted, text: Text, op_type: str, left: str, right: str, axis: int | None) -> None:
    attrs = "broadcast = 1" if axis is None else f"broadcast = 1, axis = {axis}"
    call = f"y = {op_type} <{attrs}> (a, b)"
    upgraded(text(1, operands("bool", left, right), call, outputs="bool[] y"))


@pytest.mark.parametrize(("op_type", "kind"), [("Greater", "float"), ("Less", "float"), ("Equal", "int32")])
@pytest.mark.parametrize(("left", "right", "axis"), SHAPES)
def test_comparison(
    upgraded: Converted, text: Text, op_type: str, kind: str, left: str, right: str, axis: int | None
) -> None:
    attrs = "broadcast = 1" if axis is None else f"broadcast = 1, axis = {axis}"
    call = f"y = {op_type} <{attrs}> (a, b)"
    upgraded(text(1, operands(kind, left, right), call, outputs="bool[] y"))


def test_power(upgraded: Converted, text: Text) -> None:
    upgraded(text(1, "float[3] a, float[3] b", "y = Pow <broadcast = 1, axis = 0> (a, b)"))


def test_without_broadcast_the_attributes_mean_nothing(upgraded: Converted, text: Text) -> None:
    outcome = upgraded(text(6, "float[2, 3] a, float[2, 3] b", "y = Add <axis = 1> (a, b)"))
    assert outcome.ops == ["Add"]


def test_a_constant_is_stored_in_its_new_dims_under_its_own_name(upgraded: Converted, text: Text) -> None:
    call = "<float[3] b = {1, 2, 3}> { y = Add <broadcast = 1, axis = 1> (a, b) }"
    proto = text(6, "float[2, 3, 4, 5] a", "").removesuffix("{  }") + call
    outcome = upgraded(proto)
    assert outcome.ops == ["Add"]
    assert outcome.model.graph.values["b"].shape == (3, 1, 1)


def test_a_constant_with_other_readers_stays(upgraded: Converted, text: Text) -> None:
    calls = "y = Add <broadcast = 1, axis = 1> (a, b) z = Add <broadcast = 1, axis = 3> (a, b)"
    head = text(6, "float[3, 3, 2, 3] a", "", outputs="float[] y, float[] z").removesuffix("{  }")
    outcome = upgraded(f"{head} <float[3] b = {{1, 2, 3}}> {{ {calls} }}")
    assert outcome.ops == ["Add", "Add"]
    assert outcome.model.graph.values["b"].shape == (3,)


def test_a_shape_follows_through_nodes_without_annotation(upgraded: Converted, text: Text) -> None:
    body = """p = Transpose <perm = [0, 2, 1]> (a)
              q = MaxPool <kernel_shape = [2]> (p)
              r = Concat <axis = 0> (q, q)
              y = Mul <broadcast = 1, axis = 0> (r, b)"""
    upgraded(text(6, "float[3, 4, 5] a, float[6] b", body))


def test_an_unknown_rank_is_an_error_that_names_the_node(upgraded: Converted, text: Text) -> None:
    body = "p = Reshape (a, s) y = Add <broadcast = 1, axis = 1> (p, b)"
    with pytest.raises(ConversionBlocked, match=r"Add \('y'\): the rank of 'p' is not known"):
        upgraded(text(6, "float[2, 3, 4] a, int64[k] s, float[3] b", body))


def test_an_axis_without_room_is_an_error(upgraded: Converted, text: Text) -> None:
    with pytest.raises(ConversionBlocked, match="leaves no room"):
        upgraded(text(6, "float[2, 3] a, float[2, 3] b", "y = Add <broadcast = 1, axis = 1> (a, b)"))


@pytest.mark.parametrize(
    ("shape", "slope"), [("2, 3, 4, 5", "3"), ("3, 3, 3", "3"), ("2, 3", "3"), ("2, 3, 4", "1"), ("n, 3, h", "3")]
)
@pytest.mark.parametrize("opset", [1, 6])
def test_a_slope_belongs_to_the_channels(upgraded: Converted, text: Text, opset: int, shape: str, slope: str) -> None:
    upgraded(text(opset, f"float[{shape}] x, float[{slope}] s", "y = PRelu (x, s)"))


def test_a_slope_that_only_fits_the_channels_after_version_7(upgraded: Converted, text: Text) -> None:
    outcome = upgraded(text(8, "float[2, 3, 4, 5] x, float[3] s", "y = PRelu (x, s)"), compare=False)
    meant = upgraded(text(6, "float[2, 3, 4, 5] x, float[3] s", "y = PRelu (x, s)"))
    assert outcome.repairs == ["channel-slope"]
    np.testing.assert_array_equal(reference.evaluate(outcome.model, meant.feeds)["y"], meant.results["y"])


@pytest.mark.parametrize(("shape", "slope"), [("2, 3, 4, 3", "3"), ("2, 3, 4, w", "3"), ("2, 3, 4, 5", "5")])
def test_a_slope_that_fits_the_last_axis_stays_there(upgraded: Converted, text: Text, shape: str, slope: str) -> None:
    outcome = upgraded(text(8, f"float[{shape}] x, float[{slope}] s", "y = PRelu (x, s)"), compare=False)
    assert outcome.ops == ["PRelu"]
    assert not outcome.repairs


@pytest.mark.parametrize("shape", ["4, 5", "5", "1, 5"])
def test_gemm_bias(upgraded: Converted, text: Text, shape: str) -> None:
    call = "y = Gemm <broadcast = 1, alpha = 0.5, beta = 2.0, transB = 1> (a, b, c)"
    outcome = upgraded(text(6, f"float[4, 3] a, float[5, 3] b, float[{shape}] c", call))
    assert outcome.ops == ["Gemm"]


def test_an_axis_that_is_not_there_is_refused() -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 3, opset_import: ["" : 6]> g (float[2,3] x, float[3] z) => (float[2,3] y) '
        "{ y = Add <broadcast = 1, axis = -9223372036854775808> (x, z) }"
    )
    with pytest.raises(ConversionBlocked, match="there is no axis"):
        bnfold.upgrade(proto)
