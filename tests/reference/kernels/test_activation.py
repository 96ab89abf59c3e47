"""Functions of one tensor, at points where their formulas break naively."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import pytest

from bnfold import ir, reference
from tests.reference.models import compute, floats

BIG = np.array([-800.0, -1.0, 0.0, 1.0, 800.0], np.float32)


def test_no_overflow_where_the_result_is_finite() -> None:
    np.testing.assert_allclose(
        compute("Sigmoid", 13, [BIG]), [0, 1 / (1 + math.e), 0.5, math.e / (1 + math.e), 1], rtol=1e-15
    )
    np.testing.assert_allclose(
        compute("Softplus", 1, [BIG]), [0, math.log1p(math.exp(-1)), math.log(2), math.log1p(math.e), 800]
    )
    assert np.isfinite(compute("Elu", 6, [BIG])).all()
    assert np.isfinite(compute("Selu", 6, [BIG])).all()
    assert np.isfinite(compute("Celu", 12, [BIG])).all()
    np.testing.assert_allclose(compute("Softmax", 13, [BIG]), [0, 0, 0, 0, 1])
    np.testing.assert_allclose(compute("LogSoftmax", 13, [BIG]), [-1600, -801, -800, -799, 0])


@pytest.mark.parametrize(
    ("op", "opset", "attrs", "expected"),
    [
        ("LeakyRelu", 6, {}, lambda x: x if x >= 0 else float(np.float32(0.01)) * x),
        ("Elu", 6, {"alpha": 0.5}, lambda x: x if x >= 0 else 0.5 * (math.exp(x) - 1)),
        (
            "Selu",
            1,
            {},
            lambda x: float(np.float32(1.0507)) * (x if x > 0 else float(np.float32(1.6732)) * math.expm1(x)),
        ),
        ("Selu", 6, {"alpha": 2.0, "gamma": 3.0}, lambda x: 3 * (x if x > 0 else 2 * math.expm1(x))),
        ("Celu", 12, {"alpha": 2.0}, lambda x: max(x, 0) + min(0, 2 * math.expm1(x / 2))),
        ("HardSigmoid", 6, {}, lambda x: max(0, min(1, float(np.float32(0.2)) * x + 0.5))),
        ("HardSwish", 14, {}, lambda x: x * max(0, min(1, x * float(np.float32(1 / 6)) + 0.5))),
        ("ThresholdedRelu", 10, {"alpha": 0.5}, lambda x: x if x > 0.5 else 0),
        ("Shrink", 9, {"bias": 0.25, "lambd": 0.5}, lambda x: x + 0.25 if x < -0.5 else x - 0.25 if x > 0.5 else 0),
        ("Softsign", 1, {}, lambda x: x / (1 + abs(x))),
        ("Mish", 18, {}, lambda x: x * math.tanh(math.log1p(math.exp(x)))),
        ("Gelu", 20, {}, lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2)))),
        ("Erf", 13, {}, math.erf),
        ("Swish", 24, {"alpha": 0.5}, lambda x: x / (1 + math.exp(-0.5 * x))),
    ],
)
def test_formula(op: str, opset: int, attrs: dict[str, Any], expected: Any) -> None:
    x = floats(1, 3, 7) * 2
    wanted = [[expected(float(value)) for value in row] for row in x]
    np.testing.assert_allclose(compute(op, opset, [x], **attrs), wanted, rtol=1e-14, atol=1e-16)


@pytest.mark.parametrize("opset", [12, 28])
def test_celu_of_a_scalar_is_one(opset: int) -> None:
    """The function in its text makes a list of it."""
    assert compute("Celu", opset, [np.array(-1.0, np.float32)]).shape == ()


def test_round_takes_halves_to_even() -> None:
    assert compute("Round", 11, [np.array([0.5, 1.5, 2.5, -0.5, -1.5], np.float32)]).tolist() == [0, 2, 2, 0, -2]


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("axis", [0, 1, 2, 3])
def test_softmax_before_13_runs_over_all_later_axes(op: str, axis: int) -> None:
    x = floats(1, 2, 3, 4, 5)
    early = compute(op, 11, [x], axis=axis)
    flat = x.reshape(math.prod(x.shape[:axis]), -1)
    np.testing.assert_allclose(early, compute(op, 13, [flat], axis=-1).reshape(x.shape), rtol=1e-14)
    if axis < 3:
        assert not np.allclose(early, compute(op, 13, [x], axis=axis))


def test_softmax_defaults_changed_with_version_13() -> None:
    x = floats(1, 2, 3, 4)
    np.testing.assert_allclose(compute("Softmax", 11, [x]).sum((1, 2)), [1, 1])
    np.testing.assert_allclose(compute("Softmax", 13, [x]).sum(2), np.ones((2, 3)))


def test_clip_by_attributes_by_inputs_and_with_crossed_bounds() -> None:
    x, low, high = floats(1, 20), np.array(-0.5, np.float32), np.array(0.25, np.float32)
    expected = np.clip(x, -0.5, 0.25)
    np.testing.assert_array_equal(compute("Clip", 6, [x], min=-0.5, max=0.25), expected)
    np.testing.assert_array_equal(compute("Clip", 11, [x, low, high]), expected)
    np.testing.assert_array_equal(compute("Clip", 11, [x, None, high]), np.minimum(x, 0.25))
    np.testing.assert_array_equal(compute("Clip", 13, [x, high, low]), np.full(20, -0.5))


def test_clip_keeps_nan() -> None:
    assert np.isnan(compute("Clip", 6, [np.array([np.nan], np.float32)], min=0.0, max=1.0)).all()


def test_an_unknown_approximation_is_refused() -> None:
    with pytest.raises(reference.CannotEvaluate, match="approximate"):
        compute("Gelu", 20, [floats(1, 3)], approximate="quick")


@pytest.mark.parametrize(
    ("inputs", "body", "expected"),
    [
        ("float[1] x", "m = Mul (x, c)", {"Floor": 7, "Ceil": 7, "Round": 7, "Cast": 7}),
        (
            "int32[1] i",
            "f = Cast <to = 1> (i) d = Div (f, c) m = Mul (d, c)",
            {"Floor": 7, "Ceil": 7, "Round": 7, "Cast": 7},
        ),
        ("uint8[1] q", "d = DequantizeLinear (q, s) m = Mul (d, c)", {"Floor": 7, "Ceil": 7, "Round": 7, "Cast": 7}),
        ("float[1] x, bool b", "w = Where (b, x, x) m = Mul (w, c)", {"Floor": 7, "Ceil": 7, "Round": 7, "Cast": 7}),
        ("double[1] x", "e = Cast <to = 11> (c) m = Mul (x, e)", {"Floor": 6, "Ceil": 7, "Round": 7, "Cast": 6}),
    ],
)
@pytest.mark.parametrize("op_type", ["Floor", "Ceil", "Round", "Cast"])
def test_what_becomes_an_integer_is_rounded_to_its_type_before(
    inputs: str, body: str, expected: dict[str, int], op_type: str
) -> None:
    """0.7 · 10 is 7 in float32, and 6.99999988 if the product is not rounded."""
    kind = "double" if "double" in inputs else "float"
    text = f'<ir_version: 8, opset_import: ["" : 13]> g ({inputs}) => ({kind}[1] y) {{ {body} y = {op_type} (m) }}'
    if op_type == "Cast":
        text = text.replace(f"({kind}[1] y)", "(int64[1] y)").replace("Cast (m)", "Cast <to = 7> (m)")
    source = onnx.parser.parse_model(text)
    tenth = np.float32(0.7)
    stored = {"c": np.float32(10), "s": tenth}
    source.graph.initializer.extend(onnx.numpy_helper.from_array(np.asarray(n), name) for name, n in stored.items())
    numbers: dict[str, Any] = {
        "x": np.array([tenth], np.float64 if kind == "double" else np.float32),
        "i": np.array([7], np.int32),
        "q": np.array([1], np.uint8),
        "b": np.array(True),
    }
    model = ir.load(source)
    feeds = {value.name: numbers[value.name] for value in model.graph.inputs if not value.is_initializer}
    assert reference.evaluate(model, feeds)["y"].tolist() == [expected[op_type]]
