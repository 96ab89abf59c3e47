"""Run both parts of one rewrite, before and after it, on the same inputs, and compare their outputs.

A part is evaluated many times: what it stores is read once, and its nodes are looked up once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from bnfold import ir, reference
from bnfold.errors import BnfoldError, Unsupported
from bnfold.ir.elements import Array
from bnfold.reference.precision import widen
from bnfold.verification.changes.extract import Subgraph
from bnfold.verification.claims import NumberKind, Runs, Why
from bnfold.verification.codes import Code
from bnfold.verification.comparing.doubts import are_others, depend_on_inputs
from bnfold.verification.comparing.outputs import experiment, largest_difference
from bnfold.verification.comparing.sides import EvaluateSide, ModelRun, ModelRuns, SideResults
from bnfold.verification.coverage import Coverage, same_place
from bnfold.verification.inputs.cost import estimate
from bnfold.verification.inputs.drawing import DrawnFeeds
from bnfold.verification.inputs.sized import sized
from bnfold.verification.obstacles import not_run
from bnfold.verification.subgraphs.trials import PartOutcome, PartRun, outcome_of
from bnfold.verification.tolerance.compare import (
    ROUNDS,
    Difference,
    compare_values,
    magnitude,
    shape_of,
    size_of,
)
from bnfold.verification.tolerance.floats import float_type, is_float_array
from bnfold.verification.tolerance.rounding import PerturbedWeights

_GROUPS = 3
"""Weights of a part are moved in so many groups: with two, four of the smallest seeded faults are explained away."""

_LARGE = 1 << 18
"""Elements of results that are not computed once more."""

LARGEST_HELD = 10 << 20
"""Elements of a weight that is held in float64, in 80 MB; larger ones are read anew for each evaluation."""

REGION_SECONDS = 1.0
"""Counted, for one evaluation of a region at sizes that are not usual."""

_MOST_UNFIT = 4
"""Activations of one shape that are kept on which the original part does not run."""

FEW = 128


@dataclass(frozen=True, slots=True)
class SubgraphPair:
    """The two parts of a cut, and what comparing them on ``samples`` sets of activations has shown so far."""

    cut: ir.Cut
    old: Runnable
    new: Runnable
    coverage: Coverage
    draws: PerturbedWeights
    evaluate: EvaluateSide
    seed: int
    factors: Mapping[str, float] = field(default_factory=dict)
    """How many times as large the results of the new part are that are larger."""
    samples: int = 1
    only_moves: bool = False
    """Whether results are activations at other places."""
    tried: list[PartRun] = field(default_factory=list)
    fitting: set[tuple[tuple[int, ...], ...]] = field(default_factory=set)
    """Shapes of activations at which the original part ran, on some numbers at least."""
    unfit: dict[tuple[tuple[int, ...], ...], list[DrawnFeeds]] = field(default_factory=dict)
    """Activations on which one with bodies did not, by their shapes; a few of each."""
    is_known_to_react: bool = False
    """Whether the results depend on the activations whatever the weights are: equal parts with other weights did."""
    reacting: set[tuple[object, ...]] = field(default_factory=set)
    """Shapes of activations that results were seen to depend on."""
    finite: dict[str, Array] = field(default_factory=dict)
    """Which elements of the results were finite on some activations, since it was cleared."""
    runs: Runs = field(default_factory=Runs)
    """What was run so far, for the ledger."""
    usual: dict[str, float] = field(default_factory=dict)
    """How large the results were on the first activations, which are ordinary, since it was cleared."""

    @property
    def nodes(self) -> list[ir.Node]:
        """The nodes of both parts."""
        return [*self.old.subgraph.nodes, *self.new.subgraph.nodes]

    def start(self, *, keep_usual: bool = False) -> None:
        """Forget the results on activations of other shapes; ordinary ones are as large at most shapes."""
        self.finite.clear()
        if not keep_usual:
            self.usual.clear()

    def attempt(self, feeds: DrawnFeeds, numbers: NumberKind, *, guessed: bool) -> PartOutcome:
        """Compare the results on some activations; ``guessed`` says that their shapes are assumed.

        ``numbers`` is their kind.
        """
        found = self._compared(feeds, guessed=guessed)
        shapes = tuple(map(np.shape, feeds.values()))
        if found.original_ran or not found.has_doubt(Code.NO_FIT):
            self.fitting.add(shapes)
        elif any(node.subgraphs for node in self.nodes) and len(self.unfit.get(shapes, ())) < _MOST_UNFIT:
            self.unfit.setdefault(shapes, []).append(feeds)
        run = experiment(feeds, numbers, found.doubt or found.difference, self.coverage.uncovered)
        self.runs.add(run, feeds)
        return found

    def _compared(self, feeds: DrawnFeeds, *, guessed: bool) -> PartOutcome:
        sides = self.fed(feeds)
        noise = reference.Noise()
        expected = self._expected(sides, noise, guessed=guessed)
        if isinstance(expected, PartOutcome):
            return expected
        actual = self._actual(sides, reference.Noise(noise.drawn), guessed=guessed)
        if isinstance(actual, PartOutcome):
            return actual
        if guessed and any(_shape(expected[name]) != _shape(actual[name]) for name in self.cut.outputs):
            reason = "with assumed input shapes, the rewritten part has another output shape"
            return PartOutcome(doubt=Why(Code.ASSUMED_SIZES, reason), original_ran=True)
        for name, array in expected.items():
            self.usual.setdefault(name, magnitude(array) if is_float_array(array) else 0.0)
        found = self._measured(sides, expected, actual)
        if found.agrees:
            find = partial(same_place, within=self.cut.graph)
            self.coverage.observe((sides.old, sides.new), find, (expected, actual))
        if guessed and found.agrees and not self._reacts(feeds, expected):
            reason = "its outputs do not depend on its inputs at the tested shapes"
            return PartOutcome(doubt=Why(Code.HIDDEN, reason), original_ran=True)
        if found.agrees:
            self._note_finite(expected)
        return found

    def _note_finite(self, results: SideResults) -> None:
        for name, array in results.items():
            if is_float_array(array):
                known = self.finite.get(name)
                finite = np.isfinite(array)
                self.finite[name] = finite | known if known is not None and known.shape == finite.shape else finite

    def runs_only_after(self) -> bool:
        """Whether the rewritten part runs on numbers on which the original one does not, at sizes at which it does.

        This serves pieces: numbers may choose a branch that fits other sizes than the rest.
        """
        for feeds in (feeds for shapes in self.fitting for feeds in self.unfit.get(shapes, ())):
            with suppress(BnfoldError):
                self.fed(feeds).new()
                return True
        return False

    def never_finite(self) -> str | None:
        """Return the name of a result with a channel (or another position on an axis) that was never finite; else None.

        This serves special values: a wrong weight does not show in NaN.
        """
        return next((name for name, finite in self.finite.items() if not _reaches_everywhere(finite)), None)

    def fed(self, feeds: DrawnFeeds) -> ModelRuns:
        """Return both parts with the activations that they are fed."""
        old, new = (
            ModelRun(one.subgraph.model, feeds, self.cut.outputs, partial(self._run, one), one.names)
            for one in (self.old, self.new)
        )
        return ModelRuns(old, new, self.draws, _GROUPS)

    def _expected(self, sides: ModelRuns, noise: reference.Noise, *, guessed: bool) -> SideResults | PartOutcome:
        try:
            expected = sides.old(noise=noise)
        except Unsupported as error:
            return PartOutcome(doubt=not_run(error, "the original part cannot be run"))
        if guessed and not all(self._has_declared_rank(name, result) for name, result in expected.items()):
            reason = "assumed input shapes give outputs of another rank than declared"
            return PartOutcome(doubt=Why(Code.ASSUMED_SIZES, reason))
        return expected

    def _has_declared_rank(self, name: str, result: Array) -> bool:
        place = self.cut.outputs.index(name)
        declared = [one.subgraph.outputs[place].shape for one in (self.old, self.new)]
        return all(shape is None or len(shape) == np.ndim(result) for shape in declared)

    def _actual(self, sides: ModelRuns, noise: reference.Noise, *, guessed: bool) -> SideResults | PartOutcome:
        try:
            return sides.new(noise=noise)
        except reference.Misfit as error:
            if guessed:  # the rewrite may rely on the true shape, declared or not
                reason = f"with assumed input shapes, the rewritten part does not run: {error}"
                return PartOutcome(doubt=Why(Code.ASSUMED_SIZES, reason), original_ran=True)
            fault = f"the rewritten part does not run: {error}"
            return outcome_of(Difference(excess=np.inf, same_pattern=False, fault=fault, code=Code.DOES_NOT_RUN))
        except Unsupported as error:
            return PartOutcome(doubt=not_run(error, "the rewritten part cannot be run"))

    def _reacts(self, feeds: DrawnFeeds, expected: SideResults) -> bool:
        """Whether other activations of these shapes give other results; the statistics of one element do not.

        This serves visibility. Other integers may mean something else.
        """
        shapes = tuple(map(shape_of, feeds.values()))
        if self.is_known_to_react or shapes in self.reacting or not any(map(is_float_array, feeds.values())):
            return True
        large = (array for array in expected.values() if _shape(array) and array.size > _LARGE)
        if any(len(array) > 1 and are_others(array[0], array[1]) for array in large):
            return True  # where it takes long to ask, two rows have to do
        try:
            results = self.fed({name: _other(array) for name, array in feeds.items()}).old()
        except Unsupported:
            return True
        if depend_on_inputs(self.cut.outputs, expected, [results]):
            self.reacting.add(shapes)
        return shapes in self.reacting

    def _measured(self, sides: ModelRuns, expected: SideResults, actual: SideResults) -> PartOutcome:
        """Compare the results. If they differ, perturbing the new weights shows how much is allowed."""
        if any(map(size_of, sides.old.feeds.values())) and not any(map(size_of, expected.values())):
            return PartOutcome(doubt=Why(Code.EMPTY, "its outputs are empty at the tested shapes"), original_ran=True)
        found = self._worst(expected, actual, ())
        if found.excess <= 1:  # within the smallest tolerance
            return outcome_of(found)
        worst = partial(self._worst, expected, actual)
        found = sides.explained(expected, actual, worst, Difference.is_in_doubt, lambda found: found.excess <= 1)
        if found.excess > 1:
            return outcome_of(found)
        coarse = next((name for name in self.cut.outputs if self._is_coarse(name, sides, expected, actual)), None)
        if coarse is None:
            return outcome_of(found)
        reason = f"rounding the new weights changes {coarse!r} too much to compare it"
        return PartOutcome(doubt=Why(Code.COARSE, reason))

    def _dtype(self, name: str) -> int | None:
        return self.old.subgraph.outputs[self.cut.outputs.index(name)].dtype

    def _is_coarse(self, name: str, sides: ModelRuns, expected: SideResults, actual: SideResults) -> bool:
        """Whether a difference is larger than rounding may cause, and larger than the original's own errors."""
        dtype = self._dtype(name)
        found = compare_values(expected[name], actual[name], (), dtype, by_channel=True)
        if found.relative <= largest_difference(dtype):
            return False
        own = [sides.old([name], jitter=seed)[name] for seed in range(ROUNDS)]
        beyond = compare_values(actual[name], expected[name], [own], dtype, by_channel=True)
        return beyond.excess > 1 or not np.isfinite(beyond.max_abs)

    def _worst(self, expected: SideResults, actual: SideResults, rounds: Sequence[Sequence[SideResults]]) -> Difference:
        found = [
            compare_values(
                expected[name],
                actual[name],
                [[draw[name] for draw in draws] for draws in rounds],
                self._dtype(name),
                by_channel=True,
            )
            for name in self.cut.outputs
        ]
        found = [
            difference if difference.excess <= 1 or not self._vanishes(name, expected, actual) else Difference()
            for name, difference in zip(self.cut.outputs, found, strict=True)
        ]
        worst = max(found, key=lambda difference: difference.excess)
        return worst._replace(elements=min(size_of(expected[name]) for name in self.cut.outputs))

    def _vanishes(self, name: str, *results: SideResults) -> bool:
        """Whether a result is smaller than the rounding errors of its ordinary numbers.

        If all activations are zero, often an epsilon is all that is left; that is negligible.
        """
        unit = min(float_type(self._dtype(name)).roundoff, float_type(None).roundoff)
        made = [result[name] for result in results]
        return len(set(map(shape_of, made))) == 1 and all(
            is_float_array(array) and np.isfinite(array).all() and magnitude(array) <= unit * self.usual.get(name, 0.0)
            for array in made
        )

    def _run(
        self,
        one: Runnable,
        model: ir.Model,
        feeds: DrawnFeeds,
        outputs: Sequence[str],
        altered: reference.Alterations | None = None,
        known: SideResults | None = None,
        **options: Any,
    ) -> SideResults:
        """Run ``model``, which is the part's model or a changed copy of it; what is ``known`` is not computed.

        Values that are asked for to be known later are those of the model, whatever scale they are compared at.
        """
        held = dict(one.held)
        for value, change in (altered or {}).items():
            if value.name in held and value.graph is model.graph:
                held[value.name] = change(held[value.name])
        held.update((value.name, feeds[value.name]) for value in model.graph.inputs)
        prepared = one.prepared if model is one.subgraph.model else None
        if known:
            held.update(known)
            prepared = None if prepared is None else reference.Prepared(prepared.weights, bound=prepared.bound)
        own = dict(zip(self.cut.outputs, (value.name for value in one.subgraph.outputs), strict=True))
        names = [own.get(name, name) for name in outputs]
        made = self.evaluate(model, held, names, altered=altered, prepared=prepared, **options)
        results = {name: made[own.get(name, name)] for name in outputs}
        factors = self.factors if one is self.new and known != {} else {}
        return {name: array / factors[name] if name in factors else array for name, array in results.items()}


