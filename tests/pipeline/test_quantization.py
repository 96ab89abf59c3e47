"""What int8 makes of weights, as `inspect --quantization` tells it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from jsonschema import validate

from bnfold.cli.commands import main
from tests.conftest import ROOT
from tests.folding.nets import Net


@pytest.fixture
def model(tmp_path: Path) -> Path:
    net = Net(dtype=np.float32)
    x = net.node("Conv", net.input(2, 3, 8, 8), net.const(6, 3, 3, 3))
    x = net.node("Relu", net.batchnorm(x, 6, scale=[1e-3, 1e-2, 0.1, 1, 10, 1e-40], shift=np.zeros(6)))
    y = net.node("Gemm", net.node("Flatten", x), net.const(5, 216), transB=1)
    onnx.save(net.model(y), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def document(*arguments: str) -> Any:
    done = CliRunner().invoke(main, ["inspect", *arguments, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_folding_widens_and_equalizing_narrows(model: Path) -> None:
    found = document(str(model), "--quantization")
    validate(found, json.loads((ROOT / "bnfold/report/report.schema.json").read_text(encoding="utf-8")))
    conv, gemm = found["quantization"]
    assert (conv["operator"], gemm["operator"]) == ("Conv", "Gemm")
    assert conv["before"]["spread"] < 10
    assert conv["folded"]["spread"] > 1000
    assert conv["equalized"]["spread"] < conv["folded"]["spread"] / 10
    assert conv["folded"]["per_tensor"] < conv["folded"]["per_channel"] - 1
    assert conv["equalized"]["per_tensor"] > conv["folded"]["per_tensor"]
    assert gemm["before"] == gemm["folded"]
    assert "equalized" in found
    assert found["equalized"] == []


def test_not_asked_for(model: Path) -> None:
    assert "quantization" not in document(str(model))


def test_table_and_page(model: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["inspect", str(model), "--quantization", "--report", str(tmp_path / "r.html")])
    assert done.exit_code == 0, done.output
    assert "int8 per tensor, dB" in done.stdout
    assert " dB with --equalize" in done.stderr
    assert "Weights in int8" in (tmp_path / "r.html").read_text(encoding="utf-8")
