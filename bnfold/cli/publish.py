"""Reports: JSON for programs, a page or a comment for people, the file's suffix says which; JSON on standard output."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bnfold.batch.addresses import is_url
from bnfold.errors import BadInput, OutputError, WrongUsage
from bnfold.ir.storage import locked_file
from bnfold.pipeline import path_conflicts
from bnfold.report.events import dumps

if TYPE_CHECKING:
    from bnfold.batch.worker import FileResult


def require(paths: Sequence[str]) -> None:
    """Refuse reports that could not be written once all work is done.

    Raises:
        BadInput: It is a URL, or what writes this kind of report is not installed.
        OutputError: It is a folder, or there is none that it could lie in.
    """
    for path in paths:
        if is_url(path):
            raise WrongUsage(f"{path}: a report is written to a plain path, not to a URL")
        if path.endswith(".html") and find_spec("jinja2") is None:
            raise BadInput(f"{path}: an HTML report needs jinja2: pip install jinja2")
        path_conflicts.check_place(Path(path))


def emit(document: Mapping[str, Any], paths: Sequence[str], *, as_json: bool) -> None:
    """Print the report and write it, as asked.

    Raises:
        OutputError: The file cannot be written.
    """
    if as_json:
        to_stdout(document)
    for path in paths:
        write(path, document)


def to_stdout(document: Mapping[str, Any]) -> None:
    """Print the report as JSON."""
    click.echo(dumps(document, indent=2))


def findings(results: Sequence[FileResult], form: str) -> None:
    """Print what was found in many models as a list for programs."""
    from bnfold.cli.findings import WRITERS, findings_of

    for line in WRITERS[form]([*findings_of(results)]):
        click.echo(line)


def write(path: str, document: Mapping[str, Any]) -> None:
    """Write the report of one model or of many.

    Raises:
        OutputError: The file cannot be written.
    """
    if path.endswith(".html"):
        from bnfold.report.html import differences, html

        text = differences.html(document) if "differences" in document else html(_documents(document))
    elif path.endswith(".md"):
        from bnfold.report.html import differences, display

        is_one = "differences" in document
        parts = [differences.summary(document)] if is_one else map(display.summary_line, _documents(document))
        text = "\n".join(map(str, parts))
    else:
        text = dumps(document, indent=2) + "\n"
    try:
        _replace(Path(path), text)
    except OSError as error:
        raise OutputError(f"{path}: the report cannot be written: {error.strerror or error}") from error


def _replace(path: Path, text: str) -> None:
    """Write beside the place and rename, so that no program reads half a report. A pipe or a device is written to."""
    target = path.resolve()
    if target.exists() and not target.is_file():
        target.write_text(text, encoding="utf-8")
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with locked_file.temporary(target.parent) as written:
        try:
            written.path.write_text(text, encoding="utf-8")
            if target.exists():
                shutil.copymode(target, written.path)
            written.rename(target)
        except OSError:
            written.remove()
            raise


def _documents(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the reports in the summary of a folder, or the one report itself."""
    if "models" not in document:
        return [document]
    without = ("status", "message", "counts")
    return [
        model["report"] or {**{key: model[key] for key in without}, "input": {"path": model["input"]}}
        for model in document["models"]
    ]
