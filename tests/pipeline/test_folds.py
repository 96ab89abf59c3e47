"""Folding that depends on sizes: where nodes compute them, simplification stores them first."""

from __future__ import annotations

import onnx.parser
import pytest

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


def nonspatial(opset: int, body: str, *, elements: int = 2) -> onnx.ModelProto:
    """A BatchNormalization with spatial=0, as MXNet writes it, with so many parameters."""
    form = "spatial = 0, is_test = 1" if opset < 7 else "spatial = 0"
    given = "".join(f", float[{elements}] {name}" for name in "sbmv")
    numbers = ", ".join(f"{1 + each}.5" for each in range(elements))
    stored = "".join(f", float[{elements}] {name} = {{{numbers}}}" for name in "sbmv")
    return onnx.parser.parse_model(f"""
        <ir_version: 3, opset_import: ["": {opset}]> g (float[N,2,3,3] x, float[2,2,1,1] w{given}) => (float[A,B,C,D] y)
        <float[2,2,1,1] w = {{1, 2, 3, 4}}{stored}> {{ {body.replace("FORM", form)} }}
    """)


@pytest.mark.parametrize("opset", [5, 6, 7, 8])
@pytest.mark.parametrize(
    "body",
    [
        "c = Conv (x, w)  y = BatchNormalization <FORM> (c, s, b, m, v)",
        "c = Conv (x, w)  r = Identity (c)  y = BatchNormalization <FORM> (r, s, b, m, v)",
    ],
)
def test_spatial_0_over_channels_folds_at_any_opset(opset: int, body: str) -> None:
    """What it means depends on the shape of the input, which the file does not state."""
    for outcome in (bnfold.fold(nonspatial(opset, body)), bnfold.optimize(nonspatial(opset, body), target_opset=9)):
        assert outcome.verified
        assert [(event.verdict, event.reason) for event in outcome.report.batchnorms] == [("folded", None)]


def test_spatial_0_over_activations_is_kept_with_its_reason() -> None:
    proto = nonspatial(6, "c = Conv (x, w)  y = BatchNormalization <FORM> (c, s, b, m, v)", elements=18)
    (event,) = bnfold.fold(proto).report.batchnorms
    assert (event.verdict, event.reason and event.reason.code) == ("kept", "axis")


def test_spatial_0_over_an_unknown_shape_stays_unread() -> None:
    proto = nonspatial(7, "c = my.Foo (x)  y = BatchNormalization <FORM> (c, s, b, m, v)")
    proto.opset_import.add(domain="my", version=1)
    (event,) = bnfold.fold(proto).report.batchnorms
    assert (event.reason and event.reason.code, "unknown shape" in event.detail) == ("unreadable", True)
