"""A declared size of 0, which some exporters write for a dynamic one: nothing follows from it."""

from __future__ import annotations

import onnx
import pytest

import bnfold

HEAD = '<ir_version: 8, opset_import: ["" : 13]> g (float[{dims}] x) => (float[a, b] y)'


@pytest.mark.parametrize("dims", ["2, 0", "0, 2", "0, 0", "2, n"])
@pytest.mark.parametrize("arithmetic", ["Mul (x, c)", "Add (x, c)", "Div (x, c)", "Sub (x, c)"])
@pytest.mark.parametrize("consumer", ["y = Concat <axis = 1> (v, x)", "y = Concat <axis = 0> (v, x)", "y = Relu (v)"])
def test_constant_arithmetic_on_a_declared_zero_stays(dims: str, arithmetic: str, consumer: str) -> None:
    """An affine of no channel is no identity."""
    body = f"c = Constant <value = float {{3.0}}> () v = {arithmetic} {consumer}"
    outcome = bnfold.optimize(onnx.parser.parse_model(f"{HEAD.format(dims=dims)} {{ {body} }}"))
    assert outcome.verified
    assert len(outcome.to_proto().graph.node) == 2
