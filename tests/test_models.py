"""The models of models/ are what scripts/make_models.py makes, and are what their page says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from _models import catalogue, full
from _models.weights import Draw

from tests.conftest import MODELS

# The only one that is broken on purpose, and how onnx's checker says so.
INVALID = {"bn1_bare": "consumed_inputs"}


def test_regeneration_gives_the_same_bytes(tmp_path: Path) -> None:
    catalogue.write(tmp_path)
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    kept = {path.name: path.read_bytes() for path in MODELS.iterdir()}
    assert made.keys() == kept.keys()
    assert [name for name in made if made[name] != kept[name]] == []


@pytest.mark.parametrize("name", catalogue.MODELS)
def test_onnx_accepts_the_model(name: str) -> None:
    path = MODELS / f"{name}.onnx"
    if name in INVALID:
        with pytest.raises(onnx.checker.ValidationError, match=INVALID[name]):
            onnx.checker.check_model(path)
    else:
        onnx.checker.check_model(path, full_check=True)


@pytest.mark.parametrize("name", catalogue.MODELS)
def test_models_are_small_and_have_something_to_do(name: str) -> None:
    path = MODELS / f"{name}.onnx"
    assert path.stat().st_size < 1_000_000
    assert catalogue.count(onnx.load(path)) > 0 or name == "in1"


def test_every_version_of_batch_normalization_is_there() -> None:
    opsets = {onnx.load(path, load_external_data=False).opset_import[0].version for path in MODELS.glob("bn*.onnx")}
    assert opsets >= {1, 6, 7, 9, 14, 15}


def test_full_network_has_its_weights_as_initializers() -> None:
    model = full.make("shufflenet")
    assert (model.ir_version, model.opset_import[0].version) == (3, 9)
    assert "ConstantOfShape" not in {node.op_type for node in model.graph.node}
    assert catalogue.count(model) == 49
    assert {t.name for t in model.graph.initializer} <= {i.name for i in model.graph.input}
    weights = [onnx.numpy_helper.to_array(t) for t in model.graph.initializer if t.data_type == onnx.TensorProto.FLOAT]
    assert all(np.ptp(w) > 0 for w in weights if w.size > 1)
    onnx.checker.check_model(model, full_check=True)


def test_drawn_numbers_depend_on_seed_and_name_alone() -> None:
    drawn = Draw("seed").uniform("W", (2, 3), -1, 1)
    assert np.array_equal(drawn, Draw("seed").uniform("W", (2, 3), -1, 1))
    assert not np.array_equal(drawn, Draw("seed").uniform("V", (2, 3), -1, 1))
    assert not np.array_equal(drawn, Draw("other").uniform("W", (2, 3), -1, 1))
    assert drawn.dtype == np.float32
    assert np.abs(drawn).max() <= 1
