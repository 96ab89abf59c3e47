"""The summaries that the pages copy as Markdown: one model, many, two that are compared."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

from bnfold.report.html import differences, html
from tests.diffing.models import diff, model, node
from tests.report.html.reports import broken, report


def copied(page: str) -> str:
    (text,) = re.findall(r'data-copy="([^"]*)"', page)
    return unescape(text)


def test_many_models_are_a_table_with_what_failed_first() -> None:
    text = copied(html([report("dense.onnx", verified=True), broken(Path("b|c.onnx"))]))
    lines = text.splitlines()
    assert lines[0] == "**bnfold: 2 models**"
    rows = [line for line in lines if line.startswith("| ")]
    assert rows[0] == "| model | status | BatchNormalizations | left | why |"
    assert rows[2].startswith(r"| b\|c.onnx | failed | - | - |")
    assert rows[3].endswith("dense.onnx | verified | 8 | 3 | 3 shared-value |")


def test_two_models_are_their_verdict_and_the_first_differences() -> None:
    layers = 30
    names = ["x", *(f"v{index}" for index in range(2 * layers - 1)), "y"]
    old, new = (
        model(*(node(odd if index % 2 else "Relu", names[index], names[index + 1]) for index in range(2 * layers)))
        for odd in ("Exp", "Log")
    )
    text = copied(differences.html(diff(old, new, drawn=True)))
    assert "Outputs were not compared" in text
    assert "| nodes | 60 | 60 |" in text
    assert text.count("\n* ") == 21
    assert text.endswith("* 10 more\n")


def test_every_section_of_many_reports_has_a_name_of_its_own() -> None:
    page = html([report("dense.onnx"), report("bn9.onnx")])
    assert 'id="m0-name"' in page
    assert 'id="m1-name"' in page
