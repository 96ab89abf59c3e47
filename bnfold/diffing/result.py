"""What `bnfold.diff` returns: plain JSON types, printed as a few lines."""

from __future__ import annotations

from html import escape
from importlib.util import find_spec
from typing import Any

from bnfold.errors import brief

_MOST = 8
"""Differences that are printed."""


class Differences(dict[str, Any]):
    """What differs between two models, as plain JSON types; docs/diff.md describes the keys."""

    def __repr__(self) -> str:
        from bnfold.report.html.differences import headline, tally

        rows = self["differences"]
        told = [headline(self)[0], *(f"{row['what']}: {row['before']} → {row['after']}" for row in self["interface"])]
        told = [*told[:_MOST], tally(self), *(f"  {row['text']}" for row in rows[:_MOST])]
        more = [f"  {len(rows) - _MOST} more"] if len(rows) > _MOST else []
        return "\n".join(brief(line, 79) for line in [*told, *more])

    def _repr_html_(self) -> str | None:
        """Return the page that `--report` writes, for notebooks; None without jinja2, of the extra ``report``."""
        if find_spec("jinja2") is None:
            return None
        from bnfold.report.html.differences import html

        page = escape(html(self))
        return f'<iframe title="bnfold diff" srcdoc="{page}" style="width: 100%; height: 40rem; border: 0"></iframe>'
