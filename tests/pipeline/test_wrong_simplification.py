"""A simplification that is wrong, which is a bug, costs its own work alone."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import bnfold
from bnfold import ir
from bnfold.errors import VerificationFailed
from bnfold.ir.shapes.arithmetic import Proven
from bnfold.pipeline import passes
from bnfold.pipeline.context import PassContext
from bnfold.simplifying import driver
from bnfold.simplifying.plan import LeaveOut, Plan


def leave_out(patch: pytest.MonkeyPatch, operator: str, title: str) -> None:
    """Let nodes that have an effect be left out."""

    def find(node: ir.Node, _: Proven) -> Plan | None:
        source = node.input(0)
        return LeaveOut(title, node, source) if source is not None else None

    patch.setattr(driver, "FINDERS", {**driver.FINDERS, operator: find})


def saved(path: Path, body: str) -> Path:
    text = f"""<ir_version: 8, opset_import: ["" : 17]> g (float[1,2,4,4] x) => (float[1,2,4,4] y)
        <float[2,2,1,1] w = {{1,2,3,4}}, float[2] s = {{2,3}}, float[2] b = {{1,2}}> {{ {body} }}"""
    onnx.save(onnx.parser.parse_model(text), path)
    return path


BODY = "i = Identity (x) c = Conv (i, w) n = BatchNormalization (c, s, b, b, s) y = Elu (n)"


def kinds(path: Path) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


def test_the_wrong_one_is_left_out_and_the_others_are_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_out(monkeypatch, "Elu", "wrong")
    outcome = bnfold.optimize(saved(tmp_path / "a.onnx", BODY), tmp_path / "b.onnx")
    assert outcome.status == "verified"
    assert kinds(tmp_path / "b.onnx") == ["Conv", "Elu"]
    assert {event.rewrite for event in outcome.report.simplified} == {"Identity"}
    (note,) = [note for note in outcome.report.notes if "bug" in note]
    assert note == "left out, because the result differed: 'wrong'. This is a bug in bnfold; please report it"


def test_without_any_if_two_are_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_out(monkeypatch, "Elu", "wrong")
    leave_out(monkeypatch, "Tanh", "as wrong")
    source = saved(tmp_path / "a.onnx", BODY.replace("y = Elu (n)", "t = Tanh (n) y = Elu (t)"))
    outcome = bnfold.optimize(source, tmp_path / "b.onnx")
    assert outcome.status == "verified"
    assert kinds(tmp_path / "b.onnx") == ["Identity", "Conv", "Tanh", "Elu"]
    assert any("'wrong'" in note and "'as wrong'" in note and "'Identity'" in note for note in outcome.report.notes)


def test_what_is_wrong_without_simplification_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def change(run: PassContext) -> None:
        (node,) = (node for node in run.model.nodes() if node.is_op("Elu"))
        node.set_op_type("Selu")

    monkeypatch.setattr(passes, "PASSES", (*passes.PASSES[:-1], change))
    with pytest.raises(VerificationFailed):
        bnfold.optimize(saved(tmp_path / "a.onnx", BODY), tmp_path / "b.onnx")
    assert not (tmp_path / "b.onnx").exists()
