"""A state of zeros that one model leaves out is found without running the models."""

from __future__ import annotations

import pytest

from bnfold import ir
from bnfold.verification.changes.boundaries import uncovered
from tests.simplifying.test_states import quantized, recurrent

SLOT = 5


def _are_unchanged(before: bytes, after: bytes) -> bool:
    old, new = ir.load(before), ir.load(after)
    for side in (old, new):
        side.sync()
    return not [*uncovered(old, new, [])]


@pytest.mark.parametrize("operator", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize(
    ("way", "expected"),
    [
        ("a fill", True),
        ("a half", True),
        ("an expanded 0", True),
        ("an expanded 1", False),
        ("of other sizes", False),
        ("as much as another input has", False),
        ("what the caller feeds", False),
    ],
)
def test_a_state_that_is_left_out(operator: str, way: str, expected: bool) -> None:
    before = recurrent(operator, way)
    after = recurrent(operator, way)
    del after.graph.node[-1].input[3:]
    assert _are_unchanged(before.SerializeToString(), after.SerializeToString()) is expected


def test_a_state_that_is_put_in_has_to_be_run() -> None:
    before = recurrent("GRU", "a fill")
    after = recurrent("GRU", "a fill")
    del before.graph.node[-1].input[3:]
    assert not _are_unchanged(before.SerializeToString(), after.SerializeToString())


def test_another_state_in_its_place_is_a_change() -> None:
    before, after = recurrent("GRU", "a fill"), recurrent("GRU", "a fill")
    after.graph.node[-1].input[SLOT] = "y"
    assert not _are_unchanged(before.SerializeToString(), after.SerializeToString())


def test_another_input_that_is_left_out_is_a_change() -> None:
    """A zero bias has a slot that is no state's."""
    before, after = recurrent("GRU", "a fill"), recurrent("GRU", "a fill")
    before.graph.node[-1].input[3] = "h"
    assert not _are_unchanged(before.SerializeToString(), after.SerializeToString())


@pytest.mark.parametrize(("fill", "expected"), [(0.0, True), (0.5, False)])
def test_an_operator_that_cannot_be_evaluated(fill: float, expected: bool) -> None:
    before, after = quantized(fill), quantized(fill)
    after.graph.node[-1].input[5:7] = ["", ""]
    assert _are_unchanged(before.SerializeToString(), after.SerializeToString()) is expected
