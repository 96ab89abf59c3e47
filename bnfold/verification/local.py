"""Each rewrite on its own: the region between its boundary values, from both models, on small random activations.

The weights are the model's real ones; only the activations are small. What a region costs depends on the region, so a
model of any size is checked in time linear in its rewrites.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from bnfold import ir, reference
from bnfold.errors import BnfoldError, Unsupported
from bnfold.verification.attempts import Attempts, Found, Skip
from bnfold.verification.clock import Clock
from bnfold.verification.compare import ROUNDS, Difference
from bnfold.verification.extract import Region, extract
from bnfold.verification.full import compare_values
from bnfold.verification.inputs import CannotFeed, Feeds, random_value
from bnfold.verification.region_shapes import Shapes, has_guesses, lacks_rank, region_shapes
from bnfold.verification.rounding import Array, Draws, jittered_draws
from bnfold.verification.verdict import LocalRow

Results = dict[str, Array]

GROUPS = 3
"""Groups of new weights that are disturbed one after the other, so that a weight and a bias cannot cancel."""

FEW = 128
MOST_SAMPLES = 10
"""A region is tried on several samples where something that it is fed or makes has fewer than FEW elements, of every
kind at most twice."""

REGION_SECONDS = 5.0
"""For one evaluation of a region, where the budget is spent: only nested loops ever take so long."""


class Bench:
    """Two models indexed once for any number of cuts, with the disturbed copies that tell rounding from faults."""

    def __init__(
        self, before: ir.Model, after: ir.Model, draws: Draws, policy: reference.Policy, seed: int, clock: Clock
    ) -> None:
        before.infer_shapes()
        after.infer_shapes()
        self._policy, self._seed, self._clock = policy, seed, clock
        self._draws = draws
        self._graphs = [_by_path(before), _by_path(after)]

    def check(self, cut: ir.Cut, *, must_react: bool = False) -> LocalRow:
        """Compare the two regions of a cut; with ``must_react``, equality counts only where new weights show in it."""
        try:
            found = self._compare(cut, must_react=must_react)
        except (Unsupported, CannotFeed) as error:
            found = Skip(str(error))
        if isinstance(found, Skip):
            return LocalRow(cut.label, cut.graph, cut.outputs, "skipped", note=found.reason)
        return LocalRow(
            cut.label,
            cut.graph,
            cut.outputs,
            "failed" if found.excess > 1 else "verified",
            found.relative,
            found.allowed,
            found.fault,
        )

    def _compare(self, cut: ir.Cut, *, must_react: bool) -> Found:
        # A value that only one side has, because another rewrite made it or gave it a name, is no boundary for either.
        inputs = [name for name in cut.inputs if all(_has(graphs, cut, name) for graphs in self._graphs)]
        old, new = (self._region(graphs, cut, inputs) for graphs in self._graphs)
        if isinstance(old, Skip) or isinstance(new, Skip):
            return next(side for side in (old, new) if isinstance(side, Skip))
        # What inference cannot tell of the original it may of the rewritten model, which is of a newer opset.
        fed = {**new.inputs, **{name: value for name, value in old.inputs.items() if _says_more(value, new.inputs)}}
        attempts = Attempts(unranked=lacks_rank(fed))
        for trial in region_shapes(fed, old.nodes):
            guessed = has_guesses(fed, trial.shapes)
            if not attempts.need(guessed=guessed, acquits=trial.acquits):
                continue
            attempt = partial(self._attempt, cut, (old.model, new.model), guessed=guessed, must_react=must_react)
            latest = self._sampled(attempt, fed, trial.shapes)
            if trial.odd is not None and isinstance(latest, Difference) and not _fails(latest):
                odd = self._sampled(attempt, fed, trial.odd)
                latest = odd if _fails(odd) or (isinstance(odd, Skip) and odd.only_after) else latest
            if attempts.decide(latest, guessed=guessed, rank=max(map(len, trial.shapes.values()), default=0)):
                return latest
        return attempts.outcome()

    def _sampled(self, attempt: Callable[[Feeds], Found], inputs: Mapping[str, ir.Value], shapes: Shapes) -> Found:
        """The largest difference over a few samples; where none could be compared, why the first one could not."""
        found: list[Found] = []
        wanted = 1
        while len(found) < wanted and not (found and (self._clock.is_over or _fails(found[-1]))):
            sample = len(found)
            feeds = {name: random_value(value, shapes[name], self._seed, sample) for name, value in inputs.items()}
            found.append(attempt(feeds))
            wanted = _samples(shapes, found[0])
        differences = [latest for latest in found if isinstance(latest, Difference)]
        return max(differences, key=lambda difference: difference.excess) if differences else found[0]

    @staticmethod
    def _region(graphs: Mapping[str, ir.Graph], cut: ir.Cut, inputs: Sequence[str]) -> Region | Skip:
        graph = graphs.get(cut.graph)
        if graph is None:
            return Skip(f"there is no graph {cut.graph!r} on one side")
        missing = [name for name in cut.outputs if name not in graph.values]
        if missing:
            return Skip(f"its boundary values {missing} are not in both models")
        found = [_visible(graph, name) for name in inputs]
        stops = [value for value in found if value is not None and ir.constant(value) is None]
        return extract([graph.values[name] for name in cut.outputs], stops)

    def _attempt(
        self, cut: ir.Cut, sides: tuple[ir.Model, ir.Model], feeds: Feeds, *, guessed: bool, must_react: bool
    ) -> Found:
        old, new = sides
        expected = self._expected(cut, old, feeds, guessed=guessed)
        if isinstance(expected, Skip):
            return expected
        try:
            actual = self._run(new, cut, feeds)
        except reference.Misfit as error:
            if guessed:  # the rewrite may rely on a shape that the model declares, or has and nobody knows
                return Skip(f"the rewritten region does not run on inputs of guessed shapes: {error}", only_after=True)
            fault = f"is not computed, the region does not run: {error}"
            return Difference(excess=float("inf"), same_pattern=False, fault=fault)
        except Unsupported as error:
            return Skip(f"the rewritten region cannot be evaluated: {error}")
        if guessed and any(_shape(expected[name]) != _shape(actual[name]) for name in cut.outputs):
            return Skip("the rewritten region makes another shape on inputs of guessed shapes", only_after=True)
        return self._measured(cut, new, feeds, (expected, actual), must_react=must_react)

    def _expected(self, cut: ir.Cut, old: ir.Model, feeds: Feeds, *, guessed: bool) -> Results | Skip:
        try:
            expected = self._run(old, cut, feeds)
        except Unsupported as error:
            return Skip(f"the original region cannot be evaluated: {error}")
        if guessed and not all(self._has_declared_rank(cut, name, result) for name, result in expected.items()):
            return Skip("the guessed shapes make results of another rank than the declared one")
        return expected

    def _has_declared_rank(self, cut: ir.Cut, name: str, result: Array) -> bool:
        declared = [graphs[cut.graph].values[name].shape for graphs in self._graphs]
        return all(shape is None or len(shape) == np.ndim(result) for shape in declared)

    def _measured(
        self, cut: ir.Cut, new: ir.Model, feeds: Feeds, results: tuple[Results, Results], *, must_react: bool
    ) -> Found:
        """How the results differ, beside what disturbing the new weights does to them."""
        expected, actual = results
        if any(map(np.size, feeds.values())) and not any(map(np.size, expected.values())):
            return Skip("nothing is left of its inputs at the sizes that were tried", only_after=True)
        rounds: list[list[Results]] = []
        while True:
            if len(rounds) < ROUNDS:
                disturbed = self._draws.of_region(new, GROUPS, len(rounds))
                rounds.append([self._run(model, cut, feeds) for model in disturbed])
            else:
                rounds.append(jittered_draws(lambda seed: self._run(new, cut, feeds, jitter=seed)))
            if must_react and not all(_differ(actual, draw) for draw in rounds[0]):
                return Skip("a new weight does not show in it", only_after=True)
            found = self._worst(cut, expected, actual, rounds)
            if len(rounds) > ROUNDS or not found.is_in_doubt:
                return found

    def _worst(
        self, cut: ir.Cut, expected: Results, actual: Results, rounds: Sequence[Sequence[Results]]
    ) -> Difference:
        values = self._graphs[0][cut.graph].values
        found = [
            compare_values(
                expected[name],
                actual[name],
                [[draw[name] for draw in draws] for draws in rounds],
                values[name].dtype,
                by_channel=True,
            )
            for name in cut.outputs
        ]
        worst = max(found, key=lambda difference: difference.excess)
        return replace(worst, elements=min(np.size(expected[name]) for name in cut.outputs))

    def _run(self, region: ir.Model, cut: ir.Cut, feeds: Feeds, jitter: int | None = None) -> Results:
        own = {value.name: feeds[value.name] for value in region.graph.inputs}
        limit = max(self._clock.left, REGION_SECONDS)
        return reference.evaluate(region, own, cut.outputs, limit_seconds=limit, policy=self._policy, jitter=jitter)


def _has(graphs: Mapping[str, ir.Graph], cut: ir.Cut, name: str) -> bool:
    return cut.graph in graphs and _visible(graphs[cut.graph], name) is not None


def _says_more(value: ir.Value, others: Mapping[str, ir.Value]) -> bool:
    return value.shape is not None or value.name not in others or others[value.name].shape is None


def _fails(found: Found) -> bool:
    return isinstance(found, Difference) and found.excess > 1


def _samples(shapes: Shapes, first: Found) -> int:
    """Of very few numbers more samples: they may all be negative before a Relu, or hide behind the largest of all."""
    made = [first.elements] if isinstance(first, Difference) else []
    smallest = min([*map(math.prod, shapes.values()), *made], default=FEW)
    return max(1, min(MOST_SAMPLES, FEW // max(smallest, 1)))


def _differ(one: Results, other: Results) -> bool:
    return any(not np.array_equal(one[name], other[name]) for name in one)


def _shape(value: object) -> object:
    """The shape of an array; None for a sequence or nothing."""
    return getattr(value, "shape", None)


def check_cuts(bench: Bench, cuts: Sequence[ir.Cut], *, must_react: bool = False) -> Iterator[LocalRow]:
    """One row a cut, in order; as `Bench.check`."""
    for cut in cuts:
        try:
            yield bench.check(cut, must_react=must_react)
        except BnfoldError as error:
            yield LocalRow(cut.label, cut.graph, cut.outputs, "skipped", note=str(error))


def _by_path(model: ir.Model) -> dict[str, ir.Graph]:
    return {graph.path: graph for graph in model.graphs()}


def _visible(graph: ir.Graph, name: str) -> ir.Value | None:
    """The value that ``name`` means in the graph or around it; None where nothing has that name."""
    scope: ir.Graph | None = graph
    while scope is not None:
        if name in scope.values:
            return scope.values[name]
        scope = scope.parent.graph if scope.parent else None
    return None
