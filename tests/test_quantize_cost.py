"""The experiment behind docs/quantisation.md: its network, its equalisation, and that its figures are printed."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnx
import pytest
from _quantize import network, variants

from tests.conftest import ROOT

pytestmark = pytest.mark.large  # a script, which changes seldom


@pytest.fixture(scope="module")
def data() -> network.Array:
    return (
        np.random.default_rng(5).standard_normal((4, network.CHANNELS, network.SIZE, network.SIZE)).astype(np.float32)
    )


@pytest.fixture(scope="module")
def model(data: network.Array) -> onnx.ModelProto:
    return network.settle(network.make(2, np.random.default_rng(3)), data)


def test_statistics_are_those_of_the_data(model: onnx.ModelProto, data: network.Array) -> None:
    tensors = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "BatchNormalization":
            (normal,) = network.run(network.watched(model, node.output[0]), data)
            scale, shift = tensors[node.input[1]], tensors[node.input[2]]
            # epsilon takes a little off where the variance is small
            assert np.allclose(normal.mean((0, 2, 3)), shift, atol=1e-3 * np.abs(scale).max())
            assert (normal.std((0, 2, 3)) <= np.abs(scale) * 1.001).all()


def test_folding_widens_the_spread_and_equalising_narrows_it_again(model: onnx.ModelProto, data: network.Array) -> None:
    plain = variants.folded(model)
    even = variants.equalised(model)
    assert "BatchNormalization" not in {node.op_type for node in plain.graph.node}
    assert variants.spread(plain) > 10 * variants.spread(model)
    assert variants.spread(even) < 3
    reference = network.run(model, data)[0].astype(np.float64)
    assert variants.decibels(plain, reference, data) > 100
    assert variants.decibels(even, reference, data) > 100


def test_weights_alone_lose_by_a_fold_only_per_tensor(model: onnx.ModelProto, data: network.Array) -> None:
    reference = network.run(model, data)[0].astype(np.float64)
    quality = {
        way: variants.decibels(variants.weights_only(form, per_channel=per_channel), reference, data)
        for way, form, per_channel in variants.ways(model)
    }
    assert quality["folded, per tensor"] < quality["not folded, per tensor"] - 10
    assert quality["folded, per channel"] > quality["not folded, per channel"] - 1
    assert quality["folded, equalised, per tensor"] > quality["folded, per tensor"] + 10


def test_the_table_has_every_way() -> None:
    script = [sys.executable, str(ROOT / "scripts" / "quantize_cost.py"), "--networks", "1", "--decades", "0", "2"]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = done.stdout.splitlines()
    assert rows[0] == "| weights alone / and activations, dB | 0 decades | 2 decades |"
    assert len(rows) == 2 + 6
    assert all(row.count(", spread ") == 2 for row in rows[2:])
