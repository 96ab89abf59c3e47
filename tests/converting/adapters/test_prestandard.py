from collections.abc import Callable
from typing import Any

import pytest

from bnfold.errors import ConversionBlocked

Converted = Callable[..., Any]
Text = Callable[..., str]


@pytest.mark.parametrize(
    ("shape", "call"),
    [
        ("2, 3, 4, 5", "ImageScaler <scale = 0.5, bias = [1.0, -2.0, 3.0]>"),
        ("2, 3, 4, 5", "ImageScaler <bias = [1.0, -2.0, 3.0]>"),
        ("n, 3, 4, 5", "Affine <alpha = 0.5, beta = -2.0>"),
        ("2, 3", "Affine"),
        ("2, 3", "Scale <scale = -0.5>"),
        ("2, 3, 8, 9", "Crop <border = [1, 2, 3, 0]>"),
        ("2, 3, 8, 9", "Crop <border = [1, 2, 0, 0], scale = [3, 4]>"),
        ("2, 3", "ParametricSoftplus <alpha = 0.5, beta = -2.0>"),
        ("2, 3", "ScaledTanh <alpha = 0.5, beta = -2.0>"),
    ],
)
@pytest.mark.parametrize("opset", [1, 6])
@pytest.mark.parametrize("target", [9, 15, 28])
def test_in_standard_operators(upgraded: Converted, text: Text, shape: str, call: str, opset: int, target: int) -> None:
    outcome = upgraded(text(opset, f"float[{shape}] x", f"y = {call} (x)"), target)
    assert call.split(maxsplit=1)[0] not in outcome.ops
    assert not outcome.report.passed


@pytest.mark.parametrize(
    "attrs", ["shape = [2, 3], value = 1.5", "shape = [2], extra_shape = [3], dtype = 7, value = 2.0"]
)
def test_constant_fill(upgraded: Converted, text: Text, attrs: str) -> None:
    kind = "int64" if "dtype" in attrs else "float"
    outcome = upgraded(text(1, "float[2] x", f"y = ConstantFill <{attrs}> ()", outputs=f"{kind}[] y"))
    assert "ConstantOfShape" in outcome.ops


@pytest.mark.parametrize("as_shape", [0, 1])
def test_constant_fill_by_an_input(upgraded: Converted, text: Text, as_shape: int) -> None:
    call = f"y = ConstantFill <input_as_shape = {as_shape}, value = 2.0> (x)"
    upgraded(text(1, "int64[3] x", call))


def test_given_tensor_fill(upgraded: Converted, text: Text) -> None:
    source = text(1, "float[2] x", "y = GivenTensorFill <shape = [2, 2], values = [1.0, 2.0, 3.0, 4.0]> ()")
    outcome = upgraded(source, compare=False)
    assert outcome.ops == ["Constant"]
    assert outcome.model.graph.nodes[0].attr("value").dims == [2, 2]


@pytest.mark.parametrize("shape", ["4, 6", "4, 2, 3"])
def test_fully_connected(upgraded: Converted, text: Text, shape: str) -> None:
    outcome = upgraded(text(1, f"float[{shape}] x, float[5, 6] w, float[5] b", "y = FC (x, w, b)"), compare=False)
    assert outcome.ops == (["Gemm"] if shape == "4, 6" else ["Flatten", "Gemm"])


def test_another_operator_of_the_same_name_passes_untouched(upgraded: Converted, text: Text) -> None:
    outcome = upgraded(text(1, "float[2, 3] x", "y = Crop <region = 3> (x)"), compare=False)
    assert outcome.ops == ["Crop"]
    assert outcome.report.passed == {"ai.onnx::Crop": 1}


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("Crop <border = [1, 2]> (x)", "no border of four sides"),
        ("FC <axis = 2> (x, x, x)", "only 1 is known"),
        ("GivenTensorFill <shape = [2]> ()", "no fixed shape and values"),
        ("MeanVarianceNormalization (x)", "averages over other axes"),
    ],
)
def test_what_has_no_exact_equivalent(upgraded: Converted, text: Text, call: str, reason: str) -> None:
    with pytest.raises(ConversionBlocked, match=reason):
        upgraded(text(1, "float[2, 3] x", f"y = {call}"))
