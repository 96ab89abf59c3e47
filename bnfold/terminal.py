"""What people see: a few lines after a run, tables for inspection, progress while it lasts.

All of it goes to stderr, but for tables that were asked for, which are results and go to stdout.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bnfold.advice import ADVICE
from bnfold.report import BatchNormEvent, Report

if TYPE_CHECKING:
    from bnfold import ir
    from bnfold.batch import Result, Status
    from bnfold.job import Outcome
    from bnfold.verify import Verdict

PIPE_WIDTH = 1_000_000
"""Without a terminal no line is wrapped and no name is cut."""
NARROW, WIDE = 80, 110
"""Columns from which a terminal has room for version and mode, and for the ranges of scale and shift."""


def _console(*, stderr: bool = True) -> Console:
    probe = Console(stderr=stderr, highlight=False, soft_wrap=True)
    return probe if probe.is_terminal else Console(stderr=stderr, highlight=False, soft_wrap=True, width=PIPE_WIDTH)


def _show(table: Table, *, stderr: bool = False) -> None:
    """A table as wide as the terminal allows; in a pipe one line a row, and nothing behind its last word."""
    console = _console(stderr=stderr)
    if console.is_terminal:
        console.print(table, soft_wrap=False)
        return
    with console.capture() as captured:
        console.print(table)
    console.print(Text("\n".join(line.rstrip() for line in captured.get().rstrip("\n").split("\n"))))


def _columns(*names: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in names:
        table.add_column(name, overflow="fold")
    return table


@contextmanager
def progress(*, enabled: bool = True) -> Iterator[Callable[[str, int, int], None]]:
    """A callback (phase, done, total) that draws a bar on a terminal and does nothing in a pipe."""
    console = Console(stderr=True)
    if not (enabled and console.is_terminal):
        yield lambda *_: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    with Progress(
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}"), TimeElapsedColumn(),
        console=console, transient=True,
    ) as bars:  # fmt: skip
        tasks: dict[str, object] = {}

        def tell(phase: str, done: int, total: int) -> None:
            if phase not in tasks:
                tasks[phase] = bars.add_task(phase, total=total or None)
            bars.update(tasks[phase], completed=done, total=total or None)  # type: ignore[arg-type]

        yield tell


def summary(outcome: Outcome, *, verbose: bool, quiet: bool) -> None:
    """Five lines after a run: versions, BatchNormalizations, verification, what needs attention, what was written."""
    console, report = _console(), outcome.report
    if quiet:
        _verification(console, outcome.verdict)
        return
    console.print(_versions(report))
    console.print(Text(_became(report)))
    _verification(console, outcome.verdict)
    _attention(console, report, verbose=verbose)
    if outcome.output is not None:
        total = sum(outcome.seconds.values())
        phases = ", ".join(f"{phase} {spent:.2f} s" for phase, spent in outcome.seconds.items())
        console.print(
            Text(f"wrote {outcome.output} ({_size(outcome.output.stat().st_size)}) in {total:.2f} s: {phases}")
        )


def _versions(report: Report) -> str:
    opset, version = _change(report.opset_before, report.opset_after), _change(report.ir_before, report.ir_after)
    return f"opset {opset}, IR version {version}"


def _change(before: int, after: int) -> str:
    return f"{before} → {after}" if before != after else f"{before} (unchanged)"


def _became(report: Report) -> str:
    total = len(report.batchnorms)
    if not total:
        return "no BatchNormalization in the model"
    gone = [event for event in report.batchnorms if event.verdict in ("folded", "removed", "decomposed")]
    parts = [f"BatchNormalization {total} → {total - len(gone)}"]
    homes = Counter(operator for event in gone if event.verdict == "folded" for operator in event.operators)
    if homes:
        parts.append("folded into " + ", ".join(f"{count} {operator}" for operator, count in homes.most_common()))
    parts += [f"{count} {verdict}" for verdict in ("decomposed", "removed") if (count := report.count(verdict))]  # type: ignore[arg-type]
    return ": ".join([parts[0], ", ".join(parts[1:])]) if parts[1:] else parts[0]


def _verification(console: Console, verdict: Verdict | None) -> None:
    if verdict is None:
        console.print("not verified, as asked", style="yellow")
        return
    if verdict.status != "verified":
        console.print(Text(f"{verdict.status.upper()}: {verdict.reason}", style="bold red"))
        return
    worst = max(verdict.outputs, key=lambda row: row.relative, default=None)
    if worst is None:
        checked = sum(row.status == "verified" for row in verdict.local)
        console.print(Text(f"verified: {checked} rewrites, each on its own, in float64", style="green"))
        return
    line = f"verified: differs by {worst.relative:.1e} of the output's scale in float64"
    if worst.error_before is not None and worst.error_after is not None:
        line += f"; error in storage precision {worst.error_before:.1e} → {worst.error_after:.1e}"
    console.print(Text(line, style="green"))


def _attention(console: Console, report: Report, *, verbose: bool) -> None:
    rows = report.batchnorms if verbose else [event for event in report.batchnorms if event.reason is not None]
    if rows and verbose:
        _show(_table(rows), stderr=True)
    elif rows:
        reasons = Counter(event.reason for event in rows if event.reason is not None)
        for reason, count in reasons.most_common(5):
            console.print(Text(f"  {count} left: {reason.value} [{reason.code}]", style="yellow"))
    repairs = Counter(repair.text for repair in report.repairs)
    for text, count in repairs.most_common(5 if not verbose else None):
        console.print(Text(f"  note: {text}{f' ({count} nodes)' if count > 1 else ''}"))
    for note in report.notes:
        console.print(Text(f"  note: {note}"))


def inspection(outcome: Outcome, document: Mapping[str, Any]) -> None:
    """The table of every BatchNormalization on stdout; on stderr a summary, and what can be done about what is left."""
    rows = sorted(document["batchnorms"], key=lambda row: row["reason"] is None)
    if rows:
        _show(_facts(rows, _console(stderr=False).width))
    report, console = outcome.report, _console()
    console.print(_versions(report))
    console.print(Text(_became(report)))
    _attention(console, report, verbose=False)
    for reason in dict.fromkeys(event.reason for event in report.batchnorms if event.reason is not None):
        console.print(Text(f"  {reason.code}: {ADVICE[reason].remedy}"))


def _facts(rows: Sequence[Mapping[str, Any]], width: int) -> Table:
    """Rows of a report's ``batchnorms``, with as much about each as ``width`` has room for."""
    kind = ("version", "mode") if width >= NARROW else ()
    spreads = ("scale", "shift") if width >= WIDE else ()
    table = _columns("BatchNormalization", *kind, *spreads, *OUTCOME)
    for row in rows:
        where = ", ".join(row["into"])
        if row["reason"]:
            where = _why(row["reason"]["text"], row["reason"]["code"], row["reason"]["detail"])
        decided = "".join(f"; {text}" for text in row["policies"])
        cells = [str(row[name]) for name in kind] + [_range((row["affine"] or {}).get(name)) for name in spreads]
        table.add_row(Text(_name(row["graph"], row["name"])), *cells, row["verdict"], Text(where + decided))
    return table


