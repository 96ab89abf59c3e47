"""Nothing that rewriting concludes is a premise: what its evaluators, records and proofs get wrong is not verified."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import deepcopy
from typing import Any

import numpy as np
import onnx
import pytest

import bnfold
from bnfold import ir
from bnfold.analysis.evaluators import EVALUATORS, Operands
from bnfold.analysis.shapes import proven
from bnfold.errors import VerificationFailed
from bnfold.ir.tensor import InMemory
from bnfold.reference import evaluate
from bnfold.simplifying import reshaping
from bnfold.simplifying.computed import QUANTIZING
from bnfold.verification.end_to_end import ort_check
from tests.verification.graphs import Array, model

FLOATS, OTHERS = np.array([1.5, -2.0, 0.75], np.float32), np.array([0.25, 4.0, 0.75], np.float32)
WEIGHTS = {
    "f": FLOATS,
    "g": OTHERS,
    "u": np.abs(FLOATS),
    "m": np.arange(6, dtype=np.float32).reshape(2, 3) + 0.5,
    "n": np.arange(6, dtype=np.float32).reshape(3, 2) - 2.5,
    "i": np.array([1, 2, 0]),
    "j": np.array([5, 2, 7]),
    "p": np.array([True, False, True]),
    "q": np.array([True, True, False]),
    "zero": np.array(0),
    "seven": np.array(7),
    "two": np.array(2),
    "v0": np.array([0]),
    "v1": np.array([1]),
    "v2": np.array([2]),
    "v3": np.array([3]),
    "v22": np.array([2, 2]),
    "v23": np.array([2, 3]),
    "v32": np.array([3, 2]),
    "pads": np.array([1, 0]),
    "at": np.array([[1], [0]]),
    "h": np.array([8.0, 9.0], np.float32),
    "scale": np.array(0.125, np.float32),
}

NODES = {
    **{op: f"{op} (f)" for op in ("Abs", "Ceil", "Cos", "Exp", "Floor", "Identity", "Relu", "Round")},
    **{op: f"{op} (f)" for op in ("Shape", "Sigmoid", "Sin", "Size", "Softplus", "Tanh")},
    **{op: f"{op} (u)" for op in ("Log", "Reciprocal", "Sqrt")},
    **{op: f"{op} (f, g)" for op in ("Add", "Div", "Max", "Mean", "Min", "Mul", "Sub", "Sum")},
    **{op: f"{op} (f, g)" for op in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")},
    **{op: f"{op} (p, q)" for op in ("And", "Or", "Xor")},
    **{op: f"{op} <axes = [1], keepdims = 0> (m)" for op in ("ReduceL1", "ReduceL2", "ReduceLogSum")},
    **{op: f"{op} <axes = [1], keepdims = 0> (m)" for op in ("ReduceLogSumExp", "ReduceMax", "ReduceMean")},
    **{op: f"{op} <axes = [1], keepdims = 0> (m)" for op in ("ReduceMin", "ReduceProd", "ReduceSumSquare")},
    "Cast": "Cast <to = 6> (f)",
    "Clip": "Clip (f, scale)",
    "Concat": "Concat <axis = 0> (f, g)",
    "ConstantOfShape": "ConstantOfShape <value = float[1] {2.5}> (v3)",
    "Expand": "Expand (f, v23)",
    "Flatten": "Flatten <axis = 0> (m)",
    "Gather": "Gather (f, i)",
    "GatherElements": "GatherElements (f, i)",
    "Gemm": "Gemm <alpha = 2.0> (m, n)",
    "MatMul": "MatMul (m, n)",
    "Mod": "Mod (j, two)",
    "Not": "Not (p)",
    "Pad": "Pad (f, pads)",
    "Pow": "Pow (u, g)",
    "Range": "Range (zero, seven, two)",
    "ReduceSum": "ReduceSum <keepdims = 0> (m, v1)",
    "Reshape": "Reshape (m, v32)",
    "ScatterElements": "ScatterElements <axis = 0> (f, v1, h1)",
    "ScatterND": "ScatterND (f, at, h)",
    "Slice": "Slice (f, v1, v3)",
    "Squeeze": "Squeeze (row, v0)",
    "Tile": "Tile (f, v2)",
    "Transpose": "Transpose (m)",
    "Trilu": "Trilu (m)",
    "Unsqueeze": "Unsqueeze (f, v0)",
    "Where": "Where (p, f, g)",
}
"""A node of each operator whose result rewriting stores, on constants alone."""
WEIGHTS |= {"h1": np.array([8.0], np.float32), "row": FLOATS.reshape(1, 3)}


@pytest.fixture(autouse=True)
def _everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare parts, and not the whole models in float64."""
    monkeypatch.setattr(ort_check, "LITTLE_TIME", 0.0)


UNVERIFIED = bnfold.VerifyOptions(depth="none")


def rewritten(before: onnx.ModelProto) -> onnx.ModelProto:
    """Return the result of the rewrites, whether right or wrong."""
    return bnfold.optimize(before, verify=UNVERIFIED, target_opset="keep").to_proto()


def status(before: onnx.ModelProto, after: onnx.ModelProto) -> str:
    """Return the verdict, without a runtime."""
    return bnfold.verify(before, after, options=bnfold.VerifyOptions(runtime="none")).status


