"""Originals that do not run as they are declared: compared on what their operators take, and never called broken."""

from __future__ import annotations

import numpy as np
import pytest

from bnfold import ir
from bnfold.verification import verify
from bnfold.verification.end_to_end import samples
from bnfold.verification.runtimes import runtime
from bnfold.verification.verdict import Verdict
from tests.verification.graphs import model


def compared(body: str, opset: int, other: str, other_opset: int) -> Verdict:
    before, after = ir.load(model(body, {}, opset=opset)), ir.load(model(other, {}, opset=other_opset))
    return verify(before, after, runtime="none")


PLACES = "(float[2,3] x, float[1,1] i) => (float[1,3] y)"
LENGTH = "(float[2,16,1] x, float n) => (float[2,16,2] y)"
RECURRENT = "(float[5,3,4] x, float[1,18,4] W, float[1,18,4] R) => (float[5,1,3,6] y)"
LABELS = "(float[3,4,5,6] x, int64[3,6] t) => (float y)"
SUM = "(float[3,4,5] x, float[3,1,5] b) => (float[3,4,5] y)"


@pytest.mark.parametrize(
    ("head", "opset", "node", "other_opset", "right", "wrong"),
    [
        (PLACES, 11, "y = GatherND (x, i)", 13, "y = GatherND (x, i)", "g = GatherND (x, i)  y = Neg (g)"),
        (
            LENGTH,
            17,
            "y = DFT <axis = 1> (x, n)",
            20,
            "a = Constant <value_int = 1> ()  y = DFT (x, n, a)",
            "a = Constant <value_int = 0> ()  y = DFT (x, n, a)",
        ),
        (
            RECURRENT,
            7,
            "y = GRU <hidden_size = 6> (x, W, R)",
            14,
            "y = GRU <hidden_size = 6> (x, W, R)",
            "y = GRU <hidden_size = 6, linear_before_reset = 1> (W, x, R)",
        ),
        (
            LABELS,
            12,
            "y = SoftmaxCrossEntropyLoss (x, t)",
            13,
            "y = SoftmaxCrossEntropyLoss (x, t)",
            'y = SoftmaxCrossEntropyLoss <reduction = "sum"> (x, t)',
        ),
        (SUM, 6, "y = Add (x, b)", 7, "y = Add (x, b)", "y = Sub (x, b)"),
    ],
)
def test_what_its_operators_take_is_compared(
    head: str, opset: int, node: str, other_opset: int, right: str, wrong: str
) -> None:
    """Against wrong types, wrong shapes, and a node that fits only a later version."""
    good = compared(f"{head} {{ {node} }}", opset, f"{head} {{ {right} }}", other_opset)
    assert good.verified, good.reason
    assert "of shapes that the operators take (the original model cannot be run" in good.reason
    bad = compared(f"{head} {{ {node} }}", opset, f"{head} {{ {wrong} }}", other_opset)
    if "(W, x, R)" in wrong:  # the runtime opens the original, though it does not run it
        assert bad.status == "failed"
        return
    assert bad.status == "unverified"
    assert bad.reason.startswith("the original model cannot be run at the shapes that it declares")


def test_other_sizes_than_declared_are_tried_as_long_as_that_takes_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "_LOOSE_SECONDS", -1.0)
    verdict = compared(f"{SUM} {{ y = Add (x, b) }}", 6, f"{SUM} {{ z = Add (x, b)  n = Neg (z)  y = Neg (n) }}", 7)
    assert not verdict.outputs, "nothing was compared as a whole"


def test_a_result_has_to_fit_its_own_version() -> None:
    body = f"{SUM} {{ y = Add (x, b) }}"
    assert compared(body, 6, body, 7).verified
    assert compared(body, 6, f"{SUM} {{ n = Neg (x)  z = Neg (n)  y = Add (z, b) }}", 6).status == "unverified"


def test_an_original_that_a_runtime_runs_is_not_read_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the referee is wrong about it, and other sizes would prove nothing."""
    bodies = "y = GatherND (x, i)", "n = Neg (x)  z = Neg (n)  y = GatherND (z, i)"
    before, after = (ir.load(model(f"{PLACES} {{ {body} }}", {}, opset=11)) for body in bodies)
    assert verify(before, after).verified
    results = ({"y": np.zeros((1, 3), np.float32)},)
    monkeypatch.setattr(runtime.RuntimeProcess, "run", lambda *_: runtime.RuntimeResult("a runtime", results))
    assert verify(before, after).status == "unverified"


def test_what_runs_is_compared_as_it_is_declared() -> None:
    body = f"{SUM} {{ y = Add (x, b) }}"
    verdict = compared(body, 7, body, 14)
    assert verdict.reason.startswith("outputs are identical (float64, ")
    assert compared(body, 7, f"{SUM} {{ y = Sub (x, b) }}", 14).status == "failed"


def test_open_inputs_are_still_asked_for() -> None:
    """Sizes that nobody tells may be the reason; other types and shapes are not made up then."""
    body = "(float[N,M] x, float[3,1,5] b) => (float[A,B,C] y) { z = Reshape <shape = [7,11,13]> (x)  y = Add (z, b) }"
    assert "no input shape tried fits" in compared(body, 1, body, 4).notes[0]
