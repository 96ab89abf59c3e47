"""One model of a batch, in whatever process works on it: the ordinary job, unless its output is up to date."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from bnfold.batch import stopping, up_to_date
from bnfold.batch.locations import Place
from bnfold.errors import BnfoldError, VerificationFailed, machine_trouble
from bnfold.operators.plugins import fingerprint_of, load_plugins
from bnfold.operators.workers import registration_of
from bnfold.pipeline.job import process
from bnfold.pipeline.outcome import NOT_VERIFIED, Outcome, forbidden
from bnfold.pipeline.versions import versions
from bnfold.registered.table import all_operators
from bnfold.report.events import map_texts
from bnfold.settings import Options, OutputOptions, VerifyOptions, to_json
from bnfold.verification import Verdict

MOST_NAMED = 5
"""Nodes of one model that a summary names."""
UP_TO_DATE = "up to date"
NOT_WRITTEN = "not written, because --require-verified was given"

FileStatus = Literal["verified", "unverified", "unchecked", "inspected", "skipped", "failed"]


@dataclass(frozen=True, slots=True)
class Settings:
    """What is the same for every model of a batch.

    Attributes:
        delivery: How each result is written; its path is the task's.
        unwanted: Operators that no remaining node may have.
        plugins: Modules that register operators, imported in each process.
        force: Redo models whose output is up to date.
    """

    options: Options
    checks: VerifyOptions
    delivery: OutputOptions
    unwanted: frozenset[str] = frozenset()
    force: bool = False
    plugins: Sequence[str] = ()

    def fingerprint(self) -> str:
        """Return a text that changes when results could: the options, and the versions of what computes them."""
        written = self.delivery.external_data, self.delivery.size_threshold
        known = [to_json(self.options), to_json(self.checks), written, sorted(self.unwanted), _versions()]
        known += map(fingerprint_of, self.plugins)
        known += sorted(map(registration_of, all_operators()))
        return hashlib.sha256(json.dumps(known).encode()).hexdigest()


@cache
def _versions() -> dict[str, str]:
    """Return the versions of this process; to look them up takes as long as to see that a model is up to date."""
    return versions()


@dataclass(frozen=True, slots=True)
class Task:
    """One model, where its result goes, and where it is remembered what that was made from."""

    source: Place
    output: Place
    memory: Place


@dataclass(frozen=True, slots=True)
class FileResult:
    """What became of one model of a folder.

    Attributes:
        source: Its path or URL.
        output: That of the result, or of the model that it was compared with; None if nothing was to be written.
        status: ``verified``, ``unverified`` or ``failed``; ``unchecked`` if nothing was to be compared, ``inspected``
            if nothing was to be written, ``skipped`` if the result is up to date.
        message: The error or the verdict's reason, with the next step.
        report: The report in JSON's types, if one was asked for; else empty.
        is_verified: Whether the result is verified; of one that is up to date, whether it was when it was made.
        left: How many nodes there are that were not to be there.
        counts: Nodes before and after; None if the model could not be read.
        nodes: The nodes that were not to be there (label, graph, why), if each was looked for.
        wrong_rewrites: The names and titles of wrong simplifications, which were left out.
        unloadable: Why a runtime does not load the model; empty if none was asked, or it does.
        grown: That the weights are larger, and why; empty if they are not.
        bytes_before: Bytes of the model's files; None if they are not known.
        bytes_after: The same of the result.
        seconds: How long it took.
        verdict: What verification found; None if nothing was compared in this run.
    """

    source: str
    output: str | None
    status: FileStatus
    message: str = ""
    report: dict[str, Any] = field(default_factory=dict)
    is_verified: bool = False
    left: int = 0
    counts: Counts | None = None
    nodes: Sequence[tuple[str, str, str]] = ()
    wrong_rewrites: Sequence[tuple[str, str]] = ()
    unloadable: str = ""
    grown: str = ""
    bytes_before: int | None = None
    bytes_after: int | None = None
    seconds: float = 0.0
    verdict: Verdict | None = None

    @property
    def is_good(self) -> bool:
        """Whether nothing failed, nothing is in doubt, and nothing is left that was not to be there."""
        return self.status not in ("failed", "unverified") and not self.left

    def to_json(self) -> dict[str, Any]:
        """Return the row of a folder's report."""
        return {
            "input": self.source,
            "output": self.output,
            "status": self.status,
            "message": self.message,
            "counts": self.counts.to_json() if self.counts is not None else None,
            "bytes": {"before": self.bytes_before, "after": self.bytes_after},
            "seconds": round(self.seconds, 4),
            "verify": self.verdict.to_json() if self.verdict is not None else None,
            "report": self.report if "verify" in self.report else None,  # else it is not the whole one
        }


