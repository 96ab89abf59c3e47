from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from bnfold.errors import ConversionBlocked

Lowered = Callable[..., Any]
Text = Callable[..., str]


@pytest.mark.parametrize("target", [12, 11])
def test_an_axis_before_version_13(lowered: Lowered, text: Text, target: int) -> None:
    body = """s = Constant <value = float[3] {0.05, 0.5, 2.0}> () z = Constant <value = uint8[3] {120, 128, 3}> ()
    q = QuantizeLinear <axis = 1> (x, s, z) y = DequantizeLinear <axis = 1> (q, s, z)"""
    made = lowered(
        text(13, "float[2, 3, 4] x", body),
        target,
        feeds={"x": np.linspace(-300, 300, 24, dtype=np.float32).reshape(2, 3, 4)},
    )
    assert "QuantizeLinear" not in made.ops


@pytest.mark.parametrize("target", [17, 11])
@pytest.mark.parametrize("kind", ["uint16", "int16"])
def test_sixteen_bits(lowered: Lowered, text: Text, target: int, kind: str) -> None:
    body = f"""s = Constant <value_float = 0.01> () z = Constant <value = {kind} {{12}}> ()
    q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z)"""
    lowered(
        text(21, "float[2, 3] x", body), target, feeds={"x": np.array([[-1e4, 1e4, 0.015], [0.025, 3, -2]], np.float32)}
    )


@pytest.mark.parametrize("target", [9, 10, 19])
def test_weights_in_blocks_of_four_bits(lowered: Lowered, target: int) -> None:
    weights = helper.make_tensor("w", TensorProto.INT4, [4, 6], [index % 15 - 7 for index in range(24)])
    scales = numpy_helper.from_array(np.linspace(0.1, 2, 12, dtype=np.float32).reshape(2, 6), "s")
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=0, block_size=2),
        helper.make_node("MatMul", ["x", "d"], ["y"]),
    ]
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in (("x", [2, 4]), ("y", [2, 6]))
    )
    graph = helper.make_graph(nodes, "g", [x], [y], [weights, scales])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    assert lowered(model, target).model.proto.ir_version < 10


def test_one_number_is_as_it_stands(lowered: Lowered, text: Text) -> None:
    body = """s = Constant <value_float = 0.5> () q = QuantizeLinear <output_dtype = 3> (x, s)
    z = Constant <value = int8 {0}> () y = DequantizeLinear (q, s, z)"""
    made = lowered(text(21, "float[2, 3] x", body), 10)
    assert made.ops.count("QuantizeLinear") == made.ops.count("DequantizeLinear") == 1


def test_rounding_below_opset_11(lowered: Lowered, text: Text) -> None:
    body = "s = Constant <value_float = 0.5> () y = QuantizeLinear (x, s)"
    source = text(13, "float[6] x", body, outputs="uint8[6] y")
    lowered(source, 9, feeds={"x": np.array([0.25, 0.75, 1.25, -3, 300, 0.3], np.float32)})
    with pytest.raises(ConversionBlocked, match="needs Round: needs Where: does not exist"):
        lowered(source, 8)


def test_eight_bit_floats_are_refused(lowered: Lowered, text: Text) -> None:
    body = "s = Constant <value_float = 0.5> () c = Cast <to = 17> (x) y = DequantizeLinear (c, s)"
    with pytest.raises(ConversionBlocked, match="float8e4m3fn"):
        lowered(text(19, "float[2, 3] x", body), 13)


@pytest.mark.parametrize("operators", ["y = DequantizeLinear (q, s, z)", "y = DequantizeLinear <axis = 5> (q, s, z)"])
def test_a_scale_of_one_element_is_one_number(lowered: Lowered, text: Text, operators: str) -> None:
    """A vector of one element asks for no axis: a bias, which has one axis only, need not have the one that is said."""
    body = f"""s = Constant <value = float[1] {{0.25}}> () z = Constant <value = uint8 {{3}}> ()
    q = QuantizeLinear (x, s, z) {operators}"""
    assert "Reshape" not in lowered(text(13, "float[6] x", body), 9).ops
