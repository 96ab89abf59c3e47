"""A model that grows says so where people look: below the table, in a folder's table, in the report."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner, Result

from bnfold.cli.commands import main
from tests.simplifying.small import model

SHORT = "the weights grew by 99 %, from 4.1 kB to 8.2 kB"
LONG = f"{SHORT}: results of Tile are stored (4.1 kB for 1 node); --max-growth 0 leaves this out"
TILE = "t = Tile (v, times)  y = Add (x, t)"
NUMBERS = "int64[2] times = {512,1}, float[1,2] v = {2,3}, float[1022] w = {" + "1," * 1021 + "1}"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a model that grows from 4,112 to 8,184 bytes, and one that does not."""
    monkeypatch.chdir(tmp_path)
    Path("models").mkdir()
    head = "(float[N,2] x, float[1022] u) => (float[A,B] y, float[1022] z)"
    onnx.save(model(head, f"{TILE}  z = Add (u, w)", NUMBERS), "models/grows.onnx")
    onnx.save(model("(float[N,2] x) => (float[N,2] y)", "y = Relu (x)"), "models/stays.onnx")


def run(line: str) -> Result:
    return CliRunner().invoke(main, line.split())


def test_the_line_below_the_table() -> None:
    told = run("optimize models/grows.onnx out.onnx --no-verify").stderr.splitlines()
    assert f"  note: {LONG}" in told
    assert any(line.startswith("file size ") for line in told)
    assert "grew" not in run("optimize models/grows.onnx out.onnx --no-verify --max-growth 0").stderr
    assert [node.op_type for node in onnx.load("out.onnx").graph.node] == ["Tile", "Add", "Add"]
    assert "grew" not in run("optimize models/stays.onnx out.onnx --no-verify").stderr


def test_the_report() -> None:
    report = json.loads(run("optimize models/grows.onnx out.onnx --no-verify --json").stdout)
    assert report["growth"] == {"folding": 0, "simplifying": 4072, "note": LONG}
    (row,) = [row for row in report["simplified"] if row["operator"] == "Tile"]
    assert (row["growth"], row["saved"]) == (4072, 1)


def test_pages_and_comments_say_the_same() -> None:
    for name, is_said in (("grows", True), ("stays", False)):
        result = run(f"optimize models/{name}.onnx out.onnx --no-verify --report why.html --report why.md")
        assert result.exit_code == 0, result.output
        assert (f"<p>T{LONG[1:]}.</p>" in Path("why.html").read_text(encoding="utf-8")) == is_said
        assert (f"\nT{LONG[1:]}.\n" in Path("why.md").read_text(encoding="utf-8")) == is_said
        assert ("weights grew" in Path("why.html").read_text(encoding="utf-8")) == is_said


def test_the_table_of_a_folder_also_where_all_is_up_to_date() -> None:
    for status in ("unchecked", "skipped"):
        result = run("optimize models out --no-verify")
        grows, stays = sorted(line for line in result.stdout.splitlines() if ".onnx" in line)
        assert status in grows, result.output
        assert SHORT in grows
        assert "grew" not in stays
