"""Parts of the report for notebooks and pages: pictures as SVG that stands alone, tables as Markdown.

from bnfold.report.html import display

document = bnfold.optimize("model.onnx").to_json()
display.summary(document)  # the last expression of a notebook's cell is shown
display.picture(document["batchnorms"][0])
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from bnfold.errors import printable
from bnfold.report.events import map_texts
from bnfold.report.html import layout, markdown
from bnfold.report.html.model_page import as_model

_ARROW = (
    '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path class="arrowhead" d="M0 0L8 4L0 8z"/></marker></defs>'
)
_GAP, _HEAD, _EDGE = 36, 30, 12


class Picture(NamedTuple):
    """A picture; notebooks show it, and ``save`` writes it."""

    svg: str

    def __repr__(self) -> str:
        return f"Picture of {len(self.svg)} characters of SVG"

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: Path) -> None:
        """Write the picture as an SVG file."""
        path.write_text(self.svg + "\n", encoding="utf-8")


class Text(NamedTuple):
    """Markdown; notebooks show it as what it stands for."""

    markdown: str

    def __repr__(self) -> str:
        return self.markdown

    def _repr_markdown_(self) -> str:
        return self.markdown


def picture(row: Mapping[str, Any]) -> Picture:
    """Draw the neighbourhood of one row of a report, a BatchNormalization or a difference, before and after.

    Args:
        row: An element of ``batchnorms`` of a report, or of ``differences``, that has a ``drawing``.
    """
    drawing = map_texts(row["drawing"], printable)
    sides = [(when, drawing[when.lower()]) for when in ("Before", "After") if drawing.get(when.lower())]
    parts, left, high = [], float(_EDGE), 0.0
    for title, side in sides:
        diagram = layout.lay_out(side)
        parts.append(_diagram(diagram, title if len(sides) > 1 else "Around it (nothing was rewritten here)", left))
        left += max(diagram.width, 60) + _GAP
        high = max(high, diagram.height)
    width, height = round(left - _GAP + _EDGE), round(high + _HEAD + _EDGE)
    style = files("bnfold.report.html").joinpath("picture.css").read_text(encoding="utf-8")
    words = " ".join(f"{title}: {layout.lay_out(side).description}" for title, side in sides)
    return Picture(
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}"><title>{escape(row["name"])}</title><desc>{escape(words)}</desc>'
        f'<style>{style}</style>{_ARROW}<rect class="page" x=".5" y=".5" width="{width - 1}" height="{height - 1}" '
        f'rx="8"/>{"".join(parts)}</svg>'
    )


def _diagram(diagram: layout.Diagram, title: str, left: float) -> str:
    wires = "".join(f'<path class="wire" d="{wire.path}" marker-end="url(#arrow)"/>' for wire in diagram.wires)
    boxes = "".join(map(_box, diagram.boxes))
    return (
        f'<text class="head" x="{left:.0f}" y="22">{escape(title)}</text>'
        f'<g transform="translate({left:.0f} {_HEAD})">{wires}{boxes}</g>'
    )


def _box(box: layout.Box) -> str:
    round_by = box.height / 2 if box.role == "port" else 5
    lines = "".join(
        f'<text{bold} x="{box.x:.1f}" y="{box.y + 17 + index * layout.LINE:.1f}">{escape(line)}</text>'
        for index, (line, bold) in enumerate(zip_longest(box.lines, [' class="op"'], fillvalue=""))
    )
    return (
        f'<g class="box {box.role}"><rect x="{box.left:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.0f}" rx="{round_by:g}"/>{lines}</g>'
    )


def summary(document: Mapping[str, Any]) -> Text:
    """Return what the report's page copies: the sentence, the verdict, the totals, and why some are left."""
    return Text(markdown.of_model(as_model(document)))


def summary_line(document: Mapping[str, Any]) -> Text:
    """Return the summary of a model of a folder; one without a report has a line that says why."""
    if "batchnorms" in document:
        return summary(document)
    path, message = document["input"]["path"], document["message"]
    return Text(f"* {markdown.escaped(message if message.startswith(path) else f'{path}: {message}')}\n")


def operators(document: Mapping[str, Any]) -> Text:
    """Return the operators whose number changed, before and after, as a table."""
    before, after = document["operators"]["before"], document["operators"]["after"]
    names = [name for name in {**before, **after} if before.get(name, 0) != after.get(name, 0)]
    rows = [(name, before.get(name, 0), after.get(name, 0)) for name in names]
    return table(("operator", "before", "after"), [*rows, ("all nodes", sum(before.values()), sum(after.values()))])


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> Text:
    """Return a table of texts and numbers."""
    return Text("\n".join(markdown.table(head, rows)))
