from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import bnfold
from bnfold import ir
from bnfold.errors import ConversionBlocked

Converted = Callable[..., Any]
Text = Callable[..., str]
INPUTS = "float[b, 2] i, float[b, s, 2] x, float[b, s, 2] z"
OUTPUTS = "float[b, 2] f, float[b, s, 2] y, float[b, s, 2] w"
BODY = """body = bb (float[2] a, float[2] u, float[2] v) => (float[2] c, float[2] d, float[2] e)
          { c = Add (a, u) d = Mul (c, v) e = Sub (d, g) }"""


def scan(attrs: str = "", lengths: str = "") -> str:
    head = "g = Constant <value = float[1] {3.0}> ()"
    return f"{head} f, y, w = Scan <num_scan_inputs = 2{attrs}, {BODY}> ({lengths}, i, x, z)"


def feeds(batch: int = 3, steps: int = 4) -> dict[str, Any]:
    generator = np.random.default_rng(0)
    shapes = {"i": (batch, 2), "x": (batch, steps, 2), "z": (batch, steps, 2)}
    return {name: generator.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def assert_runs_alike(source: str, model: ir.Model, fed: dict[str, Any]) -> None:
    before = onnxruntime.InferenceSession(onnx.parser.parse_model(source).SerializeToString())
    after = onnxruntime.InferenceSession(ir.encode(model))
    for old, new in zip(before.run(None, fed), after.run(None, fed), strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("target", [9, 13, 18, 28])
@pytest.mark.parametrize("attrs", ["", ", directions = [0, 1]", ", directions = [1, 1]"])
def test_every_sequence_of_a_batch_is_scanned(upgraded: Converted, text: Text, attrs: str, target: int) -> None:
    source, fed = text(8, INPUTS, scan(attrs), outputs=OUTPUTS), feeds()
    outcome = upgraded(source, target, feeds=fed)
    if target < 28:
        assert_runs_alike(source, outcome.model, fed)


@pytest.mark.parametrize("target", [10, 13, 18, 28])
@pytest.mark.parametrize("attrs", ["", ", directions = [0, 1]"])
def test_each_up_to_a_length_of_its_own(upgraded: Converted, text: Text, attrs: str, target: int) -> None:
    source = text(8, f"int64[b] l, {INPUTS}", scan(attrs, "l"), outputs=OUTPUTS)
    fed = {"l": np.array([4, 1, 3]), **feeds()}
    outcome = upgraded(source, target, feeds=fed)
    if target < 28:
        assert_runs_alike(source, outcome.model, fed)


def test_lengths_need_opset_10(upgraded: Converted, text: Text) -> None:
    with pytest.raises(ConversionBlocked, match="opset 10"):
        upgraded(text(8, f"int64[b] l, {INPUTS}", scan("", "l"), outputs=OUTPUTS), 9)


def test_the_body_is_upgraded_and_reads_what_it_read(upgraded: Converted, text: Text) -> None:
    inner = """f, y = Scan <num_scan_inputs = 1, body = in (float[] a, float[] u) => (float[] c, float[] d)
                { p = Unsqueeze <axes = [0]> (u) q = Sub (p, o) r = ReduceSum <axes = [0], keepdims = 0> (q)
                  c = Add (a, r) d = Mul (c, u) }> (, i, x)"""
    source = text(
        8, "float[b, 2] i, float[b, s, 2] x, float[2] k", f"o = Neg (k) {inner}", outputs="float[] f, float[] y"
    )
    outcome = upgraded(source, 18, feeds={"i": feeds()["i"], "x": feeds()["x"]})
    ops = {node.op_type for node in outcome.model.nodes()}
    assert ops == {"Neg", "Scan", "Unsqueeze", "Sub", "ReduceSum", "Add", "Mul"}


def test_a_scan_in_a_scan(upgraded: Converted, text: Text) -> None:
    body = """f, y = Scan <num_scan_inputs = 1,
                body = out (float[b, 2] a, float[b, s, 2] u) => (float[b, 2] c, float[b, s, 2] d)
              { c, d = Scan <num_scan_inputs = 1, body = in (float[2] e, float[2] h) => (float[2] m, float[2] n)
                { m = Add (e, h) n = Relu (m) }> (, a, u) }> (, i, x)"""
    fed = {"i": np.ones((2, 3, 2), np.float32), "x": np.ones((2, 5, 3, 4, 2), np.float32)}
    upgraded(text(8, "float[k, b, 2] i, float[k, t, b, s, 2] x", body, outputs="float[] f, float[] y"), 15, feeds=fed)


def test_missing_inputs_are_an_error(upgraded: Converted, text: Text) -> None:
    with pytest.raises(ConversionBlocked, match="does not have the inputs that its body takes"):
        upgraded(text(8, INPUTS, scan().replace("(, i, x, z)", "(, i)"), outputs=OUTPUTS), 15)


def test_version_8_is_none_of_9(upgraded: Converted, text: Text) -> None:
    with pytest.raises(ConversionBlocked, match="before opset 9"):
        upgraded(text(9, "float[2] i, float[s, 2] x, float[s, 2] z", scan().replace("(, i", "(i"), outputs=OUTPUTS), 8)


def test_a_batchnorm_in_the_body_is_the_same_one_afterwards(text: Text) -> None:
    inner = """f, y = Scan <num_scan_inputs = 1,
                 body = in (float[1, 2, 3] a, float[1, 2, 3] u) => (float[1, 2, 3] c, float[1, 2, 3] d)
                 <float[2, 2, 1] w = {1, 2, 3, 4}, float[2] s = {2, 3}>
               { p = Conv <kernel_shape = [1]> (u, w) q = BatchNormalization (p, s, s, s, s) c = Add (a, q)
                 d = Relu (c) }> (, i, x)"""
    source = text(8, "float[b, 1, 2, 3] i, float[b, t, 1, 2, 3] x", inner, outputs="float[] f, float[] y")
    result = bnfold.optimize(onnx.parser.parse_model(source))
    assert [event.verdict for event in result.report.batchnorms] == ["folded"]
    assert result.verdict is not None
    assert result.verdict.status == "verified"


@pytest.mark.parametrize("target", [12, 11])
def test_what_a_body_makes_has_a_shape_also_of_computed_sizes(lowered: Converted, text: Text, target: int) -> None:
    """Before opset 13, onnxruntime does not follow sizes from Shape to Reshape, and a Scan without shapes fails."""
    body = """body = bb (float[] a, float[] u) => (float[] c, float[] d)
              { t = Unsqueeze (u, last) c = Add (a, t) d = Relu (u) }"""
    head = """last = Constant <value_ints = [-1]> () s = Shape (x) n = Slice (s, zero, one)
              r = Concat <axis = 0> (n, last) p = Reshape (x, r)"""
    source = text(
        14, "float[4, 2, 3] x, float[6, 1] i", f"{head} f, y = Scan <num_scan_inputs = 1, {body}> (i, p)",
        outputs="float[6, 1] f, float[4, 6] y",
    ).replace(") { ", ") <int64[1] zero = {0}, int64[1] one = {1}> { ", 1)  # fmt: skip
    outcome = lowered(source, target)
    (node,) = [node for node in outcome.model.graph.nodes if node.op_type == "Scan"]
    assert all(info.type.tensor_type.HasField("shape") for info in node.bodies[0].proto.output)
