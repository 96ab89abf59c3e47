"""The page about what differs between two models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from bnfold.errors import enumerated, printable
from bnfold.report.events import map_texts
from bnfold.report.html import markdown
from bnfold.report.html.model_page import packed
from bnfold.report.html.page import MAX_INLINE, MAX_ROWS, templates


def tally(document: Mapping[str, Any]) -> str:
    """Say how many nodes are the same, and how many differences there are."""
    same, count = document["same"], len(document["differences"])
    if document.get("same_bytes"):
        return "the files are equal, byte for byte"
    aside = ", constants aside," if any(document[side]["constant_nodes"] for side in ("before", "after")) else ""
    many = f"1 node{aside} is the same" if same == 1 else f"{same} nodes{aside} are the same"
    if count:
        return f"{many}, {count} difference{'s' * (count != 1)}"
    is_other = document["before"]["constant_nodes"] != document["after"]["constant_nodes"]
    constants = ["the nodes that make constants"] if is_other else []
    if document["equal"]:
        return f"{many}; nothing differs but {enumerated(['names', 'metadata', *constants])}"
    rows = [row["what"].partition(" ")[0] for row in document["interface"]]
    kinds = {"opset": "an opset", "function": "a function"}
    what = [*dict.fromkeys(kinds.get(row, "the interface") for row in rows), *constants]
    return f"{many}; only {enumerated(what)} differ{'s' * (len(what) == 1 and not constants)}"


def headline(document: Mapping[str, Any]) -> tuple[str, str]:
    """Return whether the outputs agree, in words, and as the status that a verdict would have."""
    if document.get("verify"):
        return document["verify"]["summary"], document["verify"]["status"]
    return outputs_agree(document)


def outputs_agree(document: Mapping[str, Any]) -> tuple[str, str]:
    """Return what comparing values says of the outputs, and as which status."""
    values = document["values"]
    if not values:
        return "outputs were not compared: --values compares them, even if it takes a while", "unverified"
    if "reason" in values:
        return f"outputs were not compared: {values['reason']}", "unverified"
    outputs = values["outputs"]
    if not outputs["count"]:
        return "outputs were not compared: the models have none in common", "unverified"
    largest = outputs["largest"]
    if not outputs["notable"]:
        error = float(largest["error"])
        return (f"outputs agree to {error:.1e}" if error else "outputs are identical"), "verified"
    begins = values["begins"][0]
    where = f"{begins['operator']} {begins['before']}".strip()
    return f"outputs differ by {float(largest['error']):.2g}, first at {where}", "failed"


def inner(values: Mapping[str, Any]) -> str:
    """Say how the values inside compare; those that only have another scale, as folding makes them, apart."""
    notable = values["notable"] - values["outputs"]["notable"]
    count = len(values["errors"]) - values["outputs"]["count"]
    parts = [
        (count - notable, "agree"),
        (values["scaled"], "on another scale, as after folding"),
        (notable - values["scaled"], "differ"),
    ]
    return "values inside: " + ", ".join(f"{number} {what}" for number, what in parts if number)


def _as_sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def summary(document: Mapping[str, Any]) -> str:
    """Return the comparison in short, as Markdown for a comment."""
    return markdown.of_differences(document, _as_sentence(headline(document)[0]), _as_sentence(tally(document)))


def html(document: Mapping[str, Any]) -> str:
    """Return one page about what `bnfold.diffing.diff` gives, with a verdict under ``verify`` if there is one.

    Many differences are packed, and drawn when they are opened.
    """
    document = map_texts(document, printable)
    environment = templates()
    environment.filters.update(
        tally=tally, headline=headline, outputs_agree=outputs_agree, inner=inner, as_sentence=_as_sentence,
        markdown=summary,
    )  # fmt: skip
    body = environment.get_template("difference.html.j2")
    rows = document["differences"][:MAX_ROWS]
    bodies = [body.render(row=row, anchor=f"d{index}") for index, row in enumerate(rows)]
    is_packed = len(rows) > MAX_INLINE
    page: str = environment.get_template("differences.html.j2").render(
        doc=document,
        rows=rows,
        bodies=[] if is_packed else bodies,
        packed=packed(bodies) if is_packed else "",
        kinds_of=Counter(row["kind"] for row in rows),
    )
    return page
