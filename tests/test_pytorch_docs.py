"""The programs in docs/pytorch.md and docs/toolchains.md run, and print what the page says."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.conftest import MODELS, ROOT

PAGES = ("pytorch", "toolchains")
BLOCK = re.compile(
    r"^<!-- run: (?P<wants>[^>]*) -->\n```python\n(?P<program>.*?)^```\n"
    r"(?:\n<!-- output -->\n```text\n(?P<shows>.*?)^```)?",
    re.MULTILINE | re.DOTALL,
)


def programs() -> list[object]:
    return [
        pytest.param(match, id=f"{page} {number}")
        for page in PAGES
        for number, match in enumerate(
            BLOCK.finditer((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")), start=1
        )
    ]


def test_every_program_of_the_pages_is_found() -> None:
    text = "".join((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8") for page in PAGES)
    assert len(programs()) == text.count("```python") == text.count("<!-- output -->")


@pytest.mark.parametrize("block", programs())
def test_a_program_prints_what_the_page_says(block: re.Match[str], tmp_path: Path) -> None:
    if "needs torch" in block["wants"] and find_spec("torch") is None:
        pytest.skip("needs torch")
    model = re.search(r"(\w+\.onnx) as (\w+\.onnx)", block["wants"])
    if model is not None:
        shutil.copy(MODELS / model[1], tmp_path / model[2])
    done = subprocess.run(
        [sys.executable, "-c", block["program"]], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    printed = iter([*done.stdout.splitlines(), *done.stderr.splitlines()])
    for line in block["shows"].splitlines():
        pattern = ".*".join(map(re.escape, line.split("…")))
        assert any(re.fullmatch(pattern, candidate) for candidate in printed), (line, done.stdout, done.stderr)
