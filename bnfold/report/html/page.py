"""From reports as JSON to the page: what the templates need is computed here, how it looks is theirs."""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from bnfold.errors import printable
from bnfold.report.advice import ADVICE, Advice
from bnfold.report.events import map_texts, state
from bnfold.report.html import layout, plots
from bnfold.report.reasons import Reason
from bnfold.report.totals import size

STATES = ("left", "folded", "exchanged", "removed", "decomposed", "upgraded")
MAX_ROWS = 1500
"""Rows of one model that a page shows; a browser chokes on more. The JSON form has all of them."""
MAX_DRAWINGS = 600
MAX_INLINE = 100
"""Rows of one model whose bodies stand in the page as they are. Of more they are packed and drawn when opened, and the
button opens so many at once: a body has a hundred elements, and checkers and screen readers walk through each."""

Document = Mapping[str, Any]

if TYPE_CHECKING:
    from jinja2 import Environment, Template


@dataclass(frozen=True, slots=True)
class PageRow:
    """A BatchNormalization as the page shows it.

    ``anchor`` is unique on the page; ``body`` is what stands inside, where that is not written where the row stands.
    """

    anchor: str
    event: Mapping[str, Any]
    advice: Advice | None
    drawn: bool
    body: str | None = None

    @property
    def state(self) -> str:
        """What the filter calls it."""
        return state(self.event)

    @property
    def words(self) -> str:
        """What the search looks in."""
        reason = self.event["reason"] or {}
        parts = [self.event["name"], self.event["graph"], *self.event["into"], *self.event.get("operators", ())]
        return " ".join([*parts, reason.get("code", ""), reason.get("text", ""), reason.get("detail", "")]).lower()


@dataclass(frozen=True, slots=True)
class ModelPage:
    """One report on the page; ``document`` holds a ``message`` and no events where there is no report."""

    anchor: str
    document: Document
    rows: tuple[PageRow, ...]
    left_out: int

    @property
    def status(self) -> str:
        """In a word: what verification or the folder's run says of the model."""
        verdict = self.document.get("verify")
        return str(self.document.get("status") or (verdict["status"] if verdict else "not verified"))

    @property
    def trouble(self) -> str:
        """Why there is no report, or no proof: the error, or the verdict's reason; empty if all is well."""
        verdict = self.document.get("verify")
        doubt = verdict["reason"] if verdict and verdict["status"] in ("failed", "unverified") else ""
        return str(self.document.get("message") or doubt)

    @property
    def became(self) -> str:
        """The BatchNormalizations before and after."""
        before, after = self.counts
        return f"BatchNormalization {short(before)} → {short(after)}"

    @property
    def sentence(self) -> str:
        """The work done, in one line."""
        opset, states = self.document["opset"], self.states
        nodes = [sum(self.document["operators"][when].values()) for when in ("before", "after")]
        found = len(self.strip)
        became = ", ".join(f"{count} {name}" for name, count in states.items()) or "nothing to fold"
        converted = f"opset {opset['before']} → {opset['after']}" if len({*opset.values()}) > 1 else ""
        named = f"{found} BatchNormalization{'' if found == 1 else 's'}: {became}"
        return "; ".join(filter(None, (named, converted, f"{nodes[0]} → {nodes[1]} nodes")))

    @property
    def markdown(self) -> str:
        """The summary as Markdown, for an issue or a pull request."""
        document = self.document
        nodes = [sum(document["operators"][when].values()) for when in ("before", "after")]
        lines = [
            f"**bnfold: {self.name}**",
            "",
            f"{self.sentence}. {(document['verify'] or {}).get('summary', 'not verified')}",
            "",
            "| | before | after |",
            "|---|---|---|",
            f"| opset | {document['opset']['before']} | {document['opset']['after']} |",
            f"| nodes | {nodes[0]} | {nodes[1]} |",
            f"| BatchNormalization | {short(self.counts[0])} | {short(self.counts[1])} |",
            f"| weights, bytes | {document['weights']['before']:,} | {document['weights']['after']:,} |",
            *(["", "Left:"] if self.reasons else []),
            *(f"* {count} × `{code}`: {Reason.of(code).value}" for code, count in self.reasons),  # noqa: RUF001
        ]
        return "\n".join(lines) + "\n"

    @property
    def counts(self) -> tuple[int | None, int | None]:
        """BatchNormalizations before and after; None where they are not known."""
        known = self.document.get("counts")
        if known is not None:
            return known["before"], known["after"]
        return (len(self.strip), self.states.get("left", 0)) if "batchnorms" in self.document else (None, None)

    @property
    def strip(self) -> list[str]:
        """The state of each BatchNormalization, in the order of the graph."""
        return [state(event) for event in self.document.get("batchnorms", ())]

    @property
    def packed(self) -> str:
        """The bodies of all rows, as base64 of deflated JSON; empty where each stands in its row."""
        bodies = [row.body for row in self.rows if row.body is not None]
        return packed(bodies) if bodies else ""

    @property
    def title(self) -> str:
        source = self.document.get("input")
        return str(source["path"]) if source else "model"

    @property
    def name(self) -> str:
        """The title without its folder."""
        return PurePath(self.title).name

    @property
    def states(self) -> dict[str, int]:
        counts = Counter(map(state, self.document.get("batchnorms", ())))
        return {name: counts[name] for name in STATES if counts[name]}

    @property
    def reasons(self) -> list[tuple[str, int]]:
        """Reason codes with how often they stand, the most frequent first."""
        known = self.document.get("counts")
        rows = (event["reason"] for event in self.document.get("batchnorms", ()))
        codes = known["reasons"] if known else Counter(reason["code"] for reason in rows if reason)
        return Counter(codes).most_common()


def html(documents: Sequence[Document]) -> str:
    """Return one page about one model or several.

    Args:
        documents: Reports as `Outcome.to_json` makes them, or what a folder's inspection says of a model
            without a report: ``input``, ``status`` (``failed``, ``skipped``), ``message`` and ``counts``.
    """
    documents = map_texts(documents, printable)
    environment = templates()
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
    environment.globals.update(style=load("style.css"), script=load("script.js"), most=MAX_INLINE)
    return environment


def packed(bodies: Sequence[str]) -> str:
    """Return what stands inside rows, as base64 of deflated JSON."""
    return b64encode(zlib.compress(json.dumps(bodies).encode())).decode()


def _model(anchor: str, document: Document, body: Template, shared: Mapping[str, Any]) -> ModelPage:
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


def _codes(document: Document) -> set[str]:
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


def short(value: Any) -> str:
    """Return a number with the digits that matter; ``-`` where there is none."""
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