def _other(array: Array) -> Array:
    """Return other floats, in reversed order and scaled; other types stay."""
    return array.reshape(-1)[::-1].reshape(array.shape) * 1.5 if is_float_array(array) else array


def _reaches_everywhere(finite: Array) -> bool:
    """Whether there is a True at each index of each axis."""
    if finite.all():
        return True
    others = (tuple(other for other in range(finite.ndim) if other != axis) for axis in range(finite.ndim))
    return all(bool(finite.any(axis=axes).all()) for axes in others)


def _shape(value: object) -> object:
    """Return the shape of an array; None for a sequence or nothing."""
    return getattr(value, "shape", None)


@dataclass(frozen=True, slots=True)
class Runnable:
    """A part that is evaluated many times, with its ``held`` weights in float64.

    A part with equal nodes can stand in for another one: ``names`` maps the weights to the names that they have there.
    """

    subgraph: Subgraph
    held: Mapping[str, Array] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    prepared: reference.Prepared = field(default_factory=reference.Prepared)


def runnable(subgraph: Subgraph, values: Sequence[ir.Value], like: Runnable | None = None) -> Runnable:
    """Return the part with ``values`` in the place of its own stored tensors, read and widened once."""
    held: dict[str, Array] = {}
    names: dict[str, str] = {}
    for value, other in zip(values, subgraph.stored, strict=True):
        tensor = value.tensor
        if tensor is not None and tensor.size <= LARGEST_HELD:
            held[other.name], names[other.name] = widen(tensor.numpy()), value.name
    return Runnable(subgraph, held, names) if like is None else Runnable(subgraph, held, names, like.prepared)


def takes_long(subgraph: ir.Model, shapes: Mapping[str, tuple[int, ...]], produced: int) -> bool:
    """Whether evaluating a part takes long although its inputs are small: it may compute large sizes.

    That is only examined if an axis is long, or if many elements are ``produced`` at the usual sizes.
    """
    is_long = max(map(max, filter(None, shapes.values())), default=0) > FEW or produced > LARGEST_HELD
    return is_long and estimate(sized(subgraph, shapes)).seconds > REGION_SECONDS
