"""Nothing but verification needs the openvino package, and ONNX models need nothing of this room."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from bnfold import VerifyOptions, optimize
from bnfold.cli.commands import main
from tests.conftest import MODELS
from tests.interop.openvino.text import convolution_and_norm


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> None:
    import bnfold.interop.openvino  # noqa: F401 - its modules have to be there to be patched

    monkeypatch.setattr(sys.modules["bnfold.interop.openvino.verify"], "find_spec", lambda _: None)


@pytest.mark.usefixtures("missing")
def test_a_model_is_folded_and_written_unverified(tmp_path: Path) -> None:
    path = convolution_and_norm().save(tmp_path / "m.xml")
    outcome = optimize(path, tmp_path / "out.xml")
    assert outcome.verdict is not None
    assert outcome.verdict.status == "unverified"
    assert "pip install openvino" in outcome.verdict.reason
    assert (tmp_path / "out.bin").exists()
    args = ["optimize", str(path), str(tmp_path / "out.xml")]
    assert CliRunner().invoke(main, args).exit_code == 0
    assert CliRunner().invoke(main, [*args, "--require-verified"]).exit_code == 3


def test_witness_none_leaves_nobody_to_ask(tmp_path: Path) -> None:
    path = convolution_and_norm().save(tmp_path / "m.xml")
    outcome = optimize(path, tmp_path / "out.xml", verify=VerifyOptions(runtime="none"))
    assert outcome.verdict is not None
    assert 'runtime="none"' in outcome.verdict.reason


def test_folding_imports_no_openvino(tmp_path: Path) -> None:
    path = convolution_and_norm().save(tmp_path / "m.xml")
    code = (
        "import sys; sys.modules['openvino'] = None\n"
        "from bnfold import VerifyOptions, optimize\n"
        f"o = optimize({str(path)!r}, {str(tmp_path / 'out.xml')!r}, verify=VerifyOptions(depth='none'))\n"
        "print(o.report.batchnorms[0].verdict)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "folded"


def test_an_onnx_model_imports_nothing_of_this(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom bnfold import VerifyOptions, optimize\n"
        f"optimize({str(MODELS / 'bn9.onnx')!r}, {str(tmp_path / 'out.onnx')!r}, verify=VerifyOptions(depth='none'))\n"
        "print([name for name in sys.modules if 'openvino' in name or name.startswith('xml.etree')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
