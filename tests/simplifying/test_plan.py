"""What a plan asks of the graph: a place for constants, and values that may be read."""

from __future__ import annotations

import onnx
import pytest

from tests.simplifying.small import simplified


@pytest.mark.parametrize(
    ("opset", "body", "left"),
    [
        (17, "b = Squeeze (x, a) y = Squeeze (b, a)", ["Squeeze", "Squeeze"]),
        (11, "b = Squeeze <axes = [0]> (x) y = Squeeze <axes = [0]> (b)", ["Squeeze"]),
    ],
)
def test_a_function_stores_no_constants(opset: int, body: str, left: list[str]) -> None:
    """One Squeeze for two needs axes of its own, which are an input from opset 13 on."""
    text = f"""<ir_version: 8, opset_import: ["" : {opset}, "local" : 1]> g (float[1,1,3] x) => (float[3] y)
        {{ y = local.f (x) }}
        <domain: "local", opset_import: ["" : {opset}]> f (x) => (y)
        {{ a = Constant <value = int64[1] {{0}}> () {body} }}"""
    after, _ = simplified(onnx.parser.parse_model(text))
    assert [node.op_type for node in after.functions[0].node if node.op_type != "Constant"] == left
