"""The script that measures what decomposing costs: that it runs; never how long anything took."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import MODELS, ROOT

pytestmark = pytest.mark.large  # a script, which changes seldom

SCRIPT = ROOT / "scripts" / "decompose_cost.py"


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("form", ["mul_add", "depthwise_conv"])
def test_the_table(form: str) -> None:
    done = run(MODELS / "bn6.onnx", MODELS / "in_if.onnx", "--rounds", "1", "--form", form)
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines() if "|" in line]
    assert [row[0] for row in rows[2:]] == ["bn6", "bn6", "in_if", "in_if"]
    assert [row[3] for row in rows[2:]] == ["off", "on"] * 2
    assert [row[2] for row in rows[2:]] == ["1", "1", "3", "3"]


def test_a_file_that_is_no_model_is_told(tmp_path: Path) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"no model")
    done = run(tmp_path / "broken.onnx", "--rounds", "1")
    assert done.returncode == 1
    assert done.stderr.startswith("broken.onnx: ")
