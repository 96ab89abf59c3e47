"""What single clauses of the coverage are for: without one of them, a test below fails."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from bnfold import ir
from bnfold.verification import parts, verify
from bnfold.verification.claims import Evidence
from tests.verification.graphs import Array, Depth, model, numbers

DEPTHS: tuple[Depth, ...] = ("auto", "full", "local")
EVERY_DEPTH = pytest.mark.parametrize("depth", DEPTHS)


def status(before: onnx.ModelProto, after: onnx.ModelProto, depth: Depth) -> str:
    return verify(ir.load(before), ir.load(after), depth=depth, runtime="none").status


@EVERY_DEPTH
@pytest.mark.parametrize(
    ("head", "node", "opset"),
    [
        ("(float[N,C] x) => (float[N,C] y)", "Softmax <axis = {}> (x)", 13),
        ("(float[N,C] x) => (int64[N,P] y)", "ArgMax <axis = {}> (x)", 13),
        ("(int64[N] x) => (float[A,B] y)", "OneHot <axis = {}> (x, seven, v)", 13),
        ("(float[N] x) => (float[N,P] y)", "Unsqueeze <axes = [{}]> (x)", 11),
    ],
)
def test_axes_may_be_counted_from_the_back(head: str, node: str, opset: int, depth: Depth) -> None:
    """Of OneHot and Unsqueeze among those of the result."""
    weights = {"seven": np.array(7), "v": np.array([0.0, 1.0])} if "OneHot" in node else {}
    last, second, first = (model(f"{head} {{ y = {node.format(axis)} }}", weights, opset=opset) for axis in (-1, 1, 0))
    assert status(last, second, depth) == "verified"
    assert status(last, first, depth) == "failed"


LARGEST = float(np.finfo(np.float32).max)


@EVERY_DEPTH
@pytest.mark.parametrize(
    ("old", "weights", "opset"),
    [
        ("h = Max (x, low)  y = Relu (h)", {"low": -LARGEST}, 13),
        ("y = Clip (x, low, high)", {"low": 0.0, "high": LARGEST}, 13),
        ("y = Clip <min = 0.0> (x)", {}, 6),
    ],
)
def test_the_largest_number_bounds_nothing(old: str, weights: dict[str, float], opset: int, depth: Depth) -> None:
    head = "(float[N,3] x) => (float[N,3] y)"
    before = model(f"{head} {{ {old} }}", {name: np.array(bound) for name, bound in weights.items()}, opset=opset)
    assert status(before, model(f"{head} {{ y = Relu (x) }}", {}), depth) == "verified"
    assert status(before, model(f"{head} {{ y = LeakyRelu (x) }}", {}), depth) == "failed"


@pytest.mark.parametrize("depth", ["auto", "local"])
@pytest.mark.parametrize("channels", [2, 4])
def test_a_shift_that_was_lost_in_front_of_an_order_has_to_show(channels: int, depth: Depth) -> None:
    """It rarely turns two numbers round. That another constant, which is new, shows is no excuse."""
    factor, shift = numbers(5).uniform(0.5, 2.0, channels), np.zeros(channels)
    shift[-1] = 0.0003
    head = f"(float[B,{channels}] x) => (int64[B,1] y)"
    before = model(f"{head} {{ g = Mul (x, s)  a = Add (g, c)  y = ArgMax <axis = 1> (a) }}", {"s": factor, "c": shift})
    after = model(f"{head} {{ h = Mul (x, r)  y = ArgMax <axis = 1> (h) }}", {"r": factor.reshape(1, -1)})
    assert status(before, after, depth) != "verified"


@EVERY_DEPTH
def test_a_value_that_is_hidden_inside_has_to_show(depth: Depth) -> None:
    """It differs; what is made of it is the same until numbers are far out."""
    gate = "q = Neg (x)  t = Sub (q, far)  r = Relu (t)  m = Mul (a, r)  y = Add (m, x)"
    before, after = (
        model(f"(float[N,3] x) => (float[N,3] y) {{ a = {node} (x)  {gate} }}", {"far": np.array(1e5)})
        for node in ("Abs", "Identity")
    )
    assert status(before, after, depth) != "verified"


@pytest.mark.parametrize("depth", ["auto", "full"])
def test_a_result_that_whole_models_hide_is_not_verified(depth: Depth) -> None:
    """Nothing but inputs that are far out opens the gate behind it."""
    head = "(float[N,3] x, float[N,3] z) => (float[N,3] y)"
    gate = "t = Sub (x, far)  r = Relu (t)  m = Mul (a, r)  y = Add (m, x)"
    before, after = (
        model(f"{head} {{ a = {node} (z)  {gate} }}", {"far": np.array(1e5)}) for node in ("Abs", "Identity")
    )
    assert status(before, after, depth) == "unverified"


@EVERY_DEPTH
@pytest.mark.parametrize(
    ("name", "through", "choice"),
    [
        ("T", "Identity", "int64[1] i) => (float[1,4] y) { y = Gather (x1, i)"),
        ("U", "Identity", "int64[1] i) => (float[1,4] y) { y = Gather (x1, i)"),
        ("U", "Relu", "int64[1] i) => (float[1,4] y) { y = Gather (x1, i)"),
        ("U", "Relu", "int64[N] i) => (float[N,4] y) { y = Gather (x1, i)"),
        ("U", "Relu", "int64[9,1] i) => (float[9,4] y) { y = GatherND (x1, i)"),
        ("U", "Identity", "int64[1] i) => (float[N,4] y) { y = Slice (x1, none, i, none)"),
    ],
)
def test_what_is_added_in_front_of_a_choice_may_never_be_chosen(
    name: str, through: str, choice: str, depth: Depth
) -> None:
    table, (head, last) = numbers(3).normal(size=(50, 4)), choice.split("{")
    wrong = table.copy()
    wrong[30] += 1
    weights = {"none": np.array([0])} if "none" in last else {}

    def of(made: str, name: str, rows: Array) -> onnx.ModelProto:
        nodes = f"{made} = Add (x, {name})  {made}1 = {through} ({made}) {last.replace('x1', f'{made}1')}"
        return model(f"(float[50,4] x, {head} {{ {nodes} }}", {name: rows, **weights})

    assert status(of("h", "T", table), of("g", name, wrong), depth) != "verified"


@EVERY_DEPTH
def test_a_few_rows_that_are_added_in_front_of_a_choice_are_chosen(depth: Depth) -> None:
    table, factor = numbers(3).normal(size=(8, 4)), np.array([1.0, 2.0, -1.0, 0.5])
    head = "(float[8,4] x, int64[N] i) => (float[N,4] y)"
    before = model(f"{head} {{ h = Add (x, T)  g = Gather (h, i)  y = Mul (g, k) }}", {"T": table, "k": factor})
    nodes = "m = Mul (x, k)  g = Add (m, U)  y = Gather (g, i)"
    after = model(f"{head} {{ {nodes} }}", {"k": factor, "U": table * factor})
    assert status(before, after, depth) == "verified"


@EVERY_DEPTH
def test_a_table_that_both_models_have_need_not_be_read(depth: Depth) -> None:
    head, table = "(int64[1] i) => (float[1,4] y)", numbers(3).normal(size=(1000, 4))
    before = model(f"{head} {{ y = Gather (T, i) }}", {"T": table})
    after = model(f"{head} {{ j = Add (i, z)  y = Gather (T, j) }}", {"T": table, "z": np.array(0)})
    assert status(before, after, depth) == "verified"


def test_rows_that_are_what_they_were_need_not_be_read() -> None:
    """One differs, by a unit in the last place; the others would take a minute."""
    table = numbers(3).normal(size=(100_000, 1)).astype(np.float32)
    other = table.copy()
    other[500] = np.nextafter(other[500], np.float32(np.inf))
    before, after = (
        model("(int64[1] i) => (float[1,1] y) { y = Gather (T, i) }", {"T": rows}) for rows in (table, other)
    )
    assert status(before, after, "local") == "verified"


@EVERY_DEPTH
@pytest.mark.parametrize("indices", ["1", "N"])
def test_a_row_that_was_not_scaled_is_read_although_it_is_what_it_was(indices: str, depth: Depth) -> None:
    """Scaling changes two rows of a thousand."""
    table, factor = np.zeros((1000, 2)), np.array([1.0, 2.0])
    table[:, 0], table[[7, 500], 1] = numbers(3).normal(size=1000), 1.0
    wrong = table.copy()
    wrong[7, 1] = 2.0
    head = f"(int64[{indices}] i) => (float[{indices},2] y)"
    before = model(f"{head} {{ h = Gather (T, i)  y = Mul (h, s) }}", {"T": table, "s": factor})
    right, lost = (
        model(f"{head} {{ h = Gather (T, i)  y = Identity (h) }}", {"T": rows}) for rows in (table * factor, wrong)
    )
    assert status(before, right, depth) == "verified"
    assert status(before, lost, depth) != "verified"


@EVERY_DEPTH
@pytest.mark.parametrize("indices", ["1", "N"])
def test_a_row_that_a_lost_operator_changes_is_read(indices: str, depth: Depth) -> None:
    """The part is the same on what usual indices choose."""
    table = np.abs(numbers(3).normal(size=(1000, 2))) + 0.1
    table[500] *= -1
    head = f"(int64[{indices}] i) => (float[{indices},2] y)"
    before, after = (
        model(f"{head} {{ h = Gather (T, i)  y = {node} (h) }}", {"T": table}) for node in ("Abs", "Identity")
    )
    assert status(before, after, depth) != "verified"


def test_one_part_that_stays_open_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole models agree, and do not show either bound; it is not asked twice whether they would."""
    asked: list[str] = []
    in_whole = parts._in_whole

    def noted(*given: Any) -> Evidence:
        asked.append(given[1].label)
        return in_whole(*given)

    monkeypatch.setattr(parts, "_in_whole", noted)
    head = "(float[N,3] x, float[N,3] z) => (float[N,3] y, float[N,3] v)"
    before = model(f"{head} {{ y = Clip (x, low)  v = Clip (z, low) }}", {"low": np.array(-1e9)})
    after = model(f"{head} {{ y = Identity (x)  v = Identity (z) }}", {})
    assert status(before, after, "auto") == "unverified"
    assert len(asked) == 1
