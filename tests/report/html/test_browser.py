"""The page in a real browser: filters, links, both widths, both colour schemes, no errors, nothing fetched."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bnfold.report.html import html
from tests.report.html import webdriver
from tests.report.html.reports import broken, failing_report, report

pytestmark = [
    pytest.mark.skipif(not webdriver.available(), reason="no chromium with chromedriver"),
]
SHOWN = "[...document.querySelectorAll('.row')].filter(row => !row.hidden)"
ENTER = """
const form = document.querySelector('.filters');
const enter = (name, value) => {
  const field = form.elements[name];
  field.value = value;
  field.dispatchEvent(new Event('input', {bubbles: true}));
  field.dispatchEvent(new Event('change', {bubbles: true}));
};
"""


@pytest.fixture(scope="module")
def page() -> Iterator[webdriver.Page]:
    with webdriver.browser() as window:
        yield window


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    pages = {
        "one": [report("dense.onnx", verified=True)],
        "failed": [failing_report()],
        "none": [report("in1.onnx")],
        "many": [report("dense.onnx"), report("bn9_training.onnx"), broken(Path("broken.onnx"))],
    }
    for name, documents in pages.items():
        (folder / f"{name}.html").write_text(html(documents), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in pages}


@pytest.mark.parametrize("name", ["one", "failed", "none", "many"])
@pytest.mark.parametrize("width", [360, 1600])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_opens_fits_and_fetches_nothing(
    name: str, width: int, dark: bool, page: webdriver.Page, files: dict[str, Path]
) -> None:
    page.open(files[name], width=width, dark=dark)
    page.run("for (const closed of document.querySelectorAll('details')) closed.open = true")
    assert page.run("return document.documentElement.scrollWidth - innerWidth") <= 0
    assert page.run("return performance.getEntriesByType('resource').length") == 0
    assert page.run("return document.querySelectorAll('[src], link:not([href^=\"data:\"])').length") == 0
    assert page.run("return matchMedia('(prefers-color-scheme: dark)').matches") is dark
    red, green, blue = _colour(page.run("return getComputedStyle(document.body).backgroundColor"))
    assert (red + green + blue < 150) is dark
    assert page.log() == []
    assert page.complaints() == []


def _colour(text: str) -> list[int]:
    return [int(part) for part in text[4:-1].split(",")]


def test_every_filter_works(page: webdriver.Page, files: dict[str, Path]) -> None:
    page.open(files["one"], width=1600, dark=False)
    assert page.run(f"return {SHOWN}.length") == 8
    page.run("document.querySelector('[name=state][value=folded]').click()")
    assert page.run(f"return {SHOWN}.map(row => row.dataset.state)") == ["left", "left", "left"]
    assert page.run("return document.querySelector('output').textContent") == "3 of 8 shown"
    page.run("document.querySelector('[name=state][value=left]').click()")
    assert page.run(f"return {SHOWN}.length") == 0
    page.run("for (const box of document.querySelectorAll('[name=state]')) box.click()")
    page.run(f"{ENTER} enter('reason', 'shared-value')")
    assert page.run(f"return {SHOWN}.length") == 3
    page.run(f"{ENTER} enter('reason', ''); enter('text', 'NODE1 folded')")
    assert page.run(f"return {SHOWN}.length") == 0
    page.run(f"{ENTER} enter('text', 'conv node4')")
    assert page.run(f"return {SHOWN}.map(row => row.querySelector('.name').textContent)") == ["node5"]


def test_order_and_opening(page: webdriver.Page, files: dict[str, Path]) -> None:
    page.open(files["one"], width=1600, dark=False)
    names = f"return {SHOWN}.map(row => row.querySelector('.name').textContent)"
    attention = page.run(names)
    assert attention[:2] == ["node9", "node16"]
    page.run(f"{ENTER} enter('order', 'graph')")
    in_graph = page.run(names)
    assert in_graph == sorted(in_graph, key=lambda name: int(name.removeprefix("node")))
    page.run(f"{ENTER} enter('order', 'attention')")
    assert page.run(names) == attention
    page.run("document.querySelector('[data-open]').click()")
    assert page.run(f"return {SHOWN}.every(row => row.open)")
    page.run("document.querySelector('[data-open=\"\"]').click()")
    assert not page.run(f"return {SHOWN}.some(row => row.open)")


@pytest.mark.parametrize("name", ["one", "failed", "none", "many"])
def test_every_link_leads_somewhere_that_opens(name: str, page: webdriver.Page, files: dict[str, Path]) -> None:
    page.open(files[name], width=360, dark=False)
    links = page.run("return [...new Set([...document.querySelectorAll('a')].map(link => link.getAttribute('href')))]")
    assert all(link.startswith("#") for link in links)
    for link in links:
        page.run(f"document.querySelector('a[href=\"{link}\"]').click()")
        target = f"document.getElementById({link[1:]!r})"
        assert page.run(f"return {target} !== null"), link
        page.run("dispatchEvent(new HashChangeEvent('hashchange'))")
        assert page.run(f"return {target}.tagName !== 'DETAILS' || {target}.open"), link


def test_packed_rows_unfold_when_they_are_opened(
    page: webdriver.Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bnfold.report.html.page.MAX_INLINE", 3)
    (tmp_path / "packed.html").write_text(html([report("dense.onnx")]), encoding="utf-8")
    page.open(tmp_path / "packed.html", width=1600, dark=False)
    page.run("document.querySelector('.row summary').click()")
    bodies = "document.querySelectorAll('.row .body').length"
    for _ in range(100):
        if page.run(f"return {bodies}"):
            break
        time.sleep(0.05)
    assert page.run(f"return {bodies}") == 1
    assert "Why it is still there" in page.run("return document.querySelector('.row .body').textContent")


def test_the_table_of_models_sorts(page: webdriver.Page, files: dict[str, Path]) -> None:
    page.open(files["many"], width=1600, dark=False)
    names = "[...document.querySelectorAll('.sortable tbody th')].map(cell => cell.textContent)"
    page.run("document.querySelector('.sortable button').click()")
    up = page.run(f"return {names}")
    page.run("document.querySelector('.sortable button').click()")
    assert up == sorted(up)
    assert page.run(f"return {names}") == up[::-1]


def test_a_link_into_the_page_opens_its_row(page: webdriver.Page, files: dict[str, Path]) -> None:
    page.open(files["one"], width=360, dark=False, fragment="#m0-bn3")
    opened = "return [...document.querySelectorAll('.row')].filter(row => row.open).map(row => row.id)"
    assert page.eventually(opened, ["m0-bn3"]) == ["m0-bn3"]
    assert page.eventually("return document.activeElement.parentElement.id", "m0-bn3") == "m0-bn3"


def test_drawings_have_every_box_inside_and_no_two_on_one_spot(page: webdriver.Page, files: dict[str, Path]) -> None:
    page.open(files["one"], width=1600, dark=False)
    page.run("document.querySelector('[data-open]').click()")
    drawings = page.run(
        "const sides = box => ['x', 'y', 'width', 'height'].map(side => +box.getAttribute(side));"
        "return [...document.querySelectorAll('svg.diagram')].map(svg => ["
        "svg.width.baseVal.value, svg.height.baseVal.value, [...svg.querySelectorAll('rect')].map(sides)])"
    )
    assert len(drawings) == 8 + 8
    for width, height, boxes in drawings:
        for place, (x, y, wide, high) in enumerate(boxes):
            assert min(x, y) >= 0
            assert x + wide <= width
            assert y + high <= height
            for left, top, breadth, depth in boxes[:place]:
                assert x >= left + breadth or left >= x + wide or y >= top + depth or top >= y + high


def test_a_packed_report_opens_with_what_works_in_it(page: webdriver.Page, files: dict[str, Path]) -> None:
    page.open(files["many"], width=1600, dark=False)
    rows = "document.querySelectorAll('.report .rows > .row').length"
    assert page.run(f"return {rows}") == 0
    page.run("document.querySelector('#m0 summary').click()")
    assert page.eventually(f"return {rows}", 8) == 8
    page.run(f"{ENTER}; enter('text', 'node2')")
    assert page.run("return [...document.querySelectorAll('.rows > .row')].filter(row => !row.hidden).length") < 8


def test_a_link_into_a_packed_report_opens_it(page: webdriver.Page, files: dict[str, Path]) -> None:
    page.open(files["many"], width=360, dark=False, fragment="#m0-bn3")
    assert page.eventually("return document.getElementById('m0-bn3')?.open ?? false", True) is True
