"""A convolution pads its input itself where a Pad of zeros stands before it."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

import bnfold
from tests.simplifying.small import model, operators, run, simplified

KERNEL = (3, 2, 2, 3)
FOLDED, STAYS = ["Conv"], ["Pad", "Conv"]
CASES = {
    "zeros": ("p = Pad (x, q) y = Conv (p, w)", "int64[8] q = {0, 0, 1, 2, 0, 0, 0, 3}", FOLDED),
    "zeros that are said": ("p = Pad (x, q, z) y = Conv (p, w)", "int64[8] q = {0,0,1,2,0,0,0,3}, float z={0}", FOLDED),
    "as well as its own": (
        "p = Pad (x, q) y = Conv <pads = [1, 0, 2, 1], strides = [2, 1]> (p, w, b)",
        "int64[8] q = {0, 0, 1, 2, 0, 0, 0, 3}, float[3] b = {1, 2, 3}",
        FOLDED,
    ),
    "none of its own": (
        'p = Pad (x, q) y = Conv <auto_pad = "VALID"> (p, w)',
        "int64[8] q = {0, 0, 1, 2, 0, 0, 0, 3}",
        FOLDED,
    ),
    "as many as the result needs": (
        'p = Pad (x, q) y = Conv <auto_pad = "SAME_UPPER"> (p, w)',
        "int64[8] q = {0, 0, 1, 2, 0, 0, 0, 3}",
        STAYS,
    ),
    "other numbers": ("p = Pad (x, q, z) y = Conv (p, w)", "int64[8] q = {0, 0, 1, 2, 0, 0, 0, 3}, float z={1}", STAYS),
    "mirror": ('p = Pad <mode = "reflect"> (x, q) y = Conv (p, w)', "int64[8] q = {0,0,1,2,0,0,0,1}", STAYS),
    "cropped": ("p = Pad (x, q) y = Conv (p, w)", "int64[8] q = {0, 0, 1, 2, 0, 0, -1, 0}", STAYS),
    "samples": ("p = Pad (x, q) y = Conv (p, w)", "int64[8] q = {1, 0, 0, 0, 0, 0, 0, 0}", STAYS),
    "read by another": ("p = Pad (x, q) c = Conv (p, w) r = ReduceSum (p) y = Add (c, r)",
                        "int64[8] q={0,0,1,2,0,0,0,3}",
                        ["Pad", "Conv", "ReduceSum", "Add"]),
}  # fmt: skip

SEVERAL = {
    "two": ("y = Conv (p, w) z = Conv <pads = [1, 0, 0, 1]> (p, w)", True),
    "other strides": ("y = Conv <strides = [1, 2]> (p, w) z = Conv <dilations = [2, 1]> (p, w)", True),
    "one that pads for itself": ('y = Conv (p, w) z = Conv <auto_pad = "SAME_LOWER"> (p, w)', False),
    "another operator": ("y = Conv (p, w) z = Relu (p)", False),
    "one that reads it as a weight": ("y = Conv (p, w) z = Conv (p, p)", False),
}


@pytest.mark.parametrize("case", SEVERAL)
def test_a_pad_before_several_convolutions(case: str) -> None:
    body, goes = SEVERAL[case]
    before = _two(body)
    after, report = simplified(before)
    assert ("Pad" not in operators(after)) == goes
    assert [event.rewrite.title for event in report.simplified].count("Pad + Conv → Conv") == 2 * goes
    x = np.random.default_rng(0).normal(size=(1, 2, 4, 5)).astype(np.float32)
    for old, new in zip(*(ReferenceEvaluator(proto).run(None, {"x": x}) for proto in (before, after)), strict=True):
        np.testing.assert_allclose(new, old, 1e-5, 1e-5)
    assert bnfold.optimize(before).status == "verified"


def _two(body: str) -> onnx.ModelProto:
    """A Pad, and two consumers of it."""
    before = model(
        "(float[1,2,4,5] x) => (float[A,B,C,D] y, float[E,F,G,H] z)",
        f"p = Pad (x, q) {body}",
        "int64[8] q = {0, 0, 1, 2, 0, 0, 0, 3}",
    )
    kernel = np.random.default_rng(0).normal(size=KERNEL).astype(np.float32)
    before.graph.initializer.append(numpy_helper.from_array(kernel, "w"))
    return before


def test_a_pad_that_is_an_output_stays() -> None:
    before = model(
        "(float[N,2,4,5] x) => (float[M,3,H,W] y, float[A,B,C,D] p)",
        "p = Pad (x, q) y = Conv (p, w)",
        "int64[8] q = {0, 0, 1, 2, 0, 0, 0, 3}",
    )
    _compare(before, STAYS)


def test_a_pad_that_a_branch_reads_as_well_stays() -> None:
    before = model(
        "(float[1,2,4,5] x, bool c) => (float[M,3,H,W] y, float[A,B,C,D] z)",
        "p = Pad (x, q) y = Conv (p, w) z = If (c) <then_branch = t () => (float[A,B,C,D] d) { d = Conv (p, w) }, "
        "else_branch = e () => (float[A,B,C,D] r) { r = Relu (p) }>",
        "int64[8] q = {0, 0, 1, 2, 0, 0, 0, 3}",
    )
    before.graph.initializer.append(numpy_helper.from_array(np.ones(KERNEL, np.float32), "w"))
    assert operators(simplified(before)[0]) == ["Pad", "Conv", "If"]


@pytest.mark.parametrize("wrong", [[0, 2, 1, 3], [1, 2, 0, 2], [2, 1, 0, 3], [0, 0, 0, 0]])
def test_a_convolution_that_does_not_take_all_of_the_pad_is_no_equivalent(wrong: list[int]) -> None:
    before = _two("y = Conv (p, w) z = Conv (p, w)")
    after, _ = simplified(before)
    assert bnfold.verify(before, after).status == "verified"
    after.graph.node[1].attribute[0].ints[:] = wrong
    assert bnfold.verify(before, after).status == "failed"


@pytest.mark.parametrize("case", CASES)
def test_a_pad_before_a_convolution(case: str) -> None:
    body, constants, left = CASES[case]
    before = model("(float[N,2,4,5] x) => (float[M,3,H,W] y)", body, constants)
    _compare(before, left)


def _compare(before: onnx.ModelProto, left: list[str], channels: int = 2) -> None:
    rng = np.random.default_rng(0)
    before.graph.initializer.append(numpy_helper.from_array(rng.normal(size=KERNEL).astype(np.float32), "w"))
    after, _ = simplified(before)
    assert operators(after) == left
    if left == STAYS:
        return
    x = rng.normal(size=(2, channels, 4, 5)).astype(np.float32)
    old, new = (run(proto, x=x) for proto in (before, after))
    np.testing.assert_allclose(new, old, 1e-5, 1e-5)


@pytest.mark.parametrize("axes", ["3", "-1"])
def test_a_pad_of_some_axes(axes: str) -> None:
    before = model(
        "(float[N,2,4,5] x) => (float[M,3,H,W] y)",
        "p = Pad (x, q, z, a) y = Conv (p, w)",
        f"int64[2] q = {{1, 2}}, float z = {{0}}, int64[1] a = {{{axes}}}",
        opset=18,
    )
    _compare(before, FOLDED)


def test_channels_that_are_added_stay() -> None:
    before = model(
        "(float[N,1,4,5] x) => (float[M,3,H,W] y)", "p = Pad (x, q) y = Conv (p, w)", "int64[8] q = {0,1,0,0,0,0,0,0}"
    )
    _compare(before, STAYS, 1)


def test_numbers_that_callers_feed_stay() -> None:
    before = model(
        "(float[N,2,4,5] x, float z) => (float[M,3,H,W] y)",
        "p = Pad (x, q, z) y = Conv (p, w)",
        "int64[8] q = {0, 0, 1, 2, 0, 0, 0, 3}",
    )
    before.graph.initializer.append(numpy_helper.from_array(np.ones(KERNEL, np.float32), "w"))
    assert operators(simplified(before)[0]) == STAYS


POOLS = {
    "least": ("p = Pad (x, q, z) y = MaxPool <kernel_shape = [3, 2]> (p)", "float z = {-inf}", 1),
    "least, and steps": ("p = Pad (x, q, z) y = MaxPool <kernel_shape = [3, 2], strides = [2, 3]> (p)",
                         "float z = {-inf}", 1),
    "least, and pads of its own": (
        "p = Pad (x, q, z) y = MaxPool <kernel_shape = [4, 3], pads = [1, 1, 1, 2]> (p)", "float z = {-inf}", 1),
    "zeros behind Relu": ("a = Relu (x) p = Pad (a, q) y = MaxPool <kernel_shape = [3, 2]> (p)", "", 2),
    "more than Relu returns": ("a = Relu (x) p = Pad (a, q, z) y = MaxPool <kernel_shape = [3, 2]> (p)",
                               "float z = {0.5}", 3),
    "zeros beside negative numbers": ("p = Pad (x, q) y = MaxPool <kernel_shape = [3, 2]> (p)", "", 2),
    "all a window": ("p = Pad (x, q, z) y = MaxPool <kernel_shape = [1, 2]> (p)", "float z = {-inf}", 2),
    "all a window with its own": ("p = Pad (x, q, z) y = MaxPool <kernel_shape=[3,2], pads=[2,0,0,0]> (p)",
                                  "float z = {-inf}", 2),
    "windows cut off": ("p = Pad (x, q, z) y = MaxPool <kernel_shape=[3,2], ceil_mode=1> (p)", "float z = {-inf}", 2),
    "windows with gaps": ("p = Pad (x, q, z) y = MaxPool <kernel_shape=[2,2], dilations=[2,1]> (p)",
                          "float z = {-inf}", 2),
    "places": ("p = Pad (x, q, z) m, y = MaxPool <kernel_shape = [3, 2]> (p)", "float z = {-inf}", 2),
    "pads as the result needs": (
        'p = Pad (x, q, z) y = MaxPool <kernel_shape = [3, 2], auto_pad = "SAME_UPPER"> (p)', "float z = {-inf}", 2),
    "average": ("p = Pad (x, q) y = AveragePool <kernel_shape = [3, 2]> (p)", "", 1),
    "average of zeros that count": (
        "p = Pad (x, q) y = AveragePool <kernel_shape=[5,3], pads=[1,1,2,0], count_include_pad=1, strides=[1,2]> (p)",
        "", 1),
    "average of its own that do not count": (
        "p = Pad (x, q) y = AveragePool <kernel_shape = [5, 3], pads = [1, 1, 2, 0]> (p)", "", 2),
    "average of others": ("p = Pad (x, q, z) y = AveragePool <kernel_shape = [3, 2]> (p)", "float z = {1}", 2),
    "average of windows cut off": (
        "p = Pad (x, q) y = AveragePool <kernel_shape = [3, 2], ceil_mode = 1, strides = [2, 2]> (p)", "", 2),
    "two poolings": (
        ("p = Pad (x, q, z) m = MaxPool <kernel_shape=[3,2]> (p) n = MaxPool <kernel_shape=[4,2]> (p) "
        "r = Reshape (m, l) s = Reshape (n, l) y = Concat <axis = 2> (r, s)"),
        "float z = {-inf}, int64[4] l = {1, 1, -1, 1}", 5),
    "two, one of which cannot": (
        ("p = Pad (x, q) m = MaxPool <kernel_shape = [3, 2]> (p) "
        "n = AveragePool <kernel_shape = [3, 2]> (p) y = Sub (m, n)"), "", 4),
}  # fmt: skip
"""Bodies behind an input, the numbers that they need, and how many nodes stay."""


@pytest.mark.parametrize("case", POOLS)
def test_a_pad_before_a_pooling(case: str) -> None:
    body, constants, left = POOLS[case]
    stored = "int64[8] q = {0, 0, 1, 1, 0, 0, 2, 0}" + (f", {constants}" if constants else "")
    kind = "int64" if "m, y" in body else "float"
    before = model(f"(float[2,2,4,5] x) => ({kind}[A,B,C,D] y)", body, stored)
    after, _ = simplified(before)
    assert len(operators(after)) == left
    for scale in (1, -1):
        x = scale * np.random.default_rng(0).normal(size=(2, 2, 4, 5)).astype(np.float32)
        old, new = (in_onnxruntime(proto, x) for proto in (before, after))
        np.testing.assert_allclose(new, old, 1e-5, 1e-5)
    if kind == "float":
        assert bnfold.optimize(before).status == "verified"


def in_onnxruntime(proto: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    """The last output of the first that onnxruntime computes, without rewrites of its own."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": x})[0])


