"""Parts of the report that stand alone: pictures as SVG, tables as Markdown."""

from __future__ import annotations

import runpy
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import bnfold
from bnfold.report.html import display
from bnfold.report.html.model_page import as_model
from tests.conftest import MODELS, ROOT
from tests.report.html.reports import report

SVG = "{http://www.w3.org/2000/svg}"


def test_a_picture_shows_both_sides_and_stands_alone(tmp_path: Path) -> None:
    row = report("dense.onnx")["batchnorms"][0]
    picture = display.picture({**row, "name": "a <b> & c"})
    picture.save(tmp_path / "picture.svg")
    root = ET.parse(tmp_path / "picture.svg").getroot()
    assert root.findtext(f"{SVG}title") == "a <b> & c"
    assert [text.text for text in root.findall(f"{SVG}text")] == ["Before", "After"]
    boxes = root.findall(f".//{SVG}g[@class]/{SVG}rect")
    assert len(boxes) == sum(len(row["drawing"][side]["nodes"]) for side in ("before", "after")) + 2
    assert "http" not in picture.svg.replace("http://www.w3.org/2000/svg", "")
    assert picture._repr_svg_() == picture.svg
    assert repr(picture) == f"Picture of {len(picture.svg)} characters of SVG"


def test_a_picture_of_what_was_not_rewritten_has_one_side() -> None:
    row = report("bn15_training.onnx")["batchnorms"][0]
    assert "Around it (nothing was rewritten here)" in display.picture(row).svg


def test_the_pictures_of_the_tour_are_those_of_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    pictures = runpy.run_path(str(ROOT / "scripts" / "make_tour.py"))["pictures"]()
    assert {path.name for path in pictures} == {"model.svg", "fold.svg"}
    for path, svg in pictures.items():
        assert path.read_text(encoding="utf-8") == svg, "run scripts/make_tour.py"
        assert f"(tour/{path.name})" in (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
    (fold,) = (svg for path, svg in pictures.items() if path.name == "fold.svg")
    assert "takes it over" in fold


def test_tables_are_markdown() -> None:
    document = report("dense.onnx")
    text = display.operators(document)
    assert text.markdown.splitlines()[2:] == ["| BatchNormalization | 8 | 3 |", "| all nodes | 31 | 26 |"]
    assert repr(text) == text._repr_markdown_() == text.markdown
    assert "8 BatchNormalizations: 3 left, 5 folded" in display.summary(document).markdown
    assert display.table(["a|b"], [["c\nd"]]).markdown == "| a\\|b |\n| --- |\n| c d |"


def test_a_conversion_takes_no_batchnorm_away() -> None:
    """What became of each is another opset; nothing is left, and nothing is gone."""
    outcome = bnfold.convert(MODELS / "resnet_opset6.onnx", opset=17, verify=bnfold.VerifyOptions(depth="none"))
    assert as_model(outcome.to_json()).counts == (9, 9)
