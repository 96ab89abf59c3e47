"""What the other optimisers are asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import bnfold
from bnfold.pipeline import simplifiers
from tests.verification.graphs import model

pytest.importorskip("onnxscript")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_branches_of_equal_fills_become_one_and_nothing_is_run() -> None:
    """As in networks whose weights are left out."""
    fills = " ".join(f"{name} = ConstantOfShape <value = float[1] {{0.5}}> (dims)" for name in ("v", "w"))
    nodes = f"{fills} c = Conv (x, v) d = Conv (x, w) r = Relu (c) s = Relu (d) y = Concat <axis = 1> (r, s)"
    head = "(float[N,2,9,9] x) => (float[N,8,7,7] y)"
    onnx.save(model(f"{head} {{ {nodes} }}", {"dims": np.array([4, 2, 3, 3])}, opset=15), "in.onnx")
    outcome = bnfold.optimize("in.onnx", "out.onnx", simplify=True)
    assert [node.op_type for node in onnx.load("out.onnx").graph.node] == ["Conv", "Relu", "Concat"]
    verdict = outcome.steps[1].verdict
    assert verdict is not None
    assert (verdict.status, verdict.local) == ("verified", ())


def test_a_result_of_onnxruntime_imports_no_more_than_the_model() -> None:
    """Older runtimes refuse a domain at a version that they do not know."""
    proto = model("(float[2] x) => (float[2] y) { h = Neg (x)  y = Identity (h) }", {}, opset=13)
    onnx.save(proto, "in.onnx")
    simplifiers.TOOLS["onnxruntime"](str(Path("in.onnx").resolve()), str(Path("out.onnx").resolve()))
    assert [entry.domain for entry in onnx.load("out.onnx").opset_import] == [""]
