"""What opsets below 9 say in another way: constants, broadcasting, and attributes of the first versions."""

from collections.abc import Callable
from typing import Any

import pytest

from bnfold.errors import ConversionBlocked

Converted = Callable[..., Any]
Text = Callable[..., str]
_SPREAD = ["Expand", "Add"]


@pytest.mark.parametrize(
    ("opset", "target", "inputs", "body", "ops"),
    [
        (13, 8, "float[2, 3, 4] x", "s = Constant <value = int64[2] {6, 4}> () y = Reshape (x, s)", ["Reshape"]),
        (13, 8, "float[6] x", "s = Constant <value_ints = [2, 3]> () y = Reshape (x, s)", ["Reshape"]),
        (9, 8, "float x, int64[n] s", "p = ConstantOfShape <value = float[1] {2}> (s) y = Add (x, p)", _SPREAD),
        (9, 8, "float[1] x, int64[n] s", "p = ConstantOfShape (s) y = Sub (x, p)", ["Expand", "Sub"]),
        (
            *(9, 7, "float[2, 3] x"),
            "s = Constant <value = int64[2] {2, 3}> () p = ConstantOfShape <value = float[1] {2}> (s) y = Add (x, p)",
            ["Identity", "Add"],
        ),
        (7, 6, "float[2, 3] x, float[2, 3] z", "y = Add (x, z)", ["Add"]),
        (7, 6, "float[n, 3] x, float[n, 3] z", "y = Sub (x, z)", ["Sub"]),
        (7, 6, "float[2, 3, 4] x, float[3, 4] z", "y = Sub (x, z)", ["Sub"]),
        (7, 6, "float[2, 3, 4] x, float[3, 1] z", "y = Div (x, z)", ["Reshape", "Div"]),
        (7, 6, "float[n, 3, 4] x, float[1, 3, 1] z", "y = Mul (x, z)", ["Reshape", "Mul"]),
        (7, 6, "float[3, 4] x, float[2, 3, 4] z", "y = Add (x, z)", ["Add"]),
        (7, 6, "float[2, 3, 4] x, float z", "y = Pow (x, z)", ["Pow"]),
        (7, 6, "float[2, 3, 4] x, float[1, 1, 1] z", "y = Sub (x, z)", ["Sub"]),
        (7, 1, "float[2, 3, 4] x, float[1, 1] z", "y = Pow (x, z)", ["Pow"]),
        (
            *(7, 6, "float[2, 3, 4] x", "w = Constant <value = float[3, 1] {1, 2, 3}> () y = Mul (x, w)"),
            ["Constant", "Reshape", "Mul"],
        ),
        (7, 6, "float[2, 3, 4] x, float[3, 1] s", "y = PRelu (x, s)", ["Reshape", "PRelu"]),
        (7, 6, "float[2, 3] x, float[3, 4] w, float[4] c", "y = Gemm (x, w, c)", ["Gemm"]),
        (7, 6, "float[2, 3] x, float[3, 4] w, float[1, 4] c", "y = Gemm (x, w, c)", ["Reshape", "Gemm"]),
        (7, 6, "float[2, 3] x, float[3, 4] w, float[2, 4] c", "y = Gemm (x, w, c)", ["Gemm"]),
        (7, 6, "float[2, 3] x, float[3, 4] w, float c", "y = Gemm (x, w, c)", ["Gemm"]),
        (7, 6, "float[2, 3] x", "y = Dropout (x)", ["Dropout"]),
        (6, 5, "float[2, 3] x", "y = Cast <to = 11> (x)", ["Cast"]),
        (6, 5, "float[2, 3] x", "y = Clip <min = -0.5> (x)", ["Clip"]),
        (6, 5, "float[2, 3] x", "y = Selu (x)", ["Selu"]),
        (
            *(5, 4, "float[2, 3] x", "s = Constant <value = int64[2] {3, 2}> () y = Reshape (x, s)"),
            ["Constant", "Reshape"],
        ),
        (5, 4, "float[1] x", "s = Constant <value = int64[0] {}> () y = Reshape (x, s)", ["Constant", "Reshape"]),
        (4, 3, "float[2, 3] x", "y = Concat <axis = 0> (x, x)", ["Concat"]),
        (2, 1, "float[2, 3] x", "y = Pad <pads = [1, 0, 0, 2]> (x)", ["Pad"]),
        (2, 1, "float[4, 3] x", "p, q = Split (x) y = Sub (p, q)", ["Split", "Sub"]),
        (12, 7, "float[1, 1, 8] x", "y, unread = MaxPool <kernel_shape = [2]> (x)", ["MaxPool"]),
    ],
)  # fmt: skip
def test_computes_the_same(
    upgraded: Converted, text: Text, opset: int, target: int, inputs: str, body: str, ops: list[str]
) -> None:
    outputs = "double[] y" if "Cast" in body else "float[] y"
    outcome = upgraded(text(opset, inputs, body, outputs=outputs), target)
    assert outcome.model.opset("") == target
    assert outcome.ops == ops


