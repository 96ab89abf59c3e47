"""scripts/verdicts.py: what two versions say of the same pairs, and what a record says."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT

PAIR = "Conv, BatchNormalization: mean added"
BELIEVING = """
def judge(request):
    from bnfold.verification.codes import Code
    return Verdict("verified", "planted", "nothing", code=Code.TESTED)
"""


def compare(*words: str | Path) -> subprocess.CompletedProcess[str]:
    asked = ["--sets", "seeded", "--only", PAIR, "--runtime", "none"]
    command: list[str | Path] = [sys.executable, ROOT / "scripts" / "verdicts.py", *asked, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def believing(folder: Path) -> Path:
    """A checkout whose verification believes everything."""
    shutil.copytree(ROOT / "bnfold", folder / "bnfold", ignore=shutil.ignore_patterns("__pycache__"))
    with (folder / "bnfold" / "verification" / "policy.py").open("a", encoding="utf-8") as file:
        file.write(BELIEVING)
    return folder


def test_a_verdict_that_differs_is_printed_with_both_reasons(tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    done = compare("--before", ROOT, "--after", believing(tmp_path / "believing"), "--json", record)
    assert done.returncode == 1, done.stderr
    assert f"seeded: {PAIR} (auto, none)\n    before failed (" in done.stdout
    assert "    after  verified (nothing): planted\n" in done.stdout
    assert "| seeded | failed | verified | 2 |" in done.stdout  # announced, and not
    verdicts = json.loads(record.read_text(encoding="utf-8"))
    assert {verdict["reason"] for verdict in verdicts.values()} == {"planted"}
    later = compare("--before", record)
    assert later.returncode == 1, later.stderr
    assert "| seeded | verified | failed | 2 |" in later.stdout


def test_one_version_differs_from_nothing(tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    done = compare("--json", record)
    assert (done.returncode, done.stderr) == (0, "2 pairs\n")
    assert "| set | verdict | verdicts |" in done.stdout
    assert "| seeded | failed | 2 |" in done.stdout
    later = compare("--before", record, "--reasons")
    assert (later.returncode, later.stderr) == (0, "2 pairs\n")
    assert "| seeded | failed | failed | 2 |" in later.stdout


def test_a_pair_that_a_record_does_not_have_differs_from_nothing(tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    record.write_text("{}", encoding="utf-8")
    done = compare("--before", record)
    assert (done.returncode, done.stderr) == (0, "2 pairs\n")
    assert "| seeded | - | failed | 2 |" in done.stdout


def test_what_is_no_checkout_is_named(tmp_path: Path) -> None:
    done = compare("--before", tmp_path / "gone")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"scripts/verdicts.py: {tmp_path / 'gone'} is no checkout of bnfold\n"
