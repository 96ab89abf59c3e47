"""action.yml and the pre-commit hook: their steps run as GitHub and pre-commit run them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

from tests.conftest import MODELS, ROOT


def step(folder: Path, **given: str) -> tuple[int, str, str]:
    """The exit code, the annotations and the job summary of the action's last step, run by bash."""
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    inputs = {name.upper().replace("-", "_"): value.get("default", "") for name, value in action["inputs"].items()}
    last = action["runs"]["steps"][-1]
    assert set(last["env"]) - {"CHECKOUT"} <= set(inputs)
    page = folder / "summary.md"
    named = {**inputs, "CHECKOUT": str(ROOT), "GITHUB_STEP_SUMMARY": str(page), **given}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    ran = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", last["run"]],
        cwd=folder,
        env={**os.environ, **named, "PATH": path},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    return ran.returncode, ran.stdout, page.read_text(encoding="utf-8")


def test_a_good_model_is_optimized_and_the_summary_has_the_table(tmp_path: Path) -> None:
    shutil.copy(MODELS / "bn9.onnx", tmp_path / "model.onnx")
    code, told, page = step(tmp_path, COMMAND="optimize", MODEL="model.onnx", OUTPUT="out.onnx")
    assert (code, told) == (0, "")
    assert (tmp_path / "out.onnx").exists()
    assert (tmp_path / "bnfold-report.html").exists()
    assert "| BatchNormalization | 1 | 0 |" in page
    assert "verified: " in page


def test_a_check_names_the_file_and_the_node(tmp_path: Path) -> None:
    shutil.copy(MODELS / "bn9.onnx", tmp_path / "model.onnx")
    code, told, page = step(tmp_path, COMMAND="check", MODEL="model.onnx", REPORT="")
    assert code == 4
    assert told.startswith("::error file=model.onnx,title=bnfold::forbidden nodes that remain: 1%0A")
    assert "**Failed:** forbidden nodes" in page


def test_a_check_wants_an_opset(tmp_path: Path) -> None:
    shutil.copy(MODELS / "in1.onnx", tmp_path / "model.onnx")
    code, told, _ = step(tmp_path, COMMAND="check", MODEL="model.onnx", REPORT="", LEAST_OPSET="13")
    assert code == 1
    assert "opset 1, and 13 was asked for" in told


def test_a_broken_model_is_an_annotation(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"no model")
    code, told, page = step(tmp_path, COMMAND="check", MODEL="model.onnx", REPORT="")
    assert code == 1
    assert "not an ONNX model" in told
    assert "not an ONNX model" in page


def test_the_hook_fails_where_a_model_has_one(tmp_path: Path) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    command = [sys.executable, "-P", "-m", *hook["entry"].split(), *hook["args"]]
    shutil.copy(MODELS / "in1.onnx", tmp_path / "none.onnx")
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 0
    shutil.copy(MODELS / "bn9.onnx", tmp_path / "one.onnx")
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 4
