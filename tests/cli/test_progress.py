"""What a run shows while it lasts."""

from __future__ import annotations

import sys
import time

import pytest

from bnfold.cli import progress
from bnfold.settings import ESTIMATE, PHASES, VerifyOptions
from bnfold.settings.progress import Phase


@pytest.mark.parametrize("enabled", [True, False])
def test_a_pipe_is_told_what_will_take_long_and_nothing_else(capsys: pytest.CaptureFixture[str], enabled: bool) -> None:
    with progress.progress_bar(enabled=enabled, checks=VerifyOptions()) as tell:
        tell("original", 0, 1)
        assert capsys.readouterr().err == ""
        tell(ESTIMATE, 12, 0)
    told = capsys.readouterr().err
    assert ("about 12 s" in told and "--verify local" in told) == enabled
    assert len(told.splitlines()) == enabled


@pytest.mark.parametrize(
    ("checks", "quicker"),
    [
        (None, []),
        (VerifyOptions(), ["--verify local"]),
        (VerifyOptions(depth="local"), []),
        (VerifyOptions(depth="full", samples=3), ["--samples 1", "--verify auto"]),
        (VerifyOptions(tolerance=0.1), []),
    ],
)
def test_what_is_quicker_depends_on_what_was_asked_for(
    capsys: pytest.CaptureFixture[str], checks: VerifyOptions | None, quicker: list[str]
) -> None:
    with progress.progress_bar(checks=checks) as tell:
        tell(ESTIMATE, 400, 0)
    told = capsys.readouterr().err
    assert told.startswith("verifying will take about 7 min")
    assert [word for word in ("--samples 1", "--verify auto", "--verify local") if word in told] == quicker


def test_off_a_terminal_the_last_state_is_a_line_again_and_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also while nothing calls: another program may run for minutes."""
    monkeypatch.setattr(progress, "_INTERVAL", 0.01)
    lines: list[str] = []
    with progress.progress_bar() as tell:
        tell("rewrites", 1, 4)
        deadline = time.monotonic() + 60
        while len(lines) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
            lines += capsys.readouterr().err.splitlines()
    capsys.readouterr()
    assert len(lines) >= 3
    assert all(line.startswith("verifying each rewrite 1 of 4: 0 s") for line in lines)
    time.sleep(0.05)
    assert capsys.readouterr().err == "", "it ends with the run"


def test_the_time_left_follows_from_the_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "monotonic", lambda: 130.0)
    lines = {
        ("models", 12, 110): "models 12 of 110: 30 s, about 4 min left",
        ("write", 5_000_000, 20_000_000): "writing 5.0 of 20.0 MB: 30 s, about 2 min left",
        ("write", 5_000_000, 0): "writing 5.0 MB: 30 s",
        ("float64", 600, 800): "verifying whole models 75 %: 30 s, about 10 s left",
        ("float64", 900, 0): "verifying whole models: 30 s",
        ("program", 0, 0): "running the other program: 30 s",
        ("fold", 0, 9): "folding 0 of 9: 30 s",
        ("fold", 9, 9): "folding 9 of 9: 30 s",
        ("of a plugin", 1, 2): "of a plugin 1 of 2: 30 s, about 30 s left",
    }
    for state, line in lines.items():
        assert progress._State(*state, begun=100.0).line == line


def test_times_have_the_digits_that_matter() -> None:
    assert [progress.about(seconds) for seconds in (3.4, 59.4, 61, 3700)] == ["3 s", "59 s", "1 min", "1 h 2 min"]
    assert progress.counted(Phase("x", "work"), 12, 10) == "100 %"


@pytest.mark.parametrize(("patience", "shown"), [(-1.0, True), (60.0, False)])
def test_a_bar_appears_only_after_a_while(
    patience: float, shown: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(progress, "_PATIENCE", patience)
    with progress.progress_bar() as tell:
        for done in range(5):
            tell("fold", done, 5)
        tell("write", 3_000_000, 12_000_000)
    told = capsys.readouterr().err
    assert ("folding" in told and "3.0 of 12.0 MB" in told and "left" in told) is shown


def test_a_phase_has_a_title_for_people() -> None:
    assert all(phase.title for phase in PHASES.values())
    assert ESTIMATE not in PHASES


@pytest.mark.parametrize(("phase", "is_said"), [("models", True), ("fold", False)])
def test_the_last_line_about_a_folder_says_that_all_are_done(
    phase: str, is_said: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "_INTERVAL", 0.01)
    told = ""
    with progress.progress_bar() as tell:
        tell(phase, 20, 21)
        deadline = time.monotonic() + 60
        while "20 of 21" not in told and time.monotonic() < deadline:
            time.sleep(0.01)
            told += capsys.readouterr().err
        monkeypatch.setattr(progress, "_INTERVAL", 60)
        time.sleep(0.05)
        tell(phase, 21, 21)
    told += capsys.readouterr().err
    assert ("21 of 21" in told.splitlines()[-1]) == is_said


def test_a_folder_that_is_done_at_once_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.progress_bar() as tell:
        for done in range(4):
            tell("models", done, 3)
    assert capsys.readouterr().err == ""
