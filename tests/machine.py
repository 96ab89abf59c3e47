"""Run the command on a machine that is short of something."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from bnfold.cli.commands import main
from tests.conftest import ROOT


def unmeasured() -> dict[str, str]:
    """The environment of a process that measures no coverage, for that opens files and takes its time."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("COV_", "COVERAGE_"))}


def bnfold(
    *arguments: str | Path, limit: Callable[[], None] | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """``python -m bnfold``; ``limit`` is called in the new process first. Coverage is not measured."""
    return subprocess.run(
        [sys.executable, "-m", "bnfold", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=unmeasured() | environment,
        preexec_fn=limit,
    )


def here(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """The command in this process, where it needs no other machine."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return subprocess.CompletedProcess([], result.exit_code, result.stdout, result.stderr)


def refused(process: subprocess.CompletedProcess[str], *words: str) -> None:
    """The command failed as it should: one clear line, exit code 1 or 2."""
    assert process.returncode in (1, 2), process.stderr
    lines = process.stderr.strip().splitlines()
    assert len(lines) == 1, process.stderr
    assert lines[0].startswith("bnfold: ")
    for word in words:
        assert word in lines[0]


def content(folder: Path) -> dict[str, bytes]:
    """Every file in a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@contextmanager
def file_system(folder: Path, options: str) -> Iterator[Path]:
    """A small file system mounted at ``folder``; the test is skipped where none may be."""
    folder.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", options, "none", str(folder)]
    if not sys.platform.startswith("linux") or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("may not mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)
