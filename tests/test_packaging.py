"""What is declared about dependencies."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
GROUPS = {
    "build": PROJECT["build-system"]["requires"],
    "run": PROJECT["project"]["dependencies"],
    **PROJECT["project"]["optional-dependencies"],
}


@pytest.mark.parametrize("group", GROUPS)
def test_every_dependency_has_a_lower_bound(group: str) -> None:
    """Which `scripts/test_versions` tries; an upper one would need a known breakage."""
    for requirement in GROUPS[group]:
        if not requirement.startswith("bnfold["):
            assert re.fullmatch(r"[A-Za-z0-9_-]+>=[0-9.]+(; .*)?", requirement), requirement
