"""Names that come from files: no medium lets one through that a terminal would obey, hide or take for a line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto, helper, numpy_helper

import bnfold
from bnfold.cli.commands import main
from bnfold.errors import printable
from tests.strange import held, norm, weight

FORGED = "verified: both models give the same results"
NASTY = f"\x1b[31m\x1b]0;owned\x07\r\n{FORGED}\u2028{FORGED}\n\x00\x7f\x85\x9b31m\u202e\u2066\u200f\u061c\U000e0041[/b]"
"""Colours, a window title, forged lines, C1 and bidirectional controls, tags, and markup of our own tables."""
FILE = NASTY.replace("\x00", "").replace("/", "")


def nasty(name: str) -> str:
    return f"{NASTY}{name}"


def hostile(*, wrong: bool = False) -> onnx.ModelProto:
    """Nasty names wherever a model can have one; two BatchNormalizations fold, one in a branch and one more stay."""
    branch = helper.make_graph(
        [norm("c", nasty("inner"), name=nasty("bn in the branch"))],
        nasty("branch"),
        [],
        [helper.make_tensor_value_info(nasty("inner"), TensorProto.FLOAT, ["N", 3, "H", "W"])],
    )
    nodes = [
        helper.make_node("Conv", ["x", nasty("w")], ["c"], nasty("conv"), nasty("said of it")),
        helper.make_node("If", [nasty("flag")], [nasty("if")], nasty("if"), then_branch=branch, else_branch=branch),
        norm(nasty("if"), nasty("behind"), name=nasty("behind")),
        helper.make_node("Conv", [nasty("behind"), "w2"], ["d"], nasty("last")),
        norm("d", nasty("y"), name=nasty("folds")),
        helper.make_node(nasty("Op"), [nasty("y")], [nasty("z")], nasty("foreign"), domain=nasty("domain")),
    ]
    graph = helper.make_graph(
        nodes,
        nasty("graph"),
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [nasty("N"), 2, "H", "W"]),
            helper.make_tensor_value_info(nasty("flag"), TensorProto.BOOL, []),
        ],
        [
            helper.make_tensor_value_info(nasty("y"), TensorProto.FLOAT, [nasty("N"), 2, "H", "W"]),
            helper.make_tensor_value_info(nasty("z"), TensorProto.FLOAT, None),
        ],
        [
            weight(nasty("w"), 3, 2, 1, 1),
            numpy_helper.from_array(np.full((3, 3, 1, 1), 2.0 if wrong else 1.0, np.float32), "w2"),
            *held(),
        ],
        doc_string=nasty("doc"),
    )
    imports = [helper.make_opsetid("", 13), helper.make_opsetid(nasty("domain"), 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8, producer_name=nasty("producer"))
    helper.set_model_props(model, {nasty("key"): nasty("value")})
    return model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two hostile models, and a file that is no model, under hostile names."""
    models = tmp_path / f"models{FILE}"
    models.mkdir()
    onnx.save(hostile(), models / f"a{FILE}.onnx")
    onnx.save(hostile(wrong=True), models / f"b{FILE}.onnx")
    (models / f"broken{FILE}.onnx").write_bytes(b"no model")
    return models


def assert_clean(text: str) -> None:
    assert {sign for sign in text if not sign.isprintable()} <= {"\n"}
    assert not any(line.startswith(FORGED) for line in text.splitlines())


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(main, list(map(str, arguments)))
    assert not isinstance(result.exception, Exception), result.exception
    assert_clean(result.stdout + result.stderr)
    return result


@pytest.mark.parametrize("command", ["optimize", "fold", "upgrade"])
def test_rewriting_one_model(command: str, folder: Path, tmp_path: Path) -> None:
    model, out = folder / f"a{FILE}.onnx", tmp_path / f"out{FILE}.onnx"
    assert "bn in the branch" in run(command, model, out, "-v").stderr
    document = tmp_path / "report.html"
    assert json.loads(run(command, model, out, "--json", "--report", document).stdout)["batchnorms"]
    assert_clean(document.read_text(encoding="utf-8"))


def test_what_was_not_to_be_left(folder: Path, tmp_path: Path) -> None:
    said = run("fold", folder / f"a{FILE}.onnx", tmp_path / "out.onnx", "--assert-none", "BatchNormalization")
    assert said.exit_code == 4
    assert printable(nasty("bn in the branch")) in said.stderr


