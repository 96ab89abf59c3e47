"""The log: silent unless somebody listens, and free where nobody can."""

from __future__ import annotations

import re
import subprocess
import sys

import onnx
import pytest

import bnfold
from bnfold.pipeline import passes
from bnfold.pipeline.passes import PASSES
from tests.conftest import MODELS

pytestmark = pytest.mark.measures_children
MODEL = MODELS / "generator.onnx"


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


def test_the_library_shows_nothing_by_itself() -> None:
    """Not even warnings, which Python prints where a library has no handler."""
    code = (
        "import logging, bnfold\n"
        f"bnfold.optimize({str(MODEL)!r}); bnfold.inspect({str(MODEL)!r})\n"
        "bnfold.log.warning('bnfold', 'seen by nobody')"
    )
    done = run(code)
    assert (done.stdout, done.stderr) == ("", "")


def test_what_the_program_asks_for_is_shown() -> None:
    done = run(f"import logging, bnfold; logging.basicConfig(level='INFO'); bnfold.optimize({str(MODEL)!r})")
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    shown = [line.split(": ")[0] for line in lines if line.startswith("INFO:bnfold.pipeline.passes:pass ")]
    assert shown == [f"INFO:bnfold.pipeline.passes:pass {step.__name__}" for step in PASSES]
    for pattern in (r"raise_opset: opset \d+ -> 15, nodes \d+", r"fold_affines: nodes \d+ -> \d+"):
        assert any(re.fullmatch(rf"INFO:bnfold.pipeline.passes:pass {pattern}, .* s", line) for line in lines), lines
    assert any(line.startswith("INFO:bnfold.pipeline.job:verified: ") for line in lines)
    others = {line.split(":")[2] for line in lines if ":bnfold.pipeline.job:" in line}
    assert others == {"load", "rewrite", "verify", "verified"}
    assert "DEBUG" not in done.stderr


def test_each_decision_is_a_line_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    proto = onnx.load(MODELS / "dense.onnx")
    proto.graph.node.insert(0, onnx.helper.make_node("Identity", [proto.graph.input[0].name], ["same\x1b[31m"]))
    proto.graph.node[1].input[0] = "same\x1b[31m"
    with caplog.at_level("DEBUG", "bnfold"):
        report = bnfold.optimize(proto, equalize=True, verify=bnfold.VerifyOptions(depth="none")).report
    found = [record for record in caplog.records if record.name == "bnfold.pipeline.context"]
    assert {record.levelname for record in found} == {"DEBUG"}
    lines = [record.getMessage() for record in found]
    for event in report.batchnorms:
        assert any(line.startswith(f"BatchNormalization {event.name} ") for line in lines), event.name
    for row in report.simplified:
        assert any(line.startswith(f"{row.rewrite.name}: {row.operator} ") for line in lines), row
    assert [row.rewrite.name for row in report.simplified] != []
    assert all(note in lines for note in report.notes)
    assert sum(line.startswith("converted: operator ") for line in lines) == len(report.conversion)
    assert any(line.startswith("batchnorm-fold: ") for line in lines)
    assert all("\x1b" not in line for line in lines)


def test_logging_is_not_imported_for_the_command_line() -> None:
    done = run("import sys, bnfold.cli.commands; print('logging' in sys.modules)")
    assert done.stdout == "False\n"


def test_an_unverified_result_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    proto = onnx.load(MODEL)
    proto.graph.node.add(op_type="Nobody", domain="nowhere", input=[proto.graph.output[0].name], output=["z"])
    proto.opset_import.add(domain="nowhere", version=1)
    proto.graph.output[0].name = "z"
    with caplog.at_level("INFO", "bnfold"):
        bnfold.optimize(proto, verify=bnfold.VerifyOptions(depth="full"))
    found = [record for record in caplog.records if record.name == "bnfold.pipeline.job" and record.levelname != "INFO"]
    assert [record.levelname for record in found] == ["WARNING"]
    assert found[0].getMessage().startswith("unverified: ")


def test_what_no_line_shows_takes_no_time(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """To count the nodes of a large model between passes takes time."""

    def never(_: object) -> None:
        raise AssertionError("they are counted")

    monkeypatch.setattr(passes, "_size", never)
    bnfold.optimize(MODEL, verify=bnfold.VerifyOptions(depth="none"))
    with caplog.at_level("INFO", "bnfold"), pytest.raises(AssertionError, match="they are counted"):
        bnfold.optimize(MODEL, verify=bnfold.VerifyOptions(depth="none"))
