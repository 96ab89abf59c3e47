"""The page about two models: rows, drawings, the plot; of many differences what is inside is packed."""

from __future__ import annotations

import json
import zlib
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bnfold.report.html import differences, plots
from tests.conftest import sample
from tests.diffing.models import diff, model, network, node
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


def told(same: int, count: int = 0, constants: int = 0, **others: Any) -> str:
    sides = {side: {"constant_nodes": constants} for side in ("before", "after")}
    return differences.tally({**sides, "same": same, "differences": [{}] * count, **others})


def test_how_much_differs_is_told() -> None:
    assert told(1, 1) == "1 node is the same, 1 difference"
    assert told(0, 2) == "0 nodes are the same, 2 differences"
    assert told(2, equal=True) == "2 nodes are the same; nothing differs but names and metadata"
    rows = [{"what": what} for what in ("opset ai.onnx", "opset my", "input x", "order of the outputs")]
    assert told(2, equal=False, interface=rows[:2]) == "2 nodes are the same; only an opset differs"
    assert told(2, equal=False, interface=rows) == "2 nodes are the same; only an opset and the interface differ"
    sides: dict[str, Any] = {"before": {"constant_nodes": 3}, "after": {"constant_nodes": 0}}
    same = "2 nodes, constants aside, are the same"
    constants = "the nodes that make constants"
    assert told(2, equal=False, interface=rows[:1], **sides) == f"{same}; only an opset and {constants} differ"
    assert told(2, equal=True, **sides) == f"{same}; nothing differs but names, metadata and {constants}"
    assert told(2, 1, constants=3) == "2 nodes, constants aside, are the same, 1 difference"
    assert told(2, equal=True, same_bytes=True) == "the files are equal, byte for byte"


def test_many_are_packed() -> None:
    text = page(300)
    assert text.count('<details class="row"') == 300
    assert "Open the first 100" in text
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


@pytest.fixture(scope="module")
def window() -> Iterator[webdriver.Page]:
    if not webdriver.available():
        pytest.skip("no chromium with chromedriver")
    with webdriver.browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def thousand(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages") / "thousand.html"
    path.write_text(page(1000), encoding="utf-8")
    return path


@pytest.mark.parametrize("width", [360, 1600])
def test_a_link_draws_one_of_a_thousand_differences(width: int, window: webdriver.Page, thousand: Path) -> None:
    window.open(thousand, width=width, dark=width == 360, fragment="#d999")
    assert window.eventually("return document.querySelectorAll('#d999 .diagram').length", 2) == 2
    assert window.run("return document.querySelectorAll('.diagram').length") == 2
    assert window.run("return document.documentElement.scrollWidth <= innerWidth")
    assert window.log() == []


@pytest.mark.parametrize("dark", sample([False, True], every=2), ids=["light", "dark"])
def test_a_thousand_differences_are_told_and_a_hundred_opened(
    dark: bool, window: webdriver.Page, thousand: Path
) -> None:
    """A browser tells a screen reader of no row that it does not lay out; all drawings at once would be too much."""
    window.open(thousand, width=1600, dark=dark)
    assert window.roles()["DisclosureTriangle"] == 1000
    last_first = "document.querySelector('.rows').append(...[...document.querySelectorAll('.row')].reverse())"
    window.run(f"{last_first}; document.querySelector('[data-open]').click()")
    assert window.eventually("return document.querySelectorAll('.row[open] .body').length", 100) == 100
    assert window.run("return [...document.querySelectorAll('.row[open]')].map(row => row.id)") == [
        f"d{place}" for place in range(999, 899, -1)
    ]
    assert window.roles()["image"] == 200 + 1  # and the plot; what is in a drawing its description says
    assert window.roles()["graphics-symbol"] == 0
    assert window.complaints() == []


def test_no_column_is_out_of_sight_on_a_telephone(window: webdriver.Page, tmp_path: Path) -> None:
    old, new = (network(name) for name in ("resnet_opset6.onnx", "dense.onnx"))
    new.graph.output[0].name = new.graph.node[-1].output[0] = "save_infer_model/scale_0.tmp_1"
    (tmp_path / "page.html").write_text(differences.html(diff(old, new, drawn=True)), encoding="utf-8")
    window.open(tmp_path / "page.html", width=360, dark=False)
    window.run("document.querySelector('[data-open]').click()")
    assert window.run("return document.querySelectorAll('.body table').length") > 0
    cut = "[...document.querySelectorAll('.scroll:has(table)')].filter(each => each.scrollWidth > each.clientWidth)"
    assert window.run(f"return {cut}.map(each => each.getAttribute('aria-label'))") == []
    assert window.complaints() == []
