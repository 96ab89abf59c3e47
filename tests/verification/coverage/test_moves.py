"""How numbers are changed, so that a comparison has to react."""

from __future__ import annotations

import numpy as np
import pytest

from bnfold import ir
from bnfold.reference.forest import MODES
from bnfold.verification import verify
from bnfold.verification.changes.extract import Subgraph
from bnfold.verification.coverage.effects import normalised
from bnfold.verification.coverage.learned import _TURNED
from bnfold.verification.coverage.moves import another_setting, elsewhere, nudge, shares
from bnfold.verification.coverage.mutants import Mutants
from bnfold.verification.coverage.smooth import _epsilons
from tests.verification.graphs import Depth, Weights, model

STEP = 2.0**-10


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.array([4.0, -2.0]), [4.0 + 4 * STEP, -2.0 - 2 * STEP]),
        (np.array([4.0, 0.0]), [4.0 + 4 * STEP, 4 * STEP]),  # a zero beside others by a share of the largest of them
        (np.zeros(2), [STEP, STEP]),
        (np.array([3, -7]), [4, -6]),
        (np.array([True, False]), [False, True]),
    ],
)
def test_a_number_is_moved_a_little(array: np.ndarray, expected: list[float]) -> None:
    assert nudge(array).tolist() == expected


def moved(body: str, weights: Weights, name: str, opset: int = 13, head: str = "float[1,4] x") -> list[float]:
    value = ir.load(model(f"({head}) => (float[a,b] y) {{ {body} }}", weights, opset=opset)).graph.values[name]
    tensor = value.tensor
    assert tensor is not None
    return [float(number) for number in elsewhere(value, tensor.numpy()).reshape(-1)]


def test_a_copied_size_of_one_becomes_two() -> None:
    """A one in the place of the 0 would be no change, and what is a little larger than 0 is one."""
    assert moved("y = Reshape (x, s)", {"s": np.array([0, 4])}, "s") == [2, 5]
    assert moved("y = Reshape (x, s)", {"s": np.array([0, 4])}, "s", head="float[3,4] x") == [1, 5]


def test_the_inferred_size_becomes_one_that_no_test_input_has() -> None:
    assert moved("y = Reshape (x, s)", {"s": np.array([-1, 4])}, "s") == [1048583, 5]


def test_a_scale_of_one_becomes_two() -> None:
    body = "y = Resize (x, , s)"
    assert moved(body, {"s": np.array([1.0, 2.0])}, "s") == [2.0, 2.0 + 2 * STEP]


def test_a_count_of_the_first_tile_becomes_one_more() -> None:
    weights = {"n": np.array(3.0), "axis": np.array(1.0)}
    assert moved("y = Tile (x, n, axis)", weights, "n", opset=1) == [4.0]


@pytest.mark.parametrize(("name", "expected"), [("low", [-3.0]), ("high", [6.0])])
def test_a_limit_of_what_becomes_an_integer_moves_outwards_by_one(name: str, expected: list[float]) -> None:
    body = "c = Clip (x, low, high)  i = Cast <to = 6> (c)  y = Cast <to = 1> (i)"
    assert moved(body, {"low": np.array(-2.0), "high": np.array(5.0)}, name) == expected


def test_a_limit_that_is_an_attribute_moves_as_one_that_is_an_input() -> None:
    body = "c = Clip <max = 5.0, min = -2.0> (x)  i = Cast <to = 6> (c)  y = Cast <to = 1> (i)"
    (clip, *_) = ir.load(model(f"(float[1,4] x) => (float[a,b] y) {{ {body} }}", {}, opset=6)).nodes()
    assert another_setting(clip, "max", 5.0) == 6.0
    assert another_setting(clip, "min", -2.0) == -3.0


@pytest.mark.parametrize(("count", "expected"), [(0, []), (3, [1] * 3), (16, [1] * 16), (17, [3] + [2] * 7)])
def test_of_many_numbers_shares_are_changed(count: int, expected: list[int]) -> None:
    assert [share.size for share in shares(np.arange(count))] == expected


