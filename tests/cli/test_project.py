"""[tool.bnfold] in pyproject.toml: defaults of the command line, which options on it override."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner, Result

from bnfold.cli.commands import main
from bnfold.cli.project import is_excluded
from tests.conftest import MODELS


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("models/dense.onnx", "models/old/bn9.onnx", "bn9.onnx"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(MODELS / Path(name).name, name)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments])


def write(text: str, path: str = "pyproject.toml") -> None:
    Path(path).write_text(text, encoding="utf-8")


def opset(path: str) -> int:
    return int(onnx.load(path).opset_import[0].version)


def test_its_opset_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    write("[tool.bnfold]\nopset = 17\n")
    monkeypatch.chdir("models")
    assert run("optimize", "dense.onnx", "out.onnx", "--no-verify").exit_code == 0
    assert opset("out.onnx") == 17
    assert run("optimize", "dense.onnx", "out.onnx", "--no-verify", "--opset", "16").exit_code == 0
    assert opset("out.onnx") == 16
    assert run("fold", "dense.onnx", "out.onnx", "--no-verify").exit_code == 0
    assert opset("out.onnx") == opset("dense.onnx")


def test_what_it_forbids_fails() -> None:
    write('[tool.bnfold]\nassert-none = ["Conv", "Relu"]\n')
    assert run("inspect", "bn9.onnx").exit_code == 4
    assert run("inspect", "bn9.onnx", "--assert-none", "Sin").exit_code == 0
    assert "nodes of Conv, Relu remain" in run("inspect", "bn9.onnx", "--as-is", "--assert-none", "--quiet").stderr


def test_without_it_a_bare_option_forbids_batchnormalization() -> None:
    assert run("inspect", "bn9.onnx", "--as-is").exit_code == 0
    result = run("inspect", "--assert-none", "--as-is", "bn9.onnx")
    assert (result.exit_code, "1 BatchNormalization remains" in result.stderr) == (4, True)


def test_what_it_excludes_is_left_out_of_folders_and_of_inspect(monkeypatch: pytest.MonkeyPatch) -> None:
    write('[tool.bnfold]\nexclude = ["old"]\n')
    document = json.loads(run("inspect", "models", "--json").stdout)
    assert [row["input"] for row in document["models"]] == [str(Path("models/dense.onnx"))]
    assert run("optimize", "models", "out", "--no-verify").exit_code == 0
    assert [path.name for path in Path("out").rglob("*.onnx")] == ["dense.onnx"]
    result = run("inspect", "models/old/bn9.onnx", "--assert-none")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "nothing to do: the model is excluded" in result.stderr
    assert run("inspect", "models/old/bn9.onnx", "--assert-none", "--quiet").output == ""
    assert run("optimize", "models/old/bn9.onnx", "out/named.onnx", "--no-verify").exit_code == 0
    assert "all 1 models" not in run("optimize", "models/old", "out2").stderr
    assert not Path("out2").exists()
    assert len(json.loads(run("inspect", "models", "--exclude", "bn9.onnx", "--json").stdout)["models"]) == 1
    monkeypatch.chdir("models")
    assert len(json.loads(run("inspect", ".", "--exclude", "none", "--json").stdout)["models"]) == 2


def test_paths_begin_where_the_file_is(monkeypatch: pytest.MonkeyPatch) -> None:
    write('[tool.bnfold]\nexclude = ["models/old/*"]\n')
    for place, where in ((".", "models"), ("models", ".")):
        monkeypatch.chdir(place)
        assert len(json.loads(run("inspect", where, "--json").stdout)["models"]) == 1


@pytest.mark.parametrize(
    ("pattern", "path", "found"),
    [
        ("old", "a/old/b.onnx", True),
        ("old/", "old/b.onnx", True),
        ("b*.onnx", "a/b1.onnx", True),
        ("b*.onnx", "a/c.onnx", False),
        ("a/old", "a/old/x/b.onnx", True),
        ("a/old", "c/a/old/b.onnx", False),
        ("a/*.onnx", "a/b.onnx", True),
    ],
)
def test_a_pattern(pattern: str, path: str, found: bool) -> None:
    assert is_excluded(path, [pattern]) == found


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[tool.bnfold]\nopsets = 17\n", "unknown key 'opsets'; known are opset, assert-none, exclude"),
        ('[tool.bnfold]\nopset = "new"\n', "opset = 'new': it has to be a number, 'keep' or 'latest'"),
        ("[tool.bnfold]\nopset = true\n", "opset = True: it has to be"),
        ("[tool.bnfold]\nexclude = [1]\n", "exclude = [1]: it has to be a list of patterns"),
        ("[tool.bnfold\n", "is no TOML"),
        ("[tool]\nbnfold = 1\n", "tool.bnfold is no table"),
    ],
)
def test_a_mistake_is_a_usage_error_that_names_the_file_and_the_key(text: str, told: str, folder: Path) -> None:
    write(text)
    result = run("inspect", "bn9.onnx")
    assert result.exit_code == 2
    assert f"{folder / 'pyproject.toml'}: " in result.stderr
    assert told in result.stderr
    assert run("inspect", "--help").exit_code == 0
    assert run("explain", "no-gain").exit_code == 0


def test_a_value_that_no_option_can_have_names_the_file(folder: Path) -> None:
    write("[tool.bnfold]\nopset = 1000\n")
    result = run("inspect", "bn9.onnx")
    assert result.exit_code == 2
    assert f"{folder / 'pyproject.toml'}: [tool.bnfold] opset: " in result.stderr


def test_a_file_without_the_table_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    write("[tool.bnfold]\nopset = 17\n")
    write('[project]\nname = "bnfold-user"\n', "models/pyproject.toml")
    monkeypatch.chdir("models")
    assert run("optimize", "dense.onnx", "out.onnx", "--no-verify").exit_code == 0
    assert opset("out.onnx") == 17
