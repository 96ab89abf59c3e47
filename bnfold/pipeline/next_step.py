"""What a caller can do about a result that is not verified: an option that was tried and verifies it.

Options are tried within a small share of the time limit, the likeliest for the verdict's code first. The trials decide
what is said, and nothing else. If none of them verifies the result, the sentence says what helps outside bnfold.
"""

from __future__ import annotations

import math
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import NamedTuple

import onnx

from bnfold import analysis, ir, log, reference
from bnfold.errors import BnfoldError
from bnfold.ir.time_limit import ends_at
from bnfold.ir.value import Dim
from bnfold.report.events import Report
from bnfold.report.rewrites import NAMED
from bnfold.settings import Options, VerifyOptions
from bnfold.settings.progress import Progress
from bnfold.verification import Code, Evidence, NextStep, Verdict
from bnfold.verification.inputs.drawing import input_shapes
from bnfold.verification.inputs.shapes import Sizing, sizings
from bnfold.verification.remedies import Remedies, is_dynamic, narrower_type
from bnfold.verification.request import budget_of

SHARE = 1 / 6
"""Share of the time limit, or of the counted work if that is less, for all trials together."""
_MOST_SIZES = 6
"""Choices of sizes that are tried, of those that fit."""
_SIDES = (8, 32, 64, 16, 224, 4, 128, 512)
_CHANNELS = (3, 1)
_MOST_ELEMENTS = 1 << 20
"""Of all inputs of a trial: what the model makes of them may be much more."""

_MOST_TOLERATED = 0.5
"""A tolerance beyond this, as a share of an output's largest value, is not advised: it would hide most faults."""


class Candidate(NamedTuple):
    """Options that may verify the result; ``options`` are those of the rewrite, None if it stays as it is."""

    words: tuple[str, ...]
    effect: str
    checks: VerifyOptions
    options: Options | None = None


class Tried(NamedTuple):
    """What became of a trial: its verdict, how many nodes its result has more, and its opset if that is another one."""

    verdict: Verdict
    more_nodes: int = 0
    other_opset: int | None = None


TryCandidate = Callable[[Candidate], Tried]
"""Runs the command again with other options, and writes nothing. Raises as the command does."""


@dataclass(frozen=True, slots=True)
class Case:
    """A result that is not verified, and how to try again.

    Attributes:
        attempt: Runs the command again with other options.
        before: The original; None for an OpenVINO IR, whose options are not tried.
        after: The result, if it is at hand.
        options: Those of the rewrite; None if the two models were given.
        report: What the rewrite did.
        seconds: What rewriting and verifying took, and will take again with other options of the rewrite.
        progress: Called at each attempt.
    """

    verdict: Verdict
    checks: VerifyOptions
    attempt: TryCandidate
    before: ir.Model | None = None
    after: ir.Model | None = None
    options: Options | None = None
    report: Report | None = None
    seconds: float = 0.0
    progress: Progress = lambda *_: None

    @property
    def open_rows(self) -> list[Evidence]:
        """The claims that are not verified."""
        return [row for row in self.verdict.ledger if row.status != "verified"]


def next_step(case: Case) -> NextStep | None:
    """Return what a caller can do; None if the result is verified."""
    if case.verdict.verified:
        return None
    asked = case.checks
    case = replace(case, checks=replace(asked, explain=None, save=None))  # which are asked of the result itself
    until = time.monotonic() + SHARE * budget_of(case.checks.verify_seconds)
    kind = _narrower(case)
    if kind:
        return _within_tolerance(case, kind, until)
    for candidate in _candidates(case):
        needed = case.seconds if candidate.options is not None else 0.0
        if time.monotonic() + needed > until:
            continue
        if (step := _step_if_verified(case, candidate, until)) is not None:
            return step
    return _more_time(case) or NextStep(_outside(replace(case, checks=asked)))


