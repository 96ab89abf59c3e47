"""The functions of the public interface for folders."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

import bnfold
from bnfold.errors import BadCommand, BadInput, BadSetting, WrongUsage
from tests.conftest import MODELS, ROOT

NOTHING = bnfold.VerifyOptions(depth="none")


@pytest.fixture(autouse=True)
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models" / "deep").mkdir(parents=True)
    shutil.copy(MODELS / "bn9.onnx", "models/a.onnx")
    shutil.copy(MODELS / "bn14.onnx", "models/deep/b.onnx")
    return tmp_path


def test_a_folder_is_optimized_as_its_models_are() -> None:
    told: list[tuple[str, int, int]] = []
    results = bnfold.optimize_folder("models", "out", progress=lambda *step: told.append(step))
    assert results
    assert [row.status for row in results.models] == ["verified", "verified"]
    assert [(row.counts.before, row.counts.after) for row in results.models if row.counts] == [(1, 0), (1, 0)]
    assert all(row.verdict and row.seconds > 0 and row.bytes_before and row.bytes_after for row in results.models)
    assert told == [("models", 0, 2), ("models", 1, 2), ("models", 2, 2)]
    bnfold.optimize("models/a.onnx", "alone.onnx")
    assert Path("out/a.onnx").read_bytes() == Path("alone.onnx").read_bytes()
    again = bnfold.optimize_folder(Path("models"), Path("out"))
    assert [row.status for row in again.models] == ["skipped", "skipped"]
    assert again
    assert [row.counts for row in again.models] == [row.counts for row in results.models]
    assert [row.bytes_after for row in again.models] == [row.bytes_after for row in results.models]
    forced = bnfold.optimize_folder("models", "out", verify=NOTHING, force=True)
    assert [row.status for row in forced.models] == ["unchecked", "unchecked"]


def test_options_are_those_of_one_model() -> None:
    kept = bnfold.optimize_folder("models", "kept", target_opset="keep", fold=False, verify=NOTHING)
    assert [row.counts.after for row in kept.models if row.counts] == [1, 1]
    with pytest.raises(BadSetting):
        bnfold.optimize_folder("models", "out", target_opset=99)
    with pytest.raises(BadSetting, match="jobs"):
        bnfold.verify_folders("models", "models", jobs=0)
    with pytest.raises(WrongUsage):
        bnfold.optimize_folder("models", "models")
    with pytest.raises(BadInput):
        bnfold.optimize_folder("nowhere", "out")


def test_several_processes_find_the_same() -> None:
    alone, together = (bnfold.optimize_folder("models", f"out{jobs}", verify=NOTHING, jobs=jobs) for jobs in (1, 2))
    assert [row.counts for row in alone.models] == [row.counts for row in together.models]


def test_one_model_that_fails_makes_the_result_false() -> None:
    Path("models/c.onnx").write_text("no model", encoding="utf-8")
    results = bnfold.optimize_folder(["models/*.onnx", "models/deep"], "out", verify=NOTHING)
    assert not results
    assert [row.status for row in results.models] == ["unchecked", "failed", "unchecked"]
    assert repr(results).splitlines()[1].startswith("  models/c.onnx: failed: ")


def test_folders_are_compared_in_pairs() -> None:
    bnfold.optimize_folder("models", "out", verify=NOTHING)
    results = bnfold.verify_folders("models", "out")
    assert results
    assert [row.verdict.status for row in results.models if row.verdict] == ["verified", "verified"]
    assert bnfold.verify_folders("models", "out", tolerance=0.01, options=bnfold.VerifyOptions(samples=2))
    Path("out/a.onnx").unlink()
    alone = bnfold.verify_folders("models", "out")
    assert not alone
    assert (alone.models[0].source, alone.models[0].status) == ("models/a.onnx", "failed")


def test_a_tool_runs_on_a_folder() -> None:
    results = bnfold.run_folder("models", "copies", ["cp", "{input}", "{output}"])
    assert results
    assert Path("copies/deep/b.onnx").is_file()
    with pytest.raises(BadCommand):
        bnfold.run_folder("models", "copies", ["cp", "{input}"])


def test_a_folder_is_inspected() -> None:
    results = bnfold.inspect_folder("models", target_opset="keep")
    assert results
    assert [(row.status, row.bytes_after) for row in results.models] == [("inspected", None)] * 2


def test_the_report_of_a_folder_is_as_the_schema_says() -> None:
    schema = json.loads((ROOT / "bnfold" / "report" / "report.schema.json").read_text(encoding="utf-8"))
    for results in (bnfold.optimize_folder("models", "out"), bnfold.verify_folders("models", "out")):
        document = json.loads(json.dumps(results.to_json()))
        Draft202012Validator(schema).evolve(schema=schema["$defs"]["batch"]).validate(document)
        assert document["counts"] == {"verified": 2}


def test_the_text_of_a_large_folder_fits_a_screen() -> None:
    rows = tuple(bnfold.FileResult(f"{number}.onnx", None, "inspected") for number in range(100))
    lines = repr(bnfold.FolderResult(rows)).splitlines()
    assert len(lines) < 24
    assert lines[-1] == "  and 80 more"
