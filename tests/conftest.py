"""What every test may ask for: where the models are, and fixtures that open them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
MODELS = ROOT / "models"
# Real models of many exporters. They are too big to be kept here; without them the tests that want them are skipped.
CORPUS = Path(os.environ.get("BNFOLD_CORPUS", ROOT.parent / "shared" / "corpus"))
MEASURED = 8
"""Of a parametrised test, coverage is measured in so many cases: measured, a case takes 1.7 to 2.5 times as long."""

# No deadline: a loaded machine is no bug. In CI the examples are always the same: what fails there fails everywhere.
settings.register_profile("bnfold", deadline=None, derandomize="CI" in os.environ, print_blob=True)
settings.load_profile("bnfold")

CHILDREN = "COVERAGE_PROCESS_CONFIG"
"""By this coverage tells the processes that are started to measure as well."""
measuring = pytest.StashKey[str]()


def sample(cases: Sequence[Any], every: int, first: int = 0) -> list[Any]:
    """The cases, of which a default run tries one in ``every``; the others are left to scripts/test_large."""
    drawn = []
    for index, case in enumerate(cases):
        param = case if hasattr(case, "marks") else pytest.param(case)
        marks = [*param.marks, *([] if index % every == first else [pytest.mark.large])]
        drawn.append(pytest.param(*param.values, id=param.id, marks=marks))
    return drawn


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Do not measure coverage in the later cases of a parametrised test."""
    cases: Counter[tuple[pytest.Item | pytest.Collector | None, str]] = Counter()
    for item in items:
        test = item.parent, item.name.partition("[")[0]
        cases[test] += 1
        if cases[test] > MEASURED:
            item.add_marker(pytest.mark.no_cover)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let coverage be measured in the processes that a test starts where it is marked so: they take twice as long."""
    found = os.environ.pop(CHILDREN, "")
    told = item.config.stash.setdefault(measuring, found)
    if told and item.get_closest_marker("measures_children"):
        os.environ[CHILDREN] = told


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of real models, holding an INDEX.tsv; skips where there is none."""
    if not (CORPUS / "INDEX.tsv").is_file():
        pytest.skip("no corpus of real models; set BNFOLD_CORPUS to have it tested")
    return CORPUS
