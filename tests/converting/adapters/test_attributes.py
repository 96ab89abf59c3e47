from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bnfold.errors import ConversionBlocked

Converted = Callable[..., Any]
Text = Callable[..., str]
UNARY = ["Abs", "Ceil", "Elu", "Exp", "Floor", "HardSigmoid", "LeakyRelu", "Neg", "Reciprocal", "Relu", "Selu"]


@pytest.mark.parametrize("op_type", [*UNARY, "Sigmoid", "Tanh"])
@pytest.mark.parametrize("target", [6, 15, 28])
def test_consumed_inputs_mean_nothing(upgraded: Converted, text: Text, op_type: str, target: int) -> None:
    outcome = upgraded(text(1, "float[3, 5] x", f"y = {op_type} <consumed_inputs = [0]> (x)"), target)
    assert outcome.ops == [op_type]


@pytest.mark.parametrize("op_type", ["Sqrt", "Log"])
def test_of_positive_numbers(upgraded: Converted, text: Text, op_type: str) -> None:
    upgraded(text(1, "float[5] x", f"y = {op_type} <consumed_inputs = [0]> (x)"))


@pytest.mark.parametrize("op_type", ["Max", "Min", "Mean", "Sum"])
@pytest.mark.parametrize("target", [6, 8, 15])
def test_lists(upgraded: Converted, text: Text, op_type: str, target: int) -> None:
    call = f"y = {op_type} <consumed_inputs = [0]> (a, b, a)"
    upgraded(text(1, "float[3, 5] a, float[3, 5] b", call), target)


def test_selu_keeps_its_first_defaults(upgraded: Converted, text: Text) -> None:
    node = upgraded(text(1, "float[3, 5] x", "y = Selu (x)")).model.graph.nodes[0]
    assert node.attr("alpha") == pytest.approx(1.6732, rel=1e-7)
    assert node.attr("alpha") != pytest.approx(1.67326, rel=1e-7)


@pytest.mark.parametrize("to", ["DOUBLE", "double", "INT32", "BOOL"])
def test_cast_names_types_by_number(upgraded: Converted, text: Text, to: str) -> None:
    upgraded(text(1, "float[3, 5] x", f'y = Cast <to = "{to}"> (x)', outputs=f"{to.lower()}[] y"))


def test_cast_to_an_unknown_type(upgraded: Converted, text: Text) -> None:
    with pytest.raises(ConversionBlocked, match="unknown type 'QUATERNION'"):
        upgraded(text(1, "float[3] x", 'y = Cast <to = "QUATERNION"> (x)'))


@pytest.mark.parametrize("call", ["GlobalLpPool <p = 3.0>", "GlobalLpPool", "LpPool <kernel_shape = [2], p = 1.0>"])
def test_whole_powers(upgraded: Converted, text: Text, call: str) -> None:
    upgraded(text(1, "float[2, 3, 4] x", f"y = {call} (x)"))


def test_broken_powers(upgraded: Converted, text: Text) -> None:
    with pytest.raises(ConversionBlocked, match=r"p=1.5 is not a whole number"):
        upgraded(text(1, "float[2, 3, 4] x", "y = GlobalLpPool <p = 1.5> (x)"))


def test_scatter_has_another_name(upgraded: Converted, text: Text) -> None:
    source = text(9, "float[4, 3] x, int64[2, 3] i, float[2, 3] u", "y = Scatter <axis = 0> (x, i, u)")
    assert upgraded(source, compare=False).ops == ["ScatterElements"]


@pytest.mark.parametrize(
    ("mode", "now"), [("", "linear"), ('<mode = "bicubic">', "cubic"), ('<mode = "nearest">', "nearest")]
)
def test_grid_sample_modes_are_respelled(upgraded: Converted, text: Text, mode: str, now: str) -> None:
    source = text(16, "float[1, 2, 3, 4] x, float[1, 5, 6, 2] g", f"y = GridSample {mode} (x, g)")
    assert upgraded(source, 20, compare=False).model.graph.nodes[0].attr("mode", "linear") == now


def test_roi_align_keeps_its_pixels(upgraded: Converted, text: Text) -> None:
    source = text(10, "float[1, 2, 8, 8] x, float[3, 4] r, int64[3] b", "y = RoiAlign (x, r, b)")
    node = upgraded(source, 16, compare=False).model.graph.nodes[0]
    assert node.attr("coordinate_transformation_mode") == "output_half_pixel"


@pytest.mark.parametrize(("op_type", "opset", "target"), [("Erf", 9, 13), ("ReduceLogSum", 18, 28)])
def test_withdrawn_types_are_an_error_and_the_others_pass(
    upgraded: Converted, text: Text, op_type: str, opset: int, target: int
) -> None:
    upgraded(text(opset, "float[3, 4] x", f"p = Abs (x) y = {op_type} (p)"), target)
    with pytest.raises(ConversionBlocked, match="does not take int32 tensors"):
        upgraded(text(opset, "int32[3, 4] x", f"y = {op_type} (x)", outputs="int32[] y"), target)


