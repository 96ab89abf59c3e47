"""Tables: as wide as a terminal allows, one line a row in a pipe. They are results, so they go to stdout."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bnfold.errors import printable
from bnfold.report.events import in_words, state
from bnfold.report.reasons import sentence
from bnfold.report.totals import in_unit, size

if TYPE_CHECKING:
    from bnfold.batch.worker import FileResult, FileStatus
    from bnfold.verification import OutputRow

PIPE_WIDTH = 1_000_000
"""Without a terminal no line is wrapped and no name is cut."""
NARROW, WIDE = 80, 110
"""Columns from which a terminal has room for version and mode, and for the ranges of scale and shift."""
MOST_OUTPUTS = 20
"""Outputs without --verbose."""
OUTCOME = ("becomes", "where, or why not")


def _console(*, stderr: bool) -> Console:
    probe = Console(stderr=stderr, highlight=False, soft_wrap=True)
    return probe if probe.is_terminal else Console(stderr=stderr, highlight=False, soft_wrap=True, width=PIPE_WIDTH)


def _show(table: Table, *, stderr: bool = False) -> None:
    """Print a table; in a pipe with nothing behind the last word of a row."""
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


def _add(table: Table, *cells: str, style: str = "") -> None:
    """Add one row; ``style`` is the last cell's."""
    *plain, last = (Text(printable(cell)) for cell in cells)
    last.stylize(style)
    table.add_row(*plain, last)


def batchnorms(rows: Sequence[Mapping[str, Any]], *, stderr: bool = False) -> None:
    """Print the rows of a report's ``batchnorms``, what is left first, with as much as the terminal has room for.

    Columns go in this order where there is no room: the ranges of scale and shift, then version and mode.
    """
    width = _console(stderr=stderr).width
    known = any("affine" in row for row in rows)
    kind = ("version", "mode") if width >= NARROW else ()
    spreads = ("scale", "shift") if known and width >= WIDE else ()
    is_decided = any(row["reason"] or row["verdict"] != "kept" for row in rows)
    table = _columns("BatchNormalization", *kind, *spreads, *(OUTCOME if is_decided else ()))
    for row in sorted(rows, key=lambda row: row["reason"] is None):
        where = ", ".join(row["into"])
        if row["reason"]:
            where = f"{sentence(row['reason']['text'], row['reason']['detail'])} [{row['reason']['code']}]"
        decided = "".join(f"; {text}" for text in row.get("policies", ()))
        cells = [in_words(str(row[name] or "-")) for name in kind]  # arithmetic has no version
        cells += [_range((row["affine"] or {}).get(name)) for name in spreads]
        _add(table, _name(row["graph"], row["name"]), *cells, *((state(row), where + decided) if is_decided else ()))
    _show(table, stderr=stderr)
    if width < WIDE and known:
        hidden = "scale and shift" if kind else "version, mode, scale and shift"
        _console(stderr=True).print(f"(a terminal of {WIDE} columns shows {hidden} as well)")


