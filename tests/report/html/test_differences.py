"""The page about two models: rows, drawings, the plot; of many differences what is inside is packed."""

from __future__ import annotations

import json
import time
import zlib
from base64 import b64decode
from pathlib import Path

import pytest

from bnfold.report.html import differences, plots
from tests.diffing.models import diff, model, node
from tests.report.html import webdriver


def page(layers: int) -> str:
    """About two models that differ in every layer."""
    names = ["x", *(f"v{index}" for index in range(2 * layers - 1)), "y"]
    old, new = (
        model(*(node(odd if index % 2 else "Relu", names[index], names[index + 1]) for index in range(2 * layers)))
        for odd in ("Exp", "Log")
    )
    return differences.html(diff(old, new, drawn=True, values=True))


def test_few_differences_stand_in_the_page() -> None:
    text = page(3)
    assert text.count('<details class="row"') == 3
    assert text.count('<svg class="diagram"') == 6
    assert "Error along the depth" in text


def test_one_of_each_is_told_as_one() -> None:
    assert differences.told({"same": 1, "differences": [{}]}) == "1 node is the same, 1 difference"
    assert differences.told({"same": 0, "differences": []}) == "0 nodes are the same, 0 differences"


def test_many_are_packed() -> None:
    text = page(300)
    assert text.count('<details class="row"') == 300
    assert '<svg class="diagram"' not in text
    packed = text.split('class="packed">')[1].split("<")[0]
    bodies = json.loads(zlib.decompress(b64decode(packed)))
    assert len(bodies) == 300
    assert all("diagram" in body for body in bodies)


def test_the_plot_of_errors() -> None:
    assert plots.depth([]) is None
    assert plots.depth([["a", 0.0]]) is None
    found = plots.depth([["a", 0.0], ["b", 1e-6], ["c", 1e-3], ["d", "inf"]])
    assert found is not None
    heights = [bar.up for bar in found.bars]
    assert heights[0] == 0
    assert 0 < heights[1] < heights[2] <= heights[3] == found.height
    many = plots.depth([[f"v{index}", 1e-6 if index == 777 else 0.0] for index in range(1000)])
    assert many is not None
    assert [bar.label for bar in many.bars if bar.up] == ["v777: 1.00e-06"]


@pytest.mark.slow
@pytest.mark.skipif(not webdriver.available(), reason="no chromium with chromedriver")
def test_a_thousand_differences_in_a_browser(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(page(1000), encoding="utf-8")
    with webdriver.browser() as window:
        for width in (360, 1600):
            window.open(path, width=width, dark=width == 360, fragment="#d999")
            for _ in range(100):
                if window.run("return document.querySelectorAll('#d999 .diagram').length") == 2:
                    break
                time.sleep(0.1)
            assert window.run("return document.querySelectorAll('.diagram').length") == 2
            assert window.run("return document.documentElement.scrollWidth <= innerWidth")
        assert window.log() == []
