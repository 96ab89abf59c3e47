"""Pages use their room: no table of zeros, no plot of equal outputs, and few bytes."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import bnfold
from bnfold.report.html import html as render
from bnfold.report.html import plots
from bnfold.verification import Verdict
from bnfold.verification.codes import Code
from bnfold.verification.verdict import NextStep, OutputRow
from tests.conftest import MODELS
from tests.report.html.reports import report

QUICK = bnfold.VerifyOptions(samples=1, runtime="none")


def network(blocks: int) -> onnx.ModelProto:
    """A chain of Conv, BatchNormalization and Relu, with numbers of its own in each block."""
    rng, lines, read = np.random.default_rng(0), [], "x"
    stored = []
    for number in range(blocks):
        names = [f"{name}{number}" for name in "wsbmv"]
        shapes: list[tuple[int, ...]] = [(16, 16, 1, 1), *[(16,)] * 4]
        stored += [
            onnx.numpy_helper.from_array(rng.uniform(0.5, 1.5, shape).astype(np.float32), name)
            for name, shape in zip(names, shapes, strict=True)
        ]
        weight, scale, shift, mean, spread = names
        lines.append(f"c{number} = Conv ({read}, {weight})")
        lines.append(f"n{number} = BatchNormalization (c{number}, {scale}, {shift}, {mean}, {spread})")
        read = f"r{number}"
        lines.append(f"{read} = Relu (n{number})")
    head = f'<ir_version: 8, opset_import: ["": 15]> g (float[1,16,4,4] x) => (float[1,16,4,4] {read})'
    text = f"{head} {{ {' '.join(lines)} }}"
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.extend(stored)
    return proto


@pytest.mark.parametrize("blocks", [12, 60])
def test_a_page_is_small(blocks: int) -> None:
    document = bnfold.optimize(network(blocks), verify=bnfold.VerifyOptions(depth="none")).to_json()
    text = render([document])
    assert len(text.encode()) < 500_000
    assert text.count('<details class="row"') == blocks


def row(**numbers: Any) -> dict[str, Any]:
    return {
        "name": "y",
        "fault": "",
        **dict.fromkeys(("error_before", "error_after", "relative", "allowed")),
        **numbers,
    }


KINDS = ("error_before", "error_after", "relative", "allowed")


def test_equal_outputs_have_no_plot() -> None:
    assert plots.errors([row(relative=0.0, error_before=1e-41, allowed=1e-7)], "name", KINDS) is None
    assert plots.errors([row(relative=0.0, error_before=1e-7)], "name", KINDS) is None
    drawn = plots.errors([row(relative=0.0), row(relative=1e-8)], "name", KINDS)
    assert drawn is not None
    assert len(drawn.rows) == 2


@pytest.mark.parametrize("tiny", [1e-41, 5e-324, 1e-18])
def test_no_axis_reaches_where_no_number_is(tiny: float) -> None:
    drawn = plots.errors([row(relative=1e-8, error_before=tiny, allowed=1e-7)], "name", KINDS)
    assert drawn is not None
    powers = [int(tick.label.removeprefix("1e")) for tick in drawn.ticks[1:]]
    assert min(powers) >= -9
    assert drawn.rows[0].marks[0].x == 0.0
    bars = plots.depth([["a", tiny], ["b", 1e-8]])
    assert bars is not None
    assert all("e-4" not in tick.label and "e-3" not in tick.label for tick in bars.ticks)


def test_a_failed_output_is_drawn_whatever_its_number() -> None:
    assert plots.errors([row(relative=0.0, allowed=1e-7, fault="it has another shape")], "name", KINDS) is not None


def test_a_conversion_that_changes_no_node_is_a_sentence() -> None:
    document = deepcopy(report("dense.onnx"))
    text = unescape(render([document]))
    section = text[text.index("What the conversion made") : text.index("Operators, before and after")]
    assert "<table" not in section
    assert "All nodes are as they are: " in section
    document["conversion"][0].update(respelled=2, as_is=0)
    text = unescape(render([document]))
    section = text[text.index("What the conversion made") : text.index("Operators, before and after")]
    assert section.count("<tr>") == 2
    assert ">0<" not in section


def test_numbers_of_an_output_that_are_zero_are_no_rows() -> None:
    document = deepcopy(report("dense.onnx", verified=True))
    document["verify"]["outputs"][0].update(relative=0.0, typical=0.0, mean=0.0, beyond=0.0, ulps=0.0)
    text = unescape(render([document]))
    assert "The output is identical in both models." in text
    numbers = re.search(r'<table class="wrap numbers">.*?</table>', text, re.DOTALL)
    assert numbers is not None
    assert "differs" not in numbers[0]
    assert "allowed" in numbers[0]


def outputs(count: int, name: str = "y") -> tuple[OutputRow, ...]:
    return tuple(
        OutputRow(f"{name}{number}", "float", (2, 3), 1.0, 0.0, 0.0, 1e-8, 0.0, 1e-7, same_pattern=True)
        for number in range(count)
    )


def test_a_verdict_in_a_notebook() -> None:
    step = NextStep("--samples 8 verifies <it>", ("--samples", "8"), tried=True)
    found = Verdict("unverified", "a <b> part", "nothing", outputs(30, "<script>"), next=step, code=Code.HIDDEN)
    text = found._repr_html_()
    assert "<script>" not in text
    assert text.count("<tr>") == 21
    assert "10 more outputs" in text
    assert "next: --samples 8 verifies &lt;it&gt;" in text
    assert "<table" not in Verdict("verified", "", "structure", code=Code.SAME)._repr_html_()
    assert len(Verdict("failed", "x" * 100_000, "float64", code=Code.DIFFERS)._repr_html_()) < 3000


def test_a_report_in_a_notebook() -> None:
    made = bnfold.optimize(MODELS / "dense.onnx", verify=QUICK).report
    text = made._repr_html_()
    assert "<td>opset</td><td>12</td><td>15</td>" in text
    assert text.index("<td>left</td>") < text.index("<td>folded</td>")
    made.batchnorms[0].name = "<img>\x1b[31m"
    assert "<img>" not in made._repr_html_()
    assert "\x1b" not in made._repr_html_()


def test_a_difference_in_a_notebook_is_the_page() -> None:
    found = bnfold.diff(MODELS / "dense.onnx", MODELS / "mlp.onnx")
    assert found._repr_html_().startswith('<iframe title="bnfold diff" srcdoc="')  # type: ignore[attr-defined]
    assert json.loads(json.dumps(found)) == found
    assert found == {**found}


def screen(thing: object) -> int:
    """The lines that it takes on a terminal of 80 columns."""
    return sum(max(1, -(-len(line) // 80)) for line in str(thing).splitlines())


def test_what_is_printed_fits_a_screen(tmp_path: Path) -> None:
    many = network(60)
    outcome = bnfold.optimize(many, target_opset=17, verify=bnfold.VerifyOptions(samples=1, runtime="none", explain=""))
    verdict = outcome.verdict
    assert verdict is not None
    onnx.save(many, tmp_path / "a.onnx")
    step = bnfold.run(tmp_path / "a.onnx", tmp_path / "b.onnx", ["cp", "{input}", "{output}"], verify=QUICK)
    things = [
        *(outcome, outcome.report, verdict, step, bnfold.diff(many, outcome.to_proto()), bnfold.diff(many, many)),
        *(bnfold.Options(), bnfold.VerifyOptions(), bnfold.Policy(), *verdict.ledger, *verdict.explanation),
        *(*verdict.outputs, *outcome.report.batchnorms, bnfold.inspect(many)),
        Verdict("unverified", "a long reason " * 500, "nothing", next=NextStep("give inputs " * 500), code=Code.HIDDEN),
    ]
    assert {type(thing).__name__: screen(thing) for thing in things if screen(thing) > 23} == {}
