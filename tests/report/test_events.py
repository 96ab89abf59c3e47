"""The JSON form: one schema, which every report keeps, and the names that others build on."""

from __future__ import annotations

import hashlib
import json
import shutil
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from bnfold import Options, inspect
from bnfold.cli.commands import main
from bnfold.report import rewrites
from bnfold.report.events import Report
from bnfold.report.html.model_page import as_model
from bnfold.report.other_events import SimplifyEvent
from bnfold.report.reasons import Reason
from tests.conftest import MODELS
from tests.report.html.reports import failing_report, report


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(
        files("bnfold.report").joinpath("report.schema.json").read_text(encoding="utf-8")
    )
    Draft202012Validator.check_schema(loaded)
    return loaded


@pytest.mark.parametrize("model", sorted(path.name for path in MODELS.glob("*.onnx")))
def test_every_model_s_report_keeps_the_schema(model: str, schema: dict[str, Any]) -> None:
    Draft202012Validator(schema).validate(report(model))


@pytest.mark.parametrize(
    "document", [report("dense.onnx", verified=True), failing_report()], ids=["verified", "failed"]
)
def test_verdicts_keep_the_schema(document: dict[str, Any], schema: dict[str, Any]) -> None:
    assert document["verify"] is not None
    Draft202012Validator(schema).validate(document)


def test_the_schema_is_strict(schema: dict[str, Any]) -> None:
    document = report("bn9.onnx")
    document["batchnorms"][0]["surprise"] = 1
    assert not Draft202012Validator(schema).is_valid(document)
    del document["batchnorms"][0]["surprise"], document["seed"]
    assert not Draft202012Validator(schema).is_valid(document)


def test_a_folder_s_report_keeps_the_schema(tmp_path: Path, schema: dict[str, Any]) -> None:
    (tmp_path / "good.onnx").write_bytes((MODELS / "bn9.onnx").read_bytes())
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    result = CliRunner().invoke(main, ["inspect", str(tmp_path), "--json"])
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    batch = Draft202012Validator(schema).evolve(schema=schema["$defs"]["batch"])
    batch.validate(document)
    assert not batch.is_valid({**document, "models": [{**document["models"][0], "report": {}}]})
    assert {Path(model["input"]).name: model["status"] for model in document["models"]} == {
        "good.onnx": "inspected",
        "bad.onnx": "failed",
    }


def test_the_names_that_others_build_on() -> None:
    document = report("dense.onnx", verified=True)
    assert document["schema"] == "bnfold-report/1"
    assert {
        "input",
        "output",
        "opset",
        "batchnorms",
        "repairs",
        "names",
        "verify",
        "options",
        "seed",
        "versions",
    } <= set(document)
    assert set(document["opset"]) == {"before", "after"}
    assert set(document["names"]) == {"removed", "renamed"}
    assert {"name", "graph", "version", "mode", "verdict", "into", "reason"} <= set(document["batchnorms"][0])
    assert len(document["input"]["sha256"]) == 64


@pytest.mark.parametrize("how", ["path", "link"])
@pytest.mark.parametrize("name", ["resnet_opset6.onnx", "external.onnx"])
def test_the_report_is_about_the_model_that_was_there_before(tmp_path: Path, name: str, how: str) -> None:
    """Its file and its data are gone by the time when the report is written."""
    for part in MODELS.glob(f"{name}*"):
        shutil.copy(part, tmp_path)
    source = output = tmp_path / name
    if how != "path":
        output = tmp_path / "other.onnx"
        output.symlink_to(source)
    documents = []
    for target, *options in ([tmp_path / "elsewhere.onnx"], [output, "--in-place"]):
        line = [str(word) for word in ("optimize", source, target, *options, "--json", "-q", "--no-verify")]
        result = CliRunner().invoke(main, line)
        assert result.exit_code == 0, result.output
        documents.append({**json.loads(result.stdout), "seconds": None})
    elsewhere, in_place = documents
    assert in_place.pop("output")["sha256"] == hashlib.sha256(output.read_bytes()).hexdigest()
    del elsewhere["output"]
    assert in_place == elsewhere


def test_a_fold_says_which_way_it_went_and_who_took_it() -> None:
    rows = {row["name"]: row for row in report("dense.onnx")["batchnorms"]}
    folded = rows["node5"]
    assert (folded["verdict"], folded["into"], folded["operators"]) == ("folded", ["node4"], ["Conv"])
    assert folded["search"] == [{"direction": "up", "passed": ["node4"], "stopped_at": "", "reason": None}]


def test_what_is_left_says_how_far_both_directions_came() -> None:
    rows = [row for row in report("dense.onnx")["batchnorms"] if row["reason"]]
    assert rows
    for row in rows:
        assert [attempt["direction"] for attempt in row["search"]] == ["up", "down"]
        assert row["reason"]["code"] in {attempt["reason"]["code"] for attempt in row["search"]}
    down = rows[0]["search"][1]
    assert (down["stopped_at"], down["reason"]["code"]) == ("node10", "negative-scale")


def test_nothing_is_explained_unless_a_report_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("explained")

    monkeypatch.setattr("bnfold.pipeline.explain.explain", never)
    outcome = inspect(MODELS / "dense.onnx", options=Options())
    assert len(outcome.report.batchnorms) == 8
    with pytest.raises(AssertionError, match="explained"):
        outcome.to_json()


@pytest.mark.parametrize("reason", Reason)
def test_codes_are_stable_names_and_lead_back(reason: Reason) -> None:
    assert Reason.of(reason.code) is reason
    assert reason.code == reason.code.lower()


def test_the_terminal_and_the_page_count_simplifications_alike() -> None:
    rare, often = rewrites.MATMUL_ADD, rewrites.NEUTRAL.of("Mul")
    events = [SimplifyEvent(rewrite, "n", "", "Identity", "x") for rewrite in (rare, often, often)]
    made = Report(simplified=events, lifted=3, folding=[rewrites.FOLD])
    rows = as_model(made.to_json()).rewrites
    titles = ["Constant → initializer", "Mul without effect", "BatchNormalization folded", "MatMul + Add → Gemm"]
    assert [(row["title"], row["count"], row["bitwise"]) for row in rows] == [
        *zip(titles, (3, 2, 1, 1), (True, True, False, False), strict=True)
    ]
    assert made.simplifications(most=2) == "Constant → initializer ×3, Mul without effect ×2, 1 more kind"  # noqa: RUF001
    assert as_model(Report().to_json()).rewrites == []


def test_conversions_are_rewrites_of_their_operator() -> None:
    row = {"operator": "Celu", "as_is": 3, "respelled": 1, "spelled_out": 2, "added": 4}
    made = [(each.rewrite.name, each.count) for each in Report(conversion=[row]).rewrites]
    assert made == [("decompose-celu", 2), ("convert-celu", 1)]
