"""What single conditions of comparing parts are for: without one of them, a wrong model below is called verified."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest

from bnfold import ir
from bnfold.verification import verify
from bnfold.verification.coverage import Coverage
from tests.verification.graphs import Weights, model


def status(before: onnx.ModelProto, after: onnx.ModelProto) -> str:
    return verify(ir.load(before), ir.load(after), depth="local", runtime="none").status


def slices(ends: Sequence[int], nodes: str, weights: Weights) -> onnx.ModelProto:
    """Return a model of regions that are alike but for where a Slice ends; ``#`` is the number of one."""
    each = range(len(ends))
    inputs, outputs = (", ".join(f"float[N,L] {name}{place}" for place in each) for name in "xy")
    text = "  ".join(nodes.replace("#", str(place)) for place in each)
    constants = {"none": np.array([0]), "axis": np.array([1]), **weights}
    constants |= {f"end{place}": np.array([end]) for place, end in enumerate(ends)}
    return model(f"({inputs}) => ({outputs}) {{ {text} }}", constants)


@pytest.mark.parametrize(("end", "expected"), [(5000, "verified"), (4000, "failed")])
def test_a_region_with_other_sizes_is_no_repetition(end: int, expected: str) -> None:
    """What the inputs of the first region show proves nothing of where the second one ends."""
    before = slices(
        [2**31 - 1, 5000],
        "h# = Slice (x#, none, end#, axis)  g# = Mul (h#, k)  y# = Mul (g#, m)",
        {"k": np.array([1.5]), "m": np.array([2.0])},
    )
    nodes = "q# = Slice (x#, none, end#, axis)  y# = Mul (q#, n)"
    assert status(before, slices([2**31 - 1, end], nodes, {"n": np.array([3.0])})) == expected


def test_a_default_that_makes_results_equal_is_not_all_that_callers_feed() -> None:
    head = "(float[N,3] x, float[3] d) => (float[N,3] y)"
    before = model(f"{head} {{ h = Add (x, d)  y = Mul (h, k) }}", {"d": np.array([1.0, 0, 0]), "k": np.array(2.0)})
    after = model(f"{head} {{ h = Mul (x, k)  y = Add (h, d) }}", {"d": np.array([2.0, 0, 0]), "k": np.array(2.0)})
    assert status(before, after) == "unverified"


def test_a_size_may_be_one_where_a_constant_broadcasts_it() -> None:
    head, weights = "(float[N,3] x) => (float[N,3] y)", {"one": np.ones(1), "target": np.array([4, 3])}
    before, after = (
        model(f"{head} {{ e = {node}  y = Add (x, e) }}", weights)
        for node in ("Expand (one, target)", "Identity (one)")
    )
    assert status(before, after) == "unverified"


def test_sizes_that_only_the_rewritten_model_states_settle_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes all four rows, so four seems to be what is declared; what else callers feed was not compared."""
    closed: list[int] = []
    close = Coverage.close

    def noted(self: Coverage, sizes: int, *, is_static: bool) -> None:
        closed.append(sizes)
        close(self, sizes, is_static=is_static)

    monkeypatch.setattr(Coverage, "close", noted)
    nodes = "s = Shape (x)  n = Gather (s, two)  r = Range (zero, n, one)  t = {} y = Sub (x, t)"
    weights = {"T": np.ones((4, 6)), "zero": np.array(0), "one": np.array(1), "two": np.array(2)}
    head = "(float[3,2,?,6] x) => (float[3,2,?,6] y)"
    before, after = (model(f"{head} {{ {nodes.format(way)} }}", weights) for way in ("Gather (T, r)", "Identity (T)"))
    assert status(before, after) == "unverified"
    assert set(closed) == {0}