def test_inspection(folder: Path, tmp_path: Path) -> None:
    model = folder / f"a{FILE}.onnx"
    assert "bn in the branch" in run("inspect", model).stdout
    page, plain = tmp_path / "report.html", tmp_path / "report.json"
    rows = json.loads(run("inspect", model, "--json", "--report", page).stdout)["batchnorms"]
    assert nasty("bn in the branch") in {row["name"] for row in rows}
    run("inspect", model, "--report", plain)
    assert_clean(page.read_text(encoding="utf-8"))
    assert_clean(plain.read_text(encoding="utf-8"))


def test_the_title_of_a_terminal_is_left_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")
    shown = CliRunner().invoke(main, ["inspect", str(folder / f"a{FILE}.onnx")]).stdout
    assert "\x1b[1m" in shown  # the table's own
    assert "\x1b]" not in shown
    assert not {"\x07", "\x9b", "\u202e", "\r", "\u2028"} & set(shown)


def test_a_verdict(folder: Path) -> None:
    first, second = folder / f"a{FILE}.onnx", folder / f"b{FILE}.onnx"
    assert run("verify", first, second).exit_code == 1
    assert json.loads(run("verify", first, second, "--json").stdout)["status"] == "failed"
    run("verify", first, first)
    run("verify", first, folder / f"broken{FILE}.onnx")


@pytest.mark.parametrize("json_too", [[], ["--json"]])
def test_a_folder(folder: Path, tmp_path: Path, json_too: list[str]) -> None:
    page = tmp_path / "report.html"
    run("optimize", folder, tmp_path / f"out{FILE}", "--jobs", 1, "--report", page, *json_too)
    assert_clean(page.read_text(encoding="utf-8"))
    run("inspect", folder, *json_too)
    run("optimize", folder, tmp_path / f"quiet{FILE}", "--jobs", 1, "-q", *json_too)


@pytest.mark.parametrize("form", ["github", "sarif", "json-lines"])
def test_findings(folder: Path, form: str) -> None:
    (folder / f"gone{FILE}.onnx").symlink_to("nowhere")
    said = run("inspect", folder, "--output-format", form, "--assert-none", "BatchNormalization")
    assert (said.exit_code, "leads nowhere" in said.stdout) == (1, True)


def test_what_cannot_be_done(folder: Path, tmp_path: Path) -> None:
    model = folder / f"a{FILE}.onnx"
    for arguments in (
        ("optimize", folder / f"broken{FILE}.onnx", tmp_path / "out.onnx"),
        ("optimize", folder / f"nobody{FILE}.onnx", tmp_path / "out.onnx"),
        ("optimize", model, tmp_path / "out.onnx", NASTY.replace("\x00", "")),
        ("optimize", model, tmp_path / "out.onnx", f"--{NASTY}"),
        ("optimize", model, tmp_path / "out.onnx", "--only", NASTY),
        ("optimize", model, tmp_path / "out.onnx", "--data", NASTY.replace("\x00", "")),
        ("optimize", model, tmp_path / "out.onnx", "--runtime", NASTY),
        ("optimize", model, model),
        ("optimize", model, tmp_path / "out.onnx", "--input", f"{NASTY}=1,2"),
        ("fold", model, model / "out.onnx"),
        (f"neither{FILE}",),
    ):
        assert run(*arguments).exit_code in (1, 2)


def test_errors_and_events_are_one_line_of_text() -> None:
    twice = hostile()
    twice.graph.node.add(op_type="Relu", name=nasty("relu"), input=["x"], output=[nasty("y")])
    with pytest.raises(bnfold.errors.BnfoldError) as caught:
        bnfold.inspect(twice)
    events = bnfold.inspect(hostile()).report.batchnorms
    for text in map(str, (caught.value, *events)):
        assert text.isprintable()
        assert printable(NASTY) in text


def test_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG", "bnfold"):
        bnfold.optimize(hostile())
    messages = [record.getMessage() for record in caplog.records]
    assert any(printable(nasty("bn in the branch")) in message for message in messages)
    for message in messages:
        assert message.isprintable()


@pytest.mark.skipif(os.name == "nt", reason="file names are text there")
def test_a_file_name_that_is_no_text(tmp_path: Path) -> None:
    """Python holds such bytes as lone surrogates, which no stream and no page could be given."""
    model = Path(os.fsdecode(os.fsencode(tmp_path / f"a{FILE}") + b"\xff.onnx"))
    onnx.save(hostile(), model)
    page = tmp_path / "report.html"
    run("inspect", model, "--report", page)
    assert "\\udcff" in page.read_text(encoding="utf-8")
    assert "\\udcff" in run("inspect", tmp_path).stdout
    run("inspect", model, "--json")


def test_plain_names_stay_as_they_are() -> None:
    for name in ("conv/BatchNorm_1", "Größe", "層 1", r"C:\models\new", "[bold]x[/bold]"):
        assert printable(name) == name
