"""The commands of docs/openvino.md are run as they stand there."""

from __future__ import annotations

import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

from bnfold.cli.commands import main
from tests.conftest import ROOT
from tests.interop.openvino.text import convolution_and_norm


def commands() -> list[str]:
    text = (ROOT / "docs" / "openvino.md").read_text(encoding="utf-8")
    return [line.strip() for line in text.splitlines() if line.startswith("    bnfold ")]


def test_the_commands_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    convolution_and_norm().save(tmp_path / "model.xml")
    assert len(commands()) == 6
    for command in commands():
        arguments = shlex.split(command, comments=True)[1:]
        done = CliRunner().invoke(main, arguments)
        can_compare = "verify" not in arguments or find_spec("openvino") is not None
        assert done.exit_code == (0 if can_compare else 3), (command, done.output)
