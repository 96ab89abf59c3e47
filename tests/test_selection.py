"""Which tests a default run has, which are left to scripts/test_large, and in which coverage is measured."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import conftest
from tests.conftest import ROOT, sample
from tests.machine import unmeasured

CASES = """
import pytest
from tests.conftest import sample
@pytest.mark.parametrize("number", sample(range(10), every=4, first=1))
def test_number(number):
    assert number in range(10)
@pytest.mark.large
def test_large(): pass
def test_small(): pass
"""


def pytest_run(file: Path, *words: str) -> list[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rA", "--no-header", *words]
    command += ["--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml"), "--confcutdir", str(ROOT)]
    command += ["-p", "tests.conftest", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=unmeasured())
    assert done.returncode == 0, done.stdout + done.stderr
    return [line.rpartition("::")[2] for line in done.stdout.splitlines() if line.startswith("PASSED ")]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "test_cases.py"
    path.write_text(CASES, encoding="utf-8")
    return path


def test_a_default_run_leaves_out_what_is_large(file: Path) -> None:
    assert pytest_run(file) == ["test_number[1]", "test_number[5]", "test_number[9]", "test_small"]


def test_the_script_runs_what_is_left_out(file: Path) -> None:
    assert "-m large" in (ROOT / "scripts" / "test_large").read_text(encoding="utf-8")
    assert pytest_run(file, "-m", "large") == [
        *(f"test_number[{index}]" for index in (0, 2, 3, 4, 6, 7, 8)),
        "test_large",
    ]


def test_coverage_is_measured_in_the_first_cases_only() -> None:
    class Node:
        def __init__(self, name: str) -> None:
            self.parent, self.name, self.marks = None, name, list[object]()

        def add_marker(self, mark: object) -> None:
            self.marks.append(mark)

    nodes = [Node(f"{test}[{index}]") for index in range(conftest.MEASURED + 2) for test in ("test_a", "test_b")]
    nodes.append(Node("test_c"))
    conftest.pytest_collection_modifyitems(nodes)  # type: ignore[arg-type]
    assert [node.name for node in nodes if node.marks] == ["test_a[8]", "test_b[8]", "test_a[9]", "test_b[9]"]
    assert all(node.marks in ([], [pytest.mark.no_cover]) for node in nodes)


def test_a_sample_keeps_marks_and_names() -> None:
    skip = pytest.mark.skip(reason="not here")
    first, second, third = sample([pytest.param(1, id="one", marks=skip), pytest.param(2, 3, id="two"), 4], every=2)
    assert (first.id, first.marks) == ("one", [skip])
    assert (second.id, second.values, second.marks) == ("two", (2, 3), [pytest.mark.large])
    assert (third.values, third.marks) == ((4,), [])
