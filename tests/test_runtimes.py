"""Whichever variant of onnxruntime is installed serves as the witness; without one, bnfold's own kernels do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from tests.conftest import MODELS, ROOT

pytestmark = pytest.mark.measures_children
ABSENT = "raise ModuleNotFoundError(f\"No module named '{__name__}'\", name=__name__)\n"


def bnfold(*arguments: object, path: Path) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, modules from ``path`` going before what is installed."""
    return subprocess.run(
        [sys.executable, "-m", "bnfold", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(path), str(ROOT)))},
    )


@pytest.fixture
def without(tmp_path: Path) -> Path:
    """A folder that hides onnxruntime from every process that has it on its path."""
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "onnxruntime.py").write_text(ABSENT, encoding="utf-8")
    return tmp_path / "hidden"


def test_the_hidden_runtime_is_really_hidden(without: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(without)}
    done = subprocess.run(
        [sys.executable, "-c", "import onnxruntime"], env=environment, check=False, capture_output=True
    )
    assert done.returncode == 1


@pytest.mark.parametrize("name", ["resnet_opset6", "depthwise", "float16", "in_loop"])
def test_without_a_runtime_models_are_folded_and_verified(name: str, without: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    done = bnfold("optimize", MODELS / f"{name}.onnx", out, "--require-verified", "--json", path=without)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["verify"]
    assert found["status"] == "verified"
    (witness,) = found["witnesses"]
    assert witness["notes"] == ["cannot run either model: onnxruntime is not installed"]
    assert not witness["ran_before"]
    assert "bnfold's own kernels measured the errors in the models' own precision" in found["notes"]
    assert all(row["error_after"] is not None for row in found["outputs"])
    assert "BatchNormalization" not in {node.op_type for node in onnx.load(out).graph.node}


def test_without_a_runtime_a_wrong_model_is_still_found_out(without: Path, tmp_path: Path) -> None:
    model = onnx.load(MODELS / "bn9.onnx")
    for tensor in model.graph.initializer:
        array = onnx.numpy_helper.to_array(tensor)
        if array.dtype == "float32":
            tensor.CopyFrom(onnx.numpy_helper.from_array(array * 1.01, tensor.name))
    onnx.save(model, tmp_path / "wrong.onnx")
    done = bnfold("verify", MODELS / "bn9.onnx", tmp_path / "wrong.onnx", path=without)
    assert done.returncode == 1
    assert "FAILED: " in done.stderr


def test_versions_name_the_variant_that_is_installed(tmp_path: Path) -> None:
    described = tmp_path / "onnxruntime_gpu-9.8.7.dist-info"
    described.mkdir()
    (described / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: onnxruntime-gpu\nVersion: 9.8.7\n", encoding="utf-8"
    )
    assert "onnxruntime-gpu 9.8.7" in bnfold("--version", path=tmp_path).stdout
