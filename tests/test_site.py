"""The site's order: each page of mkdocs.yml is there, and each task has one. scripts/site builds it strictly."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from tests.conftest import ROOT

NOTEBOOKS = {f"notebooks/{path.stem}.md" for path in (ROOT / "docs/notebooks").glob("*.ipynb")}
MADE = NOTEBOOKS | {"api.md", "operators.md", "project/changelog.md", "project/contributing.md", "project/security.md"}
"""Pages that scripts/_site/pages.py adds."""


def test_every_page_of_the_order_is_there_once_and_every_task_has_one() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = re.findall(r"^ +- [^:\n]+: ([\w/]+\.md)$", text[text.index("\nnav:") :], flags=re.MULTILINE)
    assert len(named) == len(set(named))
    assert {name for name in named if not (ROOT / "docs" / name).is_file()} == MADE
    tasks = {PurePosixPath(path.relative_to(ROOT / "docs")).as_posix() for path in (ROOT / "docs/tasks").glob("*.md")}
    assert tasks == {name for name in named if name.startswith("tasks/")}
    assert len(tasks) == 8


def test_the_front_page_leads_to_every_task() -> None:
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert {path.name for path in (ROOT / "docs/tasks").glob("*.md")} == {*re.findall(r"\(tasks/([\w.]+)\)", text)}
