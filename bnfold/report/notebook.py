"""Tables as a notebook shows them, in pages that have styles of their own."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from bnfold.errors import brief, printable

_MOST = 20
"""Rows of a table."""


def table(head: Iterable[str], rows: Iterable[tuple[object, ...]]) -> str:
    """Return the first rows as an HTML table, every text escaped; nothing for no rows."""
    listed = [*rows]
    if not listed:
        return ""
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    cells = "".join(
        f"<tr>{''.join(f'<td>{escape(brief(printable(str(cell)), 200))}</td>' for cell in row)}</tr>"
        for row in listed[:_MOST]
    )
    more = f"<p>{len(listed) - _MOST} more</p>" if len(listed) > _MOST else ""
    return f"<table><thead><tr>{names}</tr></thead><tbody>{cells}</tbody></table>{more}"
