"""Reports on disk: JSON for programs or one HTML page for people; the file's suffix says which."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bnfold.errors import BadInput, OutputError


def require(path: str | None) -> None:
    """Complain about what would stop the report only when all work is done; None asks for nothing.

    Raises:
        BadInput: What writes this kind of report is not installed.
        OutputError: There is no such folder.
    """
    if path is None:
        return
    if path.endswith(".html") and find_spec("jinja2") is None:
        raise BadInput(f"{path}: an HTML report needs jinja2: pip install 'bnfold[report]'")
    if not Path(path).absolute().parent.is_dir():
        raise OutputError(f"{path}: there is no directory {Path(path).absolute().parent}")


def write(path: str, document: Mapping[str, Any]) -> None:
    """Write the report of one model or of many.

    Raises:
        OutputError: The file cannot be written.
    """
    if path.endswith(".html"):
        from bnfold.render import html

        text = html(_documents(document))
    else:
        text = json.dumps(document, indent=2, allow_nan=False) + "\n"
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"{path}: the report cannot be written: {error.strerror or error}") from error


def _documents(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The reports in the summary of a folder, or the one report itself."""
    if "models" not in document:
        return [document]
    return [
        model["report"] or {"input": {"path": model["input"]}, "error": model["message"]}
        for model in document["models"]
    ]
