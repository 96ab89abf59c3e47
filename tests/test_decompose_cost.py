"""The script that measures what decomposing costs: its arithmetic, and that it runs; never how long anything took."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from _bench.latency import CannotRunError, Paired, compare, feeds_for, session
from onnx import TensorProto, helper

from tests.conftest import MODELS, ROOT

SCRIPT = ROOT / "scripts" / "decompose_cost.py"


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)


def test_the_ratio_is_of_neighbours_and_not_of_sums() -> None:
    """One slow pair, in which both were slow, says nothing."""
    paired = Paired([1.0, 1.0, 100.0, 2.0], [2.0, 3.0, 100.0, 6.0])
    assert paired.ratio == 2.5
    assert paired.spread == (2.0, 3.0)


def test_every_pair_counts_but_the_first_ones() -> None:
    model = onnx.load(MODELS / "bn15.onnx")
    paired = compare(model, model, "off", 4)
    assert len(paired.before) == len(paired.after) == 4
    assert min(*paired.before, *paired.after) > 0


def test_feeds_leave_initializers_alone_and_close_open_dims() -> None:
    model = helper.make_model(
        helper.make_graph(
            [helper.make_node("Mul", ["x", "w"], ["y"])],
            "g",
            [
                helper.make_tensor_value_info("x", TensorProto.FLOAT16, ["n", 3]),
                helper.make_tensor_value_info("w", TensorProto.FLOAT16, [3]),
            ],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT16, ["n", 3])],
            [helper.make_tensor("w", TensorProto.FLOAT16, [3], [1, 2, 3])],
        )
    )
    feeds = feeds_for(model)
    assert {name: (array.shape, array.dtype) for name, array in feeds.items()} == {"x": ((1, 3), np.dtype(np.float16))}


def test_a_model_that_the_runtime_rejects() -> None:
    with pytest.raises(CannotRunError):
        session(onnx.load(MODELS / "bn6.onnx"), "off")


@pytest.mark.parametrize("form", ["mul_add", "depthwise_conv"])
def test_the_table(form: str) -> None:
    done = run(MODELS / "bn6.onnx", MODELS / "in_if.onnx", "--rounds", "1", "--form", form)
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines() if "|" in line]
    assert [row[0] for row in rows[2:]] == ["bn6", "bn6", "in_if", "in_if"]
    assert [row[3] for row in rows[2:]] == ["off", "on"] * 2
    assert [row[2] for row in rows[2:]] == ["1", "1", "3", "3"]


def test_a_file_that_is_no_model_is_told(tmp_path: Path) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"no model")
    done = run(tmp_path / "broken.onnx", "--rounds", "1")
    assert done.returncode == 1
    assert done.stderr.startswith("broken.onnx: ")
