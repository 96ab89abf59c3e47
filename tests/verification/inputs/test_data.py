from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from bnfold import ir
from bnfold.errors import BadInput
from bnfold.verification import verify
from bnfold.verification.inputs.data import load_data
from tests.verification.graphs import model, numbers

BODY = "(float[N,3] x, int64[M] i) => (float[N,3] y, int64[M] j) { y = Relu (x)  j = Abs (i) }"


def loaded() -> ir.Model:
    return ir.load(model(BODY, {}))


def record(path: Path, array: np.ndarray[Any, Any], name: str = "") -> None:
    path.write_bytes(onnx.numpy_helper.from_array(array, name).SerializeToString())


def folder(path: Path, output: np.ndarray[Any, Any] | None = None) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    value = numbers(0).normal(size=(4, 3)).astype(np.float32)
    record(path / "input_0.pb", value)
    record(path / "input_1.pb", np.array([-3, 2]))
    record(path / "output_0.pb", np.maximum(value, 0) if output is None else output)
    record(path / "output_1.pb", np.array([3, 2]), "j")
    return path


def test_an_archive_is_taken_in_the_models_types(tmp_path: Path) -> None:
    np.savez(tmp_path / "run.npz", x=np.ones((5, 3)), i=np.array([1, 2], np.int32))
    (run,) = load_data(tmp_path / "run.npz", loaded())
    assert run.feeds["x"].dtype == np.float32
    assert run.feeds["i"].dtype == np.int64
    assert run.outputs == {}


def test_a_folder_of_onnx_test_data(tmp_path: Path) -> None:
    (run,) = load_data(folder(tmp_path), loaded())
    assert run.feeds["x"].shape == (4, 3)
    assert run.outputs["j"].tolist() == [3, 2]


def test_a_folder_of_folders(tmp_path: Path) -> None:
    folder(tmp_path / "test_data_set_0")
    folder(tmp_path / "test_data_set_1")
    assert len(load_data(tmp_path, loaded())) == 2


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"x": np.ones((5, 3))}, "no array for input 'i'"),
        ({"x": np.ones(3), "i": np.ones(2, np.int64)}, "rank 2"),
        ({"x": np.ones((5, 3)), "i": np.ones(2)}, "type"),
    ],
)
def test_what_does_not_fit_is_said(tmp_path: Path, arrays: dict[str, Any], words: str) -> None:
    np.savez(tmp_path / "run.npz", **arrays)
    with pytest.raises(BadInput, match=words):
        load_data(tmp_path / "run.npz", loaded())


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such file"):
        load_data(tmp_path / "absent.npz", loaded())
    (tmp_path / "odd.npz").write_bytes(b"not an archive")
    with pytest.raises(BadInput, match=r"not an \.npz"):
        load_data(tmp_path / "odd.npz", loaded())
    np.save(tmp_path / "one.npy", np.ones(3))
    with pytest.raises(BadInput, match=r"not an \.npz"):
        load_data(tmp_path / "one.npy", loaded())
    (tmp_path / "input_0.pb").write_bytes(b"\xff\xff\xff")
    with pytest.raises(BadInput, match=r"input_0\.pb"):
        load_data(tmp_path, loaded())


def test_objects_are_not_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "run.npz", x=np.array([object()], dtype=object))
    with pytest.raises(BadInput):
        load_data(tmp_path / "run.npz", loaded())


def test_recorded_outputs_are_a_witness(tmp_path: Path) -> None:
    agreeing = verify(loaded(), loaded(), data=folder(tmp_path / "good"), runtime="none")
    assert agreeing.status == "verified"
    assert [(row.witness, row.agrees) for row in agreeing.witnesses] == [("recorded outputs", True)]
    wrong = np.full((4, 3), 7, np.float32)
    doubtful = verify(loaded(), loaded(), data=folder(tmp_path / "bad", wrong), runtime="none")
    assert doubtful.status == "verified"
    assert doubtful.witnesses[0].agrees is False
    assert "'y'" in doubtful.witnesses[0].notes[0]
