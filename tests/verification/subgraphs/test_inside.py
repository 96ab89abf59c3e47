"""Values inside of two parts, where what follows hides a difference."""

from __future__ import annotations

import numpy as np
import pytest

from bnfold import ir
from bnfold.verification import verify
from bnfold.verification.coverage import record
from tests.verification.graphs import Depth, model, numbers, single

HEAD = "(float[N,3,H,W] x) => (float[N,4,H,W] y)"
PLAIN = f"{HEAD} {{ c = Conv (x, w)  a = Add (c, b)  r = Relu (a)  y = Transpose <perm = [0, 1, 3, 2]> (r) }}"
FOLDED = f"{HEAD} {{ f = Conv (x, w, k)  q = Relu (f)  y = Transpose <perm = [0, 1, 3, 2]> (q) }}"


@pytest.mark.parametrize(("wrong", "status"), [(0.0, "verified"), (3.0, "unverified")])
def test_a_dead_channel_shows_an_error_in_front_of_the_relu(wrong: float, status: str) -> None:
    """One bias is so low that no input makes its channel positive; behind it, no bias as low shows."""
    rng = numbers(3)
    weight, bias = single(rng.normal(size=(4, 3, 1, 1))), single(rng.normal(size=4))
    bias[1] = -1e9
    low = bias.copy()
    low[1] *= 1 + wrong
    before = model(PLAIN, {"w": weight, "b": bias.reshape(4, 1, 1)})
    after = model(FOLDED, {"w": weight, "k": low})
    verdict = verify(ir.load(before), ir.load(after), depth="local", runtime="none")
    assert verdict.status == status, verdict.reason


def test_what_stands_beside_the_first_input_has_to_be_equal() -> None:
    rng = numbers(3)
    weight, bias = single(rng.normal(size=(4, 3, 1, 1))), single(rng.normal(size=4))
    bias[1] = -1e9
    weights = {"w": weight, "b": bias.reshape(4, 1, 1), "k": bias, "low": single(np.array(0.0))}
    verdicts = []
    for second in (0.0, -1e8):
        before = model(PLAIN.replace("Relu (a)", "Max (a, low)"), weights)
        after = model(FOLDED.replace("Relu (f)", "Max (f, low)"), {**weights, "low": single(np.array(second))})
        verdicts.append(verify(ir.load(before), ir.load(after), depth="local", runtime="none").status)
    assert verdicts == ["verified", "failed"]


@pytest.mark.parametrize(
    ("node", "wrong", "status"),
    [
        ("Relu ({})", 0.0, "verified"),
        ("Relu ({})", 3.0, "unverified"),
        ("LeakyRelu <alpha = 0.0> ({})", 0.0, "verified"),
        ("LeakyRelu <alpha = 0.0> ({})", 3.0, "unverified"),
        ("Clip ({}, zero)", 0.0, "unverified"),  # scaled, its bound would be another one
    ],
)
def test_a_factor_may_stand_on_either_side_of_the_relu(node: str, wrong: float, status: str) -> None:
    rng = numbers(3)
    weight, bias = single(rng.normal(size=(4, 3, 1, 1))), single(rng.normal(size=4))
    bias[1] = -1e9
    low = bias / 2
    low[1] *= 1 + wrong
    weights = {"w": weight, "b": bias, "half": np.array(0.5), "zero": np.array(0.0)}
    behind = model(f"{HEAD} {{ c = Conv (x, w, b)  r = {node.format('c')}  y = Mul (r, half) }}", weights)
    front = model(f"{HEAD} {{ d = Conv (x, w, b)  y = {node.format('d')} }}", {**weights, "w": weight / 2, "b": low})
    verdict = verify(ir.load(behind), ir.load(front), depth="local", runtime="none")
    assert verdict.status == status, verdict.reason


def test_values_inside_spare_the_question_whether_each_fault_would_show(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object) -> bool:
        raise AssertionError("a fault behind the Relu was looked for")

    monkeypatch.setattr(record, "_shows", asked)
    rng = numbers(3)
    weight, bias = single(rng.normal(size=(12, 3, 1, 1))), single(rng.normal(size=12))
    head = "(float[N,3,H,W] x) => (float[N,12,H,W] y)"
    body = "c = Conv (x, w)  a = Add (c, b)  m = Mul (a, two)  r = Relu (m)  y = Transpose <perm = [0, 1, 3, 2]> (r)"
    before = model(f"{head} {{ {body} }}", {"w": weight, "b": bias.reshape(12, 1, 1), "two": np.array(2.0)})
    for factor, status in ((2.0, "verified"), (2.01, "failed")):
        folded = FOLDED.replace("float[N,4,H,W]", "float[N,12,H,W]")
        after = model(folded, {"w": weight * 2, "k": single(bias * factor)})
        verdict = verify(ir.load(before), ir.load(after), depth="local", runtime="none")
        assert verdict.status == status, verdict.reason


@pytest.mark.parametrize("depth", ["auto", "full", "local"])
@pytest.mark.parametrize("op", ["ReduceMax <keepdims = 0> ({})", "ReduceMin <keepdims = 0> ({})", "GlobalMaxPool ({})"])
@pytest.mark.parametrize(("start", "end", "status"), [(0, 6, "verified"), (1, 6, "failed"), (0, 5, "failed")])
def test_what_chooses_one_number_of_many_shows_that_each_was_there(
    op: str, start: int, end: int, status: str, depth: Depth
) -> None:
    """The largest number of a sample is rarely in the row that a Range might leave out."""
    head = (
        "(float[1,3,6,7] x) => (float[] y)" if op.startswith("Reduce") else "(float[1,3,6,7] x) => (float[1,3,1,1] y)"
    )
    weights = {"s": np.array(start), "e": np.array(end), "one": np.array(1)}
    rows = f"r = Range (s, e, one)  g = Gather <axis = 2> (x, r)  y = {op.format('g')}"
    before, after = model(f"{head} {{ {rows} }}", weights), model(f"{head} {{ y = {op.format('x')} }}", {})
    found = verify(ir.load(before), ir.load(after), depth=depth, runtime="none").status
    assert found == status if status == "verified" else found != "verified"


@pytest.mark.parametrize("depth", ["auto", "full", "local"])
@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMin"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("row", [0, 3, 5])
def test_a_row_that_is_left_out_in_front_of_a_reduction_shows(op: str, axis: int, row: int, depth: Depth) -> None:
    head, reduced = "(float[6,6] x) => (float[A,B] y)", f"y = {op} <axes = [0, 1]>"
    before = model(f"{head} {{ {reduced} (x) }}", {}, opset=17)
    places = {"i": np.delete(np.arange(6), row)}
    after = model(f"{head} {{ g = Gather <axis = {axis}> (x, i)  {reduced} (g) }}", places, opset=17)
    for old, new in ((before, after), (after, before)):
        assert verify(ir.load(old), ir.load(new), depth=depth, runtime="none").status != "verified"
