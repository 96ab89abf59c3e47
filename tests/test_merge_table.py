"""The script that measures what merging branches gains: that it runs, and one Conv a block; never how long it took."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.large  # a script, which changes seldom


def test_the_table() -> None:
    script = ROOT / "scripts" / "merge_table.py"
    command = [sys.executable, str(script), "--rounds", "1", "--size", "32"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines() if "|" in line]
    assert [row[0] for row in rows[2:]] == ["RepVGG-A0"] * 2 + ["MobileOne-S0"] * 2
    assert {row[2] for row in rows[2:]} == {"44 → 22", "191 → 43"}
    assert {row[3] for row in rows[2:]} == {"61 → 0", "226 → 0"}
