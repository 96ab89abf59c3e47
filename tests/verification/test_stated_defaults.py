"""Attributes that state a default, or that have no effect on what the model declares, are no changes."""

from __future__ import annotations

import onnx
import pytest

import bnfold
from bnfold import ir
from bnfold.verification import verify
from bnfold.verification.changes.unchanged import unchanged


def models(before: str, after: str, opsets: tuple[int, int]) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    first, second = (
        onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {text}')
        for text, opset in zip((before, after), opsets, strict=True)
    )
    return first, second


def status(before: str, after: str, opsets: tuple[int, int], depth: str = "auto") -> str:

    return verify(*map(ir.load, models(before, after, opsets)), depth=depth, runtime="none").status


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [
        ("dilations = [1, 1]", "verified"),
        ("strides = [1, 1], pads = [0, 0, 0, 0]", "verified"),
        ("strides = [2, 1]", "failed"),
    ],
)
def test_a_window_without_what_it_has_without_it(attribute: str, expected: str) -> None:
    head = "g (float[1, 2, 6, 6] x) => (float[1, 2, h, w] y)"
    before = f"{head} {{ y = MaxPool <kernel_shape = [2, 2], {attribute}> (x) }}"
    after = f"{head} {{ y = MaxPool <kernel_shape = [2, 2]> (x) }}"
    assert status(before, after, (10, 9)) == expected


@pytest.mark.parametrize(
    ("made", "is_same"),
    [("[batch, tokens, 4, 2]", True), ("[batch, 4, tokens, 2]", False), ("[batch, n, m, 2]", False)],
)
def test_allowzero_matters_where_a_size_may_be_zero_and_is_not_the_inputs_own(made: str, is_same: bool) -> None:
    head = "g (float[batch, tokens, 8] x, int64[4] shape) => (float[a, b, c, d] y)"
    body = f"<float{made} v> {{ v = Reshape%s (x, shape) y = Neg (v) }}"
    before, after = head + body % " <allowzero = 1>", head + body % ""
    assert (status(before, after, (14, 13)) == "verified") is is_same


@pytest.mark.parametrize(
    ("old", "new", "opsets", "is_same"),
    [
        ("Reshape <allowzero = 0> (x, s)", "Reshape (x, s)", (14, 13), True),
        ("Reshape (x, s)", "Reshape <allowzero = 0> (x, s)", (13, 14), True),
        ("Softmax <axis = -1> (x)", "Softmax (x)", (13, 13), True),
        ("Softmax <axis = 1> (x)", "Softmax (x)", (13, 13), False),
        ("Softmax <axis = -1> (x)", "Softmax (x)", (13, 11), False),
        ("LeakyRelu <alpha = 0.01> (x)", "LeakyRelu (x)", (15, 15), True),
        ("LeakyRelu (x)", "LeakyRelu <alpha = 0.02> (x)", (15, 15), False),
    ],
)
def test_what_states_a_default_is_unchanged(old: str, new: str, opsets: tuple[int, int], is_same: bool) -> None:

    head = "g (float[2, 3, 4] x) => (float[a, b, c] y) <int64[3] s = {2, 4, 3}>"
    one, other = map(ir.load, models(f"{head} {{ y = {old} }}", f"{head} {{ y = {new} }}", opsets))
    assert unchanged(one.graph.nodes[-1], other.graph.nodes[-1]) is is_same


def test_a_reshape_that_cannot_run_alone_is_no_doubt_where_it_means_the_same() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[1, tokens, 8] x) => (float[1, tokens, 2, 4] y)
        <float[8] s = {1, 2, 3, 4, 5, 6, 7, 8}, int64[1] two = {2}, int64[1] four = {4}, int64[1] one = {1}>
        { l = LayerNormalization <axis = -1> (x, s) n = Shape <start = 1, end = 2> (x)
          d = Concat <axis = 0> (one, n, two, four) y = Reshape <allowzero = 1> (l, d) }"""
    verdict = bnfold.convert(onnx.parser.parse_model(text), opset=13).verdict
    assert verdict is not None
    assert verdict.verified, verdict.reason


@pytest.mark.parametrize(
    "node",
    [
        'Einsum <equation = "ij->ji"> (z)',
        "Concat <axis = 0> (z, z)",
        "Cast <to = 1> (z)",
        "MaxPool <kernel_shape = [2]> (u)",
        "DepthToSpace <blocksize = 2> (w)",
        "LpPool <kernel_shape = [2]> (u)",
    ],
)
def test_a_required_attribute_that_is_missing_is_a_fault(node: str) -> None:
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[N,8] x, float[1,1,N] u, float[1,4,N,2] w) => (float[] y)
        {{ z = Relu (x)  y = {node} }}"""
    before = onnx.parser.parse_model(text)
    after = onnx.ModelProto.FromString(before.SerializeToString())
    del after.graph.node[1].attribute[:]
    for depth in ("auto", "local"):
        assert verify(ir.load(before), ir.load(after), depth=depth, runtime="none").status == "failed"
