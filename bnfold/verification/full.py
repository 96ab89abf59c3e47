"""The whole of both models in float64: every output, and every value that a jumping operator reads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from bnfold import ir, reference
from bnfold.ir.elements import type_name
from bnfold.verification.compare import Difference, compare_values, explained
from bnfold.verification.evidence import Evidence, Mutant, same_place
from bnfold.verification.floats import float_type
from bnfold.verification.inputs import Feeds
from bnfold.verification.jumps import jumps, substitute
from bnfold.verification.rounding import Array, PerturbedWeights, rounds_of
from bnfold.verification.verdict import OutputRow


class Evaluate(Protocol):
    """`evaluator`: the named values of a model; ``options`` are those of `reference.evaluate`."""

    def __call__(self, model: ir.Model, feeds: Feeds, outputs: Sequence[str], **options: Any) -> dict[str, Array]: ...


FEW = 100_000
"""New weights (elements) that are disturbed in two groups, for few can cancel; more of them are disturbed at once."""

BLIND = 1e-3
"""Units of roundoff. A weight that is wrong by a ten-thousandth is wrong by at least a thousand units, so an output
that moves less than this with one unit would not show it."""

LARGEST_DIFFERENCE = 1e-4
"""Of the scale, in float32: what rounding weights never causes in a healthy network. Beyond it the noise is not
believed unless the original itself errs as much in its own type. Other types: in proportion to their roundoff."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A value of the main graph on one sample; `is_output` tells outputs from inputs of jumping operators.

    ``response`` is how far disturbing the new weights moved the value, relative to its scale; None without new weights.
    """

    name: str
    sample: int
    difference: Difference
    dtype: int | None
    shape: tuple[int, ...]
    is_output: bool
    response: float | None

    @property
    def reacts(self) -> bool:
        """Whether the value moves enough with the new weights to show a fault in them; it may be saturated."""
        return self.response is None or self.response > BLIND * float_type(self.dtype).roundoff


class Pair:
    """Two models made ready to be evaluated side by side; ``evaluate`` knows policy and deadline (`evaluator`)."""

    def __init__(self, before: ir.Model, after: ir.Model, draws: PerturbedWeights, evaluate: Evaluate) -> None:
        self.before, self.after = before, after
        self._evaluate = evaluate
        self.outputs = [value.name for value in before.graph.outputs]
        watched, self.uncut = jumps(before, after)
        self.hold(watched)
        self.holds: list[str] = []
        self.has_empty = False
        self.misfit = ""
        """Why the original does not run as it is declared; nodes that do not fit their version are read as a later one.
        """
        self.drawn: set[str] = set()
        """Names of random values that the original draws."""
        self._sources = draws
        self.rows = draws.rows

    def hold(self, names: list[str]) -> None:
        """Compare these values, and give the original's to the jumping operators that read them."""
        self.watched = names
        self._acting, self._stand_ins = substitute(self.after, names) if names else (self.after, {})

    def without(self, names: Collection[str]) -> Pair:
        """The same, but that jumping operators of the rewritten model read its own values of these ``names``."""
        other = copy(self)
        other.hold([name for name in self.watched if name not in names])
        other.holds = [name for name in self.holds if name not in names]
        other.uncut = [*self.uncut, *names]
        return other

    @property
    def groups(self) -> int:
        """How often the new weights are disturbed."""
        return 2 if self._sources.elements < FEW else 1

    def round(self, model: ir.Model, number: int) -> list[reference.Alterations]:
        """What disturbs the new weights of (a copy of) the rewritten model; one number, one way."""
        return self._sources.of(model, self.groups, number)

    def expect(self, feeds: Feeds) -> dict[str, Array]:
        """What the original computes: outputs and watched values.

        `holds` then names those watched that are floats, and `has_empty` says whether a value had no elements.
        """
        self.has_empty = False
        names = [*self.outputs, *self.watched]
        noise = reference.Noise()
        expected = self._evaluate(self.before, feeds, names, observer=self._look, later=bool(self.misfit), noise=noise)
        self.drawn |= noise.drawn.keys()
        self.holds = [name for name in self.watched if np.asarray(expected[name]).dtype.kind == "f"]
        return expected

    def _look(self, _: str, value: Any) -> None:
        self.has_empty = self.has_empty or getattr(value, "size", 1) == 0

    def compare(self, feeds: Feeds, expected: Mapping[str, Array], sample: int) -> list[Compared]:
        """Outputs and watched values of the rewritten model beside the expected ones, watched values first."""
        names, given = self._asked(feeds, expected)
        actual = self._evaluate(self._acting, given, names, noise=reference.Noise(self.drawn))
        rounds = rounds_of(
            partial(self._evaluate, self.before, feeds, names, later=bool(self.misfit)),
            partial(self._evaluate, self._acting, given, names),
            expected,
            actual,
            partial(self.round, self._acting),
            lambda: self._sources.gone.of(self.before, self.groups, 0),
        )
        return explained(
            rounds,
            lambda drawn: [self._compared(name, sample, expected[name], actual[name], drawn) for name in names],
            lambda compared: any(item.difference.is_in_doubt for item in compared),
        )

    def _asked(self, feeds: Feeds, expected: Mapping[str, Array]) -> tuple[list[str], Feeds]:
        """The values to compare, and what the rewritten model is fed for that: jumping operators are held."""
        held = {stand_in: expected[name] for name, stand_in in self._stand_ins.items()}
        return [*self.watched, *self.outputs], {**feeds, **held}

    def look(self, evidence: Evidence, feeds: Feeds, expected: Mapping[str, Array]) -> None:
        """Whether mutants of either model compute something else than the model does."""
        names, given = self._asked(feeds, expected)
        sides = (self.before, feeds), (self._acting, given)

        def run(mutant: Mutant) -> dict[str, Array]:
            (model, fed), other = sides[mutant.side], sides[1 - mutant.side]
            mutated, altered = mutant.of(model, same_place, lambda name: self._evaluate(*other, [name])[name])
            return self._evaluate(mutated, fed, names, altered=altered, later=bool(self.misfit and not mutant.side))

        evidence.look(run, (expected, self._evaluate(self._acting, given, names)))
        if all(table.index.graph.path == "" for table in evidence.tables):  # of bodies nobody sees what is chosen
            evidence.read(lambda index: self._evaluate(self._acting, given, [index.name])[index.name])

    def _compared(
        self, name: str, sample: int, expected: Array, actual: Array, rounds: Sequence[Sequence[Mapping[str, Array]]]
    ) -> Compared:
        value = self.before.graph.values[name]
        dtype = value.dtype or self.after.graph.values[name].dtype
        draws = [[draw[name] for draw in group] for group in rounds]
        measured = compare_values(expected, actual, draws, dtype, by_channel=False)
        response = _response(actual, draws[0])
        return Compared(name, sample, measured, dtype, np.shape(expected), name in self.outputs, response)


