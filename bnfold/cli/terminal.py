"""What people see: a few lines on stderr after a run, and progress while it lasts. Tables are in `bnfold.cli.tables`.

Nothing heavy is imported for plain lines: a run in a pipe does not wait for what draws on terminals.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import click

from bnfold.errors import EXIT_INTERRUPTED, printable

if TYPE_CHECKING:
    from pathlib import Path

    from bnfold.batch.scheduler import LeftOut
    from bnfold.batch.worker import FileResult, FileStatus
    from bnfold.pipeline.chain import StepRow
    from bnfold.pipeline.outcome import Outcome, ProcessedModel
    from bnfold.report.events import Report
    from bnfold.report.totals import Totals
    from bnfold.settings import VerifyOptions
    from bnfold.verification import Verdict

GOOD, WARNING, BAD = "green", "yellow", "red"
MOST = 5
"""Lines of one kind below a result."""
LONGEST_NAME = 60
"""Characters of a name in a note, without --verbose."""

COLORS = {"verified": GOOD, "unverified": WARNING, "failed": BAD}

NOTHING_WRITTEN = "nothing was written, because --require-verified was given"
UNVERIFIED = "no difference that counts was found, but a part is open. --require-verified writes no such result"
ORDER: tuple[FileStatus, ...] = ("failed", "unverified", "unchecked", "inspected", "verified", "skipped")


def end_interrupted() -> NoReturn:
    """End the process as Ctrl-C does, in one line."""
    say("bnfold: interrupted")
    sys.exit(EXIT_INTERRUPTED)


def say(text: str, color: str | None = None) -> None:
    """Print one line on stderr, coloured on a terminal that wants it (https://no-color.org)."""
    line = printable(text)
    if sys.stderr.isatty():
        width, start = shutil.get_terminal_size().columns, len(line) - len(line.lstrip())
        if len(line) > width:
            indent = " " * (start + 2)
            line = textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    click.secho(line, fg=color, err=True, color=False if os.environ.get("NO_COLOR") else None)


def summary(outcome: ProcessedModel, *, verbose: bool, quiet: bool, is_refused: bool) -> None:
    """Print after a run: the model before and after, verification, what needs attention, what was written.

    A result that ``is_refused`` is not written because it was not verified.
    """
    report = outcome.report
    if quiet:
        from bnfold.pipeline.outcome import NOT_VERIFIED

        if outcome.status == "unverified" or is_refused:
            name = outcome.source if isinstance(outcome.source, os.PathLike) else "standard input"
            say(f"{name}: {outcome.verdict.summary if outcome.verdict is not None else NOT_VERIFIED}", WARNING)
        if is_refused:
            say(f"  {NOTHING_WRITTEN}", BAD)
        wrong_rewrites([(rewrite.name, rewrite.title) for rewrite in report.wrong_rewrites])
        next_step(outcome.verdict)
        return
    from bnfold.cli import before_after

    if outcome.steps:
        steps(report.before, outcome.steps)
    nothing = before_after.nothing_to_do(outcome)
    told = before_after.lines(report, verbose=verbose, written=outcome.size_after)
    for line in [nothing] if nothing and not (verbose or report.latency) else told:
        say(line)
    _verification(outcome.verdict, outcome.checks, verbose=verbose)
    _unverified(outcome, is_refused=is_refused)
    wrong_rewrites([(rewrite.name, rewrite.title) for rewrite in report.wrong_rewrites])
    for line in before_after.equality(report, verbose=verbose):
        say(f"  note: {line}")
    if report.grown:
        say(f"  note: {report.grown}", WARNING)
    _attention(report, verbose=verbose)
    for line in before_after.more(before_after.codes(report)):
        say(f"  {line}")
    if outcome.output is not None:
        total = sum(outcome.seconds.values())
        phases = ", ".join(f"{phase} {spent:.2f} s" for phase, spent in outcome.seconds.items())
        wrote([path for path in (outcome.output, outcome.data) if path is not None], f" in {total:.2f} s: {phases}")


def next_step(found: Verdict | None) -> None:
    """Print what a caller can do about a result that is not verified: the last line about it, even with --quiet."""
    if found is not None and found.next is not None:
        say(f"next: {found.next.text}", WARNING)


def wrong_rewrites(named: Sequence[tuple[str, str]], source: str = "") -> None:
    """Say which simplifications were left out because they are wrong, a bug of bnfold: even with --quiet."""
    if named:
        from bnfold.report.rewrites import wrong_rewrites as sentence

        text = sentence([f"{name} ({title})" for name, title in named])
        say(f"error: {f'{source}: ' if source else ''}{text}", BAD)


def wrote(files: Sequence[Path], how: str = "") -> None:
    """Name the files that were written, and their sizes."""
    from bnfold.report.totals import size

    beside = [files[0].with_name(path.name) for path in files]  # as the user named the first
    say(f"wrote {' and '.join(f'{path} ({size(path.stat().st_size)})' for path in beside)}{how}")


def wrote_reports(paths: Sequence[str]) -> None:
    """Name the reports that were written."""
    for path in paths:
        say(f"wrote the report {path}")


def headline(text: str, status: str) -> None:
    """Print the verdict of a comparison on standard output, in its colour."""
    click.secho(printable(text), fg=COLORS[status], color=False if os.environ.get("NO_COLOR") else None)


def steps(before: Totals, rows: Sequence[StepRow]) -> None:
    """Print the table of the steps that were taken one after the other."""
    from bnfold.cli import before_after

    for line in before_after.steps(before, rows):
        say(line)


def _verification(verdict: Verdict | None, checks: VerifyOptions, *, verbose: bool = False) -> None:
    if verdict is None:
        from bnfold.pipeline.outcome import NOT_VERIFIED

        say(NOT_VERIFIED, WARNING)
        return
    say(verdict.summary, GOOD if verdict.verified else BAD)
    if verbose and verdict.verified:
        _evidence(verdict)
    doubtful = (row for row in verdict.witnesses if row.agrees is False and verdict.verified)
    brief = [f"{row.witness}: {note}" for row in doubtful for note in row.notes]
    missing = _why_no_runtime(verdict, checks) if verdict.verified and not verdict.has_runtime else []
    for note in dict.fromkeys([*missing, *(_notes_of(verdict) if verbose else brief)]):
        say(f"  note: {note}")


def _why_no_runtime(verdict: Verdict, checks: VerifyOptions) -> list[str]:
    """Return why no independent runtime ran the result, if its sentence does not say so."""
    if checks.runtime == "none":
        return ["no runtime was asked, because --runtime none was given"]
    if checks.runtime in verdict.reason:
        return []
    if checks.depth == "local":
        return ["no runtime runs whole models with --verify local"]
    notes = [note for note in _notes_of(verdict) if note.startswith((checks.runtime, "the whole models were not"))]
    skipped = [row.note for row in verdict.ledger if row.prover == "runtime" and row.status == "skipped"]
    return notes or [f"no runtime ran the whole models: {note}" for note in skipped[:1]]


def _notes_of(verdict: Verdict) -> Iterator[str]:
    """Yield the notes of a verification that its sentence does not say already."""
    for note in (*verdict.notes, *(f"{row.witness}: {note}" for row in verdict.witnesses for note in row.notes)):
        if note not in verdict.summary:
            yield note


def _unverified(outcome: Outcome, *, is_refused: bool) -> None:
    """Say what becomes of a result that was not verified, and which option decides that."""
    if is_refused:
        say(f"  {NOTHING_WRITTEN}", BAD)
    elif outcome.status == "unverified":
        say(f"  {UNVERIFIED}", WARNING)


def _evidence(verdict: Verdict) -> None:
    from bnfold.verification.sentences import stress

    if most := stress(verdict.outputs, verdict.samples):
        say(f"  {most}")
    for row in verdict.outputs:
        if row.error_before is not None and row.error_after is not None:
            change = f"{row.error_before:.1e} before, {row.error_after:.1e} after"
            say(f"  output {row.name}: rounding error in {row.dtype} {change}, on a typical sample")


def _attention(report: Report, *, verbose: bool) -> None:
    if report.batchnorms and verbose:
        from bnfold.cli import tables

        tables.batchnorms([event.to_json() for event in report.batchnorms], stderr=True)
    else:
        from bnfold.cli import before_after

        for line in before_after.left(report):
            say(f"  {line}", WARNING)
    repairs = Counter(repair.text for repair in report.repairs)
    for text, count in repairs.most_common(MOST if not verbose else None):
        say(f"  note: {text}{f' ({count} nodes)' if count > 1 else ''}")
    _notes(report.notes, verbose=verbose)


def _notes(notes: Sequence[str], *, verbose: bool) -> None:
    """Print a few of each kind, which is what a note says before its colon: networks have arithmetic by the hundred."""
    kinds: dict[str, list[str]] = {}
    for note in notes:
        kinds.setdefault(note.partition(":")[0], []).append(note)
    for kind, alike in kinds.items():
        shown = alike if verbose or len(alike) <= MOST else alike[: MOST - 1]
        for note in shown:
            say(f"  note: {note if verbose else _with_short_names(note)}")
        if len(shown) < len(alike):
            say(f"  note: {kind}: {len(alike) - len(shown)} more (--verbose has them all)")


def _with_short_names(note: str) -> str:
    """Cut long names in the middle: converters name a node after all the nodes that it replaces."""
    if len(note) <= LONGEST_NAME:
        return note
    from bnfold.report.html.layout import shorten

    return " ".join(shorten(word, LONGEST_NAME) for word in note.split(" "))


def inspection(outcome: ProcessedModel, document: Mapping[str, Any]) -> None:
    """Print the table of every BatchNormalization on stdout.

    On stderr a summary, and what can be done about what is left.
    """
    from bnfold.cli import tables

    if document["batchnorms"]:
        tables.batchnorms(document["batchnorms"])
    if rows := document.get("quantization"):
        tables.quantization(rows)
    report = outcome.report
    from bnfold.cli import before_after

    nothing = before_after.nothing_to_do(outcome)
    told = [
        report.versions,
        *filter(None, [report.nodes, report.narrowed]),
        report.became,
        *before_after.conversion(report),
    ]
    if report.channels:
        from bnfold.pipeline.outcome import count_products

        count_products(outcome)
        made = " → ".join(before_after.products(totals.products) for totals in (report.before, report.after))
        told.append(f"multiply-adds {made}")
    for line in [nothing] if nothing else told:
        say(line)
    loading(report)
    if rows:
        worst = [min(row[form]["per_tensor"] for row in rows if row[form]) for form in ("folded", "equalized")]
        say(f"worst layer in int8 per tensor: {worst[0]:.1f} dB folded, {worst[1]:.1f} dB with --equalize")
    _attention(report, verbose=False)
    for line in before_after.advice(before_after.codes(report)):
        say(f"  {line}")


def loading(report: Report) -> None:
    """Print whether a runtime loads the model, if one was asked."""
    if report.runtime is not None:
        say(report.loading, GOOD if report.runtime["loads"] else BAD)


def verdict(found: Verdict, *, verbose: bool = False) -> None:
    """Print the outputs on stdout, a line each, and the sentence on stderr.

    If the models failed for another reason than an output, lines about outputs that agree would contradict it.
    """
    if any(row.fault or found.status != "failed" for row in found.outputs):
        from bnfold.cli import tables

        tables.outputs(found.outputs, verbose=verbose, is_within=found.tolerance is not None)
    say(found.summary, GOOD if found.verified else BAD)
    if found.localised is not None:
        made = f", made by {found.localised.rewrite}" if found.localised.rewrite else ""
        say(f"  first difference: {found.localised.tensor}{made}")
    for note in _notes_of(found):
        say(f"  note: {note}")


def explanation(found: Verdict | None, *, stderr: bool = False) -> None:
    """Print what was asked of a verdict, on standard output unless that is for programs."""
    for line in (line for each in found.explanation for line in each.lines) if found is not None else ():
        if stderr:
            say(line)
        else:
            click.echo(printable(line))


def batch_summary(
    results: Sequence[FileResult],
    *,
    table: bool,
    advises: bool = True,
    remedy: str = "",
    is_refused: bool = False,
    seconds: float = 0.0,
) -> None:
    """Print one row a model on stdout, those that need attention first, and the counts on stderr.

    Without the table, those that need attention are printed on stderr, because programs read standard output then.
    ``advises`` says what can be done about what is left; ``remedy`` what helps against what --assert-none forbids.
    ``is_refused``: results that were not verified are not written. ``seconds`` is how long all of it took.
    """
    from bnfold.batch.scheduler import INTERRUPTED

    known = len(results)
    results = [result for result in results if result.message != INTERRUPTED]
    if table and results:
        from bnfold.cli import tables

        tables.models(results, ORDER)
    if not table:
        _doubts(results, is_refused=is_refused)
    for result in results:
        wrong_rewrites(result.wrong_rewrites, result.source)
    if advises:
        from bnfold.cli import before_after

        codes = dict.fromkeys(code for result in results if result.counts for code in result.counts.reasons)
        for line in before_after.advice([*codes], hint=table):
            say(f"  {line}")
    counts = Counter(result.status for result in results)
    if results and table:
        from bnfold.cli import tables

        told = ", ".join(f"{counts[status]} {status}" for status in ORDER if counts[status])
        told += _verified_before([result.is_verified for result in results if result.status == "skipped"])
        say(f"{told}; {tables.in_total(results, seconds)}")
        if counts["unverified"] and not is_refused:
            say(f"  {UNVERIFIED}", WARNING)
    offenders = [result.source for result in results if result.left]
    if offenders and table:
        _offenders(offenders, len(results), remedy)
    if left := known - len(results):
        say(f"{INTERRUPTED}; {left} of {known} models are not done", WARNING)


def _verified_before(skipped: Sequence[bool]) -> str:
    """Return how many of the models that were skipped, the last that are counted, an earlier run has verified."""
    if not any(skipped):
        return ""
    return " (verified before)" if all(skipped) else f" ({sum(skipped)} verified before)"


def _doubts(results: Sequence[FileResult], *, is_refused: bool) -> None:
    """Print a line for each model that needs attention, which names it and says why."""
    for result in results:
        is_bad = result.status == "failed" or result.left > 0 or bool(result.unloadable)
        if is_bad or result.status == "unverified" or (is_refused and not result.is_verified):
            name = "" if result.source in result.message else f"{result.source}: "
            doubt = "UNVERIFIED: " if result.status == "unverified" else ""
            say(f"{name}{doubt}{result.message}", BAD if is_bad else WARNING)


def left_out(models: LeftOut, *, quiet: bool) -> None:
    """Say how many models were not looked at; ``quiet`` leaves out those that the caller excluded."""
    if models.foreign:
        what = _models(models.foreign)
        say(f"{what} in hidden folders or installed packages left out; name such a folder to include it")
    if models.excluded and not quiet:
        say(f"{_models(models.excluded)} excluded by --exclude or pyproject.toml")


def _models(count: int) -> str:
    return "1 model" if count == 1 else f"{count} models"


def _offenders(files: Sequence[str], known: int, remedy: str) -> None:
    """Name the files that hold what --assert-none forbids, and the command that helps, if there is one."""
    more = f" and {len(files) - MOST} more" if len(files) > MOST else ""
    have = "has" if len(files) == 1 else "have"
    say(f"{len(files)} of {known} models {have} what --assert-none forbids: {', '.join(files[:MOST])}{more}", BAD)
    if remedy:
        say(f"  {remedy}")


def still_there(outcome: Outcome, left: Sequence[tuple[str, str, str]], operators: frozenset[str]) -> None:
    """Print the nodes of ``operators`` that remain (label, graph, why not decomposed), and why folding left them."""
    events = {(event.name, event.graph): event for event in outcome.report.batchnorms}
    from bnfold.pipeline.outcome import forbidden

    say(forbidden(len(left), operators), BAD)
    for label, graph, why in left:
        event = events.get((label, graph))
        folding = f"{event.why} [{event.reason.code}]; " if event and event.reason else ""
        say(f"  {f'{graph}: ' if graph else ''}{label}{f': {folding}{why}' if outcome.options.fold else ''}")
