"""What a run shows while it lasts."""

from __future__ import annotations

import sys

import pytest

from bnfold.cli import progress
from bnfold.settings import ESTIMATE


@pytest.mark.parametrize("enabled", [True, False])
def test_a_pipe_is_told_what_will_take_long_and_nothing_else(capsys: pytest.CaptureFixture[str], enabled: bool) -> None:
    with progress.progress_bar(enabled=enabled) as tell:
        tell("original", 0, 1)
        assert capsys.readouterr().err == ""
        tell(ESTIMATE, 12, 0)
    told = capsys.readouterr().err
    assert ("about 12 s" in told and "--verify local" in told) == enabled
    assert len(told.splitlines()) == enabled


@pytest.mark.parametrize(("patience", "shown"), [(-1.0, True), (60.0, False)])
def test_a_bar_appears_only_after_a_while(
    patience: float, shown: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "_PATIENCE", patience)
    with progress.progress_bar() as tell:
        for done in range(5):
            tell("fold", done, 5)
    assert ("fold" in capsys.readouterr().err) is shown
