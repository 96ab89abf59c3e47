"""Which constant arithmetic `bnfold optimize` folds by default: all but the steps of what runtimes compute at once."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest

import bnfold
from tests.verification.graphs import model, numbers, single

GELU = "d = Div (c, root)  e = Erf (d)  p = Add (e, one)  m = Mul (c, p)  h = Mul (m, half)"
HALF_FIRST = "d = Div (c, root)  e = Erf (d)  p = Add (e, one)  g = Mul (c, half)  h = Mul (g, p)"
TANH = """q = Mul (c, c)  r = Mul (q, c)  s = Mul (r, cubic)  t = Add (c, s)  u = Mul (t, root)  e = Tanh (u)
    p = Add (e, one)  m = Mul (c, p)  h = Mul (m, half)"""
NORMALISER = """a = ReduceMean <axes = [1]> (c)  d = Sub (c, a)  q = Mul (d, d)  v = ReduceMean <axes = [1]> (q)
    w = Add (v, one)  r = Sqrt (w)  n = Div (d, r)  h = Mul (n, half)"""
BIAS = """t = Transpose <perm = [0, 2, 3, 1]> (c)  m = MatMul (t, S)  b = Add (m, bias)
    h = Transpose <perm = [0, 3, 1, 2]> (b)"""
LONE = "m = Mul (c, half)  r = Relu (m)  h = Mul (r, root)"


def optimised(nodes: str, *, all_affines: bool = False, no_simplify: bool = False) -> Counter[str]:
    rng = numbers(3)
    weights = {name: single(rng.normal(size=(4, 4, 1, 1))) for name in ("U", "V")}
    weights |= {"S": single(rng.normal(size=(4, 4))), "bias": single(rng.normal(size=4))}
    single_numbers = {"root": 2**0.5, "one": 1.0, "half": 0.5, "cubic": 0.044715}
    held = {**weights, **{name: np.array(value) for name, value in single_numbers.items()}}
    text = f"(float[N,4,6,6] x) => (float[N,4,6,6] y) {{ c = Conv (x, U)  {nodes}  y = Conv (h, V) }}"
    options = bnfold.Options(all_affines=all_affines, no_simplify=no_simplify)
    outcome = bnfold.optimize(model(text, held), options=options)
    assert outcome.status == "verified"
    return Counter(node.op_type for node in outcome.to_proto().graph.node)


def stated(nodes: str) -> Counter[str]:
    graph = onnx.parser.parse_graph(f"g (float[1] c) => (float[1] h) {{ {nodes} }}")
    return Counter([node.op_type for node in graph.node] + ["Conv", "Conv"])


@pytest.mark.parametrize("nodes", [GELU, HALF_FIRST, TANH, NORMALISER, BIAS])
def test_steps_of_a_function_stay_together(nodes: str) -> None:
    assert optimised(nodes) == stated(nodes)
    assert optimised(nodes, all_affines=True).total() < stated(nodes).total()


def test_arithmetic_by_itself_goes_into_weights() -> None:
    assert optimised(LONE) == Counter({"Conv": 2, "Relu": 1})
    assert optimised(LONE, no_simplify=True) == stated(LONE)