def _step_if_verified(case: Case, candidate: Candidate, until: float) -> NextStep | None:
    started = time.monotonic()
    tried = _tried(case, candidate, until)
    if tried is None or not tried.verdict.verified:
        return None
    seconds = f"{max(time.monotonic() - started, 0.1):.1f} s"
    more = tried.more_nodes
    nodes = f"{more} node{'s' if more != 1 else ''} more, " if more > 0 else ""
    is_said = tried.other_opset is None or "--opset" in candidate.words
    cost = f"{nodes}{seconds}" if is_said else f"with opset {tried.other_opset}, {nodes}{seconds}"
    return NextStep(f"{shlex.join(candidate.words)} {candidate.effect} ({cost})", candidate.words, tried=True)


def _tried(case: Case, candidate: Candidate, until: float) -> Tried | None:
    """Return what became of a trial; None if it did not end, or the command refuses the options.

    Whatever else a trial raises is a bug of that option, and no reason to lose the verdict.
    """
    log.info(__name__, "trying %s", shlex.join(candidate.words))
    try:
        with ends_at(until):
            case.progress("next step", 0, 0)
            return case.attempt(candidate)
    except Exception as error:  # noqa: BLE001 - see above
        log.debug(__name__, "trial of %s: %r", shlex.join(candidate.words), error)
        return None


# --- a version in a narrower type ---


def _narrower(case: Case) -> str:
    is_for_two = case.options is None and case.checks.tolerance is None
    if not is_for_two or case.before is None or case.after is None:
        return ""
    return narrower_type(case.before, case.after)


def _within_tolerance(case: Case, kind: str, until: float) -> NextStep:
    """Return the tolerance within which a float16 or int8 version agrees, if there is one that shows anything."""
    what = f"AFTER is {'an' if kind == 'int8' else 'a'} {kind} version of BEFORE"
    depth: tuple[str, ...] = ("--verify", "auto") if case.checks.depth == "local" else ()
    checks = replace(case.checks, depth="auto") if depth else case.checks
    tolerance: float | str = kind
    if kind == "int8":
        widest = Candidate((), "", replace(checks, tolerance=1.0))
        tried = _tried(case, widest, until)
        worst = max((row.relative for row in tried.verdict.outputs), default=math.inf) if tried else math.inf
        tolerance = _rounded_up(worst)
    if tolerance == kind or (isinstance(tolerance, float) and tolerance <= _MOST_TOLERATED):
        words = (*depth, "--tolerance", str(tolerance))
        candidate = Candidate(words, "verifies it", replace(checks, tolerance=tolerance))  # type: ignore[arg-type]
        if (step := _step_if_verified(case, candidate, until)) is not None:
            return replace(step, text=f"{step.text}; {what}")
    far = f", and {tolerance:g} of its largest value off on random inputs" if isinstance(tolerance, float) else ""
    far = far if far and math.isfinite(float(tolerance)) else ""
    how = "--tolerance T (a share of each output's largest value) on your own inputs (--data)"
    return NextStep(f"{what}{far}: compare with {how}")


def _rounded_up(number: float) -> float:
    """Return the next larger number of two digits."""
    if not (0 < number < math.inf):
        return math.inf if number else 1e-6
    step = 10.0 ** (math.floor(math.log10(number)) - 1)
    return float(f"{math.ceil(number / step * (1 + 1e-9)) * step:.2g}")


# --- options that are tried ---

_NUMBERS = ("samples", "depth", "sizes")
_FIRST: Mapping[Code, tuple[str, ...]] = {
    Code.HIDDEN: _NUMBERS,
    Code.NO_REACTION: _NUMBERS,
    Code.COARSE: _NUMBERS,
    Code.NEVER_FINITE: _NUMBERS,
    Code.NO_FIT: ("sizes",),
    Code.TOO_LARGE: ("sizes",),
    Code.TIME: ("sizes", "disable"),
    Code.MEMORY: ("sizes",),
    Code.EMPTY: ("sizes",),
    Code.SOME_SIZES: ("sizes",),
    Code.ASSUMED_SIZES: ("sizes",),
    Code.NO_KERNEL: ("runtime",),
    Code.RANDOM: ("disable",),
    Code.SOME_DEFAULTS: ("options",),
    Code.UNFED: ("options",),
    Code.TOO_OLD: ("options",),
}
"""What is tried first, by the verdict's code."""
_FAILED = ("whole", "disable", "frozen")
"""What is tried on what failed.

The whole models if parts alone were compared, leaving a rewrite out, and taking weights for constants.
"""


