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
def test_every_dependency_has_a_lower_and_an_upper_bound(group: str) -> None:
    """A release that breaks or that somebody has taken over does not arrive unasked."""
    for requirement in GROUPS[group]:
        if not requirement.startswith("bnfold["):
            assert re.fullmatch(r"[A-Za-z0-9_-]+>=[0-9.]+,<[0-9.]+", requirement), requirement
