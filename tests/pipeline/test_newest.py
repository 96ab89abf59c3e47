"""What ``--opset latest`` is: what the installed onnx and onnxruntime both load."""

import numpy as np
import onnx
import onnxruntime
import pytest

import bnfold
from bnfold.ir.schemas import newest_opset
from bnfold.pipeline import newest
from bnfold.verification.runtimes.runtime import RuntimeProcess, RuntimeResult

QDQ = """<ir_version: 8, opset_import: ["" : 13]> g (float[n, 4] x) => (float[n, 4] y)
<float s = {0.5}, uint8 z = {3}> { q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z) }"""


def test_a_quantized_model_raised_to_the_latest_opset_loads() -> None:
    outcome = bnfold.convert(onnx.parser.parse_model(QDQ), opset="latest", verify=bnfold.VerifyOptions(depth="none"))
    proto = outcome.to_proto()
    assert 15 < outcome.report.opset_after == newest.newest_loaded() <= newest_opset()
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    assert session.run(None, {"x": np.ones((1, 4), np.float32)})[0].tolist() == [[1, 1, 1, 1]]


def test_without_a_runtime_it_is_the_newest_of_onnx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newest, "find_spec", lambda _name: None)
    newest.newest_loaded.cache_clear()
    assert newest.newest_loaded() == newest_opset()
    newest.newest_loaded.cache_clear()


def test_a_runtime_that_loads_none_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RuntimeProcess, "run", lambda *_: RuntimeResult("onnxruntime", error="it is too old"))
    newest.newest_loaded.cache_clear()
    assert newest.newest_loaded() == newest_opset()
    newest.newest_loaded.cache_clear()


def test_a_newer_model_stays_as_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newest, "newest_loaded", lambda: 11)
    outcome = bnfold.convert(onnx.parser.parse_model(QDQ), opset="latest", verify=bnfold.VerifyOptions(depth="none"))
    assert outcome.report.opset_after == 13
