"""Where the tests of files write."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """An empty folder for the output."""
    folder = tmp_path / "out"
    folder.mkdir()
    return folder
