"""`bnfold inspect --runtime` says whether a model loads: on the terminal, of a folder, and in JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import onnx
import onnxruntime
import pytest
from click.testing import CliRunner, Result

from bnfold.cli.commands import main
from bnfold.verification.runtimes.runtime import RuntimeProcess

VERSION = f"onnxruntime {onnxruntime.__version__}"
MODELS = {
    "good": "(float[2] x) => (float[2] y) { y = Abs (x) }",
    "bad": "(float[2] x) => (float16[2] y) { y = Abs (x) }",
}


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, body in MODELS.items():
        onnx.save(
            onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g {body}'), tmp_path / f"{name}.onnx"
        )
    return tmp_path


def test_whether_one_model_loads_and_why_not(folder: Path) -> None:
    assert f"{VERSION} loads the model" in run("inspect", folder / "good.onnx", "--runtime", "onnxruntime").stderr
    bad = run("inspect", folder / "bad.onnx", "--runtime", "onnxruntime")
    assert bad.exit_code == 0
    assert f"{VERSION} does not load the model: Type Error: Type (tensor(float16))" in bad.stderr


def test_of_a_folder_each_row_says_so(folder: Path) -> None:
    told = " ".join(run("inspect", folder, "--runtime", "onnxruntime").stdout.split())
    assert f"{VERSION} loads the model" in told
    assert f"{VERSION} does not load the model" in told


@pytest.mark.parametrize(("name", "loads"), [("good", True), ("bad", False)])
def test_programs_get_it_as_json(folder: Path, name: str, loads: bool) -> None:
    document = json.loads(run("inspect", folder / f"{name}.onnx", "--runtime", "onnxruntime", "--json").stdout)
    assert document["runtime"]["name"] == VERSION
    assert (document["runtime"]["loads"], document["runtime"]["reason"] == "") == (loads, loads)


def test_nobody_is_asked_by_default(folder: Path) -> None:
    assert "runtime" not in json.loads(run("inspect", folder / "bad.onnx", "--json").stdout)
    assert VERSION not in run("optimize", folder / "good.onnx", folder / "out.onnx", "--dry-run").stderr


def test_a_runtime_that_cannot_look_says_nothing_about_the_model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = folder / "python"
    absent.write_text(f"#!{sys.executable}\nimport sys; sys.stdin.buffer.readline(); sys.exit('no room')\n")
    absent.chmod(0o755)
    monkeypatch.setattr(RuntimeProcess.__init__, "__defaults__", (str(absent),))
    document = json.loads(run("inspect", folder / "good.onnx", "--runtime", "onnxruntime", "--json").stdout)
    assert document["runtime"] == {"name": "onnxruntime", "loads": None, "reason": "ended with code 1: no room"}
