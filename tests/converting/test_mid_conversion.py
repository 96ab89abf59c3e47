"""What is read of the model while nodes of two opsets stand in it."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import bnfold
from tests.verification.graphs import Weights, model

UNCHECKED = bnfold.VerifyOptions(depth="none")


@pytest.mark.parametrize("opset", [12, 11, 9])
def test_the_parts_of_a_constant_are_those_that_its_own_form_names(opset: int) -> None:
    """Of a Split that was lowered already, what reads it must not take equal parts."""
    weights: Weights = {"c": np.array([1, 2, 0, 0]), "l": np.array([1, 3])}
    proto = model(
        "(float[2,3,4] x) => (float[a,b] y) { a, b = Split (c, l)  y = ReduceSum <keepdims = 0> (x, a) }", weights
    )
    made = bnfold.convert(proto, opset=opset, verify=UNCHECKED).to_proto()
    (sum_,) = (node for node in made.graph.node if node.op_type == "ReduceSum")
    assert [list(entry.ints) for entry in sum_.attribute if entry.name == "axes"] == [[1]]


@pytest.mark.parametrize(
    ("opset", "node", "weights"),
    [
        (9, "s = Slice <axes = [1], starts = [0], ends = [1]> (c)  t, i = TopK <k = 1> (s)", {}),
        (10, "s = Pad <pads = [0,0,0,1]> (c)  t, i = TopK (s, k)", {"k": np.array([1])}),
    ],
)
@pytest.mark.parametrize("to", [11, 15])
def test_a_constant_that_was_raised_already_is_read_in_its_new_form(
    opset: int, node: str, weights: dict[str, Any], to: int
) -> None:
    text = f"() => (float[a,b] y) {{ {node}  y = LogSoftmax (t) }}"
    proto = model(text, {"c": np.ones((5, 2)), **weights}, opset=opset)
    outcome = bnfold.convert(proto, opset=to)
    assert outcome.verified
    onnx.checker.check_model(outcome.to_proto(), full_check=True)