def test_a_mode_of_trees_becomes_the_one_with_the_other_outcome_at_the_threshold() -> None:
    compared = dict(
        zip(MODES, (np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal), strict=False)
    )
    for mode, other in _TURNED.items():
        assert compared[mode](1, 1) != compared[other](1, 1)
    assert {mode for mode, other in _TURNED.items() if compared[mode](1, 2) != compared[other](1, 2)} == {
        "BRANCH_EQ",
        "BRANCH_NEQ",
    }
    assert _TURNED.keys() == compared.keys()


WINDOW = "y = Conv <{}> (x, w)"


@pytest.mark.parametrize(
    ("setting", "is_unstated"),
    [
        ("strides = [1, 1]", True),
        ("dilations = [1, 1]", True),
        ("pads = [0, 0, 0, 0]", True),
        ("strides = [2, 2]", False),
    ],
)
def test_what_a_window_does_without_an_attribute(setting: str, *, is_unstated: bool) -> None:
    head = "(float[n,3,h,w] x) => (float[a,b,c,d] y)"
    proto = model(f"{head} {{ {WINDOW.format(setting)} }}", {"w": np.ones((4, 3, 2, 2))})
    (node,) = ir.load(proto).nodes()
    name = setting.split(maxsplit=1)[0]
    assert (normalised(node, name, node.attr(name)) is None) == is_unstated


def test_the_epsilon_of_a_normaliser_that_does_not_state_one() -> None:
    """That of the operator's text."""
    loaded = ir.load(model("(float[2,3,4,4] x) => (float[a,b,c,d] y) { y = MeanVarianceNormalization (x) }", {}))
    assert _epsilons(Subgraph(loaded.graph.outputs, ())) == {1e-9}


@pytest.mark.parametrize("depth", ["auto", "full", "local"])
@pytest.mark.parametrize(
    ("shape", "target", "is_right"),
    [
        ((5, 2, 3), [1, 1, 3], True),
        ((5, 2, 3), [2, 3], True),
        ((5, 2, 3), [1], True),
        ((5, 1, 3), [2, 3], False),
        ((5, 1, 3), [1, 1, 1, 3], False),
    ],
)
def test_an_expand_takes_one_for_any_size(
    shape: tuple[int, ...], target: list[int], is_right: bool, depth: Depth
) -> None:
    """Twice as large, a 1 that meets an axis of two numbers would have no effect either."""
    rank = "ABCD"[: max(len(shape), len(target))]
    head = f"(float[{','.join(map(str, shape))}] x) => (float[{','.join(rank)}] y)"
    before = model(f"{head} {{ e = Expand (x, t)  y = Sigmoid (e) }}", {"t": np.array(target)}, opset=17)
    after = model(f"{head} {{ y = Sigmoid (x) }}", {}, opset=17)
    assert verify(ir.load(before), ir.load(after), depth=depth, runtime="none").verified == is_right


CHOSEN = ["element 0 of SequenceConstruct", "element 1 of SequenceConstruct", "element 1 of SequenceInsert"]


@pytest.mark.parametrize(("position", "expected"), [("k", CHOSEN), ("one", [])])
def test_each_element_that_a_computed_position_may_choose_is_moved(position: str, expected: list[str]) -> None:
    body = f"""(float[2] x, int64 i, int64 k) => (float[2] y) {{ n = Neg (x)  q = SequenceConstruct (x, n)
        e = SequenceErase (q, i)  s = SequenceInsert (e, x, i)  y = SequenceAt (s, {position}) }}"""
    loaded = ir.load(model(body, {"one": np.array(1)}))
    part = Subgraph(loaded.graph.outputs, loaded.graph.inputs)
    found = Mutants(part, part, are_compared=True).found
    assert sorted({mutant.what.rpartition(" ")[0] for mutant in found}) == expected
    assert len(found) == 2 * len(expected)  # of either side
