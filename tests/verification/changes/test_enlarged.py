"""Values that mean something else under their old names: what reads them decides, in bodies too."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from bnfold import ir
from bnfold.verification import verify
from bnfold.verification.changes.enlarged import further_back
from tests.verification.graphs import Weights, along, model, numbers

HEAD = "(float[N,4,5,5] x, bool k) => (float[N,4,5,5] y, float[N,4,5,5] z)"
BRANCHES = (
    " z = If (k) <then_branch = t () => (float[N,4,5,5] o) {{ {} }},"
    " else_branch = e () => (float[N,4,5,5] p) {{ p = Relu (x) }}> }}"
)
SCALE = np.linspace(0.5, 1.5, 4)
KERNEL = numbers(5).normal(size=(4, 4, 1, 1))


def pair(old: str, new: str) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """The name of the Conv's result is that of the scaled one afterwards."""
    before: Weights = {"K": KERNEL, "s": along(SCALE, 1, 4), "two": np.array(2.0)}
    after: Weights = {"K": KERNEL * SCALE.reshape(4, 1, 1, 1)}
    return (
        model(f"{HEAD} {{ v = Conv (x, K)  w = Mul (v, s)  y = Relu (w) {BRANCHES.format(old)}", before),
        model(f"{HEAD} {{ v = Conv (x, K)  y = Relu (v) {BRANCHES.format(new)}", after),
    )


@pytest.mark.parametrize(
    ("old", "new", "status"),
    [
        ("o = Sin (v)", "o = Sin (v)", "failed"),
        ("q = Mul (v, two) o = Sin (q)", "q = Add (v, v) o = Sin (q)", "failed"),
        ("o = Sin (w)", "o = Sin (v)", "verified"),
    ],
)
def test_a_body_may_read_what_was_folded(old: str, new: str, status: str) -> None:
    before, after = pair(old, new)
    verdict = verify(ir.load(before), ir.load(after), depth="local", runtime="none")
    assert verdict.status == status, verdict.reason


def test_going_back_begins_with_what_depends_on_the_rest_of_the_boundary() -> None:
    """Fed together, a value and what is computed from it could contradict each other."""
    text = "(float[4] x) => (float[4] y) {{ a = Tanh (x) s = Sigmoid (a) t = Abs (s) u = Sqrt (t) y = {} (s, u) }}"
    before, after = (ir.load(model(text.format(operator), {})) for operator in ("Add", "Max"))
    cut = ir.Cut("", inputs=("s", "u"), outputs=("y",), label="Add y")
    assert [further.inputs for further in further_back(before, after, cut)] == [("s",), ("a",), ("x",)]
