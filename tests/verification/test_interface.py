from __future__ import annotations

import pytest

from bnfold import ir
from bnfold.ir.elements import type_name
from bnfold.verification import verify
from bnfold.verification.interface import interface_fault
from tests.verification.graphs import model

BODY = "(float[N,3] x) => (float[N,3] y, float[N,3] z) { y = Relu (x)  z = Neg (x) }"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("float[N,3] y, ", "", "outputs ['y'] are gone"),
        ("x)", "q)", "inputs ['x'] are gone, inputs ['q'] are new"),
        ("float[N,3] y, float[N,3] z", "float[N,3] z, float[N,3] y", "another order"),
        ("float[N,3] x", "double[N,3] x", "type float and is of type double"),
        ("float[N,3] x", "float[N,4] x", "shape ['N', 3]"),
        ("float[N,3] x", "float[N,3,1] x", "shape"),
    ],
)
def test_differences_are_named(old: str, new: str, words: str) -> None:
    before, after = ir.load(model(BODY, {})), ir.load(model(BODY.replace(old, new), {}))
    assert words in interface_fault(before, after)
    verdict = verify(before, after)
    assert (verdict.status, verdict.decided_by) == ("failed", "interface")
    assert words in verdict.reason


def test_open_and_unknown_dims_do_not_clash() -> None:
    before = ir.load(model(BODY, {}))
    assert not interface_fault(before, ir.load(model(BODY.replace("N,3] x", "7,3] x"), {})))
    assert not interface_fault(before, before)


def test_weights_that_stop_being_inputs_are_no_difference() -> None:
    import numpy as np

    weights = {"W": np.ones((3, 2))}
    old = model("(float[N,3] x, float[3,2] W) => (float[N,2] y) { y = MatMul (x, W) }", weights, opset=9, ir_version=3)
    new = model("(float[N,3] x) => (float[N,2] y) { y = MatMul (x, W) }", weights, opset=9, ir_version=4)
    assert not interface_fault(ir.load(old), ir.load(new))


def test_types_have_names() -> None:
    assert [type_name(code) for code in (1, 10, None, 99)] == ["float", "float16", "unknown", "type 99"]
