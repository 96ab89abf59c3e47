"""Whether a model runs at the sizes that a caller fixes: tried on shapes alone, and in a runtime if these say less."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from operator import itemgetter

from bnfold import ir, reference
from bnfold.errors import BadInput, BnfoldError, Unsupported
from bnfold.ir.value import Known, written
from bnfold.reference import Refusal, ShapeTrial
from bnfold.verification.as_read import as_read
from bnfold.verification.inputs.choices import choices
from bnfold.verification.inputs.cost import MOST_BYTES, estimate, fits_memory, session_seconds
from bnfold.verification.inputs.drawing import known_sizes, random_feeds
from bnfold.verification.inputs.shapes import ChosenShapes, elements, open_places, resized
from bnfold.verification.inputs.sized import sized
from bnfold.verification.runtimes.runtime import RuntimeProcess, RuntimeResult

_LIMIT_SECONDS = 10.0
"""For one trial, which takes a tenth of a second for a network."""

_HINT_SECONDS = 2.0
_USUAL = (1, 3, 2, 4, 8, 16, 32, 64, 224)
_MOST_SIZES = 32
_MOST_OPEN = 8
"""Choices of the sizes that stay open."""

_MOST_ELSEWHERE = 3
"""Choices of sizes that owe nothing to the caller's."""

_MOST_ASKED = 12
"""Other sizes at which a runtime is asked to run what it refuses at the caller's."""

_RUNTIME_SECONDS = 60.0
_LARGEST_RUN = 20.0
"""Counted seconds in the evaluator; a runtime is ten times faster."""

_CHEAP_RUN = 1.0
"""The same for a model that no kernel refuses: verification left the runtime out for its cost."""


