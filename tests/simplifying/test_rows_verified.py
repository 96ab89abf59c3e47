"""Rewrites of two nodes in a row are verified: inputs show what each node is for."""

from __future__ import annotations

import pytest

import bnfold
from tests.simplifying.small import model, operators

CASES = {
    "bounds": ("float[N,3] x", "a = Mul (x, x) m = Relu (a) n = Min (m, c) y = Exp (n)", "float c = {6}", 3),
    "casts": ("float16[N,3] x", "a = Abs (x) b = Cast <to = 1> (a) c = Cast <to = 10> (b) y = Neg (c)", "", 2),
    "fill": (
        "float[N,3] x",
        "s = Shape (x) f = ConstantOfShape <value = int64[1] {1}> (s) c = Cast <to = 1> (f) y = Add (c, x)",
        "",
        3,
    ),
    "reduction": (
        "float[N,3] x",
        "r = ReduceSum <keepdims = 0> (x, a) u = Unsqueeze (r, a) y = Sub (x, u)",
        "int64[1] a = {1}",
        2,
    ),
    "padding": (
        "float[N,1,4] x",
        "p = Pad (x, q) y = Conv (p, w)",
        "int64[6] q = {0, 0, 1, 0, 0, 2}, float[2,1,2] w = {1, 2, 3, 4}",
        1,
    ),
    "expansion": ("float[N,3] x", "s = Shape (x) a = ReduceMax (x) e = Expand (a, s) y = Sub (x, e)", "", 2),
    "slices": (
        "float[3,4] x",
        "a = Slice (x, i, j, n, i) y = Slice (a, n, j, i, i)",
        "int64[1] n = {0}, int64[1] i = {1}, int64[1] j = {2}",
        1,
    ),
    "empty operand": ("float[N,3] x", "y = Concat <axis = 0> (x, e, x)", "float[0,3] e = {}", 1),
}


@pytest.mark.parametrize("case", CASES)
def test_rewrites_of_rows_are_verified(case: str) -> None:
    inputs, body, constants, left = CASES[case]
    kind = inputs.partition("[")[0]
    before = model(f"({inputs}) => ({kind} y)", body, constants)
    before.graph.output[0].type.tensor_type.ClearField("shape")
    outcome = bnfold.optimize(before)
    assert outcome.status == "verified"
    assert len(operators(outcome.to_proto())) == left
