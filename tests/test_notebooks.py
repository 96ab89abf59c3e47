"""The notebooks show what their cells show when they are run again; they are small, and are pages of the site."""

from __future__ import annotations

import copy
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from _site import cells

from tests.conftest import ROOT

FOLDER = ROOT / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_there_are_three() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["export", "legacy", "npu"]


@pytest.mark.skipif(find_spec("jinja2") is None, reason="needs the extra report")
@pytest.mark.skipif(sys.platform == "win32", reason="paths with slashes")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_cells_show_what_the_file_says(path: Path) -> None:
    """Errors and seconds may differ; run scripts/make_notebooks.py after a change that is meant."""
    notebook = cells.read(path)
    assert cells.texts(cells.execute(copy.deepcopy(notebook), FOLDER)) == cells.texts(notebook)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_small_and_has_pictures_and_tables(path: Path) -> None:
    assert path.stat().st_size < 300_000
    notebook = cells.read(path)
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", ())]
    kinds = {kind for output in outputs for kind in output.get("data", ())}
    assert {"image/svg+xml", "text/markdown"} <= kinds
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_its_links_lead_somewhere(path: Path) -> None:
    text = "".join("".join(cell["source"]) for cell in cells.read(path)["cells"] if cell["cell_type"] == "markdown")
    links = re.findall(r"\]\(([^)#]+)", text)
    assert links
    assert all((FOLDER / link).exists() for link in links)


def test_a_page_has_the_code_the_tables_and_the_pictures() -> None:
    text = cells.as_markdown(cells.read(FOLDER / "export.ipynb"))
    assert text.startswith("# Export, optimise, verify")
    assert "```python\nimport bnfold" in text
    assert "| BatchNormalization | 2 | 0 |" in text
    assert "](data:image/svg+xml;base64," in text


def test_an_output_that_differs_is_noticed() -> None:
    source = {"cell_type": "code", "id": "0", "source": ["print(1.5e-08)\n", "1 + 1"], "outputs": []}
    run = cells.execute({"cells": [source]}, FOLDER)
    assert cells.texts(run) == [["…\n", "2"]]
