"""From reports as JSON to the page: what the templates need is computed here, how it looks is theirs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from bnfold.errors import printable
from bnfold.report.advice import ADVICE, Advice
from bnfold.report.events import map_texts
from bnfold.report.html import layout, markdown, plots
from bnfold.report.html.model_page import ModelPage, PageRow, ReportDocument, packed, short
from bnfold.report.reasons import Reason
from bnfold.report.totals import size

MAX_ROWS = 1500
"""Rows of one model that a page shows; a browser chokes on more. The JSON form has all of them."""
MAX_DRAWINGS = 600
MAX_INLINE = 12
"""Rows of one model whose bodies stand in the page as they are, 20 kB each; more are packed, and drawn when opened."""
MAX_OPENED = 100
"""Rows that the button opens at once: a body has a hundred elements, and screen readers walk through each."""

if TYPE_CHECKING:
    from jinja2 import Environment, Template


def html(documents: Sequence[ReportDocument]) -> str:
    """Return one page about one model or several.

    Args:
        documents: Reports as `Outcome.to_json` makes them, or what a folder's inspection says of a model
            without a report: ``input``, ``status`` (such as ``failed`` or ``skipped``), ``message`` and ``counts``.
    """
    documents = map_texts(documents, printable)
    environment = templates()
    environment.filters.update(markdown=markdown.of_model, markdowns=markdown.of_models)
    body = environment.get_template("body.html.j2")
    shared = {"level": 2 if len(documents) == 1 else 3}
    models = [_model(f"m{index}", document, body, shared) for index, document in enumerate(documents)]
    models.sort(key=lambda model: _URGENCY.get(model.status, len(_URGENCY)))
    texts = {reason.code: reason.value for reason in Reason}
    report = environment.get_template("model.html.j2")
    shown = models if len(models) == 1 else [model for model in models if "message" not in model.document]
    bodies = [report.render(model=model, doc=model.document, models=models, texts=texts, **shared) for model in shown]
    page: str = environment.get_template("page.html.j2").render(
        models=models,
        bodies=bodies if len(models) == 1 else [],
        packed="" if len(models) == 1 else packed(bodies),
        sums=_sums(models),
        reasons=[(reason, ADVICE[reason]) for reason in Reason],
        texts=texts,
        has_batchnorms=any(model.rows or model.reasons for model in models),
        used={code for document in documents for code in _codes(document)},
    )
    return page


_URGENCY = {"failed": 0, "unverified": 1}


def _sums(models: Sequence[ModelPage]) -> tuple[str, str]:
    """Return a sentence about many models, and the most urgent status among them."""
    statuses = Counter(model.status for model in models)
    counts = [model.counts for model in models]
    before, after = (sum(count[side] or 0 for count in counts) for side in (0, 1))
    text = ", ".join(f"{count} {status}" for status, count in statuses.most_common())
    worst = next((status for status in _URGENCY if status in statuses), "verified")
    return f"{text}; BatchNormalization {before:,} → {after:,}", worst


def templates() -> Environment:
    """Return the templates, with what all pages need."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    def load(name: str) -> str:
        return files("bnfold.report.html").joinpath(name).read_text(encoding="utf-8")

    environment = Environment(
        loader=FunctionLoader(load), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(size=partial(size, digits=2), number=short, plain=plain)
    environment.globals.update(lay_out=layout.lay_out, shorten=layout.shorten, plots=plots, kinds=plots.KINDS)
    environment.globals.update(style=load("style.css"), script=load("script.js"), most=MAX_OPENED)
    return environment


def _model(anchor: str, document: ReportDocument, body: Template, shared: Mapping[str, Any]) -> ModelPage:
    events = document.get("batchnorms", ())
    order = sorted(range(len(events)), key=lambda index: events[index]["reason"] is None)
    rows = tuple(
        PageRow(f"{anchor}-bn{index}", events[index], _advice(events[index]), drawn=position < MAX_DRAWINGS)
        for position, index in enumerate(order[:MAX_ROWS])
    )
    if len(rows) > MAX_INLINE:
        rows = tuple(replace(row, body=body.render(row=row, bn=row.event, doc=document, **shared)) for row in rows)
    return ModelPage(anchor, document, rows, len(events) - len(rows))


def _advice(event: Mapping[str, Any]) -> Advice | None:
    return ADVICE[Reason.of(event["reason"]["code"])] if event["reason"] else None


def _codes(document: ReportDocument) -> set[str]:
    rows = [event["reason"] for event in document.get("batchnorms", ())]
    tried = [attempt["reason"] for event in document.get("batchnorms", ()) for attempt in event["search"]]
    known = document.get("counts") or {"reasons": {}}
    return {reason["code"] for reason in (*rows, *tried) if reason} | set(known["reasons"])


def plain(value: Any) -> str:
    """Return an option's value in words."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "default" if value is None else str(value)
