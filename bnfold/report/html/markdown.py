"""The summaries of the pages as Markdown, for an issue or a pull request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bnfold.report.html.model_page import ModelPage
from bnfold.report.reasons import Reason
from bnfold.report.rewrites import equality

MOST = 20
"""Differences that a summary lists."""


def of_model(model: ModelPage) -> str:
    """Return one report in short: the sentence, the verdict, the totals, and why some are left."""
    document = model.document
    grown = document.get("growth", {}).get("note", "")
    nodes = [sum(document["operators"][when].values()) for when in ("before", "after")]
    rows = [
        ("opset", *(document["opset"][when] for when in ("before", "after"))),
        ("nodes", *nodes),
        ("BatchNormalization", *map(_shown, model.counts)),
        ("weights, bytes", *(f"{document['weights'][when]:,}" for when in ("before", "after"))),
    ]
    return _lines(
        f"**bnfold: {escaped(model.name)}**",
        "",
        f"{model.sentence}. {(document['verify'] or {}).get('summary', 'not verified')}",
        "",
        *table(("total", "before", "after"), rows),
        *(["", f"{escaped(grown[:1].upper() + grown[1:])}."] if grown else []),
        *(["", "Rewritten:"] if model.rewrites else []),
        *(f"* {row['count']} × {escaped(row['title'])}: {equality(row)}" for row in model.rewrites),  # noqa: RUF001
        *(["", "Left:"] if model.reasons else []),
        *(f"* {count} × `{code}`: {Reason.of(code).value}" for code, count in model.reasons),  # noqa: RUF001
    )


def of_models(models: Sequence[ModelPage], sentence: str) -> str:
    """Return a folder in short: a row for each model, the urgent ones first."""
    rows = [
        (model.title, model.status, *map(_shown, model.counts), ", ".join(f"{n} {code}" for code, n in model.reasons))
        for model in models
    ]
    head = ("model", "status", "BatchNormalizations", "left", "why")
    return _lines(f"**bnfold: {len(models)} models**", "", sentence, "", *table(head, rows))


def of_differences(document: Mapping[str, Any], verdict: str, sentence: str) -> str:
    """Return a comparison in short: the verdict, what differs between the models, and the first differences."""
    before, after = document["before"], document["after"]
    rows = [
        *((each["what"], each["before"], each["after"]) for each in document["interface"] + document["metadata"]),
        ("nodes", before["nodes"], after["nodes"]),
        ("weights, bytes", f"{before['weights']:,}", f"{after['weights']:,}"),
    ]
    found = document["differences"]
    return _lines(
        f"**bnfold: {escaped(before['path'])} and {escaped(after['path'])}**",
        "",
        f"{verdict.rstrip('.')}. {sentence}.",
        "",
        *table(("what differs", "A", "B"), rows),
        "",
        *(f"* {row['kind']}: {escaped(row['name'])}: {escaped(row['text'])}" for row in found[:MOST]),
        *([f"* {len(found) - MOST} more"] if len(found) > MOST else []),
    )


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Return the lines of a table."""
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(escaped(cell) for cell in line)} |" for line in lines]


def escaped(text: Any) -> str:
    """Return a cell or a name in one line, without what Markdown would read as a column or as markup."""
    line = " ".join(str(text).split())
    for sign in ("\\", "|", "*", "_", "`", "<", "["):
        line = line.replace(sign, f"\\{sign}")
    return line


def _shown(count: int | None) -> str:
    return "-" if count is None else str(count)


def _lines(*lines: str) -> str:
    return "\n".join(lines) + "\n"
