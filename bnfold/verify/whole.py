"""Examine whole models: feed both, compare in float64, then ask a runtime for the errors in storage precision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bnfold import reference
from bnfold.errors import BadInput, Unsupported
from bnfold.verify.data import Recorded, load_data
from bnfold.verify.full import Compared, Pair, evaluator, output_rows, too_large
from bnfold.verify.inputs import CannotFeed, Feeds, input_shapes, random_feeds, required
from bnfold.verify.request import Request
from bnfold.verify.rounding import Array, Draws
from bnfold.verify.shapes import sizings
from bnfold.verify.storage import Errors
from bnfold.verify.testify import gather
from bnfold.verify.verdict import OutputRow, WitnessRow


class Impossible(Exception):  # noqa: N818 - not an error: the whole models cannot be compared, parts of them may be
    """The whole models cannot be compared; the message is the reason."""


class Broken(Exception):  # noqa: N818 - a finding, which becomes a verdict
    """The rewritten model does not run where the original does."""


@dataclass(frozen=True, slots=True)
class Whole:
    """What comparing the whole models gave. ``fault`` was found by ``test``; ``doubt`` is why a pass does not count."""

    rows: tuple[OutputRow, ...]
    fault: str
    test: str
    doubt: str
    witnesses: tuple[WitnessRow, ...]
    notes: tuple[str, ...]
    samples: int
    pair: Pair
    failing: Feeds | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """One set of inputs with what the original makes of it in float64."""

    feeds: Feeds
    expected: Mapping[str, Array]
    recorded: Mapping[str, Array] = field(default_factory=dict)


def examine_whole(request: Request, draws: Draws) -> Whole:
    """Compare the whole models.

    Raises Impossible where they cannot be fed, run or run in time, and Broken where only the original can.
    """
    with request.clock.phase("referee"):
        pair = Pair(request.before, request.after, draws, evaluator(request.policy, lambda: request.clock.left))
        try:
            samples = _samples(request, pair)
            compared = _compare(request, pair, samples)
        except reference.OutOfTime as error:
            raise Impossible(f"{error} ({request.clock.budget:.0f} s)") from error
        except MemoryError as error:
            raise Impossible("the models need more memory than there is") from error
    fault, culprit = _float64_fault(compared)
    with request.clock.phase("witness"):
        evidence = gather(request, pair, samples)
    rows = evidence.fill(output_rows(compared))
    test = "float64" if fault else "storage precision"
    return Whole(
        rows=rows,
        fault=fault or evidence.fault,
        test=test,
        doubt="" if fault else _doubt(compared, evidence.errors_before),
        witnesses=evidence.rows,
        notes=(*_notes(pair), *evidence.notes),
        samples=len(samples),
        pair=pair,
        failing=samples[culprit].feeds if fault else None,
    )


def _samples(request: Request, pair: Pair) -> list[Sample]:
    """The recorded runs, or random inputs of the first sizes that the original accepts."""
    if request.data is not None:
        runs = load_data(request.data, request.before)
        return [_expected(request, pair, run, index, len(runs)) for index, run in enumerate(runs)]
    tried: list[dict[str, tuple[int, ...]]] = []
    misfit: Unsupported | None = None
    for sizing in sizings():
        try:
            shapes = input_shapes(request.before, sizing, request.inputs)
        except CannotFeed as error:
            raise Impossible(str(error)) from error
        if shapes in tried:
            continue
        tried.append(shapes)
        feeds = [random_feeds(request.before, shapes, request.seed, index) for index in range(request.samples)]
        try:
            return [_expected(request, pair, Recorded(feed), index, len(feeds)) for index, feed in enumerate(feeds)]
        except reference.Random as error:
            raise Impossible(f"the original draws random numbers: {error}") from error
        except reference.Misfit as error:
            misfit = error
        except (Unsupported, BadInput) as error:
            raise Impossible(str(error)) from error
    hints = " ".join(f"--input {value.name}=N,…" for value in required(request.before))
    raise Impossible(f"no input shape tried fits the original ({misfit}); give one with {hints}") from misfit


def _expected(request: Request, pair: Pair, run: Recorded, index: int, total: int) -> Sample:
    request.progress("original", index, total)
    return Sample(run.feeds, pair.expect(run.feeds), run.outputs)


def _compare(request: Request, pair: Pair, samples: Sequence[Sample]) -> list[Compared]:
    compared: list[Compared] = []
    for index, sample in enumerate(samples):
        request.progress("rewritten", index, len(samples))
        try:
            compared += pair.compare(sample.feeds, sample.expected, index)
        except reference.Random as error:
            raise Impossible(f"the rewritten model draws random numbers: {error}") from error
        except reference.Misfit as error:
            raise Broken(f"the rewritten model does not run on what the original takes: {error}") from error
        except Unsupported as error:
            raise Impossible(f"the rewritten model cannot be evaluated: {error}") from error
    return compared


def _float64_fault(compared: Sequence[Compared]) -> tuple[str, int]:
    """A sentence on the first fault and its sample; values before jumps come first, they cause what follows."""
    for item in compared:
        if item.difference.fault:
            what = "output" if item.is_output else "value"
            found = item.difference
            size = f" ({found.relative:.2g} of its scale, {found.allowed:.2g} allowed)" if found.same_pattern else ""
            return f"{what} {item.name!r}: {found.fault}{size}", item.sample
    return "", 0


def _doubt(compared: Sequence[Compared], errors_before: Mapping[str, Errors]) -> str:
    """A large difference that noise explains needs the original to err as much in its own type."""
    for item in compared:
        if not too_large(item):
            continue
        own = errors_before.get(item.name)
        if own is None or own.largest < item.difference.relative / 8:
            return (
                f"value {item.name!r} differs by {item.difference.relative:.2g} of its scale; rounding the new weights "
                "could cause that, but nothing shows that the original is so sensitive"
            )
    return ""


def _notes(pair: Pair) -> list[str]:
    notes = []
    if pair.watched:
        notes.append(
            f"compared up to {len(pair.watched)} inputs of operators whose result jumps, "
            "and from there on the original's values"
        )
    if pair.uncut:
        notes.append(f"{len(pair.uncut)} values read by operators whose result jumps have no counterpart in the original")
    return notes

