"""Whose error it is when a runtime errs more on the rewritten model: the rewrite's, or the runtime's own."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Literal

import numpy as np
import onnx
import pytest

from bnfold import ir, reference
from bnfold.verification import verify
from bnfold.verification.end_to_end import runtime_check
from bnfold.verification.inputs.drawing import DrawnFeeds
from bnfold.verification.runtimes import runtime
from tests.verification.graphs import Weights, model

HEAD = "(float[1,20] x) => (float[1,20] y)"
WEIGHTS: Weights = {"a": np.array(3.75), "b": np.array(-1.25), "ab": np.array(-4.6875), "c": np.array(2.0**20)}
MERGED = "z = Mul (x, ab)  y = Exp (z)"
CANCELLING = "h = Mul (x, ab)  u = Add (h, c)  z = Sub (u, c)  y = Exp (z)"


@pytest.mark.parametrize(
    ("nodes", "error", "status"),
    [(MERGED, 0.1, "verified"), (MERGED, 1e-6, "failed"), (CANCELLING, 0.1, "failed")],
    ids=["wrong about the original", "right about the original", "our kernels lose it too"],
)
def test_an_error_that_grows(monkeypatch: pytest.MonkeyPatch, nodes: str, error: float, status: str) -> None:
    """As with onnxruntime's Sigmoid: at results of 3e-8, one ulp of its input turns an error of 0.07 into 1.8."""
    before = ir.load(model(f"{HEAD} {{ h = Mul (x, a)  z = Mul (h, b)  y = Exp (z) }}", WEIGHTS))
    after = ir.load(model(f"{HEAD} {{ {nodes} }}", WEIGHTS))

    def testimony(_: object, asked: ir.Model, feeds: list[DrawnFeeds], *__: object) -> runtime.RuntimeResult:
        share = error if asked is before else 1.8
        told = [reference.evaluate(before, feed)["y"] for feed in feeds]
        return runtime.RuntimeResult("a runtime", tuple({"y": y + share * y.max()} for y in told))

    monkeypatch.setattr(runtime, "stored", nullcontext)
    monkeypatch.setattr(runtime.RuntimeProcess, "run", testimony)
    verdict = verify(before, after)
    assert verdict.status == status, verdict.reason
    assert any("wrong about the original" in note for note in verdict.notes) == (status == "verified")
    if status == "failed":
        assert (verdict.decided_by, "grew" in verdict.reason) == ("storage precision", True)
        assert [f"output {row.name!r}: {row.fault}" for row in verdict.outputs] == [verdict.reason]


OF_TWO = {
    "layer": "y = LayerNormalization <axis = -1, epsilon = 1e-9> (u, ones)",
    "decomposed": "m = ReduceMean <axes = [-1]> (u)  d = Sub (u, m)  q = Mul (d, d)  v = ReduceMean <axes = [-1]> (q)"
    "  r = Sqrt (v)  y = Div (d, r)",
}


@pytest.mark.parametrize("kind", OF_TWO)
def test_a_rounding_that_a_normalization_of_two_numbers_amplifies_is_no_fault(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two numbers that are nearly equal; the original's own rounding is large or 0, as it happens."""

    def side(nodes: str, weights: Weights) -> ir.Model:
        body = f"(float[4,1] x) => (float[4,2] y) {{ {nodes}  {OF_TWO[kind]} }}"
        return ir.load(model(body, weights, opset=17))

    def status(seed: int) -> str:
        rng = np.random.default_rng(seed)
        a, b, gap = rng.uniform(0.5, 2), rng.uniform(0.5, 2), 10 ** rng.uniform(-4, -2)
        arrays = {"a": [a, a], "b": [b, b + gap], "ones": [1, 1]}
        weights: Weights = {name: np.array(numbers, np.float32) for name, numbers in arrays.items()}
        shift = (weights["b"].astype(np.float64) / weights["a"]).astype(np.float32)
        before = side("h = Mul (x, a)  u = Add (h, b)", weights)
        after = side("h = Add (x, c)  u = Mul (h, a)", {**weights, "c": shift})
        return verify(before, after, runtime="none").status

    seeds = (3, 6, 8, 24)
    assert [status(seed) for seed in seeds] == ["verified"] * len(seeds)
    monkeypatch.setattr(runtime_check, "JITTERS", 0)  # a single draw of rounding
    assert "failed" in map(status, seeds)


def test_what_the_runtime_does_not_run_although_it_ran_the_original_has_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, after = (ir.load(model(f"{HEAD} {{ {op} = Exp (x)  y = Neg ({op}) }}", {})) for op in "ab")

    def testimony(_: object, asked: ir.Model, feeds: list[DrawnFeeds], *__: object) -> runtime.RuntimeResult:
        if asked is not before:
            return runtime.RuntimeResult("a runtime", error="a form it has no kernel for")
        return runtime.RuntimeResult("a runtime", tuple(reference.evaluate(before, feed) for feed in feeds))

    monkeypatch.setattr(runtime, "stored", nullcontext)
    monkeypatch.setattr(runtime.RuntimeProcess, "run", testimony)
    verdict = verify(before, after)
    assert (verdict.status, verdict.decided_by) == ("failed", "runtime")
    assert verdict.reason == "a runtime runs the original, but not the rewritten model: a form it has no kernel for"


@pytest.mark.parametrize("depth", ["auto", "local"])
@pytest.mark.parametrize(("read", "zero_point"), [("b", 1.0), ("d", -0.0)], ids=["dead", "the same constant"])
def test_what_only_a_runtime_computes(depth: Literal["auto", "local"], read: str, zero_point: float) -> None:
    """A float8 has to have a zero point of no bits; b has the one size that the rest can have besides 1."""
    pytest.importorskip("onnxruntime")
    body = f"(float[N,4] x) => (float[N,4] y) {{ d = DequantizeLinear (q, s, z)  h = Add (x, b)  y = Add (h, {read}) }}"
    models = []
    for point in (0.0, zero_point):
        proto = model(body, {"b": np.ones((3, 1)), "s": np.ones(())}, opset=19)
        for name, number in (("q", 2.0), ("z", point)):
            tensor = onnx.helper.make_tensor(name, onnx.TensorProto.FLOAT8E4M3FN, [], [number])
            proto.graph.initializer.append(tensor)
        models.append(ir.load(proto))
    before, after = models
    assert verify(before, before, depth=depth).verified
    verdict = verify(before, after, depth=depth)
    assert verdict.status == "failed", verdict.reason
    assert "runs the original, but not the rewritten model" in verdict.reason