@pytest.mark.parametrize(
    ("opset", "target", "inputs", "body", "reason"),
    [
        (7, 6, "float[2, 1] x, float[1, 3] z", "y = Add (x, z)", "broadcasts in a way that opset 6 does not have"),
        (7, 6, "float[3] x, float[2, 3] z", "y = Sub (x, z)", "broadcasts in a way"),
        (7, 6, "float[2, 3] x, float[1, 2, 3] z", "y = Sub (x, z)", "broadcasts in a way"),
        (7, 6, "float[n, 3] x, float[m, 3] z", "y = Add (x, z)", "opset 6 has to know how"),
        (7, 6, "float[2, 3] x, float[n] z", "y = Add (x, z)", "opset 6 has to know how"),
        (7, 6, "float[2, 3, 4] x, float[4] s", "y = PRelu (x, s)", "one for each channel"),
        (7, 6, "float[2, 3] x, float[3, 4] w, float[2, 1] c", "y = Gemm (x, w, c)", "broadcasts along columns"),
        (9, 7, "float x, int64[n] s", "p = ConstantOfShape (s) y = Add (x, p)", "its shape .* is not constant"),
        (13, 12, "float[1, 3] x", "a = Constant <value = int64[0] {}> () y = Squeeze (x, a)", "an empty list of axes"),
    ],
)
def test_is_refused(
    upgraded: Converted, text: Text, opset: int, target: int, inputs: str, body: str, reason: str
) -> None:
    with pytest.raises(ConversionBlocked, match=reason):
        upgraded(text(opset, inputs, body), target)


def test_a_constant_that_is_an_output_stays_one(upgraded: Converted, text: Text) -> None:
    body = "y = Constant <value = int64[2] {6, 4}> () z = Relu (x)"
    outcome = upgraded(text(13, "float[2] x", body, outputs="int64[2] y, float[2] z"), 8)
    assert outcome.ops == ["Identity", "Relu"]


@pytest.mark.parametrize(
    ("opset", "inputs", "body"),
    [
        (14, "float[n, 3] x", "y = HardSwish (x)"),
        (18, "float[2, 3] x", "y = Mish (x)"),
        (12, "float[2, n] x", "y = Celu <alpha = 0.5> (x)"),
        (24, "float[2, 3] x", "y = Swish <alpha = 0.5> (x)"),
        (1, "float[2, 3, 4, 5] x", "y = ImageScaler <scale = 0.5, bias = [1.0, -2.0, 3.0]> (x)"),
        (8, "float[2, 3, 4, 5] x", "y = ImageScaler <scale = 0.5, bias = [1.0]> (x)"),
        (8, "float[2, 3] x", "y = Affine <alpha = 0.5, beta = -2.0> (x)"),
        (1, "float[2, 3] x", "y = Affine <alpha = 0.5, beta = -2.0> (x)"),
    ],
)
def test_scalars_state_that_they_broadcast(upgraded: Converted, text: Text, opset: int, inputs: str, body: str) -> None:
    outcome = upgraded(text(opset, inputs, body), 6)
    scaled = [node for node in outcome.model.graph.nodes if node.is_op("Add", "Div", "Mul")]
    assert scaled
    assert all(node.attr("broadcast", 0) for node in scaled if node.inputs[1].is_initializer)
