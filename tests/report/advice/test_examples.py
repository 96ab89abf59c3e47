"""Every reason has advice, and every example shows its reason when the command beside it is run."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner

from bnfold.cli.commands import main
from bnfold.report.advice import ADVICE
from bnfold.report.reasons import Reason
from tests.conftest import ROOT


def test_every_reason_has_advice() -> None:
    assert set(ADVICE) == set(Reason)


@pytest.mark.parametrize("reason", Reason, ids=lambda reason: reason.code)
def test_the_example_shows_the_reason(reason: Reason, tmp_path: Path) -> None:
    advice, path = ADVICE[reason], tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(advice.example), path)
    program, *arguments = shlex.split(advice.command)
    assert program == "bnfold"
    given = [str(path) if argument == path.name else argument for argument in arguments]
    result = CliRunner().invoke(main, [*given, "--json"])
    assert result.exit_code == 0, result.output
    (row,) = json.loads(result.stdout)["batchnorms"]
    tried = {attempt["reason"]["code"] for attempt in row["search"] if attempt["reason"]}
    assert reason.code in {row["reason"]["code"], *tried}


def test_the_page_is_up_to_date() -> None:
    check = [sys.executable, str(ROOT / "scripts" / "make_reasons.py"), "--check"]
    run = subprocess.run(check, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")


def test_the_check_notices_a_page_that_drifted(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "docs").mkdir()
    script = tmp_path / "scripts" / "make_reasons.py"
    for name in ("make_reasons.py", "_environment.py"):
        (script.parent / name).write_bytes((ROOT / "scripts" / name).read_bytes())
    (tmp_path / "docs" / "reasons.md").write_text("an old page\n", encoding="utf-8")
    run = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "out of date" in run.stderr