@dataclass(frozen=True, slots=True)
class Counts:
    """Nodes of BatchNormalization in one model: how many there were and are, and how often each reason's code stands.

    Of those that are gone ``exchanged`` left an Add in their place. ``nodes`` are those of every operator, before and
    after; ``lifted`` of them were Constant nodes that became initializers. ``opset`` is that before and after; 0 if
    it is not known.
    """

    before: int
    after: int
    reasons: Mapping[str, int]
    exchanged: int = 0
    nodes: tuple[int, int] = (0, 0)
    lifted: int = 0
    opset: tuple[int, int] = (0, 0)

    def to_json(self) -> dict[str, Any]:
        """Return what reports hold."""
        pairs = {"nodes": self.nodes, "opset": self.opset}
        return {
            **asdict(self),
            **{name: dict(zip(("before", "after"), pair, strict=True)) for name, pair in pairs.items()},
        }

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Counts | None:
        """Return the counts of a model's report; None of an empty one."""
        if not document:
            return None
        rows = [row for row in document["batchnorms"] if row["mode"] != "spelled-out"]
        reasons = Counter(row["reason"]["code"] for row in rows if row["reason"])
        operators = document["operators"]["before"], document["operators"]["after"]
        before, after = (counts.get("BatchNormalization", 0) for counts in operators)
        exchanged = sum(row["verdict"] == "exchanged" for row in rows)
        nodes = sum(operators[0].values()), sum(operators[1].values())
        opset = document["opset"]["before"], document["opset"]["after"]
        return cls(before, after, dict(reasons), exchanged, nodes, document["lifted"], opset)


def process_one(task: Task, settings: Settings) -> FileResult:
    """Process a model, in a worker. Errors are results, those of bnfold itself as well, so that the others go on."""
    return timed(_work, task, settings)


def timed(work: Callable[..., FileResult], *arguments: Any) -> FileResult:
    """Do the work on one model, and note how long it took."""
    started = time.perf_counter()
    with stopping.at_work():
        result = work(*arguments)
    return replace(result, seconds=time.perf_counter() - started)


def _work(task: Task, settings: Settings) -> FileResult:
    source, output = str(task.source), str(task.output)
    names: dict[str, str] = {}
    try:
        load_plugins(settings.plugins)
        fingerprint, seen = settings.fingerprint(), up_to_date.seen(task.source)
        made = None if settings.force else up_to_date.read_memory(seen, task.output, task.memory, fingerprint)
        if made is not None:
            return _remembered(source, output, made, settings)
        result = _process(task, settings, names)
        is_done = result.status != "failed" and not result.left  # what is not as it was to be is looked at again
        if is_done and result.output:
            counts = asdict(result.counts) if result.counts else None
            found = {
                "status": result.status,
                "message": renamed(result, names).message,
                "counts": counts,
                "wrong_rewrites": [*result.wrong_rewrites],
                "grown": result.grown,
                "bytes": [result.bytes_before, result.bytes_after],
            }
            with suppress(BnfoldError, OSError):  # then it is done anew the next time
                up_to_date.write(seen, task.output, task.memory, fingerprint, found)
    except Exception as error:  # noqa: BLE001 - the others go on
        result = FileResult(source, output, "failed", describe(error))
    return renamed(result, names)


def describe(error: Exception) -> str:
    """Return one line about what kept a model from being processed."""
    if isinstance(error, BnfoldError):
        return str(error)
    trouble = machine_trouble(error)
    return f"cannot be processed: {trouble}" if trouble else f"internal error, please report it: {error!r}"


def _remembered_counts(counts: Mapping[str, Any]) -> Counts:
    """Return the counts that an earlier run wrote."""
    return Counts(**{**counts, **{name: tuple(counts.get(name, (0, 0))) for name in ("nodes", "opset")}})


