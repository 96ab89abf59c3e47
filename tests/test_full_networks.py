"""The whole job on real architectures at full size: everything that can go is gone, and the numbers are the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
from _models import catalogue, full

from tests.machine import unmeasured

# DenseNet activates before it convolves: most of its BatchNormalizations have a Relu behind them and a Concat before.
LEFT = {"resnet50": 0, "densenet121": 62, "inception_v2": 0, "shufflenet": 0}


@pytest.mark.large
@pytest.mark.parametrize("name", full.NETWORKS)
def test_network_is_upgraded_folded_and_verified(name: str, tmp_path: Path) -> None:
    source, out, report = full.write(name, tmp_path), tmp_path / "out.onnx", tmp_path / "report.json"
    code = "import sys; from bnfold.cli.commands import main; sys.exit(main())"
    command: list[str | Path] = [sys.executable, "-c", code, "optimize", source, out]
    command += ["--report", report, "--require-verified"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=unmeasured())
    assert done.returncode == 0, done.stderr
    check_report(json.loads(report.read_text()), LEFT[name])
    model = onnx.load(out)
    assert catalogue.count(model) <= LEFT[name]
    assert model.opset_import[0].version == 15
    onnx.checker.check_model(model, full_check=True)


def check_report(report: dict[str, Any], most: int) -> None:
    """The report agrees with the model, and has a reason for everything that is left."""
    left = [entry for entry in report["batchnorms"] if entry["verdict"] not in {"folded", "removed"}]
    assert len(left) <= most
    assert all(entry["reason"] for entry in left)
    assert report["opset"] == {"before": 9, "after": 15}