@pytest.mark.parametrize(("filling", "left"), [(0, 1), (1, 2)])
def test_the_least_number_of_a_type_never_wins(filling: int, left: int) -> None:
    before = model(
        "(uint8[1,1,3] x) => (uint8[A,B,C] y)",
        "p = Pad (x, q, z) y = MaxPool <kernel_shape = [2]> (p)",
        f"int64[6] q = {{0, 0, 1, 0, 0, 1}}, uint8 z = {{{filling}}}",
    )
    after, _ = simplified(before)
    assert len(operators(after)) == left
    x = np.array([[[0, 3, 1]]], np.uint8)
    np.testing.assert_array_equal(in_onnxruntime(after, x), in_onnxruntime(before, x))


@pytest.mark.parametrize("opset", [7, 10])
def test_a_pad_before_a_pooling_of_an_old_opset(opset: int) -> None:
    before = model(
        "(float[1,1,3,4] x) => (float[A,B,C,D] y)",
        "p = Pad <pads = [0, 0, 1, 0, 0, 0, 1, 1]> (x) y = AveragePool <kernel_shape = [2, 2]> (p)",
        opset=opset,
    )
    after, _ = simplified(before)
    assert len(operators(after)) == 1
    x = np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4) - 5
    np.testing.assert_allclose(in_onnxruntime(after, x), in_onnxruntime(before, x), 1e-6)


