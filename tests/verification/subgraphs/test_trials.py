"""When the results of a region at several sizes count."""

from __future__ import annotations

import pytest

from bnfold.verification.subgraphs.shapes import Trial
from bnfold.verification.subgraphs.trials import SubgraphTrials, outcome_of
from bnfold.verification.tolerance.compare import Difference

EQUAL, DIFFERENT = outcome_of(Difference()), outcome_of(Difference(excess=2.0))


@pytest.mark.parametrize(("unranked", "rank", "counts"), [(True, 2, False), (True, 3, True), (False, 2, True)])
def test_equality_at_a_guessed_rank_counts_beyond_two_axes_only(unranked: bool, rank: int, counts: bool) -> None:
    """A matrix has nothing beside channels, and operators coincide there that are not the same."""
    trials = SubgraphTrials(unranked=unranked, reshapes=False)
    assert trials.decide(EQUAL, guessed=unranked, rank=rank) is counts


def test_equality_at_a_rank_that_differs_elsewhere_does_not_count() -> None:
    trials = SubgraphTrials(unranked=True, reshapes=False)
    assert not trials.decide(DIFFERENT, guessed=True, rank=4)
    assert not trials.decide(EQUAL, guessed=True, rank=4)
    assert trials.outcome().is_open


@pytest.mark.parametrize("unranked", [True, False])
def test_a_difference_at_a_guessed_size_binds_where_no_declared_one_can_answer(unranked: bool) -> None:
    trials = SubgraphTrials(unranked=unranked, reshapes=False)
    trials.decide(DIFFERENT, guessed=True, rank=4)
    assert trials.need(Trial({}, passing_is_conclusive=False), guessed=False) is not unranked
    assert trials.need(Trial({}, passing_is_conclusive=True), guessed=True) is unranked


@pytest.mark.parametrize("reshapes", [True, False])
def test_a_difference_at_declared_sizes_ends_the_trials_unless_a_target_takes_one_batch_only(reshapes: bool) -> None:
    trials = SubgraphTrials(unranked=False, reshapes=reshapes)
    trials.decide(DIFFERENT, guessed=False, rank=4)
    assert trials.need(Trial({}, passing_is_conclusive=True), guessed=False) is reshapes
    assert trials.outcome() is DIFFERENT


def test_a_difference_at_guessed_sizes_ends_no_trials() -> None:
    trials = SubgraphTrials(unranked=False, reshapes=False)
    trials.decide(DIFFERENT, guessed=True, rank=4)
    assert trials.need(Trial({}, passing_is_conclusive=True), guessed=False)