def _response(actual: Any, draws: Sequence[Any]) -> float | None:
    """The largest move of an element, relative to the largest element; 0 for what cannot move a little (integers)."""
    if not draws:
        return None
    if not isinstance(actual, np.ndarray) or actual.dtype.kind != "f":
        return 0.0
    finite = np.isfinite(actual)
    scale = float(np.abs(actual, where=finite, out=np.zeros(actual.shape)).max(initial=0.0))
    largest = 0.0
    for draw in (draw for draw in draws if draw.shape == actual.shape):
        usable = finite & np.isfinite(draw)
        move = np.abs(np.subtract(draw, actual, where=usable, out=np.zeros(actual.shape)))
        largest = max(largest, float(move.max(initial=0.0)))
    return largest / scale if scale > 0 else 0.0


def too_large(compared: Compared) -> bool:
    """Whether a difference is beyond `LARGEST_DIFFERENCE`, whatever the noise says."""
    limit = LARGEST_DIFFERENCE * float_type(compared.dtype).roundoff / float_type(None).roundoff
    return compared.difference.relative > limit


def output_rows(compared: Sequence[Compared]) -> tuple[OutputRow, ...]:
    """One row an output: its worst sample."""
    worst: dict[str, Compared] = {}
    for item in compared:
        if item.is_output and (item.name not in worst or _severity(item) > _severity(worst[item.name])):
            worst[item.name] = item
    return tuple(_row(item) for item in worst.values())


def _severity(item: Compared) -> tuple[float, float]:
    return item.difference.excess, item.difference.relative


def _row(item: Compared) -> OutputRow:
    found = item.difference
    return OutputRow(
        name=item.name,
        dtype=type_name(item.dtype),
        shape=item.shape,
        scale=found.scale,
        max_abs=found.max_abs,
        rms=found.rms,
        relative=found.relative,
        ulps=found.ulps,
        allowed=found.allowed,
        same_pattern=found.same_pattern,
        fault=found.fault,
    )


def evaluator(policy: reference.Policy | None, seconds_left: Callable[[], float]) -> Evaluate:
    """`reference.evaluate` in float64, under the policy and within the time that is left when it starts."""

    def evaluate(model: ir.Model, feeds: Feeds, outputs: Sequence[str], **options: Any) -> dict[str, Array]:
        drawing = {"noise": reference.Noise(), **options}
        return reference.evaluate(model, feeds, outputs, limit_seconds=seconds_left(), policy=policy, **drawing)

    return evaluate