def test_a_pad_of_a_size_that_may_be_zero_stays_before_a_pooling() -> None:
    body = "p = Pad (x, q, z) y = MaxPool <kernel_shape = [2]> (p)"
    for size, left in (("3", 1), ("W", 2)):
        before = model(
            f"(float[N,1,{size}] x) => (float[A,B,C] y)", body, "int64[6] q = {0, 0, 1, 0, 0, 0}, float z = {-inf}"
        )
        assert len(operators(simplified(before)[0])) == left


ZEROS_BEFORE_POOL = {
    "Relu": ("r = Relu (x) p = Pad (r, q) y = MaxPool <kernel_shape = [3, 3], strides = [2, 2]> (p)", 13, True),
    "Clip": ("r = Clip (x, z, h) p = Pad (r, q) y = MaxPool <kernel_shape = [3, 3]> (p)", 13, True),
    "Clip of opset 10": (
        ("r = Clip <min = 0.0, max = 6.0> (x) p = Pad <pads = [0, 0, 1, 1, 0, 0, 1, 0]> (r)"
        " y = MaxPool <kernel_shape = [3, 3]> (p)"),
        10,
        True,
    ),
    "no lower bound": ('r = Clip (x, "", h) p = Pad (r, q) y = MaxPool <kernel_shape = [3, 3]> (p)', 13, False),
    "a bound that is computed": (("s = ReduceMax <keepdims = 0> (x) r = Clip (x, s) p = Pad (r, q)"
                                 " y = MaxPool <kernel_shape = [3, 3]> (p)"), 13, False),
    "bounds the wrong way round": ("r = Clip (x, z, m) p = Pad (r, q) y = MaxPool <kernel_shape = [3, 3]> (p)",
                                   13, False),
    "a negative bound": ("r = Clip (x, m) p = Pad (r, q) y = MaxPool <kernel_shape = [3, 3]> (p)", 13, False),
    "no Relu": ("r = Tanh (x) p = Pad (r, q) y = MaxPool <kernel_shape = [3, 3]> (p)", 13, False),
    "other numbers": ("r = Relu (x) p = Pad (r, q, h) y = MaxPool <kernel_shape = [3, 3]> (p)", 13, False),
    "a window of zeros": ("r = Relu (x) p = Pad (r, q) y = MaxPool <kernel_shape = [1, 1]> (p)", 13, False),
    "a Relu that others read": (("r = Relu (x) p = Pad (r, q) o = MaxPool <kernel_shape = [3, 3]> (p)"
                                " s = ReduceMax <keepdims = 0> (r) y = Sub (o, s)"), 13, False),
    "two that read the Pad": (("r = Relu (x) p = Pad (r, q) o = MaxPool <kernel_shape = [3, 3]> (p)"
                              " s = MaxPool <kernel_shape = [3, 3]> (p) t = Neg (s) y = Sub (o, t)"), 13, True),
    "two different ones": (("r = Relu (x) p = Pad (r, q) o = MaxPool <kernel_shape = [3, 3]> (p)"
                           " s = MaxPool <kernel_shape = [2, 2]> (p) t = ReduceMax <keepdims = 0> (s) y = Sub (o, t)"),
                           13, False),
}  # fmt: skip


