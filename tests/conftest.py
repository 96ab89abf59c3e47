"""What every test may ask for: where the models are, and fixtures that open them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
MODELS = ROOT / "models"
# Real models of many exporters. They are too big to be kept here; without them the tests that want them are skipped.
CORPUS = Path(os.environ.get("BNFOLD_CORPUS", ROOT.parent / "shared" / "corpus"))
LARGE = "BNFOLD_LARGE" in os.environ
TAKES_MINUTES = pytest.mark.skipif(not LARGE, reason="takes minutes; BNFOLD_LARGE=1 asks for it")

# No deadline: a loaded machine is no bug. In CI the examples are always the same: what fails there fails everywhere.
settings.register_profile("bnfold", deadline=None, derandomize="CI" in os.environ, print_blob=True)
settings.load_profile("bnfold")

CHILDREN = "COVERAGE_PROCESS_CONFIG"
"""By this coverage tells the processes that are started to measure as well."""
measuring = pytest.StashKey[str]()


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
