"""Operators that nothing can compute are told from those that have a kernel, before any of them runs."""

from __future__ import annotations

import onnx
import pytest

from bnfold import ir
from bnfold.reference import unknown_operator

HEAD = '<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3, "com.microsoft" : 1, "own" : 2]>'


def nodes(text: str, functions: str = "") -> list[ir.Node]:
    proto = onnx.parser.parse_model(f"{HEAD} g (float[N,3] x) => (float[N,3] y) {{ {text} }} {functions}")
    return list(ir.load(proto).nodes())


@pytest.mark.parametrize(
    ("text", "functions"),
    [
        ("y = Relu (x)", ""),
        ("y = ai.onnx.ml.Scaler <offset = [0.5], scale = [2.0]> (x)", ""),
        ("y = com.microsoft.FusedMatMul (x, x)", ""),
        ("y = own.Twice (x)", '<domain: "own", opset_import: ["" : 17]> Twice (a) => (b) { b = Add (a, a) }'),
    ],
)
def test_what_has_a_kernel_is_known(text: str, functions: str) -> None:
    assert unknown_operator(nodes(text, functions)) is None


def test_an_operator_without_a_kernel_is_named() -> None:
    found = unknown_operator(nodes("h = Relu (x)  [odd] y = own.Twice (h)"))
    assert str(found) == "bnfold has no reference implementation of own:Twice-2 (node 'odd')"
