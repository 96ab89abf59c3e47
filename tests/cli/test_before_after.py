"""The table at the end of a run."""

from __future__ import annotations

from bnfold.cli import before_after
from bnfold.pipeline.chain import StepRow
from bnfold.report import rewrites
from bnfold.report.events import BatchNormEvent, Report
from bnfold.report.totals import Products, Totals


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
    assert [line.count("×1") for made in (False, True) for line in before_after.equality(many, verbose=made)] == [5, 9]  # noqa: RUF001
    assert not any("the other" in line for line in before_after.equality(many))