def quantization(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the rows of a report's ``quantization``: as the file has it, folded, equalized."""
    table = _columns("layer", "spread of channel ranges", "int8 per tensor, dB", "int8 per channel, dB")
    for row in rows:
        forms = [row["before"], row["folded"], row["equalized"]]
        cells = [
            _three(forms, name, form)
            for name, form in (("spread", ".3g"), ("per_tensor", ".1f"), ("per_channel", ".1f"))
        ]
        _add(table, _name(row["graph"], row["name"]), *cells)
    _show(table)


def _three(forms: Sequence[Mapping[str, float] | None], name: str, form: str) -> str:
    return " → ".join(format(sizes[name], form) if sizes else "-" for sizes in forms)


def outputs(rows: Sequence[OutputRow], *, verbose: bool, is_within: bool = False) -> None:
    """Print how far the outputs of two models are apart, a line each, those that differ first; all with ``verbose``.

    ``is_within`` says that a tolerance was given: mean errors and shares are printed then.
    """
    from bnfold.verification.sentences import fate, spread

    worst_first = sorted(rows, key=lambda row: not row.fault)
    console = _console(stderr=False)
    for row in worst_first if verbose else worst_first[:MOST_OUTPUTS]:
        color = "red" if row.fault else "green"
        told = fate(row) + (spread(row) if is_within and not verbose else "")
        console.print(Text(printable(told), color), soft_wrap=False)
        if verbose:
            console.print(Text(f"  {_details(row)}"), soft_wrap=False)
    if (more := len(rows) - MOST_OUTPUTS) > 0 and not verbose:
        failed = sum(bool(row.fault) for row in worst_first[MOST_OUTPUTS:])
        console.print(f"{more} more outputs, {failed} of them differ (--verbose)", soft_wrap=False)


def _details(row: OutputRow) -> str:
    from bnfold.verification.sentences import spread

    told = f"{row.dtype}, on any input by {_number(row.relative)}, {_number(row.allowed)} allowed"
    told += f"; max error {_number(row.max_abs)}, RMS error {_number(row.rms)}, {row.ulps:.3g} ulps{spread(row)}"
    if row.error_before is None and row.error_after is None:
        return told
    return f"{told}; a runtime's own error {_number(row.error_before)} before, {_number(row.error_after)} after"


def models(results: Sequence[FileResult], order: Sequence[FileStatus]) -> None:
    """Print one row a model, those that need attention first, and below it on a terminal what happened.

    A folder that all of them share is named once, in the head. On a terminal names are shortened in the middle.
    """
    from bnfold.report.html.layout import shorten

    shared = os.path.commonprefix([result.source for result in results])  # noqa: RUF071 - of URLs, too
    folder = shared[: max(shared.rfind("/"), shared.rfind(os.sep)) + 1]
    console = _console(stderr=False)
    worst_first = sorted(results, key=lambda result: (order.index(result.status), not result.left, -_remaining(result)))
    norms = "BatchNormalization" if console.width >= WIDE else "BatchNorm"
    has_opset = any(result.counts and result.counts.opset[0] != result.counts.opset[1] for result in results)
    opset = ["opset"] if has_opset else []
    head = (f"model in {folder}" if folder else "model", "", *opset, norms, "nodes", "size", "time")
    rows = [
        head,
        *((result.source.removeprefix(folder), *_figures(result, has_opset=has_opset)) for result in worst_first),
    ]
    told = ["what happened", *map(_happened, worst_first)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if console.is_terminal:
        widths[0] = min(widths[0], max(console.width - sum(widths[1:]) - _GAP * (len(widths) - 1), _SHORTEST))
    for number, ((name, status, *figures), happened) in enumerate(zip(rows, told, strict=True)):
        cells = [shorten(printable(name), widths[0]).ljust(widths[0]), status.ljust(widths[1])]
        cells += [figure.rjust(width) for figure, width in zip(figures, widths[2:], strict=True)]
        below = console.is_terminal and happened
        line = (" " * _GAP).join(cells if below else [*cells, printable(happened)]).rstrip()
        console.print(Text(line, "bold" if not number else _STYLES.get(status, "")), soft_wrap=True)
        if below and number:
            console.print(Padding(Text(printable(happened)), (0, 0, 0, _GAP)), soft_wrap=False)


_GAP = 2
_SHORTEST = 16
"""Characters of a model's name on a narrow terminal."""
_STYLES = {"failed": "red", "unverified": "yellow"}


def _remaining(result: FileResult) -> int:
    return result.counts.after if result.counts else 0


def _figures(result: FileResult, *, has_opset: bool) -> tuple[str, ...]:
    """Return the status of a model, the time, and before and after its opset, BatchNormalizations, nodes and bytes."""
    counts = result.counts
    opset = [_pair(*counts.opset) if counts and all(counts.opset) else "-"] if has_opset else []
    became = f"{counts.before} → {counts.after}" if counts else "-"
    nodes = f"{counts.nodes[0]:,} → {counts.nodes[1]:,}" if counts else "-"
    taken = "-" if result.status == "skipped" or not result.seconds else duration(result.seconds)
    return result.status, *opset, became, nodes, sizes(result.bytes_before, result.bytes_after), taken


def _pair(before: int, after: int) -> str:
    return f"{before} → {after}" if before != after else str(after)


def _happened(result: FileResult) -> str:
    """Return what happened to a model, if it is not as it was to be, and why BatchNormalizations are left."""
    counts = result.counts
    is_told = result.left or result.status not in ("verified", "skipped")
    told = [result.message] if result.message and is_told else []
    told += [result.grown.partition(":")[0]] if result.grown else []
    told += [f"{counts.exchanged} replaced by an Add"] if counts and counts.exchanged else []
    why = [f"{count} {code}" for code, count in counts.reasons.items()] if counts else []
    return "; ".join([*told, *([", ".join(why)] if why else [])])


def in_total(results: Sequence[FileResult], seconds: float) -> str:
    """Return nodes and bytes of all models before and after, Constant nodes that became initializers, and the time."""
    counts = [result.counts for result in results if result.counts is not None]
    before, after = (sum(each.nodes[when] for each in counts) for when in (0, 1))
    told = [f"{before:,} → {after:,} nodes"] if counts else []
    lifted = sum(each.lifted for each in counts)
    told += [f"{lifted:,} Constant{'s' * (lifted != 1)} became initializers"] if lifted else []
    pairs = [(each.bytes_before, each.bytes_after) for each in results if each.bytes_before is not None]
    both = [(old, new) for old, new in pairs if new is not None]
    if pairs:
        told.append(sizes(*map(sum, zip(*both, strict=True))) if both else sizes(sum(old for old, _ in pairs), None))
    return ", ".join([*told, duration(seconds)])


def sizes(before: int | None, after: int | None) -> str:
    """Return bytes before and after in the unit of the larger, or the one of them that is known."""
    known = [count for count in (before, after) if count is not None]
    if len(known) < 2:
        return size(known[0]) if known else "-"
    texts = [*map(partial(in_unit, largest=max(known)), known)]
    return texts[1] if texts[0] == texts[1] else f"{texts[0].split()[0]} → {texts[1]}"


def duration(seconds: float) -> str:
    """Return a time: seconds below a minute, else minutes and seconds."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _range(spread: Mapping[str, Any] | None) -> str:
    return f"{spread['min']:.3g} to {spread['max']:.3g}" if spread else "-"


def _name(graph: str, name: str) -> str:
    return f"{graph}: {name}" if graph else name


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2e}"