def _candidates(case: Case) -> Iterator[Candidate]:
    """Yield options that may verify the result, the likeliest first."""
    ways: dict[str, Callable[[Case], Iterable[Candidate]]] = {
        "depth": _depths,
        "whole": _whole,
        "runtime": _runtimes,
        "samples": _samples,
        "options": _other_options,
        "sizes": _sizes,
        "disable": _without_rewrites,
        "tolerance": _tolerances,
        "frozen": _frozen,
    }
    first = _FIRST.get(case.verdict.code, ())
    if first is _NUMBERS and case.options is not None and case.options.target_opset == "lowest":
        first = ("options", *first)  # an opset that is a little higher costs nothing
    order = _FAILED if case.verdict.status == "failed" else dict.fromkeys((*first, *ways))
    for way in order:
        yield from ways[way](case)


def _depths(case: Case) -> Iterator[Candidate]:
    """Yield the other depths of comparison that may decide; ``local`` alone shows less than the default."""
    if case.checks.tolerance is None and case.before is not None:
        for depth in ("auto", "full"):
            if depth != case.checks.depth:
                yield Candidate(("--verify", depth), "verifies it", replace(case.checks, depth=depth))


def _whole(case: Case) -> Iterator[Candidate]:
    """Yield the default depth: parts alone are compared on numbers that the model may never have there."""
    return (each for each in _depths(case) if case.checks.depth == "local" and each.checks.depth == "auto")


def _tolerances(case: Case) -> Iterator[Candidate]:
    """Yield the comparison in a runtime, which may have operators that bnfold lacks, within a narrow tolerance."""
    is_for_two = case.options is None and case.checks.tolerance is None and case.verdict.code in _NOT_RUN
    if is_for_two and case.before is not None and case.checks.runtime != "none" and case.checks.depth != "local":
        checks = replace(case.checks, tolerance=_NARROW)
        effect = f"verifies the outputs in {case.checks.runtime}, within this share of their largest values"
        yield Candidate(("--tolerance", str(_NARROW)), effect, checks)


_NOT_RUN = (Code.NO_KERNEL, Code.NOT_COMPUTED, Code.TIME, Code.MEMORY)
"""Codes of what bnfold itself did not run; a tolerance is no help where a fault would not show."""
_NARROW = 0.0001
"""Share of an output's largest value: about a thousand roundings of float32."""


def _frozen(case: Case) -> Iterator[Candidate]:
    """Yield the comparison of two given models with constants for weights that are also inputs."""
    if case.options is None and case.before is not None and case.before.overridable_inputs() and not case.checks.frozen:
        effect = "verifies it, if no caller feeds the weights that are also inputs"
        yield Candidate(("--frozen",), effect, replace(case.checks, frozen=True))


def _runtimes(case: Case) -> Iterator[Candidate]:
    if case.checks.runtime == "none" and case.before is not None:
        for runtime in ("onnxruntime", "openvino"):
            if find_spec(runtime) is not None:
                checks = replace(case.checks, runtime=runtime)
                yield Candidate(("--runtime", runtime), "verifies it", checks)


def _samples(case: Case) -> Iterator[Candidate]:
    if case.checks.data is None and case.checks.samples < _MANY and case.before is not None:
        checks = replace(case.checks, samples=_MANY)
        yield Candidate(("--samples", str(_MANY)), "verifies it", checks)