def agree(before: onnx.ModelProto, after: onnx.ModelProto, x: Array) -> bool:
    """Whether the models make the same of ``x``."""
    one, other = (evaluate(ir.load(side), {"x": x})["y"] for side in (before, after))
    return one.shape == other.shape and np.allclose(one, other)


def one_off(evaluator: Callable[[ir.Node, Operands], ir.Tensor | None]) -> Callable[..., ir.Tensor | None]:
    """Return an evaluator that gets the first element wrong."""

    def evaluate_wrongly(node: ir.Node, operands: Operands) -> ir.Tensor | None:
        found = evaluator(node, operands)
        if found is None:
            return None
        array = np.array(found.numpy())
        array.flat[0] = not array.flat[0] if array.dtype == np.bool_ else array.flat[0] + 1
        return InMemory(found.dtype, array)

    return evaluate_wrongly


def chain(node: str) -> onnx.ModelProto:
    """Return a model that multiplies by what a node makes of constants."""
    body = f"a = Tanh (x)  c = {node}  d = Cast <to = 1> (c)  s = ReduceSum <keepdims = 0> (d)  b = Mul (a, s)"
    proto = model(f"(float[N,3] x) => (float[N,3] y) {{ {body}  y = Softsign (b) }}", WEIGHTS, opset=17)
    read = {name for each in proto.graph.node for name in each.input}
    kept = [tensor for tensor in proto.graph.initializer if tensor.name in read]
    del proto.graph.initializer[:]
    proto.graph.initializer.extend(kept)
    return proto


X = np.array([[0.3, -0.1, 0.8], [1.2, 0.4, -0.6]])


def test_every_evaluator_has_a_node() -> None:
    assert NODES.keys() == EVALUATORS.keys() - QUANTIZING - {"Neg"}  # a Neg is folded, and not evaluated


@pytest.mark.parametrize("op", sorted(NODES))
def test_a_wrong_constant_is_not_verified(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = chain(NODES[op])
    monkeypatch.setitem(EVALUATORS, op, one_off(EVALUATORS[op]))
    wrong = rewritten(before)
    assert not agree(before, wrong, X)
    assert status(before, wrong) == "failed"


def test_a_right_constant_is_verified() -> None:
    for op in ("LessOrEqual", "Gather", "MatMul", "Softplus", "Range"):
        before = chain(NODES[op])
        right = rewritten(before)
        assert len(right.graph.node) < len(before.graph.node)
        assert status(before, right) == "verified"


def test_optimize_writes_nothing_that_a_wrong_comparison_concludes(monkeypatch: pytest.MonkeyPatch) -> None:
    before = chain(NODES["LessOrEqual"])
    monkeypatch.setitem(EVALUATORS, "LessOrEqual", EVALUATORS["Less"])
    assert not agree(before, rewritten(before), X)
    with suppress(VerificationFailed):
        outcome = bnfold.optimize(before, verify=bnfold.VerifyOptions(runtime="none"), target_opset="keep")
        assert agree(before, outcome.to_proto(), X)


@pytest.mark.parametrize(
    "body",
    [
        "a = Tanh (x)  t = Transpose (a)  b = Reshape (t, v1_)  y = Sin (b)",
        "a = Tanh (x)  b = Reshape (a, v32)  c = Transpose (b)  d = Reshape (c, v1_)  y = Sin (d)",
    ],
)
def test_a_wrong_conclusion_about_an_operator_is_not_believed(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rewriting takes a Transpose for an operator that leaves all elements in their order."""
    weights = {"v1_": np.array([-1]), "v32": np.array([3, 2])}
    before = model(f"(float[2,3] x) => (y) {{ {body} }}", {name: weights[name] for name in weights if name in body})
    assert agree(before, rewritten(before), X)
    monkeypatch.setattr(reshaping, "keeps_order", lambda *_: True)
    wrong = rewritten(before)
    assert not agree(before, wrong, X)
    assert status(before, wrong) == "failed"


def test_a_wrong_proof_of_sizes_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rewriting takes all dynamic sizes for one, so that it takes a Reshape to the sizes in another order for none."""
    text = """(float[N,M] x) => (float[A,B] y) {
        a = Tanh (x)  s = Shape (a)  m = Slice (s, v1, v2)  n = Slice (s, v0, v1)
        t = Concat <axis = 0> (m, n)  b = Reshape (a, t)  y = Sin (b) }"""
    before = model(text, {name: WEIGHTS[name] for name in ("v0", "v1", "v2")}, opset=13)
    assert agree(before, rewritten(before), X)
    plain = proven._inferred

    def one_size(*args: Any) -> Mapping[ir.Value, onnx.TypeProto]:
        types = {value: deepcopy(kind) for value, kind in plain(*args).items()}
        for dim in (dim for kind in types.values() for dim in kind.tensor_type.shape.dim):
            if dim.dim_param:
                dim.dim_param = "0:0"
        return types

    monkeypatch.setattr(proven, "_inferred", one_size)
    wrong = rewritten(before)
    assert not agree(before, wrong, X)
    assert status(before, wrong) == "failed"
