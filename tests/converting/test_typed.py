"""Steps that need an element type find it behind control flow and operators that nobody knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
import pytest

from bnfold.errors import UpgradeBlocked

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
    with pytest.raises(UpgradeBlocked, match="element type of 'c' is not known"):
        upgraded(model(body))
