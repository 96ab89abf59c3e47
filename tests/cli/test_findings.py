"""`bnfold inspect --output-format`: what other programs read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import onnx
import onnx.parser
import pytest
from click.testing import CliRunner, Result

from bnfold.cli.commands import main
from tests.conftest import MODELS


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("some models").mkdir()
    shutil.copy(MODELS / "dense.onnx", "some models")
    shutil.copy(MODELS / "bn9.onnx", "bn9.onnx")
    Path("broken.onnx").write_bytes(b"no model")
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["inspect", *arguments])


def log(*arguments: str) -> tuple[int, dict[str, Any]]:
    result = run(*arguments, "--output-format", "sarif")
    return result.exit_code, json.loads(result.stdout)


def test_sarif_says_what_stays_and_where() -> None:
    code, found = log("some models")
    (one,) = found["runs"]
    rules, results = one["tool"]["driver"]["rules"], one["results"]
    assert (code, found["version"]) == (0, "2.1.0")
    assert ([rule["id"] for rule in rules], len(results)) == (["shared-value"], 3)
    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in results)
    assert {result["level"] for result in results} == {"note"}
    place = results[0]["locations"][0]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == "some%20models/dense.onnx"
    assert place["logicalLocations"][0]["fullyQualifiedName"] == "node9"
    assert "BatchNormalization 'node9' stays: other nodes read the same value" in results[0]["message"]["text"]


def test_what_is_forbidden_is_an_error_and_so_is_what_cannot_be_read() -> None:
    code, found = log("bn9.onnx", "broken.onnx", "--as-is", "--assert-none", "BatchNormalization")
    told = [(each["ruleId"], each["level"]) for each in found["runs"][0]["results"]]
    assert (code, told) == (1, [("forbidden-operator", "error"), ("not-processed", "error")])
    code, found = log("some models", "--assert-none", "BatchNormalization")
    assert code == 4
    assert {each["level"] for each in found["runs"][0]["results"]} == {"error"}


@pytest.mark.parametrize(
    "arguments", [("some models",), ("bn9.onnx",), ("broken.onnx", "bn9.onnx", "--as-is", "--assert-none")]
)
def test_a_result_of_sarif_names_a_rule_that_is_there_once(arguments: tuple[str, ...]) -> None:
    _, found = log(*arguments)
    (one,) = found["runs"]
    ids = [rule["id"] for rule in one["tool"]["driver"]["rules"]]
    assert len(set(ids)) == len(ids)
    for result in one["results"]:
        assert result["message"]["text"]
        assert ids[result["ruleIndex"]] == result["ruleId"]


def test_a_file_elsewhere_has_a_url(tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other") / "bn15_training.onnx"
    shutil.copy(MODELS / other.name, other)
    (result,) = log(str(other))[1]["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == other.as_uri()


def test_annotations_of_github_are_escaped() -> None:
    shutil.copy(MODELS / "bn15_training.onnx", "a,b%.onnx")
    (line,) = run("a,b%.onnx", "--output-format", "github").stdout.splitlines()
    assert line.startswith("::notice file=a%2Cb%25.onnx,title=bnfold training-mode::BatchNormalization 'node2' stays: ")
    (line,) = run("bn9.onnx", "--as-is", "--assert-none", "--output-format=github").stdout.splitlines()
    assert line == (
        "::error file=bn9.onnx,title=bnfold forbidden-operator::'node2' remains, and --assert-none forbids it"
    )


def test_json_lines_and_json() -> None:
    first, _, _ = map(json.loads, run("some models", "--output-format", "json-lines").stdout.splitlines())
    assert first["path"] == str(Path("some models", "dense.onnx"))
    assert (first["level"], first["code"], first["node"]) == ("note", "shared-value", "node9")
    assert json.loads(run("bn9.onnx", "--output-format", "json").stdout)["batchnorms"]
    assert run("bn9.onnx", "--output-format", "json-lines").stdout == ""


def test_formats_that_contradict_each_other_or_standard_input() -> None:
    result = run("bn9.onnx", "--json", "--output-format", "sarif")
    assert (result.exit_code, "contradict each other" in result.stderr) == (2, True)
    assert run("-", "--output-format", "sarif").exit_code == 2


def test_a_model_that_a_runtime_does_not_load_is_said_in_every_format_and_with_quiet() -> None:
    body = "g (float[2] x) => (float[2] y) { y = Nowhere (x) }"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 15]> {body}'), "unknown.onnx")
    asked = ("unknown.onnx", "bn9.onnx", "--runtime", "onnxruntime")
    _, found = log(*asked)
    told = [(each["ruleId"], each["level"], each["message"]["text"]) for each in found["runs"][0]["results"]]
    assert [(rule, level) for rule, level, _ in told] == [("not-loaded", "error")]
    assert "does not load the model" in told[0][2]
    assert "title=bnfold not-loaded::onnxruntime" in run(*asked, "--output-format", "github").stdout
    for models in (asked, (asked[0], *asked[2:])):
        (line,) = run(*models, "--quiet").output.splitlines()
        assert line.startswith("unknown.onnx: onnxruntime ")
        assert "does not load the model" in line
    assert not run("bn9.onnx", "--runtime", "onnxruntime", "--quiet").output