OUTCOME = ("becomes", "where, or why not")


def _range(spread: Mapping[str, Any] | None) -> str:
    return f"{spread['min']:.3g} to {spread['max']:.3g}" if spread else "-"


def _name(graph: str, name: str) -> str:
    return f"{graph}: {name}" if graph else name


def _why(text: str, code: str, detail: str) -> str:
    return f"{text} [{code}]{f': {detail}' if detail else ''}"


def _table(events: Sequence[BatchNormEvent]) -> Table:
    table = _columns("BatchNormalization", "version", "mode", *OUTCOME)
    for event in sorted(events, key=lambda event: event.reason is None):
        where = ", ".join(event.into)
        if event.reason is not None:
            where = _why(event.reason.value, event.reason.code, event.detail)
        table.add_row(Text(_name(event.graph, event.name)), str(event.version), event.mode, event.verdict, Text(where))
    return table


def verdict(found: Verdict) -> None:
    """The rows of a verdict on stdout, the sentence on stderr."""
    if found.outputs:
        table = _columns(
            "output", "max error", "RMS error", "of the scale", "allowed", "ulps", "error before", "after", ""
        )  # fmt: skip
        for row in found.outputs:
            sizes = (row.max_abs, row.rms, row.relative, row.allowed)
            verdict_of_row = Text(row.fault or "ok", style="red" if row.fault else "green")
            table.add_row(
                Text(row.name), *map(_number, sizes), f"{row.ulps:.3g}",
                _number(row.error_before), _number(row.error_after), verdict_of_row,
            )  # fmt: skip
        _show(table)
    console = _console()
    console.print(Text(f"{found.status}: {found.reason}", style="green" if found.status == "verified" else "bold red"))
    if found.localised is not None:
        made = f", made by {found.localised.rewrite}" if found.localised.rewrite else ""
        console.print(Text(f"  first difference: {found.localised.tensor}{made}"))
    for note in (*found.notes, *(note for row in found.witnesses for note in row.notes)):
        console.print(Text(f"  note: {note}"))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2e}"


def batch_summary(results: Sequence[Result]) -> None:
    """One row a model on stdout, those that need attention first, and the counts on stderr."""
    table = _columns("model", "", "BatchNormalization", "what happened")
    order: tuple[Status, ...] = ("failed", "unverified", "unchecked", "inspected", "verified", "skipped")
    for result in sorted(results, key=lambda result: (order.index(result.status), -_left(result))):
        rows = result.report.get("batchnorms", [])
        became = f"{len(rows)} → {_left(result)}" if result.report else "-"
        table.add_row(Text(str(result.source)), result.status, became, Text(result.message or _reasons(rows)))
    _show(table)
    counts = Counter(result.status for result in results)
    _console().print(Text(", ".join(f"{counts[status]} {status}" for status in order if counts[status])))


def _left(result: Result) -> int:
    return sum(row["verdict"] in ("kept", "upgraded") for row in result.report.get("batchnorms", []))


def _reasons(rows: Sequence[Mapping[str, Any]]) -> str:
    codes = Counter(row["reason"]["code"] for row in rows if row["reason"])
    return ", ".join(f"{count} {code}" for code, count in codes.most_common())


def still_there(outcome: Outcome, left: Sequence[ir.Node]) -> None:
    """The operators that were not to be there, and why they are."""
    why = {event.key: event for event in outcome.report.batchnorms}
    console = _console()
    console.print(Text(f"{len(left)} left that were not to be:", style="bold red"))
    for node in left:
        made = node.output(0)
        event = why.get((node.graph.path, made.name if made else node.name))
        reason = f": {event.reason.value} [{event.reason.code}]" if event and event.reason else ""
        console.print(Text(f"  {node.op_type} {node.label}{reason}"))


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError("unreachable")
