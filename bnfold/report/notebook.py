"""A report as a notebook shows it: two small tables, for pages that have styles of their own."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

from bnfold.errors import brief, printable
from bnfold.report.totals import changed, size

if TYPE_CHECKING:
    from bnfold.report.events import Report

_MOST = 20
"""Rows of a table."""


def fragment(report: Report) -> str:
    """Return a report as HTML without a page around it."""
    before, after = report.before, report.after
    rows = [
        *([("opset", report.opset_before, report.opset_after)] if report.has_opset else []),
        ("IR version", report.ir_before, report.ir_after),
        ("nodes", before.nodes, after.nodes),
        *((name, *pair) for name, pair in changed(before, after).items()),
        ("weights", size(before.weights), size(after.weights)),
    ]
    # What needs attention comes first.
    events = sorted(report.batchnorms, key=lambda event: not event.is_left)
    became = [(event.name, event.word, brief(event.why or ", ".join(event.into), 200)) for event in events]
    return table(("", "before", "after"), rows) + table(("BatchNormalization", "becomes", "where, or why not"), became)


def table(head: Iterable[str], rows: Iterable[tuple[object, ...]]) -> str:
    """Return the first rows as an HTML table, every text escaped; nothing for no rows."""
    listed = [*rows]
    if not listed:
        return ""
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    cells = "".join(
        f"<tr>{''.join(f'<td>{escape(printable(str(cell)))}</td>' for cell in row)}</tr>" for row in listed[:_MOST]
    )
    more = f"<p>{len(listed) - _MOST} more</p>" if len(listed) > _MOST else ""
    return f"<table><thead><tr>{names}</tr></thead><tbody>{cells}</tbody></table>{more}"