_MANY = 8
"""Samples: with all kinds of numbers among them."""


def _sizes(case: Case) -> Iterator[Candidate]:
    """Yield sizes for the inputs that leave them open, if the original's operators take them."""
    if case.before is None or case.checks.data is not None:
        return
    values = case.before.required_inputs()
    dynamic = [value.name for value in values if value.name not in case.checks.inputs and is_dynamic(value)]
    if not dynamic:
        return
    count = 0
    for shapes in _choices(case.before, case.checks.inputs):
        is_large = sum(map(math.prod, shapes.values())) > _MOST_ELEMENTS
        if is_large or any(not shapes[name] for name in dynamic) or not _fits(case.before, shapes):
            continue
        words = [word for name in dynamic for word in ("--input", f"{name}={','.join(map(str, shapes[name]))}")]
        checks = replace(case.checks, inputs={**case.checks.inputs, **{name: shapes[name] for name in dynamic}})
        yield Candidate(tuple(words), "verifies it at these sizes", checks)
        count += 1
        if count == _MOST_SIZES:
            return


def _choices(model: ir.Model, given: Mapping[str, Iterable[int]]) -> Iterator[dict[str, tuple[int, ...]]]:
    """Yield shapes of all inputs; for one of unknown rank an image, rows, a sequence and a signal in turn."""
    values = model.required_inputs()
    stated: dict[str, tuple[Dim, ...] | None] = {
        value.name: tuple(given[value.name]) if value.name in given else value.shape for value in values
    }
    lacks_rank = any(shape is None for shape in stated.values())
    for side in (*_SIDES, *_stated_sizes(model)):
        for channels in _CHANNELS:
            images: tuple[tuple[int, ...], ...] = ((1, channels, side, side), (1, side), (1, side, side), (side,))
            for unknown in images if lacks_rank else images[:1]:
                sizing = Sizing(1, (side,), (channels if lacks_rank or channels == 1 else side,))
                yield {name: unknown if shape is None else sizing.concrete(shape) for name, shape in stated.items()}


def _stated_sizes(model: ir.Model) -> list[int]:
    """Return sizes that stored shapes name, such as a Reshape's target: each, and the product of them."""
    sizes: dict[int, None] = {}
    for graph in model.graphs():
        for value in graph.values.values():
            if value.dtype != onnx.TensorProto.INT64 or (tensor := analysis.constant(value)) is None:
                continue
            numbers = [int(number) for number in tensor.numpy().reshape(-1)] if tensor.size <= _FEW else []
            positive = [number for number in numbers if number > 1]
            sizes |= dict.fromkeys([*positive, math.prod(positive)])
    return [size for size in sizes if 1 < size <= _LARGEST_SIZE and size not in _SIDES][:_FEW]


_FEW = 8
"""Numbers that a stored shape has at most, and sizes that are taken from those of a model."""
_LARGEST_SIZE = 1 << 14


