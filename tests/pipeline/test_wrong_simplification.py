"""A simplification that is wrong, which is a bug, costs its own work alone."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

import bnfold
from bnfold import ir
from bnfold.analysis.shapes.arithmetic import Proven
from bnfold.cli.commands import main
from bnfold.errors import VerificationFailed
from bnfold.pipeline import passes
from bnfold.pipeline.context import PassContext
from bnfold.report.rewrites import NAMED, Rewrite
from bnfold.simplifying import driver
from bnfold.simplifying.plan import Simplification, bypass


def leave_out(patch: pytest.MonkeyPatch, operator: str, title: str) -> None:
    """Let nodes that have an effect be left out."""

    def find(node: ir.Node, _: Proven) -> Simplification | None:
        return bypass(Rewrite(title, title.title(), ""), node, node.input(0))

    patch.setitem(NAMED, title, Rewrite(title, title.title(), ""))
    patch.setattr(driver, "FINDERS", {**driver.FINDERS, operator: (find,)})


def saved(path: Path, body: str) -> Path:
    text = f"""<ir_version: 8, opset_import: ["" : 17]> g (float[1,2,4,4] x) => (float[1,2,4,4] y)
        <float[2,2,1,1] w = {{1,2,3,4}}, float[2] s = {{2,3}}, float[2] b = {{1,2}}> {{ {body} }}"""
    onnx.save(onnx.parser.parse_model(text), path)
    return path


def in_this_process(*_: object, **__: object) -> ThreadPoolExecutor:
    """What is patched is there in this process only."""
    return ThreadPoolExecutor(1)


BODY = "i = Identity (x) c = Conv (i, w) n = BatchNormalization (c, s, b, b, s) y = Elu (n)"


def kinds(path: Path) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


WRONG = "as-wrong gives a wrong result for this model. It was left out. This is a bug in bnfold; please report it"


def test_the_wrong_one_is_left_out_and_the_others_are_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    leave_out(monkeypatch, "Elu", "as-wrong")
    outcome = bnfold.optimize(saved(tmp_path / "a.onnx", BODY), tmp_path / "b.onnx")
    assert outcome.status == "verified"
    assert kinds(tmp_path / "b.onnx") == ["Conv", "Elu"]
    assert {event.rewrite.name for event in outcome.report.simplified} == {"remove-identity"}
    assert [rewrite.name for rewrite in outcome.report.wrong_rewrites] == ["as-wrong"]
    assert outcome.to_json()["wrong_rewrites"] == [{"name": "as-wrong", "title": "As-Wrong"}]
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert record.getMessage() == f"the rewrite {WRONG}"


def test_without_any_if_two_are_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_out(monkeypatch, "Elu", "wrong")
    leave_out(monkeypatch, "Tanh", "as-wrong")
    source = saved(tmp_path / "a.onnx", BODY.replace("y = Elu (n)", "t = Tanh (n) y = Elu (t)"))
    outcome = bnfold.optimize(source, tmp_path / "b.onnx")
    assert outcome.status == "verified"
    assert kinds(tmp_path / "b.onnx") == ["Identity", "Conv", "Tanh", "Elu"]
    names = {rewrite.name for rewrite in outcome.report.wrong_rewrites}
    assert names == {"wrong", "as-wrong", "remove-identity"}


def test_a_right_model_has_none(tmp_path: Path) -> None:
    outcome = bnfold.optimize(saved(tmp_path / "a.onnx", BODY), tmp_path / "b.onnx")
    assert outcome.to_json()["wrong_rewrites"] == []


@pytest.mark.parametrize("options", [[], ["-q"], ["--json"], ["-q", "--require-verified"]])
def test_the_command_line_says_so_and_ends_in_0(
    options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_out(monkeypatch, "Elu", "as-wrong")
    source, target = saved(tmp_path / "a.onnx", BODY), tmp_path / "b.onnx"
    result = CliRunner().invoke(main, ["optimize", str(source), str(target), *options])
    assert result.exit_code == 0
    wanted = f"error: the rewrite {WRONG.replace('as-wrong', 'as-wrong (As-Wrong)')}"
    assert result.stderr.splitlines().count(wanted) == 1
    assert kinds(target) == ["Conv", "Elu"]
    if "-q" in options:
        assert result.stderr == f"{wanted}\n"
    if "--json" in options:
        document = json.loads(result.stdout)
        assert document["wrong_rewrites"] == [{"name": "as-wrong", "title": "As-Wrong"}]
        schema = json.loads(files("bnfold.report").joinpath("report.schema.json").read_text(encoding="utf-8"))
        Draft202012Validator(schema).validate(document)


def test_the_page_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_out(monkeypatch, "Elu", "as-wrong")
    source, page = saved(tmp_path / "a.onnx", BODY), tmp_path / "why.html"
    CliRunner().invoke(main, ["optimize", str(source), str(tmp_path / "b.onnx"), "--report", str(page)])
    assert "The rewrite “As-Wrong” (as-wrong) was left out" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("options", [[], ["-q"], ["--json"]])
def test_a_folder_says_so_in_every_run(options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second run finds the result up to date; other models are not named."""
    leave_out(monkeypatch, "Elu", "as-wrong")
    monkeypatch.setattr("bnfold.batch.scheduler.ProcessPoolExecutor", in_this_process)
    (tmp_path / "models").mkdir()
    source = saved(tmp_path / "models" / "a.onnx", BODY)
    saved(tmp_path / "models" / "b.onnx", BODY.replace("Elu", "Relu"))
    for _ in range(2):
        result = CliRunner().invoke(main, ["optimize", str(source.parent), str(tmp_path / "out"), *options])
        assert result.exit_code == 0, result.output
        (line,) = [line for line in result.stderr.splitlines() if "wrong result" in line]
        assert line == f"error: {source}: the rewrite {WRONG.replace('as-wrong', 'as-wrong (As-Wrong)')}"


def test_what_is_wrong_without_simplification_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def change(run: PassContext) -> None:
        (node,) = (node for node in run.model.nodes() if node.is_op("Elu"))
        node.set_op_type("Selu")

    monkeypatch.setattr(passes, "PASSES", (*passes.PASSES[:-1], change))
    with pytest.raises(VerificationFailed):
        bnfold.optimize(saved(tmp_path / "a.onnx", BODY), tmp_path / "b.onnx")
    assert not (tmp_path / "b.onnx").exists()
