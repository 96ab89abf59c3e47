"""What onnx has against a model reaches the reason of a BatchNormalization that stays."""

from __future__ import annotations

import onnx

import bnfold

MODEL = """<ir_version: 8, opset_import: ["" : 15, "local" : 1]> g (float[1,3,4,4] x) => (float y)
    <float[4] p = {1,2,3,4}, float[2,2] w = {1,2,3,4}> { %s  y = BatchNormalization (c, p, p, p, p) }"""


def detail(node: str) -> str:
    report = bnfold.fold(onnx.parser.parse_model(MODEL % node)).report
    (event,) = report.batchnorms
    assert event.reason is not None
    assert event.reason.code == "rank-unknown"
    return event.detail


def test_a_rank_that_is_unknown_because_the_model_cannot_run() -> None:
    told = detail("c = MatMul (x, w)")
    assert told.startswith("value 'c'; shape inference fails: (op_type:MatMul)")
    assert "\n" not in told


def test_a_rank_that_nobody_can_tell() -> None:
    assert detail("c = local.Plugin (x)") == "value 'c'"