def _fits(model: ir.Model, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    return reference.try_shapes(model, dict(shapes), limit_seconds=1.0).refusal is None


def _other_options(case: Case) -> Iterator[Candidate]:
    """Yield other options of the rewrite, by the verdict's code."""
    options, code = case.options, case.verdict.code
    if options is None or case.before is None:
        return
    wanted = {Code.SOME_DEFAULTS: ("freeze", "keep"), Code.UNFED: ("keep",)}
    for choice in wanted.get(code, ()):
        if choice != options.overridable:
            other = replace(options, overridable=choice)  # type: ignore[arg-type] # two of its choices
            yield Candidate(("--overridable", choice), "verifies it", case.checks, other)
    is_too_old = code is Code.TOO_OLD
    if is_too_old and isinstance(options.ir_version, int):
        yield Candidate(("--ir-version", "auto"), "verifies it", case.checks, replace(options, ir_version="auto"))
    if case.report is not None and (options.target_opset == "lowest" or is_too_old):
        for opset in range(case.report.opset_after + 1, case.report.opset_before + 1):
            other = replace(options, target_opset=opset)
            yield Candidate(("--opset", str(opset)), "verifies it", case.checks, other)
    if is_too_old and isinstance(options.target_opset, int):
        yield Candidate(("--opset", "latest"), "verifies it", case.checks, replace(options, target_opset="latest"))


def _without_rewrites(case: Case) -> Iterator[Candidate]:
    """Yield the rewrites that can be left out, each alone, and at last together those that a claim names.

    Those come first that an open or failed claim names, and what was made seldom: it costs least.
    """
    report, options = case.report, case.options
    if report is None or options is None:
        return
    counts = Counter({row.rewrite.name: row.count for row in report.rewrites if row.rewrite.name in NAMED})
    suspects = _suspects(report, case.open_rows)
    for name in sorted(counts, key=lambda name: (name not in suspects, counts[name], name)):
        disabled = options.disable | {name}
        words = ("--disable", ",".join(sorted(disabled)))
        yield Candidate(words, "verifies the rest", case.checks, replace(options, disable=disabled))
    if len(together := suspects & counts.keys()) > 1:
        disabled = options.disable | together
        words = ("--disable", ",".join(sorted(disabled)))
        yield Candidate(words, "verifies the rest", case.checks, replace(options, disable=disabled))


def _suspects(report: Report, rows: Iterable[Evidence]) -> set[str]:
    """Return the names of rewrites that took place where these claims are."""
    rows = [*rows]
    names = {report.made_by[row.label] for row in rows if row.label in report.made_by}
    places = {name for row in rows for name in (*row.outputs, *row.boundary)}
    labels = {word.strip("'\"") for row in rows for word in row.label.split()}
    for event in report.simplified:
        if {event.name, event.into} & (places | labels):
            names.add(event.rewrite.name)
    return names


# --- what is not tried ---


_QUICK = 60
"""Seconds that the line names at least: so much counted work the default limit has."""


def _more_time(case: Case) -> NextStep | None:
    """Return the time limit that lets the comparison end; None unless time is all that is missing.

    That is if every open claim is one of time, each operator has a kernel, and the sizes fit. What is in one of the
    models only is compared with what is around it, if there is time.
    """
    rows = [row for row in case.open_rows if row.prover != "runtime"]  # which decides nothing by itself
    if case.verdict.status == "failed" or case.before is None or case.verdict.code is not Code.TIME:
        return None
    if any(row.code not in (Code.TIME, Code.ONE_SIDED) for row in rows):
        return None
    enough = max((int(row.data.get("verify_seconds", 0)) for row in rows), default=0)
    enough = max(enough, _QUICK) if enough else 0
    models = [model for model in (case.before, case.after) if model is not None]
    if enough <= case.checks.verify_seconds or not all(map(_runs, models, [case.checks] * len(models))):
        return None
    depth = ["--verify", "full"] if any(row.data.get("depth") for row in rows) and case.checks.depth == "auto" else []
    words = (*depth, "--verify-seconds", str(enough))
    return NextStep(f"{shlex.join(words)} leaves the time for it (at most {enough} s); not tried", words)


def _runs(model: ir.Model, checks: VerifyOptions) -> bool:
    """Whether each operator has a kernel, and the sizes that are fed first fit."""
    if reference.unknown_operator(model.nodes()) is not None:
        return False
    try:
        shapes = input_shapes(model, sizings(model.nodes())[0], checks.inputs)
    except BnfoldError:
        return False
    return _fits(model, shapes)


def _outside(case: Case) -> str:
    """Say what helps outside bnfold, by the verdict's code."""
    verdict = case.verdict
    remedies = Remedies(verdict, case.checks, case.before, is_own=case.options is not None)
    row = next((row for row in case.open_rows if row.code is verdict.code), None)
    if verdict.code is Code.TIME or verdict.status == "failed":  # one claim's time limit is not enough
        row = None
    return remedies.of(verdict.code, row)
