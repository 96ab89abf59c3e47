"""Evaluate two models side by side, and measure what rounding does to their results.

A difference counts as rounding if perturbing the rounded weights moves the results as far (`compare`). Whole models and
parts are both compared in this way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import numpy as np

from bnfold import ir, reference
from bnfold.errors import Unsupported
from bnfold.ir.elements import Array
from bnfold.ir.time_limit import look_at_clock
from bnfold.reference.precision import Datum, widen
from bnfold.verification.changes.extract import computed_constants
from bnfold.verification.inputs.drawing import DrawnFeeds
from bnfold.verification.request import Clock
from bnfold.verification.tolerance.compare import ROUNDS, magnitude
from bnfold.verification.tolerance.rounding import PerturbedWeights

SideResults = dict[str, Array]
EvaluateSide = Callable[..., SideResults]
"""Called with a model, feeds and names, gives those values; with options of `reference.evaluate`."""

Draws = TypeVar("Draws")
SideResult = TypeVar("SideResult")

JITTERS = 4
"""Evaluations of either model that err otherwise."""

LARGEST_ERROR = 1e-9
"""Of a result's scale: beyond it the original did not err, but crossed a discontinuity (at a tie, say)."""

LARGEST_MOVE = 1e-4
"""The same where its weights are rounded anew."""


def evaluator(
    policy: reference.Policy | None, clock: Clock, patience: Callable[[], float] = lambda: math.inf
) -> EvaluateSide:
    """Return `reference.evaluate` in float64, under the policy and within the time that is left when it starts.

    ``patience`` says how much work, in counted seconds, one evaluation may be.
    """

    def evaluate(model: ir.Model, feeds: DrawnFeeds, outputs: Sequence[str], **options: Any) -> SideResults:
        look_at_clock()
        clock.work.limit = clock.work.seconds + patience()
        given = {"noise": reference.Noise(), "limit_seconds": clock.left, "work": clock.work, **options}
        return reference.evaluate(model, feeds, outputs, policy=policy, **given)

    return evaluate


class ModelRun(NamedTuple):
    """A model and what it is fed; called, it gives the values ``names``.

    A part with equal nodes can stand in for another one: ``weights`` has the names that its weights have there.
    """

    model: ir.Model
    feeds: DrawnFeeds
    names: Sequence[str]
    evaluate: EvaluateSide
    weights: Mapping[str, str] | None = None

    def __call__(
        self, names: Sequence[str] | None = None, *, model: ir.Model | None = None, **options: Any
    ) -> SideResults:
        """Other values, or those of a changed copy."""
        return self.evaluate(model or self.model, self.feeds, self.names if names is None else names, **options)


class ModelRuns(NamedTuple):
    """Two models beside each other, whole or parts of them, and what perturbs the weights that only one of them has.

    They are moved in so many ``groups``, one after the other. None is as many as whole models can afford.
    """

    old: ModelRun
    new: ModelRun
    draws: PerturbedWeights
    groups: int | None = None

    def explained(
        self,
        expected: Mapping[str, Array],
        actual: Mapping[str, Array],
        compare: Callable[[Sequence[Sequence[SideResults]]], SideResult],
        is_in_doubt: Callable[[SideResult, int], bool],
        is_enough: Callable[[SideResult], bool] | None,
    ) -> SideResult:
        """Return the results compared beside what rounding does to them.

        Mostly, one perturbed group of weights ``is_enough``; None if a whole round is wanted.
        """
        rounds, drawn = self.rounds(expected, actual), list[SideResults]()
        for draw in next(rounds):
            drawn.append(draw)
            if is_enough is not None and is_enough(found := compare([drawn])):
                return found
        return explained(chain([drawn], map(list, rounds)), compare, is_in_doubt)

    def rounds(self, expected: Mapping[str, Array], actual: Mapping[str, Array]) -> Iterator[Iterator[SideResults]]:
        """Yield what rounding does to the new model's results: `ROUNDS` draws of its weights, then all other errors.

        Evaluations in float64 have errors of their own, and perturbed weights do not always show them. A normaliser
        cancels an error of scale or shift, and amplifies what is left of numbers that nearly cancel.

        A rewrite may keep digits that the original loses, for instance those of a shift that a normaliser cancels. It
        may also lose digits as the original would, in weights that were computed in their own type from numbers that
        cancel. So the last round has jittered evaluations of both models, and results of the original with its
        removed weights perturbed. The latter are applied to the results of the rewritten model.
        """
        for number in range(ROUNDS):
            moved = self.draws.of(self.new.model, number, self.new.weights, self.groups)
            yield (self.new(altered=altered) for altered in moved)
        jittered = (that_run(self.old(jitter=seed) for seed in range(JITTERS)), LARGEST_ERROR)
        without = (that_run(self.old(altered=altered) for altered in self._errs()), LARGEST_MOVE)
        yield chain(
            that_run(self.new(jitter=seed) for seed in range(JITTERS)),
            (
                {name: _beside(actual[name], expected[name], draw[name], largest) for name in actual}
                for draws, largest in (jittered, without)
                for draw in draws
            ),
        )

    @property
    def removed(self) -> list[reference.Alterations]:
        """What moves each group of the weights that only the original has."""
        return self.draws.removed.of(self.old.model, 0, self.old.weights, self.groups)

    def _errs(self) -> list[reference.Alterations]:
        """Return perturbations of the original: removed weights moved, and computed constants rounded at every node.

        The rewritten model may store a constant as a runtime computed it, with its rounding. A normaliser of few
        numbers amplifies that.
        """
        moves = self.removed
        if constants := computed_constants(self.old.model, self.old.feeds):
            names = [value.name for value in constants]
            copy = self.old.model.clone()  # what is kept of the model's own runs is of another precision
            with suppress(Unsupported):
                made = self.old(names, model=copy, precision="stored")
                moves.append({value: partial(_instead, widen(made[value.name])) for value in constants})
        return moves


def _instead(made: Datum, _: Datum) -> Datum:
    return made


def explained(
    rounds: Iterable[Draws],
    compare: Callable[[Sequence[Draws]], SideResult],
    is_in_doubt: Callable[[SideResult, int], bool],
) -> SideResult:
    """Compare the first round of draws, and more as long as those may explain a difference.

    ``is_in_doubt`` also gets the number of rounds so far.
    """
    drawn: list[Draws] = []
    for draws in rounds:
        drawn.append(draws)
        found = compare(drawn)
        if not is_in_doubt(found, len(drawn)):
            break
    return found


def that_run(results: Iterator[dict[str, Array]]) -> list[dict[str, Array]]:
    """Return all results, or none if a run failed: it has a size that does not fit, and proves nothing."""
    with suppress(reference.Misfit):
        return [*results]
    return []


def _beside(actual: Any, expected: Any, draw: Any, largest: float) -> Any:
    """Move ``actual`` by the distance of ``draw`` from ``expected``; leave it if that is above ``largest``."""
    arrays = [value for value in (actual, expected, draw) if isinstance(value, np.ndarray)]  # and not a sequence
    if len(arrays) < 3 or any(array.dtype != np.float64 or array.shape != arrays[0].shape for array in arrays):
        return actual
    with np.errstate(all="ignore"):
        moves = draw - expected
        return np.where(np.abs(moves) <= largest * magnitude(expected), actual + moves, actual)