@pytest.mark.parametrize("op_type", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("target", [7, 14, 22])
def test_recurrent_operators_only_lose_a_switch(upgraded: Converted, text: Text, op_type: str, target: int) -> None:
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[op_type] * 2
    inputs = f"float[4, 3, 5] x, float[1, {gates}, 5] w, float[1, {gates}, 2] r"
    outputs = "float[] y, float[] h"
    call = f"y, h = {op_type} <hidden_size = 2, output_sequence = 1> (x, w, r)"
    outcome = upgraded(text(3, inputs, call, outputs=outputs), target, compare=False)
    assert set(outcome.model.graph.nodes[0].attrs) == {"hidden_size"}


@pytest.mark.parametrize("op_type", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("outputs", ["y", "y, h", ", h"])
def test_recurrent_operators_say_that_they_make_a_sequence(
    upgraded: Converted, text: Text, op_type: str, outputs: str
) -> None:
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[op_type] * 2
    inputs = f"float[4, 3, 5] x, float[1, {gates}, 5] w, float[1, {gates}, 2] r"
    listed = ", ".join(f"float[] {name}" for name in outputs.replace(",", " ").split())
    source = text(14, inputs, f"{outputs} = {op_type} <hidden_size = 2> (x, w, r)", outputs=listed)
    outcome = upgraded(source, 6)
    assert outcome.model.graph.nodes[0].attr("output_sequence", 0) == ("y" in outputs)


def test_a_misspelled_direction_of_gru_1(upgraded: Converted, text: Text) -> None:
    inputs = "float[4, 3, 5] x, float[1, 6, 5] w, float[1, 6, 2] r"
    call = 'y, h = GRU <hidden_size = 2, direction = "foward"> (x, w, r)'
    outcome = upgraded(text(1, inputs, call, outputs="float[] y, float[] h"), compare=False)
    assert outcome.model.graph.nodes[0].attr("direction") == "forward"


def test_integers_are_quantised_as_floats(upgraded: Converted, text: Text) -> None:
    source = text(13, "int32[3, 4] x, float s, uint8 z", "y = QuantizeLinear (x, s, z)", outputs="uint8[] y")
    assert upgraded(source, 19, compare=False).ops == ["Cast", "QuantizeLinear"]
    assert upgraded(source.replace("int32", "float"), 19, compare=False).ops == ["QuantizeLinear"]


@pytest.mark.parametrize("mode", ["", "linear", "nearest", "cubic"])
def test_flat_grid(lowered: Converted, text: Text, mode: str) -> None:
    attrs = f'<mode = "{mode}">' if mode else ""
    source = text(20, "float[1, 2, 4, 5] x, float[1, 3, 2, 2] g", f"y = GridSample {attrs} (x, g)")
    assert lowered(source, 16).ops == ["GridSample"]


def test_a_grid_of_three_axes_is_decomposed(lowered: Converted, text: Text) -> None:
    source = text(20, "float[1, 2, 3, 4, 5] x, float[1, 3, 2, 2, 3] g", "y = GridSample (x, g)")
    assert "GridSample" not in lowered(source, 16).ops


def test_roi_align_without_a_mode(lowered: Converted, text: Text) -> None:
    inputs = "float[1, 2, 8, 8] x, float[1, 4] r, int64[1] b"
    body = "y = RoiAlign <output_height = 2, output_width = 2{}> (x, r, b)"
    feeds = {"r": np.array([[1, 1, 5, 6]], np.float32), "b": np.array([0])}
    mode = ', coordinate_transformation_mode = "output_half_pixel"'
    lowered(text(16, inputs, body.format(mode)), 13, feeds=feeds)
    with pytest.raises(ConversionBlocked, match="coordinate_transformation_mode=half_pixel does not exist"):
        lowered(text(16, inputs, body.format("")), 13, feeds=feeds)


def test_quantization_in_float(lowered: Converted, text: Text) -> None:
    source = text(19, "float[2, 3] x, float s, uint8 z", "y = QuantizeLinear (x, s, z)", outputs="uint8[] y")
    lowered(source, 13, feeds={"s": np.array(0.25, np.float32)})
    half = text(19, "float16[2, 3] x, float16 s, uint8 z", "y = QuantizeLinear (x, s, z)", outputs="uint8[] y")
    with pytest.raises(ConversionBlocked, match=r"reads tensor\(float16\)"):
        lowered(half, 13, feeds={"s": np.array(0.25, np.float16)})
