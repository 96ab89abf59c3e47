"""The table at the end of a run."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner

import bnfold
from bnfold.cli import before_after
from bnfold.cli.commands import main
from bnfold.pipeline.chain import StepRow
from bnfold.report import rewrites
from bnfold.report.events import BatchNormEvent, FoldResult, Report
from bnfold.report.reasons import Reason
from bnfold.report.totals import Products, Totals
from tests.conftest import MODELS


def report(before: Totals, after: Totals) -> Report:
    return Report(opset_before=9, opset_after=15, ir_before=3, ir_after=8, before=before, after=after)


def test_columns_line_up_and_what_did_not_change_is_left_out() -> None:
    made = report(Totals({"Conv": 1, "BatchNormalization": 1}, 1500, 5, 1), Totals({"Conv": 1}, 1200, 1, 1))
    made.batchnorms = [BatchNormEvent("bn", "", 9, "inference", "folded", ("conv",), operators=("Conv",))]
    assert list(before_after.lines(made, verbose=False)) == [
        "                      before   after",
        "opset                      9      15",
        "IR version                 3       8",
        "nodes                      2       1",
        "  BatchNormalization       1       0  folded into 1 Conv",
        "weights               1.5 kB  1.2 kB",
        "inputs                     5       1",
    ]


def test_many_operators_are_told_with_verbose_only() -> None:
    made = report(Totals({f"Op{index}": 1 for index in range(8)}), Totals())
    short, long = (list(before_after.lines(made, verbose=verbose)) for verbose in (False, True))
    assert "  3 more operators (--verbose)" in short
    assert sum(line.startswith("  Op") for line in long) == 8
    assert any(line.endswith("none in the model") for line in short)


def test_steps_stand_one_below_the_other() -> None:
    before = Totals({"Conv": 2, "BatchNormalization": 1}, 1500, opset=9, products=Products(1_234_000, ("N",)))
    rows = [
        StepRow("bnfold", "verified", "", 1.25, Totals({"Conv": 2}, 1400, opset=15, products=Products(12))),
        StepRow("onnxslim", "rolled back", "crashed", 0.5),
    ]
    assert list(before_after.steps(before, rows)) == [
        "          nodes  BatchNormalization  weights  multiply-adds  opset    time",
        "original      3                   1   1.5 kB     1.23 M × N      9",  # noqa: RUF001 - it is one
        "bnfold        2                   0   1.4 kB             12     15  1.25 s  verified",
        "onnxslim      -                   -        -              -      -  0.50 s  rolled back",
    ]


def test_multiply_adds_in_words() -> None:
    counts = (None, Products(0), Products(999), Products(4_100_000_000), Products(5_000_000_000_000_000))
    assert [before_after.products(count) for count in counts] == ["unknown", "0", "999", "4.1 G", "5e+03 T"]
    made = report(Totals(products=Products(5)), Totals())
    assert [line.split() for line in before_after.lines(made, verbose=False)][-1] == ["multiply-adds", "5", "unknown"]


def test_the_ratio_of_latencies_says_what_it_is() -> None:
    """The medians of the runs may say the opposite."""
    made = report(Totals(), Totals())
    made.latency = {
        "before": 0.0668, "after": 0.0648, "ratio": 1.008, "runtime": "onnxruntime 1", "rounds": 20, "error": "",
    }  # fmt: skip
    (row,) = (line for line in before_after.lines(made, verbose=False) if line.startswith("latency"))
    assert row.endswith("1.008 in onnxruntime 1, 1 thread: the median ratio of 20 pairs of runs")


def test_the_lines_below_the_table_say_how_equal_rewrites_are() -> None:
    assert [*before_after.equality(Report())] == []
    assert [*before_after.equality(Report(lifted=2))] == ["every rewrite is equal bit for bit"]
    (line,) = before_after.equality(Report(folding=[rewrites.FOLD, rewrites.FOLD]))
    assert line == "equal up to rounding: BatchNormalization folded ×2 [batchnorm-fold]"  # noqa: RUF001
    (line,) = before_after.equality(Report(folding=[rewrites.FOLD], lifted=1))
    assert line.endswith("[batchnorm-fold]; the other rewrites are equal bit for bit")
    many = Report(folding=[*rewrites.FOLDING])
    assert [line.count("×1") for made in (False, True) for line in before_after.equality(many, verbose=made)] == [5, 10]  # noqa: RUF001
    assert not any("the other" in line for line in before_after.equality(many))


def event(verdict: FoldResult, mode: str = "inference", into: str = "Conv") -> BatchNormEvent:
    return BatchNormEvent("n", "", 9, mode, verdict, ("c",) if into else (), operators=(into,) if into else ())


def test_the_row_counts_the_operator_alone_and_affines_have_their_own() -> None:
    made = report(Totals({"BatchNormalization": 2, "Mul": 3, "Add": 3}), Totals({"BatchNormalization": 1, "Mul": 1}))
    made.batchnorms = [event("folded"), event("kept"), *(event("folded", "spelled-out"),) * 2]
    made.batchnorms.append(event("kept", "spelled-out", ""))
    rows = [" ".join(line.split()) for line in before_after.lines(made, verbose=False)]
    assert "BatchNormalization 2 1 folded into 1 Conv" in rows
    assert "affines (Mul, Add, …) 3 1 folded into 2 Conv" in rows
    assert made.left == 1
    assert made.became == (
        "BatchNormalization 2 → 1: folded into 1 Conv; affines (Mul, Add, …) 3 → 1: folded into 2 Conv"
    )


def test_a_model_without_batchnormalization_has_none_whatever_its_affines_are() -> None:
    made = report(Totals({"Mul": 2}), Totals({"Mul": 2}))
    made.batchnorms = [event("kept", "spelled-out", "")] * 2
    for each in made.batchnorms:
        each.reason = Reason.NO_GAIN
    rows = [" ".join(line.split()) for line in before_after.lines(made, verbose=False)]
    assert "BatchNormalization 0 0 none in the model" in rows
    assert "affines (Mul, Add, …) 2 2" in rows
    assert made.became == "no BatchNormalization in the model; affines (Mul, Add, …) 2 → 2"
    assert [line.partition(":")[0] for line in before_after.left(made)] == ["2 affines left"]
    one = report(Totals(), Totals())
    one.batchnorms = made.batchnorms[:1]
    assert next(before_after.left(one)).startswith("1 affine left: n: ")


@pytest.mark.parametrize(("lifted", "said"), [(0, ""), (1, "1 became an initializer"), (7, "7 became initializers")])
def test_constants_that_became_initializers_are_told_among_many_operators(lifted: int, said: str) -> None:
    many = {f"Op{number}": 100 for number in range(9)}
    made = report(Totals({**many, "Constant": 9}), Totals())
    made.lifted = lifted
    (row,) = (line for line in before_after.lines(made, verbose=False) if line.startswith("  Constant "))
    assert row.split(maxsplit=3)[1:3] == ["9", "0"]
    assert row.endswith(said)


@pytest.mark.parametrize("name", ["resnet_opset6", "constant_nodes", "dense", "in_loop"])
def test_multiply_adds_do_not_depend_on_a_report(name: str, tmp_path: Path) -> None:
    """Of weights that are also inputs the shapes follow only if these are constants."""
    command = ["optimize", str(MODELS / f"{name}.onnx"), str(tmp_path / "out.onnx"), "--no-verify"]
    plain = CliRunner().invoke(main, command).stderr
    reported = CliRunner().invoke(main, [*command, "--report", str(tmp_path / "r.json")]).stderr
    rows = [[line for line in text.splitlines() if line.startswith("multiply-adds")] for text in (plain, reported)]
    assert rows[0] == rows[1]
    counted = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["multiply_adds"]
    looked = bnfold.inspect(MODELS / f"{name}.onnx").to_json()["multiply_adds"]
    assert counted == looked


def test_multiply_adds_of_a_model_whose_weights_are_inputs_are_known_without_a_report(tmp_path: Path) -> None:
    text = """<ir_version: 4, opset_import: ["": 9]> g (float[1,2,8,8] x, int64[4] t, float[3,2,1,1] w, float[3] s,
    float[3] b, float[3] m, float[3] v) => (float[1,3,4,16] y)
    <int64[4] t = {1,2,4,16}, float[3,2,1,1] w = {1,2,3,4,5,6}, float[3] s = {1,2,3}, float[3] b = {1,2,3},
     float[3] m = {1,2,3}, float[3] v = {1,2,3}>
    { r = Reshape (x, t) c = Conv (r, w) y = BatchNormalization (c, s, b, m, v) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    command = ["optimize", str(tmp_path / "m.onnx"), str(tmp_path / "o.onnx"), "--no-verify", "--overridable", "freeze"]
    for more in ([], ["--report", str(tmp_path / "r.json")]):
        lines = CliRunner().invoke(main, command + more).stderr.splitlines()
        (row,) = (line for line in lines if line.startswith("multiply-adds"))
        assert row.split() == ["multiply-adds", "384", "384"]


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        (("N",), "5 × N"),  # noqa: RUF001 - it is one
        (("None",), "5 × a dynamic size"),  # noqa: RUF001
        (("?", "-1"), "5 × 2 dynamic sizes"),  # noqa: RUF001
        (("batch size", "none", " "), "5 × batch size × 2 dynamic sizes"),  # noqa: RUF001
    ],
)
def test_a_size_without_a_name_is_called_a_dynamic_size(sizes: tuple[str, ...], text: str) -> None:
    assert before_after.products(Products(5, sizes)) == text