def _remembered(source: str, output: str, made: Mapping[str, Any], settings: Settings) -> FileResult:
    """Return the result of a model that is up to date. A doubt stays one, with its reason."""
    status, counts = made["status"], _remembered_counts(made["counts"])
    sizes = dict(zip(("bytes_before", "bytes_after"), made["bytes"], strict=True))
    wrong = [(name, title) for name, title in made["wrong_rewrites"]]
    is_verified, is_required = status == "verified", settings.delivery.require_verified
    if is_verified or (status == "unchecked" and not is_required):
        result = FileResult(source, output, "skipped", UP_TO_DATE, is_verified=is_verified, counts=counts)
        return replace(result, wrong_rewrites=wrong, grown=made["grown"], **sizes)
    earlier = f"{output} was written by an earlier run, without --require-verified" if is_required else ""
    message = "; ".join(filter(None, [UP_TO_DATE, made["message"] or NOT_VERIFIED, earlier]))
    result = FileResult(source, output, status, message, counts=counts, wrong_rewrites=wrong, grown=made["grown"])
    return replace(result, **sizes)


def _process(task: Task, settings: Settings, names: dict[str, str]) -> FileResult:
    """Do the ordinary job; ``names`` learns where on disk the model lay meanwhile."""
    source, output = str(task.source), str(task.output)
    with task.source.opened() as path:
        names |= aliases(path, task.source)
        try:
            with task.output.replaced() as target:
                names |= aliases(target, task.output)
                outcome = process(path, replace(settings.delivery, path=target), settings.options, settings.checks)
                document = report(outcome, full=settings.delivery.explained)
                left, why = remaining(outcome, settings.unwanted)
                size = outcome.size_after
        except VerificationFailed as failure:
            failed = failure.outcome
            document = report(failed, full=settings.delivery.explained) if isinstance(failed, Outcome) else {}
            message = "; ".join([str(failure), *next_step(failure.verdict)])
            result = FileResult(source, output, "failed", message, document, counts=Counts.of(document))
            before = failed.report.size_before if isinstance(failed, Outcome) else None
            return replace(result, bytes_before=before, verdict=failure.verdict)
    verdict, written = outcome.verdict, output if outcome.output is not None else None
    status: FileStatus = "unchecked" if verdict is None else "verified" if verdict.verified else "unverified"
    is_verified, is_required = status == "verified", settings.delivery.require_verified
    reason = verdict.reason if verdict is not None else NOT_VERIFIED if is_required else ""
    said = [why, "" if why and is_verified else reason, "" if is_verified or not is_required else NOT_WRITTEN]
    said += next_step(verdict)
    message = "; ".join(filter(None, said))
    wrong = [(row["name"], row["title"]) for row in document["wrong_rewrites"]]
    counts = Counts.of(document)
    grown = document["growth"]["note"]
    return FileResult(
        *(source, written, status, message, document, is_verified, left, counts),
        wrong_rewrites=wrong,
        grown=grown,
        bytes_before=outcome.report.size_before,
        bytes_after=size,
        verdict=verdict,
    )


def next_step(verdict: Verdict | None) -> list[str]:
    """Return what a caller can do about a result that is not verified, as the end of its message."""
    return [f"next: {verdict.next.text}"] if verdict is not None and verdict.next is not None else []


def remaining(outcome: Outcome, unwanted: frozenset[str]) -> tuple[int, str]:
    """Return the number of nodes that were not to be there, and the sentence about them."""
    left = outcome.left(unwanted) if unwanted else []
    names = [f"{graph}: {label}" if graph else label for label, graph, _ in left]
    more = f" and {len(left) - MOST_NAMED} more" if len(left) > MOST_NAMED else ""
    return len(left), f"{forbidden(len(left), unwanted)}: {', '.join(names[:MOST_NAMED])}{more}" if left else ""


def report(outcome: Outcome, *, full: bool) -> dict[str, Any]:
    """Return the report.

    The full one reads both models again, a summary needs but what became of each BatchNormalization.
    """
    return outcome.to_json() if full else outcome.report.to_json()


def aliases(path: Path, place: Place) -> dict[str, str]:
    """Return what stands in messages -> what the user knows it by; the file first, then what lies beside it."""
    if str(path) == str(place):
        return {}
    return {str(path): str(place), f"{path.parent}{os.sep}": str(place.sibling(""))}


def renamed(result: FileResult, names: Mapping[str, str]) -> FileResult:
    """Return the result with the user's names for the places where models lay while they were processed."""

    def with_names(text: str) -> str:
        for path, name in names.items():
            text = text.replace(path, name)
        return text

    if not names:
        return result
    verdict = result.verdict and replace(result.verdict, reason=with_names(result.verdict.reason))
    report = map_texts(result.report, with_names)
    return replace(result, message=with_names(result.message), report=report, verdict=verdict)
