"""Each rewrite on its own: the region between its boundary values, from both models, on small random activations.

The weights are the model's real ones; only the activations are small. What a region costs depends on the region, so a
model of any size is checked in time linear in its rewrites.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bnfold import ir, reference
from bnfold.errors import BnfoldError, Unsupported
from bnfold.verify.compare import Difference
from bnfold.verify.extract import Region, extract
from bnfold.verify.full import compare_values
from bnfold.verify.inputs import CannotFeed, Feeds, random_value
from bnfold.verify.rounding import Array, Draws
from bnfold.verify.small import Shapes, declared_shapes, small_shapes
from bnfold.verify.verdict import LocalRow

DRAWS = 2
"""Evaluations with disturbed weights. Their mean square is taken over channels, which may have few elements."""

LARGEST_FEED = 1 << 23
"""Elements of activations that a region may be fed; with more, even a region is no small matter."""


@dataclass(frozen=True, slots=True)
class Skip:
    """A region that cannot be compared, and why."""

    reason: str


class Bench:
    """Two models indexed once for any number of cuts, with the disturbed copies that tell rounding from faults."""

    def __init__(self, before: ir.Model, after: ir.Model, draws: Draws, policy: reference.Policy, seed: int) -> None:
        before.infer_shapes()
        after.infer_shapes()
        self._policy, self._seed = policy, seed
        self._draws = draws
        self._graphs = [_by_path(before), _by_path(after)]

    def check(self, cut: ir.Cut) -> LocalRow:
        """Compare the two regions of a cut."""
        try:
            found = self._compare(cut)
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

    def _compare(self, cut: ir.Cut) -> Difference | Skip:
        old, new = (self._region(graphs, cut) for graphs in self._graphs)
        if isinstance(old, Skip) or isinstance(new, Skip):
            return next(side for side in (old, new) if isinstance(side, Skip))
        models = [old.model, new.model, *self._draws.of_region(new.model, DRAWS)]
        inputs = {**new.inputs, **old.inputs}
        found: Difference | Skip = Skip("nothing tells the rank of its inputs")
        for shapes in _attempts(inputs, old.nodes):
            latest = self._attempt(cut, models, inputs, shapes)
            if isinstance(latest, Difference) and latest.excess <= 1:
                return latest
            found = latest if isinstance(found, Skip) else found
        return found

    @staticmethod
    def _region(graphs: Mapping[str, ir.Graph], cut: ir.Cut) -> Region | Skip:
        graph = graphs.get(cut.graph)
        if graph is None:
            return Skip(f"there is no graph {cut.graph!r} on one side")
        missing = [name for name in cut.outputs if name not in graph.values]
        if missing:
            return Skip(f"its boundary values {missing} are not in both models")
        found = [_visible(graph, name) for name in cut.inputs]
        stops = [value for value in found if value is not None and ir.constant(value) is None]
        return extract([graph.values[name] for name in cut.outputs], stops)

    def _attempt(
        self, cut: ir.Cut, models: Sequence[ir.Model], inputs: Mapping[str, ir.Value], shapes: Shapes
    ) -> Difference | Skip:
        feeds = {name: random_value(value, shapes[name], self._seed, 0) for name, value in inputs.items()}
        try:
            expected = self._run(models[0], cut, feeds)
        except Unsupported as error:
            return Skip(f"the original region cannot be evaluated: {error}")
        try:
            results = [self._run(model, cut, feeds) for model in models[1:]]
        except reference.Misfit as error:
            return Difference(
                excess=float("inf"), same_pattern=False, fault=f"is not computed, the region does not run: {error}"
            )
        except Unsupported as error:
            return Skip(f"the rewritten region cannot be evaluated: {error}")
        differences = []
        for name in cut.outputs:
            value = self._graphs[0][cut.graph].values[name]
            draws = [result[name] for result in results[1:]]
            differences.append(compare_values(expected[name], results[0][name], draws, value.dtype, by_channel=True))
        return max(differences, key=lambda difference: difference.excess)

    def _run(self, region: ir.Model, cut: ir.Cut, feeds: Feeds) -> dict[str, Array]:
        own = {value.name: feeds[value.name] for value in region.graph.inputs}
        return reference.evaluate(region, own, cut.outputs, policy=self._policy)


def check_cuts(bench: Bench, cuts: Sequence[ir.Cut]) -> Iterator[LocalRow]:
    """One row a cut, in order."""
    for cut in cuts:
        try:
            yield bench.check(cut)
        except BnfoldError as error:
            yield LocalRow(cut.label, cut.graph, cut.outputs, "skipped", note=str(error))


def _attempts(inputs: Mapping[str, ir.Value], nodes: Sequence[ir.Node]) -> Iterator[Shapes]:
    """Small, pairwise different dims first; where the region does not take those, or differs on them, the declared ones.

    A rewrite may rely on what the model declares (no padding at this size, one row), so a difference at other sizes
    alone is not held against it.
    """
    small, declared = small_shapes(inputs, nodes), declared_shapes(inputs)
    if small is not None:
        yield small
    if declared is not None and declared != small and sum(map(_elements, declared.values())) <= LARGEST_FEED:
        yield declared


def _elements(shape: Sequence[int]) -> int:
    count = 1
    for dim in shape:
        count *= dim
    return count


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
