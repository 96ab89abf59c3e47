"""Reports on disk: the suffix decides, and is judged before any work is done."""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64decode
from pathlib import Path

import pytest
from click.testing import CliRunner

from bnfold.cli import publish
from bnfold.cli.commands import main
from bnfold.errors import BadInput, OutputError
from tests.conftest import MODELS
from tests.report.html.reports import report


def test_the_suffix_chooses_the_form(tmp_path: Path) -> None:
    document = report("bn9.onnx")
    publish.write(str(tmp_path / "x.json"), document)
    publish.write(str(tmp_path / "x.html"), document)
    assert json.loads((tmp_path / "x.json").read_text(encoding="utf-8")) == document
    assert (tmp_path / "x.html").read_text(encoding="utf-8").lstrip().startswith("<!doctype html>")


@pytest.mark.parametrize("name", ["x.txt", "x", "html", "x.HTM"])
@pytest.mark.parametrize("command", ["optimize", "inspect"])
def test_another_suffix_is_a_usage_error_before_any_work(command: str, name: str, tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    paths = [str(MODELS / "bn9.onnx"), *([str(out)] if command == "optimize" else [])]
    result = CliRunner().invoke(main, [command, *paths, "--report", str(tmp_path / name)])
    assert result.exit_code == 2
    assert "neither in .json nor in .html" in result.stderr
    assert not out.exists()


def test_a_missing_template_library_is_told_before_any_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("bnfold.cli.publish.find_spec", lambda _: None)
    out = tmp_path / "out.onnx"
    given = ["optimize", str(MODELS / "bn9.onnx"), str(out), "--report"]
    result = CliRunner().invoke(main, [*given, str(tmp_path / "x.html")])
    assert result.exit_code == 1
    assert "pip install jinja2" in result.stderr
    assert not out.exists()
    with pytest.raises(BadInput):
        publish.require(["x.html"])
    publish.require(["x.json"])
    publish.require([])


def test_a_report_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file", encoding="utf-8")
    with pytest.raises(OutputError, match="cannot be written"):
        publish.write(str(tmp_path / "taken" / "x.json"), report("bn9.onnx"))
    publish.write(str(tmp_path / "made" / "x.json"), report("bn9.onnx"))
    assert (tmp_path / "made" / "x.json").exists()


def test_a_folder_becomes_one_page(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "good.onnx").write_bytes((MODELS / "dense.onnx").read_bytes())
    (folder / "bad.onnx").write_bytes(b"no model")
    result = CliRunner().invoke(main, ["inspect", str(folder), "--report", str(tmp_path / "all.html")])
    assert result.exit_code == 1
    page = (tmp_path / "all.html").read_text(encoding="utf-8")
    assert "2 models" in page
    assert "not an ONNX model" in page
    assert '<details class="row report"' in page
    (bodies,) = re.findall(r'class="packed">([^<]+)<', page)
    (body,) = json.loads(zlib.decompress(b64decode(bodies)))
    assert body.count('<details class="row"') == 8


def test_every_command_says_where_it_wrote_a_report(tmp_path: Path) -> None:
    model, out, page = str(MODELS / "bn15.onnx"), str(tmp_path / "out.onnx"), str(tmp_path / "r.html")
    said = f"wrote the report {page}\n"
    for words in (
        ["fold", model, out],
        ["inspect", model],
        ["inspect", model, model],
        ["verify", model, model],
        ["diff", model, model],
    ):
        result = CliRunner().invoke(main, [*words, "--report", page])
        assert result.exit_code == 0, result.stderr
        assert said in result.stderr
    assert said not in CliRunner().invoke(main, ["inspect", model, "--quiet", "--report", page]).stderr
