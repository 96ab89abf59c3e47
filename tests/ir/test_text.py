from __future__ import annotations

import onnx.parser
import pytest

import bnfold
from bnfold import ir
from bnfold.errors import BnfoldError, MalformedModel


def test_a_text_that_is_not_utf8_is_a_damaged_model() -> None:
    with pytest.raises(MalformedModel, match="a damaged model") as caught, ir.utf8("m.onnx"):
        b"a\xfb".decode()
    assert str(caught.value).startswith("m.onnx: ")
    assert "in it is not UTF-8" in str(caught.value)


@pytest.mark.parametrize("word", [b"Sigmoid", b"Softplus", b"funcname", b"locala", b"Neg"])
@pytest.mark.parametrize("places", [1, -1])
def test_names_in_functions_that_are_no_utf8_are_refused_or_kept(word: bytes, places: int) -> None:
    """Of operators, functions and domains, in the graph, a branch or a function: protobuf returns bytes."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17, "locala" : 1]> g (float[2] x, bool c) => (float[2] y) {
            z = locala.funcname (x)
            y = If (c) <then_branch = t () => (float[2] p) { p = Neg (z) },
                        else_branch = e () => (float[2] q) { q = Abs (z) }> }
        <opset_import: ["" : 17], domain: "locala"> funcname (a) => (b) { d = Sigmoid (a)  b = Softplus (d) }"""
    )
    damaged = model.SerializeToString().replace(word, b"N\xf4" + word[2:], places)
    with pytest.raises(BnfoldError):
        bnfold.optimize(damaged)
