"""``--latency``: both models' time in onnxruntime, in the table and in the report."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bnfold.cli import commands, latency
from bnfold.settings import VerifyOptions
from bnfold.verification.runtimes import timing
from tests.conftest import MODELS

SOURCE = MODELS / "dense.onnx"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(commands.main, [str(argument) for argument in arguments])


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr(timing.measure, "__kwdefaults__", {"seconds": 0.01})


def test_the_table_and_the_report(tmp_path: Path) -> None:
    result = run("optimize", SOURCE, tmp_path / "out.onnx", "--latency", "--report", tmp_path / "r.json")
    assert result.exit_code == 0, result.stderr
    assert re.search(
        r"^latency +[\d.]+ ms +[\d.]+ ms  . [\d.]+ in onnxruntime [\d.]+, 1 thread", result.stderr, re.MULTILINE
    )
    assert re.search(r"^file size +[\d.]+ kB +[\d.]+ kB$", result.stderr, re.MULTILINE)
    measured = json.loads((tmp_path / "r.json").read_text())["latency"]
    assert measured["rounds"] >= 5
    assert measured["before"] > 0
    assert measured["after"] > 0
    assert measured["error"] == ""


def test_without_it_nothing_is_measured(tmp_path: Path) -> None:
    result = run("optimize", SOURCE, tmp_path / "out.onnx", "--report", tmp_path / "r.json")
    assert "latency" not in result.stderr
    assert "latency" not in json.loads((tmp_path / "r.json").read_text())


def test_in_place_measures_what_is_overwritten(tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    model.write_bytes(SOURCE.read_bytes())
    result = run("optimize", model, "--in-place", "--latency")
    assert result.exit_code == 0, result.stderr
    assert "pairs of runs" in result.stderr


def test_without_the_runtime(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(latency, "find_spec", lambda _: None)
    result = run("optimize", SOURCE, tmp_path / "out.onnx", "--latency")
    assert result.exit_code == 2
    assert "--latency needs onnxruntime: pip install onnxruntime" in result.stderr
    assert not (tmp_path / "out.onnx").exists()


def test_one_model_only(tmp_path: Path) -> None:
    result = run("optimize", MODELS, tmp_path / "out", "--latency")
    assert (result.exit_code, "--latency measures one ONNX model" in result.stderr) == (2, True)


def test_what_does_not_run_is_told(tmp_path: Path) -> None:
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    assert timing.measure(SOURCE, broken, VerifyOptions()).to_json()["error"]


@pytest.mark.parametrize(("words", "text"), [(["--dry-run"], "--dry-run makes none"), ([], "name one file")])
def test_what_measures_nothing_is_refused(words: list[str], text: str, tmp_path: Path) -> None:
    source = SOURCE if words else MODELS
    result = run("optimize", source, tmp_path / "out", "--latency", *words)
    assert (result.exit_code, text in result.stderr) == (2, True), result.stderr
    assert not (tmp_path / "out").exists()