@dataclass(frozen=True, slots=True)
class FixedSizes:
    """A model as it came, the same model with the sizes that a caller ``asked`` for, and how both are read."""

    original: ir.Model
    fixed: ir.Model
    asked: Mapping[str, Sequence[int]]
    policy: reference.Policy
    runtime: str = "none"

    def require(self) -> str:
        """Try the model on shapes alone; return a note on what that cannot say, empty if there is nothing to note.

        The runtime is asked about a node that refuses, because it may take it, and about what could not be tried.

        Raises:
            BadInput: The model cannot run at these sizes.
        """
        try:
            known, followed = known_sizes(self.fixed, {})
            _require_ranks(self.fixed)
            tried = [(shapes, self._trial(self.fixed, shapes)) for shapes in _shapes(self.fixed, known, followed)]
        except BnfoldError as error:
            return _untried(str(error))
        shapes, trial = next((one for one in tried if one[1].refusal is None), tried[0])
        if trial.refusal is None:
            return _untried(self._ask_runtime(shapes, trial.untried)) if trial.untried else ""
        why = _why(trial.refusal)
        if self._runs(shapes):
            return (
                f"{self.runtime} runs the model at the fixed sizes, but its operators' texts do not allow them: {why}"
            )
        hint = self._hint(shapes, trial.refusal)
        if hint and self._as_asked(hint) == self._as_asked(shapes):  # other sizes fit where these stay open
            return ""
        nodes = {other.refusal.node for _, other in tried if other.refusal is not None}
        is_open = bool(open_places(known))
        if is_open and (not hint or len(nodes) > 1):
            return _untried(f"no sizes were found for those that stay open: {why}")
        if not hint and self._trial(self.fixed, shapes, later=True).refusal is None:
            return _untried(f"some node has not the form of its own version: {why}")
        raise self._refused(why, hint, is_open=is_open)

    def require_runtime(self) -> None:
        """Let the runtime run the model once, if that is cheap. Raises BadInput if it refuses the caller's sizes."""
        try:
            known, _ = known_sizes(self.fixed, {})
        except BnfoldError:
            return
        shapes = {name: tuple(dim for dim in shape if isinstance(dim, int)) for name, shape in known.items()}
        at = sized(self.fixed, shapes)
        is_estimated = all(
            value is None or value.shape is not None for node in at.graph.nodes for value in node.outputs
        )
        if open_places(known) or not is_estimated or estimate(at).seconds > _CHEAP_RUN:
            return
        self._ask_runtime(shapes, "")

    def _trial(self, model: ir.Model, shapes: ChosenShapes, *, later: bool = False) -> ShapeTrial:
        return reference.try_shapes(model, shapes, policy=self.policy, limit_seconds=_LIMIT_SECONDS, later=later)

    def _ask_runtime(self, shapes: ChosenShapes, untried: str) -> str:
        """Return ``untried`` if the runtime cannot say more; empty if it runs the model.

        Raises BadInput if it opens the model, and runs it at other sizes, but not at these, whatever is fed.
        """
        found = self._in_runtime(shapes)
        if found is None or found.ran:
            return untried if found is None else ""
        if found.obstacle == "refused" and self._runs(None) and not self._runs(shapes, 1):
            for other in islice(chain(self._elsewhere(), self._with_one_changed(shapes)), _MOST_ASKED):
                if self._runs(other):
                    raise self._refused(f"{self.runtime} says {found.error}", other)
        return untried

    def _runs(self, shapes: ChosenShapes | None, sample: int = 0) -> bool:
        """Whether the runtime was asked to run the original at these sizes (None: to open it), and did."""
        found = self._in_runtime(shapes, sample)
        return found is not None and found.ran

    def _in_runtime(self, shapes: ChosenShapes | None, sample: int = 0) -> RuntimeResult | None:
        """Run the original in the runtime, or only open it (None).

        Return None if it is not asked, for there is none, or the model is too large for it.
        """
        model = self.original
        if self.runtime != "onnxruntime" or session_seconds(model) > _RUNTIME_SECONDS / 10:
            return None
        if model.parameter_bytes() > MOST_BYTES:
            return None
        samples = []
        if shapes is not None:
            at = sized(model, shapes)
            cost = estimate(at)
            if cost.seconds > _LARGEST_RUN or not fits_memory(elements(shapes), cost):
                return None
            samples = [random_feeds(at, shapes, 0, sample)]
        found = RuntimeProcess(self.runtime).run(as_read(model, model.path, self.policy), samples, _RUNTIME_SECONDS)
        return None if found.obstacle == "not looked" else found

    def _elsewhere(self) -> Iterator[ChosenShapes]:
        """Yield other sizes that the original may take."""
        with suppress(BnfoldError):
            known, followed = known_sizes(self.original, {})
            for choice in islice(choices(self.original, known, followed), _MOST_ELSEWHERE):
                yield choice.shapes

    def _hint(self, shapes: ChosenShapes, refusal: Refusal) -> ChosenShapes:
        """Return sizes at which the model runs, with one change if possible; empty if none are found."""
        end = time.monotonic() + _HINT_SECONDS
        for other in chain(self._with_one_changed(shapes, _numbers(refusal)), self._elsewhere()):
            if time.monotonic() > end:
                break
            if self._trial(self.original, other).refusal is None:
                return other
        return {}

    def _with_one_changed(self, shapes: ChosenShapes, numbers: Collection[int] = ()) -> Iterator[ChosenShapes]:
        """Yield the sizes with one that is dynamic in the original changed, to the nearest numbers first."""
        values = {value.name: value.shape for value in self.original.required_inputs()}
        declared = {name: shape or [None] * len(shapes[name]) for name, shape in values.items()}
        there = {size for shape in shapes.values() for size in shape}  # two inputs may have to be alike
        sizes = sorted({*_USUAL, *numbers, *there} - {0})[:_MOST_SIZES]
        changes = [
            (max(size / shapes[name][axis], shapes[name][axis] / size), places, size)
            for size in sizes
            for places in open_places(declared)
            for name, axis in places[:1]
            if shapes[name][axis] not in (0, size)
        ]
        for _, places, size in sorted(changes, key=itemgetter(0)):
            yield resized(shapes, dict.fromkeys(places, size))

    def _refused(self, why: str, other: ChosenShapes, *, is_open: bool = False) -> BadInput:
        """Return the error, with sizes at which the model runs, if some were found."""
        advice = "give other sizes, or leave that out"
        if other:
            verb = "runs" if self._trial(self.original, other) == ShapeTrial() else "may run"
            advice = f"it {verb} at {_typed(self._as_asked(other))}"
        also = "; if other sizes of the open axes fit, give these as well" if is_open else ""
        return BadInput(f"{self.original.label}: the model cannot run at {_typed(self.asked)}: {why}; {advice}{also}")

    def _as_asked(self, shapes: ChosenShapes) -> dict[str, Sequence[int]]:
        """Return sizes by the names that the caller used: of inputs, or of single sizes."""
        named = {
            dim: (shapes[value.name][axis],)
            for value in self.original.required_inputs()
            for axis, dim in enumerate(value.shape or ())
            if isinstance(dim, str)
        }
        return {name: shapes.get(name) or named[name] for name in self.asked}


def _require_ranks(model: ir.Model) -> None:
    """Raise Unsupported if a caller feeds an input of unknown rank, which no size can be tried of."""
    if unranked := [value.name for value in model.required_inputs() if value.shape is None]:
        raise Unsupported(f"the rank of input {unranked[0]!r} is unknown")


def _shapes(model: ir.Model, known: Mapping[str, Known], followed: ir.Model | None) -> Iterator[ChosenShapes]:
    """Yield the caller's sizes, with several choices of those that stay open."""
    if not open_places(known):
        yield {name: tuple(dim for dim in shape if isinstance(dim, int)) for name, shape in known.items()}
        return
    for choice in islice(choices(model, known, followed), _MOST_OPEN):
        yield choice.shapes


def _untried(reason: str) -> str:
    return f"the model was not wholly tried at the fixed sizes: {reason}" if reason else ""


def _typed(shapes: Mapping[str, Sequence[int]]) -> str:
    return " ".join(f"--fix-shapes {shlex.quote(f'{name}={written(shape)}')}" for name, shape in shapes.items())


def _numbers(refusal: Refusal) -> set[int]:
    return {int(number) for _, text in refusal.inputs for number in re.findall(r"\d+", text)}


def _why(refusal: Refusal) -> str:
    inputs = ", ".join(f"{name} {shape}" for name, shape in refusal.inputs)
    return f"node {refusal.node.label!r} ({refusal.node.op_type}) gets {inputs}: {refusal.reason}"
