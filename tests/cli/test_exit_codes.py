"""Which exit code it is if several would do, of one model and of a folder: 1 before 3 before 4."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from bnfold.cli.commands import main
from tests.conftest import MODELS


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    for name in ("a", "b"):
        shutil.copy(MODELS / "bn9.onnx", tmp_path / "models" / f"{name}.onnx")
    return tmp_path / "models"


def code(line: str) -> int:
    return CliRunner().invoke(main, [*line.split(), "--no-verify"]).exit_code


@pytest.mark.parametrize("source", ["models", "models/a.onnx"])
def test_unverified_comes_before_what_is_left(source: str, models: Path) -> None:
    out = "out" if (models.parent / source).is_dir() else "out.onnx"
    assert code(f"optimize {source} {out} --assert-none Conv") == 4
    assert code(f"optimize {source} {out} --assert-none Conv --require-verified --in-place".replace(f" {out}", "")) == 3
    assert code(f"optimize {source} {out} --assert-none Sin") == 0


def test_a_model_that_fails_comes_before_both(models: Path) -> None:
    (models / "broken.onnx").write_bytes(b"no model")
    assert code("optimize models out --assert-none Conv") == 1
    assert code("optimize models more --assert-none Conv --require-verified") == 1


def test_what_no_model_can_take_comes_first_and_what_one_cannot_fails_it(models: Path) -> None:
    (models / "broken.onnx").write_bytes(b"no model")
    assert code("optimize models out --opset 99") == 2
    assert not Path("out").exists()
    (models / "broken.onnx").unlink()
    assert code("optimize models/a.onnx out.onnx --fix-shapes nothere=1") == 2
    assert code("optimize models out --fix-shapes nothere=1") == 1
