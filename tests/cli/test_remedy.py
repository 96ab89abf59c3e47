"""What helps against operators that --assert-none forbids: only what was tried."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bnfold.cli.commands import main
from tests.conftest import MODELS

GATE = ("--as-is", "--assert-none")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments)])


@pytest.fixture(autouse=True)
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("many").mkdir()
    for name in ("bn9", "dense", "bn15_training"):
        shutil.copy(MODELS / f"{name}.onnx", tmp_path)
    shutil.copy(MODELS / "bn9.onnx", "many/a b.onnx")
    shutil.copy(MODELS / "bn14.onnx", "many/c.onnx")
    return tmp_path


@pytest.mark.parametrize(
    ("model", "operators", "said"),
    [
        ("bn9.onnx", "BatchNormalization", "`bnfold optimize bn9.onnx OUT` leaves none"),
        ("dense.onnx", "BatchNormalization", "`bnfold optimize dense.onnx OUT --decompose remaining` leaves none"),
        (
            "bn15_training.onnx",
            "Conv,BatchNormalization",
            "`bnfold optimize bn15_training.onnx OUT --decompose remaining` leaves 1 of the 2",
        ),
        ("bn9.onnx", "Relu", ""),
        ("bn9.onnx", "Relu,BatchNormalization", "`bnfold optimize bn9.onnx OUT` leaves 1 of the 2"),
    ],
)
def test_only_what_was_tried_is_named(model: str, operators: str, said: str) -> None:
    result = run("inspect", model, *GATE, operators)
    assert result.exit_code == 4
    hints = [line.strip() for line in result.stderr.splitlines() if "`bnfold optimize" in line]
    assert hints == ([said] if said else [])
    assert "`bnfold optimize" not in run("inspect", model, *GATE, operators, "--quiet").stderr


@pytest.mark.parametrize(("operators", "helps"), [("BatchNormalization", True), ("Relu", False)])
def test_of_a_folder_the_first_model_is_tried(operators: str, helps: bool) -> None:
    result = run("inspect", "many", *GATE, operators)
    assert result.exit_code == 4
    assert ("`bnfold optimize 'many/a b.onnx' OUT` leaves none" in result.stderr) is helps
    assert not list(Path("many").glob("OUT*"))


@pytest.mark.parametrize(("operators", "shows"), [("BatchNormalization", True), ("Relu", False)])
def test_inspect_is_named_where_it_has_a_reason(operators: str, shows: bool) -> None:
    shutil.copy("bn15_training.onnx", "many/d.onnx")
    result = run("optimize", "many", "out", "--no-verify", "--assert-none", operators, "--jobs", 1)
    assert result.exit_code == 4
    assert ("`bnfold inspect many/d.onnx` shows why" in result.stderr) is shows
