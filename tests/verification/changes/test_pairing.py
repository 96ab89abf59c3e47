"""Models whose inputs and outputs have other names: paired by position where all of them fit."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner

import bnfold
from bnfold.cli.commands import main

QUICK = bnfold.VerifyOptions(samples=2, runtime="none")


def model(
    x: str = "x",
    s: str = "s",
    y: str = "y",
    z: str = "z",
    op: str = "Mul",
    inputs: str = "float[n, 3] {x}, float[3] {s}",
) -> onnx.ModelProto:
    """Two inputs, two outputs."""
    nodes = f"{y} = {op} ({x}, {s})  {z} = ReduceSum <keepdims = 0> ({y}, one)"
    graph = f"g ({inputs.format(x=x, s=s)}) => (float[n, k] {y}, float[n] {z}) <int64[1] one = {{1}}> {{ {nodes} }}"
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 15]> {graph}')


OTHER = {"x": "input_0", "s": "input_1", "y": "output_0", "z": "output_1"}


def test_other_names_are_paired_with_a_note(tmp_path: Path) -> None:
    verdict = bnfold.verify(model(), model(**OTHER), options=QUICK)
    assert verdict, verdict.reason
    assert "inputs are paired by position: x = input_0, s = input_1" in verdict.notes
    assert "outputs are paired by position: y = output_0, z = output_1" in verdict.notes
    onnx.save(model(), tmp_path / "a.onnx")
    onnx.save(model(**OTHER), tmp_path / "b.onnx")
    shown = CliRunner().invoke(main, ["verify", str(tmp_path / "a.onnx"), str(tmp_path / "b.onnx")])
    assert shown.exit_code == 0, shown.stderr
    assert "  note: inputs are paired by position: x = input_0, s = input_1\n" in shown.stderr


def test_a_difference_is_found_behind_other_names() -> None:
    verdict = bnfold.verify(model(), model(**OTHER, op="Add"), options=QUICK)
    assert verdict.status == "failed"
    assert "'y'" in verdict.reason


@pytest.mark.parametrize(
    "inputs",
    ["float[3] {s}, float[n, 3] {x}", "float[n, 4] {x}, float[4] {s}", "float[n, 3] {x}, float[3] {s}, float[3] more"],
    ids=["order", "sizes", "number"],
)
def test_what_does_not_fit_is_not_paired(inputs: str) -> None:
    verdict = bnfold.verify(model(), model(**OTHER, inputs=inputs), options=QUICK)
    assert verdict.status == "failed"
    assert not any("inputs are paired" in note for note in verdict.notes)


def test_a_tool_that_renames_inputs_is_still_undone(tmp_path: Path) -> None:
    onnx.save(model(), tmp_path / "a.onnx")
    onnx.save(model(**OTHER), tmp_path / "b.onnx")
    command = [
        "run",
        str(tmp_path / "a.onnx"),
        str(tmp_path / "o.onnx"),
        "--",
        "cp",
        str(tmp_path / "b.onnx"),
        "{output}",
    ]
    result = CliRunner().invoke(main, [*command, "{input}"])
    assert result.exit_code in (1, 2, 3)
    assert not (tmp_path / "o.onnx").exists()


def test_a_branch_that_hands_out_an_outer_value_is_paired() -> None:
    def branching(x: str) -> onnx.ModelProto:
        nodes = f"""w = If (c) <then_branch = g1 () => (float[n, 3] {x}) {{ }},
            else_branch = g2 () => (float[n, 3] b) {{ b = Neg ({x}) }}>  y = Exp (w)"""
        graph = f"g (float[n, 3] {x}, bool c) => (float[n, 3] y) {{ {nodes} }}"
        return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 15]> {graph}')

    verdict = bnfold.verify(branching("x"), branching("input_0"), options=QUICK)
    assert verdict, verdict.reason
