"""scripts/kill_test.py, a little of it: thousands of kills are for an evening, see docs/verification.md."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.machine import unmeasured


@pytest.mark.large
@pytest.mark.skipif(os.name == "nt", reason="needs signals")
def test_killed_at_random_moments() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "kill_test.py"), "--count", "4", "--layers", "3"]
    command += ["--kind", "replacing", "--kind", "in place", "--external", "1"]
    process = subprocess.run(command, capture_output=True, text=True, check=False, env=unmeasured())
    assert process.returncode == 0, process.stdout + process.stderr
    assert process.stdout.endswith("4 runs, 0 failures\n")
