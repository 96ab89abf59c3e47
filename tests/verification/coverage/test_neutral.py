"""A constant that leaves the other operand as it is needs no change of it that shows."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import numpy_helper

import bnfold
from bnfold import ir
from bnfold.verification.coverage.neutral import are_neutral
from tests.simplifying.small import model

SIZES = "s = Shape (x) g = Gather (s, zero)"
ENDS = "c = Concat <axis = 0> (n, rest) y = Reshape (x, c)"
NUMBERS = "int64[1] zero = {0}, int64[1] rest = {-1}"


def _verdict(body: str, one: str, target: list[int], head: str = "(float[N,4,6] x) => (float[A,B] y)") -> str:
    before = model(head, f"{SIZES} {body} {ENDS}", f"{NUMBERS}, {one}")
    after = model(head, "y = Reshape (x, c)")
    after.graph.initializer.append(numpy_helper.from_array(np.array(target), "c"))
    return str(bnfold.verify(before, after).status)


@pytest.mark.parametrize(
    ("body", "one"),
    [
        ("a = Mul (g, o) n = Div (a, o)", "int64[1] o = {1}"),
        ("a = Mul (o, g) n = Div (a, o)", "int64 o = {1}"),
        ("a = Add (g, o) n = Sub (a, o)", "int64[1] o = {0}"),
    ],
)
def test_two_operators_that_undo_each_other(body: str, one: str) -> None:
    assert _verdict(body, one, [0, -1]) == "verified"
    assert _verdict(body, one, [2, -1]) == "failed"


@pytest.mark.parametrize(
    ("body", "one", "status"),
    [
        ("a = Mul (g, o) n = Div (a, o)", "int64[1] o = {2}", "unverified"),
        ("a = Mul (g, o) n = Sub (a, o)", "int64[1] o = {1}", "failed"),
    ],
)
def test_operators_that_do_something(body: str, one: str, status: str) -> None:
    assert _verdict(body, one, [0, -1]) == status


def test_a_default_that_callers_may_override() -> None:
    head = "(float[N,4,6] x, int64[1] o) => (float[A,B] y)"
    assert _verdict("a = Mul (g, o) n = Sub (a, zero)", "int64[1] o = {1}", [0, -1], head) != "verified"


def _side(constant: str, body: str, opset: int = 15) -> tuple[ir.Value, ir.Tensor, list[tuple[ir.Node, int]]]:
    proto = model("(float[N,4] x, int64[N] i) => (float[A,B] y)", body, constant, opset=opset)
    value = ir.load(proto.SerializeToString()).graph.values["o"]
    tensor = ir.constant(value)
    assert tensor is not None
    return value, tensor, [*value.uses]


@pytest.mark.parametrize(
    ("constant", "body", "expected"),
    [
        ("float o = {1}", "y = Mul (x, o)", True),
        ("float o = {1}", "y = Mul (o, x)", True),
        ("float o = {1}", "y = Div (x, o)", True),
        ("float o = {1}", "y = Div (o, x)", False),
        ("float o = {1}", "y = Add (x, o)", False),
        ("float o = {0}", "y = Sub (x, o)", True),
        ("float o = {0}", "y = Add (x, o)", False),
        ("int64 o = {0}", "j = Add (o, i) y = Gather (x, j)", True),
        ("int64 o = {0}", "j = Sub (o, i) y = Gather (x, j)", False),
        ("float[1,1] o = {1}", "y = Mul (x, o)", True),
        ("float[1,1,1] o = {1}", "y = Mul (x, o)", False),
        ("float[4] o = {1, 1, 1, 1}", "y = Mul (x, o)", False),
        ("float o = {1}", "y = Pow (x, o)", False),
        ("float o = {1}", "a = Div (x, o) y = Max (a, o)", False),
    ],
)
def test_neutral(constant: str, body: str, expected: bool) -> None:
    assert are_neutral(*_side(constant, body)) is expected


def test_operands_that_an_old_opset_does_not_align() -> None:
    assert not are_neutral(*_side("float o = {1}", "y = Mul <broadcast = 1> (x, o)", opset=6))
