"""Steps that need an element type find it behind control flow and operators that nobody knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
import pytest

from bnfold import ir
from bnfold.converting import convert
from bnfold.errors import ConversionBlocked

Converted = Callable[..., Any]
TAILS = {
    "Clip": "y = Clip <min = 0.0, max = 1.0> (c)",
    "Pad": "y = Pad <pads = [0, 1, 0, 1], value = 2.0> (c)",
    "Dropout": "y, m = Dropout (c) z = Add (m, m)",
}
BODY = """body = b (float[3] si, float[3] xi) => (float[3] so, float[3] yo)
          { so = Add (si, xi) t = Softmax <axis = 0> (so) yo = Relu (t) }"""
HEADS = {
    "scan": f"f, c = Scan <num_scan_inputs = 1, {BODY}> (s, x)",
    "cast behind a scan": f"f, d = Scan <num_scan_inputs = 1, {BODY}> (s, x) c = Cast <to = 1> (d)",
    "cast behind a plugin": "d = my.Op (x) c = Cast <to = 1> (d)",
}


def model(body: str, *, opset: int = 9, output: str = "float[] y") -> onnx.ModelProto:
    head = f'<ir_version: 4, opset_import: ["" : {opset}, "my" : 1]> g (float[3] s, float[2, 3] x)'
    text = f"{head} => ({output}) {{ {body} }}"
    proto = onnx.parser.parse_model(text)
    if output == "float[] y":
        proto.graph.output[0].type.tensor_type.ClearField("elem_type")
    return proto


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("head", HEADS)
def test_the_element_type_is_inferred(upgraded: Converted, head: str, tail: str) -> None:
    upgraded(model(f"{HEADS[head]} {TAILS[tail]}"), compare="plugin" not in head)


def test_an_output_of_the_same_type_tells_it_too(upgraded: Converted) -> None:
    body = f"c = my.Op (x) {TAILS['Clip']}"
    upgraded(model(body, output="float[2, 3] y"), compare=False)
    with pytest.raises(ConversionBlocked, match="element type of 'c' is not known"):
        upgraded(model(body))


PLUGIN = '<ir_version: 8, opset_import: ["" : {opset}, "my" : 1]> g (float[n, 3, 4, 4] x) => (float[n, 4] y) '
USES = {
    "a declared output": "{ a = my.Op (x) y = Relu (a) }",
    "a weight": "<float[1, 3, 1, 1] w = {1, 2, 3}> { a = my.Op (x) b = Conv (a, w) c = Relu (b) y = my.Op (c) }",
    "an operand": "{ a = my.Op (x) b = Abs (a) c = Concat <axis = 1> (b, x) y = my.Op (c) }",
    "a condition": "{ a, b = my.Op (x) c = Where (b, a, x) d = Not (b) y = my.Op (c, d) }",
    "places": "{ a = my.Op (x) b = Gather (x, a) y = my.Op (b) }",
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(("opset", "target"), [(14, 13), (14, 9), (10, 15)])
def test_types_behind_a_plugin_follow_from(use: str, opset: int, target: int) -> None:
    if use == "places":  # of two types
        body = USES[use].replace("my.Op (x) b", "my.Op (x) i = Shape (x) k = Concat <axis = 0> (a, i) b")
    else:
        body = USES[use]
    model = ir.load(onnx.parser.parse_model(PLUGIN.format(opset=opset) + body))
    convert(model, target)
    assert model.opset() == target


@pytest.mark.parametrize("tail", ["Clip <min = 0.0> (a)", "Pad <pads = [0, 1], value = 1.0> (a)"])
def test_a_node_that_is_being_rewritten_tells_the_type_of_its_input(tail: str) -> None:
    model = ir.load(onnx.parser.parse_model(PLUGIN.format(opset=9) + f"{{ a = my.Op (x) b = {tail} y = Relu (b) }}"))
    convert(model, 13)
    assert len(model.graph.nodes[1].inputs) > 1
