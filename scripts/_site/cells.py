"""The cells of a notebook: run as Jupyter would run them, without Jupyter, and written as a page of the site.

A cell's outputs are what it prints and what its last expression shows of itself: SVG, Markdown, or text.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Cell = dict[str, Any]
_SHOWS = {"_repr_svg_": "image/svg+xml", "_repr_markdown_": "text/markdown", "_repr_html_": "text/html"}
_VARIES = re.compile(r"\d\.\d+e[+-]\d\d|\d+\.\d+ s\b")


def read(path: Path) -> dict[str, Any]:
    """Return a notebook as the JSON that its file holds."""
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return notebook


def execute(notebook: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Run the code cells in one namespace, in the working directory ``folder``; return the notebook with outputs."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells, count = [], 0
    with contextlib.chdir(folder):
        for cell in notebook["cells"]:
            if cell["cell_type"] != "code":
                cells.append(cell)
                continue
            count += 1
            cells.append({**cell, "execution_count": count, "outputs": _run("".join(cell["source"]), names, count)})
    return {**notebook, "cells": cells}


def _run(source: str, names: dict[str, Any], count: int) -> list[Cell]:
    tree = ast.parse(source)
    end = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        if isinstance(end, ast.Expr):
            value = eval(compile(ast.Expression(end.value), "cell", "eval"), names)
    outputs: list[Cell] = []
    if printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": _split(printed.getvalue())})
    if value is not None:
        result = {"output_type": "execute_result", "execution_count": count, "metadata": {}}
        outputs.append({**result, "data": {kind: _split(text) for kind, text in _shown(value)}})
    return outputs


def _shown(value: Any) -> Iterator[tuple[str, str]]:
    for method, kind in _SHOWS.items():
        if hasattr(value, method):
            yield kind, getattr(value, method)()
    yield "text/plain", repr(value)


def _split(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def texts(notebook: dict[str, Any]) -> list[list[str]]:
    """Return what each code cell shows, but for errors in scientific notation and seconds, which machines differ in."""
    shown = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            parts = [
                text for output in cell["outputs"] for text in (output.get("text"), *output.get("data", {}).values())
            ]
            shown.append([_VARIES.sub("…", "".join(part)) for part in parts if part])
    return shown


def as_markdown(notebook: dict[str, Any]) -> str:
    """Return the notebook as a page: code in fences, tables as Markdown, pictures as images with their description."""
    pieces = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            pieces.append(source)
            continue
        pieces.append(f"```python\n{source}\n```")
        pieces += [_output(output) for output in cell["outputs"]]
    return "\n\n".join(pieces) + "\n"


def _output(output: Cell) -> str:
    data = {kind: "".join(lines) for kind, lines in output.get("data", {}).items()}
    if svg := data.get("image/svg+xml"):
        title = re.search(r"<title>(.*?)</title>", svg)
        encoded = base64.b64encode(svg.encode()).decode()
        return f"![Around {title[1] if title else 'it'}: before and after](data:image/svg+xml;base64,{encoded})"
    if markdown := data.get("text/markdown"):
        return markdown
    text = "".join(output.get("text", ())) or data.get("text/plain", "")
    return f"```text\n{text.rstrip()}\n```"
