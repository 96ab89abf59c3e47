"""Which models are narrower versions of others, and what is said of them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import bnfold
from bnfold import ir
from bnfold.verification.remedies import narrower_type
from tests.verification.graphs import Weights, model

HEAD = "(float[2,3] x) => (float[2,3] y)"
FLOAT = model(f"{HEAD} {{ h = MatMul (x, w)  y = Relu (h) }}", {"w": np.eye(3) * 1.7})
SCALES: Weights = {"w": np.eye(3) * 1.7, "i": np.eye(3, dtype=np.int8), "s": np.array(0.1), "z": np.array(0, np.int8)}


def said(after: onnx.ModelProto, before: onnx.ModelProto = FLOAT) -> str:
    return narrower_type(ir.load(before), ir.load(after))


@pytest.mark.parametrize(
    "nodes",
    [
        "q = QuantizeLinear (x, s, z)  d = DequantizeLinear (q, s, z)  h = MatMul (d, w)  y = Relu (h)",
        "d = DequantizeLinear (i, s, z)  h = MatMul (x, d)  y = Relu (h)",
        "q = QuantizeLinear (x, s, z)  m = QLinearMatMul (q, s, z, i, s, z, s, z)  y = DequantizeLinear (m, s, z)",
        "q, t, u = DynamicQuantizeLinear (x)  m = MatMulInteger (q, i, u, z)  f = Cast <to = 1> (m)  y = Mul (f, s)",
        "y = com.microsoft.MatMulNBits <K = 3, N = 3, bits = 4, block_size = 16> (x, i, s)",
    ],
    ids=["QDQ", "weights alone", "QOperator", "dynamic", "of another domain"],
)
def test_quantized_versions(nodes: str) -> None:
    assert said(model(f"{HEAD} {{ {nodes} }}", SCALES)) == "int8"


@pytest.mark.parametrize(
    ("body", "dtype"),
    [
        (f"{HEAD} {{ c = Cast <to = 10> (x)  h = MatMul (c, w)  r = Relu (h)  y = Cast <to = 1> (r) }}", np.float16),
        (f"{HEAD.replace('float[', 'float16[')} {{ h = MatMul (x, w)  y = Relu (h) }}", np.float16),
        (f"{HEAD} {{ c = Cast <to = 10> (x)  r = Relu (c)  y = Cast <to = 1> (r) }}", np.float32),
    ],
    ids=["inside", "inputs and outputs too", "without weights"],
)
def test_float16_versions(body: str, dtype: type) -> None:
    assert said(model(body, {"w": np.eye(3) * 1.7}, dtype=dtype)) == "float16"


def test_others_are_none() -> None:
    half = model(f"{HEAD.replace('float[', 'float16[')} {{ y = Relu (x) }}", {})
    quantized = model(f"{HEAD} {{ q = QuantizeLinear (x, s, z)  y = DequantizeLinear (q, s, z) }}", SCALES)
    wrong = model(f"{HEAD} {{ h = MatMul (x, w)  y = Relu (h) }}", {"w": np.eye(3)})
    other = model(f"{HEAD.replace('y)', 'other)')} {{ c = Cast <to = 10> (x)  other = Cast <to = 1> (c) }}", {})
    assert [said(after) for after in (FLOAT, wrong, other)] == ["", "", ""]
    assert (said(half, half), said(quantized, quantized), said(FLOAT, half)) == ("", "", "")


def test_it_is_said_of_those_that_are_not_verified_and_of_them_alone() -> None:
    rounded = model(
        f"{HEAD} {{ c = Cast <to = 10> (x)  f = Cast <to = 1> (c)  h = MatMul (f, w)  y = Relu (h) }}", SCALES
    )
    options = bnfold.VerifyOptions(runtime="none")
    verdict = bnfold.verify(FLOAT, rounded, options=options)
    what = "AFTER is a float16 version of BEFORE"
    assert verdict.verified or (verdict.next is not None and what in verdict.next.text)
    kept = bnfold.verify(FLOAT, rounded, tolerance="float16", options=options)
    assert kept.next is None or what not in kept.next.text
