"""Evaluate two whole models side by side in float64, and compare outputs and inputs of discontinuous operators."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any

from bnfold import ir, reference
from bnfold.ir.elements import Array
from bnfold.reference.shapes import state_types
from bnfold.verification.comparing.outputs import Compared, are_in_doubt, compared
from bnfold.verification.comparing.sides import EvaluateSide, ModelRun, ModelRuns, SideResults, that_run
from bnfold.verification.coverage import Comparison
from bnfold.verification.inputs.drawing import DrawnFeeds
from bnfold.verification.tolerance.discontinuities import discontinuous_inputs, lacks_types, substitute
from bnfold.verification.tolerance.floats import is_float_array
from bnfold.verification.tolerance.rounding import PerturbedWeights

_KEPT = 1 << 23
"""Elements of a model's weights that are widened once for all runs, in 64 MB."""


class ModelPair:
    """Two models that are prepared to be evaluated side by side. ``evaluate`` has the policy and the deadline."""

    def __init__(self, before: ir.Model, after: ir.Model, draws: PerturbedWeights, evaluate: EvaluateSide) -> None:
        self.before, self.after = before, after
        self._evaluate = evaluate
        self.outputs = [value.name for value in before.graph.outputs]
        for model in (before, after):
            if lacks_types(model):
                state_types(model)
        watched, self.unpinnable = discontinuous_inputs(before, after)
        self.pin([name for name in watched if self._is_one_type(name)])
        self.pinned: list[str] = []
        self.has_empty = False
        self.misfit = ""
        """Why the original does not run as declared. If so, nodes may be read as a later version of their operator."""
        self.takes_no_sizes = False
        """Whether all sizes were tried, so that other flags have to be."""
        self.drawn: set[str] = set()
        """Names of the random values that the original draws."""
        self.draws = draws
        self.patience = math.inf
        """The longest that an evaluation may take, in counted seconds."""
        self._prepared: dict[tuple[ir.Model, frozenset[str]], reference.Prepared] = {}
        self._weights: dict[ir.Model, reference.KeptWeights] = {}
        self._has_reacted = False

    def _is_one_type(self, name: str) -> bool:
        """Whether a name may mean one value: a tool may give it to one of another type."""
        kinds = {model.graph.values[name].dtype for model in (self.before, self.after)} - {None}
        return len(kinds) < 2

    def pin(self, names: list[str]) -> None:
        """Compare these values, and feed the original's to the discontinuous operators that read them."""
        self.watched = names
        self._acting, self._stand_ins = substitute(self.after, names) if names else (self.after, {})

    def without(self, names: Collection[str]) -> ModelPair:
        """Return a pair in which discontinuous operators read the rewritten model's own values of these ``names``."""
        other = copy(self)
        other.pin([name for name in self.watched if name not in names])
        other.pinned = [name for name in self.pinned if name not in names]
        other.unpinnable = [*self.unpinnable, *names]
        return other

    def expect(self, feeds: DrawnFeeds) -> dict[str, Array]:
        """Evaluate the original: outputs and watched values.

        Afterwards, `pinned` names the watched values that are floats, and `has_empty` says whether a value had no
        elements.
        """
        self.has_empty = False
        names = [*self.outputs, *self.watched]
        noise = reference.Noise()
        expected = self._run(self.before, feeds, names, observer=self._look, later=bool(self.misfit), noise=noise)
        self.drawn |= noise.drawn.keys()
        self.pinned = [name for name in self.watched if is_float_array(expected[name])]
        return expected

    def _look(self, _: str, value: Any) -> None:
        self.has_empty = self.has_empty or getattr(value, "size", 1) == 0

    def compare(self, feeds: DrawnFeeds, expected: Mapping[str, Array], sample: int) -> list[Compared]:
        """Compare watched values and then outputs of the rewritten model with the expected ones."""
        pair = self._fed(feeds, expected)
        actual = pair.new(noise=reference.Noise(self.drawn))

        def compare(drawn: Sequence[Sequence[SideResults]]) -> list[Compared]:
            return [self._compared(name, sample, expected[name], actual[name], drawn) for name in actual]

        def agrees(found: Sequence[Compared]) -> bool:
            return all(item.difference.excess <= 1 for item in found)

        if self._has_reacted and agrees(found := compare([[]])):
            return found  # within the smallest tolerance
        found = pair.explained(expected, actual, compare, are_in_doubt, agrees if self._has_reacted else None)
        self._has_reacted = self._has_reacted or any(item.reacts for item in found)
        return found

    def end_to_end(self, feeds: DrawnFeeds) -> SideResults:
        """Return the rewritten model's outputs as it computes them, with its own values everywhere."""
        return self._evaluate(self.after, feeds, self.outputs, noise=reference.Noise(self.drawn))

    def with_removed_moved(self, feeds: DrawnFeeds) -> list[SideResults]:
        """Return the original's outputs once for each group of removed weights, with that group moved."""
        run = partial(self._run, self.before, feeds, self.outputs, later=bool(self.misfit))
        altered = self.draws.removed.of(self.before, 0)
        return that_run(run(altered=each, noise=reference.Noise(self.drawn)) for each in altered)

    def _run(self, model: ir.Model, feeds: DrawnFeeds, names: Sequence[str], /, **options: Any) -> SideResults:
        """Evaluate a model. What several runs of the two models share is kept; copies of them run only once."""
        if model in (self.before, self._acting):
            key = model, frozenset(feeds)
            if key not in self._prepared:
                weights = self._weights.setdefault(model, reference.KeptWeights(_KEPT))
                self._prepared[key] = reference.Prepared(weights)
            options["prepared"] = self._prepared[key]
        return self._evaluate(model, feeds, names, **options)

    def _fed(self, feeds: DrawnFeeds, expected: Mapping[str, Array]) -> ModelRuns:
        """Return the runs of both models on these inputs.

        Discontinuous operators of the rewritten model read values of the original.
        """
        names = [*self.watched, *self.outputs]
        replaced = {stand_in: expected[name] for name, stand_in in self._stand_ins.items()}
        return ModelRuns(
            ModelRun(self.before, feeds, names, partial(self._run, later=bool(self.misfit))),
            ModelRun(self._acting, {**feeds, **replaced}, names, self._run),
            self.draws,
        )

    def seconds(self, work: reference.Work, feeds: DrawnFeeds, expected: Mapping[str, Array]) -> list[float]:
        """Return the counted seconds of a run of either model, as the evaluator counts them in ``work``."""
        found = []
        for run in self._fed(feeds, expected)[:2]:
            begin = work.seconds
            run()
            found.append(work.seconds - begin)
        return found

    def comparison(self, feeds: DrawnFeeds, expected: Mapping[str, Array]) -> Comparison:
        """Return both models, to be run once more with mutants, and their results; the first are known."""
        pair = self._fed(feeds, expected)
        actual = pair.new()
        own = {name: expected[name] for name in actual}  # a pair that watches more may have made the others
        return (pair.old, pair.new), (own, actual)

    def _compared(
        self, name: str, sample: int, expected: Array, actual: Array, rounds: Sequence[Sequence[SideResults]]
    ) -> Compared:
        dtype = self.before.graph.values[name].dtype or self.after.graph.values[name].dtype
        return compared(name, sample, expected, actual, rounds, dtype, is_output=name in self.outputs)
