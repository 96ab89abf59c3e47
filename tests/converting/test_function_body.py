from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

from bnfold import ir
from bnfold.converting import convert
from bnfold.errors import ConversionBlocked

Lowered = Callable[..., Any]
Text = Callable[..., str]
SCORES = "float[3, 5] x, int64[3] t, float[5] w"


@pytest.mark.parametrize(
    ("opset", "target", "inputs", "body", "outputs"),
    [(13, 11, SCORES, "y = SoftmaxCrossEntropyLoss (x, t, w)", "float y"),
     (13, 11, SCORES, 'y = SoftmaxCrossEntropyLoss <reduction = "sum", ignore_index = 1> (x, t, w)', "float y"),
     (13, 11, SCORES, 'y = NegativeLogLikelihoodLoss <reduction = "none"> (x, t, w)', "float[3] y"),
     (18, 13, "float[4, 7] x, int64[2] s", "y = CenterCropPad (x, s)", "float[] y"),
     (17, 13, "int64 n", "y = HannWindow (n)", "float[] y"),
     (17, 13, "int64 n", "y = BlackmanWindow <periodic = 0> (n)", "float[] y"),
     (11, 9, "float[2, 7] x", "y, s, z = DynamicQuantizeLinear (x)", "uint8[] y, float s, uint8 z"),
     (23, 17, "float[2, 4, 3, 8] x, float[9, 4] c, float[9, 4] s, int64[2, 3] p",
      "y = RotaryEmbedding (x, c, s, p)", "float[2, 4, 3, 8] y")],
)  # fmt: skip
def test_operators_by_their_function_bodies(
    lowered: Lowered, text: Text, opset: int, target: int, inputs: str, body: str, outputs: str
) -> None:
    feeds = {"int64 n": np.array(9, np.int64), "int64[2] s": np.array([6, 5], np.int64)}
    given = {name.split(" ")[-1]: array for name, array in feeds.items() if name in inputs}
    lowered(text(opset, inputs, body, outputs=outputs), target, feeds=given)


def test_what_the_body_uses_is_named_with_the_operator(text: Text) -> None:
    source = text(18, "bfloat16[4, 7] x, int64[2] s", "y = CenterCropPad (x, s)", outputs="bfloat16[] y")
    with pytest.raises(ConversionBlocked, match="CenterCropPad \\('y'\\): needs "):
        convert(ir.load(onnx.parser.parse_model(source)), 11)
