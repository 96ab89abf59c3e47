"""What `bnfold diff` shows: a few lines that fit the terminal, or whole ones in a pipe; reports have everything."""

from __future__ import annotations

import filecmp
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bnfold.cli import publish
from bnfold.errors import printable
from bnfold.report.html.differences import inner, outputs_agree, tally
from bnfold.report.html.layout import shorten
from bnfold.report.totals import size

if TYPE_CHECKING:
    from bnfold.cli.invocation import Invocation
    from bnfold.verification import Verdict

MOST = 10
"""Differences without --verbose."""
_WHAT, _ONE, _NAME = 28, 22, 40
"""Widths of columns, and of a name, on a terminal."""


def require(args: Invocation) -> None:
    """Complain about a report that cannot be written, or that would overwrite a model, before any work is done."""
    from bnfold.pipeline import formats, path_conflicts

    publish.require(args.run.report)
    sources = Path(args.source), Path(args.output)
    formats.one_kind(*sources)
    if args.run.report:
        kept = [("the input", path) for path in (*sources, *filter(None, [args.checks.data]))]
        path_conflicts.refuse([("the report", path) for path in args.reports], kept)


def found(args: Invocation, verdict: Verdict | None = None) -> dict[str, Any]:
    """Return what differs between the two models of a command line, with the verdict if there is one.

    A verdict is what is said of the outputs. Values inside are left out if comparing them says something else, for they
    are compared on other inputs and by another measure; so they are with a tolerance.
    """
    from bnfold import diffing
    from bnfold.pipeline import formats

    old, new = (formats.of(path).load(Path(path)) for path in (args.source, args.output))
    values = False if args.checks.tolerance is not None else args.run.values
    document = diffing.diff(old, new, drawn=bool(args.run.report), values=values, checks=args.checks)
    document["same_bytes"] = document["equal"] and filecmp.cmp(args.source, args.output, shallow=False)
    if verdict is None:
        return document
    contradicts = "outputs" in (document["values"] or {}) and outputs_agree(document)[1] != verdict.status
    return {**document, "values": None if contradicts else document["values"], "verify": verdict.to_json()}


def lines(document: Mapping[str, Any], *, verbose: bool) -> Iterator[str]:
    """Yield the differences, one a line."""
    old, new = document["before"], document["after"]
    names = {**old["operators"], **new["operators"]}
    counts = [(f"  {name}", *(str(side["operators"].get(name, 0)) for side in (old, new))) for name in names]
    constants = [("  of them constants", str(old["constant_nodes"]), str(new["constant_nodes"]))]
    rows = [
        ("", "A", "B"),
        ("nodes", str(old["nodes"]), str(new["nodes"])),
        *(row for row in constants if row[1:] != ("0", "0")),
        *(row for row in counts if row[1] != row[2]),
        ("weights", size(old["weights"]), size(new["weights"])),
        *((row["what"], row["before"], row["after"]) for row in (*document["interface"], *document["metadata"])),
    ]
    for what, one, other in rows:
        yield _cut(f"{_short(what, _WHAT):<{_WHAT}}  {_short(one, _ONE):>{_ONE}}  {printable(other)}")
    differences = document["differences"]
    yield f"{tally(document)}{':' * bool(differences)}"
    for each in differences if verbose else differences[:MOST]:
        line = printable(f"  {each['graph']}: {each['text']}" if each["graph"] else f"  {each['text']}")
        yield line if verbose else _cut(line)
    if len(differences) > MOST and not verbose:
        yield f"  {len(differences) - MOST} more (--verbose, or --report FILE.html with drawings)"
    if document["values"] and "reason" not in document["values"]:
        yield from map(_cut, map(printable, _values(document["values"])))


def _cut(line: str) -> str:
    """Cut a line to the width of the terminal; a file or another program gets all of it."""
    width = shutil.get_terminal_size().columns
    return line if len(line) <= width or not _is_terminal() else f"{line[: width - 1]}…"


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def _short(name: str, width: int) -> str:
    name = printable(name)
    return shorten(name, width) if _is_terminal() else name


def _values(values: Mapping[str, Any]) -> Iterator[str]:
    if len(values["errors"]) > values["outputs"]["count"]:
        yield inner(values)
    if values["outputs"]["notable"]:
        for row in values["begins"]:
            yield f"  begins at {row['operator']} {_short(row['before'], _NAME)}: {float(row['error']):.1e}"