@pytest.mark.parametrize("case", ZEROS_BEFORE_POOL)
def test_zeros_around_what_is_never_negative(case: str) -> None:
    body, opset, goes = ZEROS_BEFORE_POOL[case]
    constants = "int64[8] q = {0, 0, 1, 1, 0, 0, 1, 0}, float z = {0}, float h = {6}, float m = {-1}"
    before = model("(float[N,2,6,5] x) => (float[A,B,C,D] y)", body, constants, opset=opset)
    after, _ = simplified(before)
    assert ("Pad" not in operators(after)) == goes
    assert simplified(after)[0] == after
    for x in (np.random.default_rng(0).normal(size=(2, 2, 6, 5)), np.full((1, 2, 6, 5), -2.0), np.zeros((1, 2, 6, 5))):
        fed = {"x": x.astype(np.float32)}
        sessions = (onnxruntime.InferenceSession(each.SerializeToString()) for each in (before, after))
        old, new = (session.run(None, fed)[0] for session in sessions)
        np.testing.assert_array_equal(new, old)


def test_verification_begins_in_front_of_the_relu() -> None:
    """Of other numbers than a Relu makes, what a Pad adds may win."""
    body = "a = Neg (x) b = Exp (a) r = Relu (b) p = Pad (r, q) o = MaxPool <kernel_shape = [3, 3]> (p) y = Sin (o)"
    constants = "int64[8] q = {0, 0, 1, 1, 0, 0, 1, 0}"
    before = model("(float[N,2,6,5] x) => (float[A,B,C,D] y)", body, constants)
    outcome = bnfold.optimize(before, verify=bnfold.VerifyOptions(depth="local"))
    assert outcome.verified
    assert "Pad" not in operators(outcome.to_proto())
