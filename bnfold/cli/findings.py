"""What `bnfold inspect` found, for other programs: annotations of GitHub, SARIF 2.1.0, or a line of JSON each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from bnfold.errors import printable
from bnfold.report.events import dumps
from bnfold.report.reasons import Reason, sentence

if TYPE_CHECKING:
    from bnfold.batch.worker import FileResult

Level = Literal["error", "note"]
FORBIDDEN, NOT_PROCESSED, NOT_LOADED = "forbidden-operator", "not-processed", "not-loaded"
"""Codes of findings that are not about why a BatchNormalization stays."""
_RULES = {
    FORBIDDEN: "an operator remains that --assert-none forbids",
    NOT_PROCESSED: "a file or folder that bnfold cannot process",
    NOT_LOADED: "a model that the runtime does not load",
}


class Finding(NamedTuple):
    """One thing to look at: an error is what was forbidden or does not load, a note a BatchNormalization that stays."""

    path: str
    level: Level
    code: str
    message: str
    graph: str = ""
    node: str = ""

    @property
    def place(self) -> str:
        """The node, behind the subgraph or function that it is in."""
        return f"{self.graph}: {self.node}" if self.graph else self.node


def findings_of(results: Sequence[FileResult]) -> Iterator[Finding]:
    """Yield what was found in each model."""
    for result in results:
        if result.status == "failed":
            yield Finding(result.source, "error", NOT_PROCESSED, result.message)
            continue
        if result.unloadable:
            yield Finding(result.source, "error", NOT_LOADED, result.unloadable)
        rows = {(row["name"], row["graph"]): row for row in result.report.get("batchnorms", ()) if row["reason"]}
        for label, graph, why in result.nodes:
            reason = rows.pop((label, graph), {}).get("reason")
            code, text = _why(reason) if reason else (FORBIDDEN, why)
            message = f"{label!r} remains, and --assert-none forbids it{f': {text}' if text else ''}"
            yield Finding(result.source, "error", code, message, graph, label)
        for (label, graph), row in rows.items():
            code, text = _why(row["reason"])
            yield Finding(result.source, "note", code, f"BatchNormalization {label!r} stays: {text}", graph, label)


def _why(reason: Mapping[str, str]) -> tuple[str, str]:
    return reason["code"], f"{sentence(reason['text'], reason['detail'])} [{reason['code']}]"


def _github(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield workflow commands, see docs.github.com/actions/reference/workflow-commands-for-github-actions."""
    for each in findings:
        command = "error" if each.level == "error" else "notice"
        where = f"file={_escaped(each.path, ':,')},title={_escaped(f'bnfold {each.code}', ':,')}"
        yield printable(f"::{command} {where}::{_escaped(each.message)}")


def _escaped(text: str, more: str = "") -> str:
    for sign in ("%", "\r", "\n", *more):
        text = text.replace(sign, f"%{ord(sign):02X}")
    return text


def _json_lines(findings: Sequence[Finding]) -> Iterator[str]:
    for each in findings:
        yield dumps(each._asdict())


def _sarif(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield the text of a log, see docs.oasis-open.org/sarif/sarif/v2.1.0."""
    from importlib.metadata import version

    codes = sorted({each.code for each in findings})
    driver = {"name": "bnfold", "semanticVersion": version("bnfold"), "rules": [*map(_rule, codes)]}
    run = {"tool": {"driver": driver}, "results": [_result(each, codes) for each in findings]}
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    yield dumps(log, indent=2)


def _rule(code: str) -> dict[str, Any]:
    if code in _RULES:
        return {"id": code, "shortDescription": {"text": _RULES[code]}}
    from bnfold.report.advice import ADVICE

    advice = ADVICE[Reason.of(code)]
    help_text = f"{advice.remedy} (`bnfold explain {code}` says more)"
    return {
        "id": code,
        "shortDescription": {"text": Reason.of(code).value},
        "fullDescription": {"text": advice.meaning},
        "help": {"text": help_text, "markdown": help_text},
    }


def _result(each: Finding, codes: Sequence[str]) -> dict[str, Any]:
    location: dict[str, Any] = {"physicalLocation": {"artifactLocation": {"uri": _uri(each.path)}}}
    if each.node:
        location["logicalLocations"] = [{"name": each.node, "fullyQualifiedName": each.place, "kind": "object"}]
    return {
        "ruleId": each.code,
        "ruleIndex": codes.index(each.code),
        "level": each.level,
        "message": {"text": each.message},
        "locations": [location],
    }


def _uri(path: str) -> str:
    """Return a path below the working directory as a relative reference, another one as a file's URL."""
    from urllib.parse import quote

    from bnfold.batch.addresses import is_url

    if is_url(path):
        return quote(path, safe="%/:?#[]@!$&'()*+,;=~")  # fsspec takes spaces, a URI does not
    absolute = Path(path).absolute()
    if not absolute.is_relative_to(Path.cwd()):
        return absolute.as_uri()
    below = PurePosixPath("/", absolute.relative_to(Path.cwd()).as_posix())
    return below.as_uri().removeprefix("file:///")  # with what a URL cannot have written as %20


WRITERS: Mapping[str, Callable[[Sequence[Finding]], Iterator[str]]] = {
    "github": _github,
    "sarif": _sarif,
    "json-lines": _json_lines,
}
"""The formats that list findings; of the others one is the report, one the table."""
