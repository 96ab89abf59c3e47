"""Operators that the target does not have, in terms of others: the same numbers in onnxruntime, or a reason."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

from bnfold import ir, reference
from bnfold.errors import ConversionBlocked

Converted = Callable[..., Any]
Text = Callable[..., str]


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("target", [19, 13, 9])
def test_gelu(lowered: Converted, text: Text, approximate: str, target: int) -> None:
    source = text(20, "float[2, n, 4] x", f'y = Gelu <approximate = "{approximate}"> (x)')
    lowered(source, target, feeds={"x": np.linspace(-9, 9, 40).reshape(2, 5, 4).astype(np.float32)})


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_of_double(upgraded: Converted, text: Text, approximate: str) -> None:
    source = text(20, "double[40] x", f'y = Gelu <approximate = "{approximate}"> (x)', outputs="double[40] y")
    upgraded(source, 13, feeds={"x": np.linspace(-9, 9, 40)})


def test_gelu_without_erf(lowered: Converted, text: Text) -> None:
    with pytest.raises(ConversionBlocked, match="needs Erf: does not exist before opset 9"):
        lowered(text(20, "float[2, 3] x", "y = Gelu (x)"), 8)


@pytest.mark.parametrize(("opset", "op_type"), [(14, "HardSwish"), (22, "HardSwish"), (18, "Mish"), (22, "Mish")])
@pytest.mark.parametrize("shape", ["40", "2, n, 4"])
@pytest.mark.parametrize("target", [13, 11, 7])
def test_activations(lowered: Converted, text: Text, opset: int, op_type: str, shape: str, target: int) -> None:
    source = text(opset, f"float[{shape}] x", f"y = {op_type} (x)")
    values = np.linspace(-9, 9, 40).astype(np.float32).reshape((40,) if shape == "40" else (2, 5, 4))
    assert "If" not in lowered(source, target, feeds={"x": values}).ops


@pytest.mark.parametrize("alpha", ["", "<alpha = 1.0>", "<alpha = 2.5>", "<alpha = 0.25>"])
@pytest.mark.parametrize("target", [11, 7])
def test_celu(lowered: Converted, text: Text, alpha: str, target: int) -> None:
    lowered(text(12, "float[2, 3] x", f"y = Celu {alpha} (x)"), target)


def test_celu_of_a_negative_alpha(lowered: Converted, text: Text) -> None:
    with pytest.raises(ConversionBlocked, match=r"has alpha=-1"):
        lowered(text(12, "float[2, 3] x", "y = Celu <alpha = -1.0> (x)"), 11)


@pytest.mark.parametrize("op_type", ["GreaterOrEqual", "LessOrEqual"])
@pytest.mark.parametrize("kind", ["float", "double", "int32", "int64"])
@pytest.mark.parametrize("opset", [12, 16])
def test_comparisons(lowered: Converted, text: Text, op_type: str, kind: str, opset: int) -> None:
    source = text(opset, f"{kind}[4] x, {kind}[3, 4] z", f"y = {op_type} (x, z)", outputs="bool[] y")
    dtype = np.dtype(kind) if kind != "float" else np.dtype(np.float32)
    values = np.array([1, 2, 3, 4]) if dtype.kind == "i" else np.array([np.nan, np.inf, -np.inf, 1])
    others = np.stack([values, values[::-1], np.array([0, 2, 9, 1])])
    lowered(source, 11, feeds={"x": values.astype(dtype), "z": others.astype(dtype)})


@pytest.mark.parametrize("op_type", ["GreaterOrEqual", "LessOrEqual"])
@pytest.mark.parametrize("target", [10, 9, 8, 7])
def test_comparisons_of_floats_below_opset_11(lowered: Converted, text: Text, op_type: str, target: int) -> None:
    source = text(12, "float[6] x, float[6] z", f"y = {op_type} (x, z)", outputs="bool[] y")
    numbers = np.array([np.nan, np.inf, -np.inf, 1, 2, 0], np.float32)
    lowered(source, target, feeds={"x": numbers, "z": np.array([1, np.inf, np.nan, 2, 1, -0.0], np.float32)})


@pytest.mark.parametrize(("opset", "target"), [(15, 14), (19, 14), (15, 9)])
@pytest.mark.parametrize("kind", ["int32", "float16", "bool"])
def test_cast_like(lowered: Converted, text: Text, opset: int, target: int, kind: str) -> None:
    source = text(opset, f"float[2, 3] x, {kind}[1] like", "y = CastLike (x, like)", outputs=f"{kind}[] y")
    assert lowered(source, target).ops == ["Cast"]


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("diagonal", ["", "0", "2", "-1", "fed"])
@pytest.mark.parametrize("shape", ["3, 4", "2, 4, 3", "2, n, 4", "2, n, m"])
@pytest.mark.parametrize("target", [13, 11, 9])
def test_trilu(lowered: Converted, text: Text, upper: int, diagonal: str, shape: str, target: int) -> None:
    body = f"y = Trilu <upper = {upper}> (x{', k' if diagonal else ''})"
    source = text(14, f"float[{shape}] x{', int64 k' if diagonal == 'fed' else ''}", body)
    if diagonal not in ("", "fed"):
        source = source.replace(") { ", f") <int64 k = {{{diagonal}}}> {{ ", 1)
    assert "If" not in lowered(source, target).ops


@pytest.mark.parametrize("kind", ["double", "int64", "bool"])
def test_trilu_of_other_types(lowered: Converted, text: Text, kind: str) -> None:
    source = text(14, f"{kind}[2, 3, 4] x", "y = Trilu (x)", outputs=f"{kind}[] y")
    assert len(lowered(source, 9).ops) == 1


def test_trilu_keeps_infinities(lowered: Converted, text: Text) -> None:
    lowered(text(14, "float[2, 2] x", "y = Trilu (x)"), 13, feeds={"x": np.full((2, 2), -np.inf, np.float32)})


def test_trilu_of_open_sizes_needs_range(lowered: Converted, text: Text) -> None:
    with pytest.raises(ConversionBlocked, match="needs Range: needs NonZero: does not exist before opset 9"):
        lowered(text(14, "float[n, n] x", "y = Trilu (x)"), 8)


HALVES = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997, -0.49999997, 8388609.0, -4194304.5, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("target", [10, 9])
@pytest.mark.parametrize("dtype", ["float", "double"])
def test_round(lowered: Converted, text: Text, dtype: str, target: int) -> None:
    source = text(11, f"{dtype}[n] x", "y = Round (x)", outputs=f"{dtype}[n] y")
    numbers = np.array([*HALVES, 0.0, -0.0, -0.3, 7.5, 0.3], np.float32 if dtype == "float" else np.float64)
    assert lowered(source, target, feeds={"x": numbers}).ops[-1] == "Where"


@pytest.mark.parametrize("how", ["", "<detect_negative = 0>", "<detect_positive = 0>",
                                 "<detect_negative = 0, detect_positive = 0>"])  # fmt: skip
@pytest.mark.parametrize("dtype", ["float", "double"])
def test_is_inf(lowered: Converted, text: Text, how: str, dtype: str) -> None:
    source = text(10, f"{dtype}[6] x", f"y = IsInf {how} (x)", outputs="bool[6] y")
    kind = np.float32 if dtype == "float" else np.float64
    limit = np.finfo(kind).max
    lowered(source, 9, feeds={"x": np.array([np.inf, -np.inf, np.nan, 0, limit, -limit], kind)})


@pytest.mark.parametrize("target", [19, 10, 9])
def test_is_inf_of_halves(lowered: Converted, text: Text, target: int) -> None:
    source = text(20, "float16[4] x", "y = IsInf (x)", outputs="bool[4] y")
    lowered(source, target, feeds={"x": np.array([np.inf, -np.inf, np.nan, 65504], np.float16)})


@pytest.mark.parametrize("alpha", ["", "<alpha = -0.5>"])
def test_thresholded_relu(lowered: Converted, text: Text, alpha: str) -> None:
    numbers = np.array([np.inf, -np.inf, 1, 1.5, -0.5, 0], np.float32)
    lowered(text(10, "float[6] x", f"y = ThresholdedRelu {alpha} (x)"), 9, feeds={"x": numbers})


@pytest.mark.parametrize("alpha", [0.2946594, 0.29467, -0.2946594, 0.5, 1e-9, -1e-9])
def test_a_threshold_between_two_halves(lowered: Converted, text: Text, alpha: float) -> None:
    """The half next to alpha may be above it: rounded to the nearest, alpha would not be below it any more."""
    near = np.float16(alpha)
    below, above = (np.nextafter(near, np.float16(end)) for end in (-np.inf, np.inf))
    numbers = np.array([below, near, above, 0], np.float16)
    lowered(
        text(10, "float16[4] x", f"y = ThresholdedRelu <alpha = {alpha:.9f}> (x)", outputs="float16[4] y"),
        9,
        feeds={"x": numbers},
    )


@pytest.mark.parametrize("alpha", [70000, -70000])
def test_a_threshold_beyond_all_halves(lowered: Converted, text: Text, alpha: int) -> None:
    numbers = np.array([-np.inf, np.inf, 65504, -65504], np.float16)
    source = text(10, "float16[4] x", f"y = ThresholdedRelu <alpha = {alpha}.0> (x)", outputs="float16[4] y")
    lowered(source, 9, feeds={"x": numbers})


@pytest.mark.parametrize("op_type", ["Round", "ThresholdedRelu"])
def test_below_where(lowered: Converted, text: Text, op_type: str) -> None:
    with pytest.raises(ConversionBlocked, match="opset"):
        lowered(text(11, "float[2] x", f"y = {op_type} (x)"), 8)


@pytest.mark.parametrize(
    ("opset", "body"),
    [
        (14, "y = Trilu (x)"),
        (18, "p, q, y = Split <num_outputs = 3> (x)"),
        (13, "e = Constant <value_ints = [6]> () s = Constant <value_ints = [1]> () y = Slice (x, s, e)"),
    ],
)
def test_a_size_that_is_declared_as_0_may_be_any(upgraded: Converted, text: Text, opset: int, body: str) -> None:
    feeds = {"x": np.arange(28, dtype=np.float32).reshape(7, 4)}
    assert upgraded(text(opset, "float[0, 4] x", body), 11 if opset > 13 else 9, feeds=feeds).results["y"].any()


def test_what_needs_a_size_does_not_take_0_for_one(upgraded: Converted, text: Text) -> None:
    stored = " ".join(
        f"{name} = Constant <value_ints = [{value}]> ()" for name, value in zip("bead", (0, 9, 0, 2), strict=True)
    )
    with pytest.raises(ConversionBlocked, match="an axis of unknown size"):
        upgraded(text(13, "float[0, 4] x", f"{stored} y = Slice (x, b, e, a, d)"), 9)


def test_the_constant_of_gelu_is_the_operators_own(upgraded: Converted, text: Text) -> None:
    source = text(20, "double[2, 9] x", 'y = Gelu <approximate = "tanh"> (x)', outputs="double[2, 9] y")
    outcome = upgraded(source, 13)
    expected = reference.evaluate(ir.load(onnx.parser.parse_model(source)), outcome.feeds)["y"]
    np.testing.assert_allclose(outcome.results["y"], expected, rtol=1e-13)
