"""What a person reads: a plain sentence first, names of what it is about, and numbers that stay whole."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
import onnx
import pytest
from click.testing import CliRunner

from bnfold.cli import before_after, tables, terminal
from bnfold.cli.commands import main
from bnfold.report.events import BatchNormEvent, Report
from bnfold.report.reasons import Declined, Reason
from bnfold.verification.codes import Code
from bnfold.verification.verdict import TOO_FAR, OutputRow, Verdict
from tests.conftest import MODELS

HEAD = "g (float[1,2,4,4] x) => (float[1,2,4,4] y)"
PARAMETERS = ", ".join(f"float[2] {name} = {{1, 2}}" for name in "sbmv")
NORM = "BatchNormalization"


def model(folder: Path, body: str) -> Path:
    stored = f"<{PARAMETERS}>" if NORM in body else ""
    text = f'<ir_version: 8, opset_import: ["": 18]> {HEAD} {stored} {{ {body} }}'
    proto = onnx.parser.parse_model(text)
    for number, node in enumerate(proto.graph.node):
        node.name = f"/b4/{node.op_type}" if node.op_type == NORM else f"/b4/{node.op_type}_{number}"
    onnx.save(proto, folder / "m.onnx")
    return folder / "m.onnx"


def run(*arguments: object) -> click.testing.Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.mark.parametrize(
    ("body", "short", "long"),
    [
        (
            f"a = Sigmoid (x) n = {NORM} (a, s, b, m, v) y = Tanh (n)",
            "neither Sigmoid nor Tanh can absorb it [no-handler]",
            "neither Sigmoid '/b4/Sigmoid_0' nor Tanh '/b4/Tanh_2' can absorb it",
        ),
        (
            f"a = Sigmoid (x) n = {NORM} (a, s, b, m, v) y = Sigmoid (n)",
            "no Sigmoid beside it can absorb it [no-handler]",
            "neither Sigmoid '/b4/Sigmoid_0' nor Sigmoid '/b4/Sigmoid_2' can absorb it",
        ),
        (
            f"y = {NORM} (x, s, b, m, v)",
            "neither the graph input 'x' nor the graph output 'y' can absorb it [graph-input]",
            "neither the graph input 'x' nor the graph output 'y' can absorb it",
        ),
        (
            f"n = {NORM} (x, s, b, m, v) y = Mish (n)",
            "neither the graph input 'x' nor Mish can absorb it [no-handler]",
            (
                "neither the graph input 'x' nor Mish '/b4/Mish_1' can absorb it "
                "(Mish '/b4/Mish_1' has no factor for which f(s·x) is s·f(x))"
            ),
        ),
        (
            f"a = Sigmoid (x) n = {NORM} (a, x, b, m, v) y = Tanh (n)",
            (
                "a parameter is a graph input, or computed by nodes that bnfold does not evaluate "
                "(value 'x' is an input) [dynamic-parameters]"
            ),
            "value 'x' is an input",
        ),
    ],
)
def test_a_reason_names_what_is_left_and_what_is_in_the_way(body: str, short: str, long: str, tmp_path: Path) -> None:
    path = model(tmp_path, body)
    result = run("inspect", path)
    assert f"  1 left: /b4/{NORM}: {short}\n" in result.stderr
    (row,) = [line for line in result.stdout.splitlines() if line.startswith(f"/b4/{NORM}")]
    assert long in row
    assert f"  1 left: /b4/{NORM}: {short}\n" in run("optimize", path, tmp_path / "o.onnx", "--no-verify").stderr
    assert long in run("optimize", path, tmp_path / "o.onnx", "--no-verify", "-v").stderr
    (event,) = json.loads(run("inspect", path, "--json").stdout)["batchnorms"]
    assert event["reason"]["detail"] == long


def test_every_refusal_of_a_search_names_a_node_or_a_value() -> None:
    document = json.loads(run("inspect", MODELS / "dense.onnx", "--json").stdout)
    attempts = [attempt for row in document["batchnorms"] for attempt in row["search"] if attempt["reason"]]
    assert attempts
    assert all("'" in attempt["reason"]["detail"] for attempt in attempts)


def left(name: str, reason: Reason, detail: str = "") -> BatchNormEvent:
    event = BatchNormEvent(name, "", 15, "inference")
    event.decline(Declined(reason, detail))
    return event


def test_many_of_one_reason_are_a_line_with_the_first_names() -> None:
    relus = [left(f"n{index}", Reason.NEGATIVE_SCALE, f"Relu 'r{index}'") for index in range(12)]
    lines = list(before_after.left(Report(batchnorms=[*relus, left("t", Reason.TRAINING_MODE)])))
    assert lines == [
        (
            "12 left: n0, n1, n2 and 9 more: a channel's scale is negative and cannot move past the operator "
            "(of the first: Relu 'r0') [negative-scale]"
        ),
        "1 left: t: it is in training mode: its statistics come from each batch [training-mode]",
    ]


def test_reasons_beyond_the_first_are_counted() -> None:
    lines = list(before_after.left(Report(batchnorms=[left(reason.code, reason) for reason in list(Reason)[:7]])))
    assert len(lines) == 6
    assert lines[-1] == "2 left for other reasons (--verbose or `bnfold inspect` has them all)"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("optimize", "it has no BatchNormalization and its opset 18 stays"),
        ("fold", "it has no BatchNormalization"),
        ("upgrade", "its opset 18 stays"),
    ],
)
def test_a_model_with_nothing_to_do_says_so_in_a_sentence(command: str, words: str, tmp_path: Path) -> None:
    path, out = model(tmp_path, "y = Relu (x)"), tmp_path / "o.onnx"
    first, *rest = run(command, path, out).stderr.splitlines()
    assert first == f"nothing to do in this model: {words}. {out} is a copy of it"
    assert [line.split(" ", 1)[0] for line in rest] == ["verified:", "wrote"]
    assert out.exists()


def test_inspect_says_so_too_and_only_then(tmp_path: Path) -> None:
    nothing = "nothing to do in this model: it has no BatchNormalization and its opset 18 stays\n"
    assert run("inspect", model(tmp_path, "y = Relu (x)")).stderr == nothing
    assert "nothing to do" not in run("inspect", MODELS / "in1.onnx").stderr
    assert "nothing to do" not in run("inspect", MODELS / "bn15_training.onnx").stderr


def output(name: str, fault: str = "", **numbers: float) -> OutputRow:
    code = Code.DIFFERS if fault == TOO_FAR else Code.OTHER_FORM if fault else None
    row = OutputRow(name, "float", (1,), 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, same_pattern=True, fault=fault, code=code)
    return replace(row, **numbers)  # type: ignore[arg-type]


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize("width", [40, 80])
def test_outputs_are_a_line_each_and_no_number_is_broken(
    width: int, verbose: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(width))
    rows = [
        output("good", relative=3e-8, allowed=4.4e-7, max_abs=1.234e-8, rms=1.2e-9, ulps=1.5),
        output("47", TOO_FAR, relative=0.068, allowed=1.4e-7, max_abs=0.01234, rms=0.001234, ulps=123456.0),
        output("same"),
        output("shaped", "shape (1, 2) became (2, 1)"),
    ]
    tables.outputs(rows, verbose=verbose)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    assert max(map(len, shown)) <= width
    whole = " ".join(line.strip() for line in shown)
    for told in (
        "47 differs by 0.068, 1.4e-07 allowed",
        "shaped: shape (1, 2) became (2, 1)",
        "good agrees to 3e-08, 4.4e-07 allowed",
        "same is identical",
    ):
        assert told in whole
    assert whole.index("47 differs") < whole.index("good agrees")
    assert ("RMS error 1.23e-03" in whole) == verbose
    if not verbose:
        assert len(shown) == 4


def test_of_many_outputs_the_first_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [output(f"o{index}", TOO_FAR, relative=1.0) for index in range(23)]
    tables.outputs(rows, verbose=False)
    assert capsys.readouterr().out.splitlines()[-1] == "3 more outputs, 3 of them differ (--verbose)"
    tables.outputs(rows, verbose=True)
    assert sum("differs by" in line for line in capsys.readouterr().out.splitlines()) == 23


def test_verify_says_in_a_line_what_differs(tmp_path: Path) -> None:
    proto = onnx.load(MODELS / "bn15.onnx")
    weight = onnx.numpy_helper.to_array(proto.graph.initializer[0])
    proto.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(weight * np.float32(1.5), "conv0_W"))
    proto.graph.initializer[0].name = onnx.load(MODELS / "bn15.onnx").graph.initializer[0].name
    onnx.save(proto, tmp_path / "b.onnx")
    result = run("verify", MODELS / "bn15.onnx", tmp_path / "b.onnx")
    assert result.exit_code == 1
    assert re.fullmatch(r"\S+ differs by \S+, \S+ allowed\n", result.stdout)
    first = result.stderr.splitlines()[0]
    assert re.fullmatch(r"FAILED: output '\S+' differs by \S+, \S+ allowed \(relative to its largest value\)", first)


def test_a_verdict_s_reason_is_what_the_command_line_and_the_report_say(tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    result = run("optimize", MODELS / "resnet_opset6.onnx", out, "--report", tmp_path / "r.json")
    verify = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["verify"]
    assert verify["summary"] == f"verified: {verify['reason']}"
    assert verify["summary"] in result.stderr.splitlines()
    said = (
        r"outputs agree on all 8 samples, on ordinary numbers to \S+ \(relative; float64\)\."
        r" Rounding the new weights allows \S+\."
    )
    assert re.fullmatch(said, verify["reason"])


def test_a_failed_verdict_begins_with_capitals(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.verdict(Verdict("failed", "it differs", "float64", code=Code.DIFFERS))
    assert capsys.readouterr().err == "FAILED: it differs\n"


def test_no_help_has_words_that_need_a_second_reading() -> None:
    odd = re.compile(r"\bwhoever\b|\bwhat is enough\b|\bcomputes? the same\b|\bkeep what\b|\balso where\b|\bnobody\b")
    helps = [run(name, "--help").stdout for name in main.commands]
    assert [found for text in helps if (found := odd.search(" ".join(text.split())))] == []
