"""Folding that depends on sizes: where nodes compute them, simplification stores them first."""

from __future__ import annotations

import onnx.parser

import bnfold

BODY = """
    c = Conv (x, w)  s = Shape (c)  g = Slice (s, first, second)  t = Concat <axis = 0> (g, rest)
    r = Reshape (c, t)  y = BatchNormalization (r, s1, b1, b1, s1)
"""


def reshaped(batch: str) -> onnx.ModelProto:
    """A BatchNormalization behind a Reshape whose target is read of the value."""
    return onnx.parser.parse_model(f"""
        <ir_version: 8, opset_import: ["": 15]> g (float[{batch},3,4,4] x) => (float[A,B,C] y)
        <float[2,3,1,1] w = {{1, 2, 3, 4, 5, 6}}, float[2] s1 = {{2, 3}}, float[2] b1 = {{1, -1}},
        int64[1] first = {{0}}, int64[1] second = {{2}}, int64[1] rest = {{-1}}> {{ {BODY} }}
    """)


def test_what_depends_on_a_size_that_is_stored_folds() -> None:
    outcome = bnfold.optimize(reshaped("1"))
    assert outcome.status == "verified"
    assert [node.op_type for node in outcome.to_proto().graph.node] == ["Conv", "Reshape"]
    (event,) = outcome.report.batchnorms
    assert (event.verdict, event.into) == ("folded", ("c",))


def test_folding_alone_stores_no_size() -> None:
    outcome = bnfold.fold(reshaped("1"))
    assert "Shape" in [node.op_type for node in outcome.to_proto().graph.node]


def test_a_second_run_finds_nothing() -> None:
    once = bnfold.optimize(reshaped("N")).to_proto()
    assert bnfold.optimize(once).to_proto().graph == once.graph
