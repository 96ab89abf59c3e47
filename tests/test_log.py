"""The log: silent unless somebody listens, and free where nobody can."""

from __future__ import annotations

import subprocess
import sys

import pytest

import bnfold
from tests.conftest import MODELS

pytestmark = pytest.mark.measures_children
MODEL = MODELS / "mlp.onnx"


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
    assert "INFO:bnfold.pipeline.context:BatchNormalization " in done.stderr
    assert "INFO:bnfold.pipeline.job:verified: " in done.stderr
    assert "DEBUG" not in done.stderr


def test_logging_is_not_imported_for_the_command_line() -> None:
    done = run("import sys, bnfold.cli.commands; print('logging' in sys.modules)")
    assert done.stdout == "False\n"


def test_an_unverified_result_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    import onnx

    proto = onnx.load(MODEL)
    proto.graph.node.add(op_type="Nobody", domain="nowhere", input=[proto.graph.output[0].name], output=["z"])
    proto.opset_import.add(domain="nowhere", version=1)
    proto.graph.output[0].name = "z"
    with caplog.at_level("INFO", "bnfold"):
        bnfold.optimize(proto, verify=bnfold.VerifyOptions(depth="full"))
    found = [record for record in caplog.records if record.name == "bnfold.pipeline.job"]
    assert [record.levelname for record in found] == ["WARNING"]
    assert found[0].getMessage().startswith("unverified: ")
