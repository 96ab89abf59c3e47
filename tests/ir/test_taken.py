"""Parts of weights, and numbers below the smallest normal one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import bnfold
from bnfold import ir
from bnfold.ir.subnormal import count_subnormal
from bnfold.ir.taken import Taken, rows, taken
from bnfold.ir.tensor import TP, Exact, InMemory, Scaled


def stored(folder: Path, array: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> ir.Tensor:
    """The array as a tensor that stays on disk."""
    graph = helper.make_graph([helper.make_node("Identity", ["w"], ["y"])], "g", [],
                              [helper.make_tensor_value_info("y", TP.FLOAT, array.shape)],
                              [numpy_helper.from_array(array, "w")])  # fmt: skip
    onnx.save(helper.make_model(graph), folder / "m.onnx")
    tensor = ir.load(folder / "m.onnx").graph.values["w"].tensor
    assert tensor is not None
    assert tensor.can_read
    return tensor


def test_places_along_axes(tmp_path: Path) -> None:
    array = np.random.default_rng(0).normal(size=(40, 30, 3, 3)).astype(np.float32)
    one, two = np.array([0, 3, 39]), np.array([1, 2, 29])
    for base in (stored(tmp_path, array), InMemory(TP.FLOAT, array), Scaled(InMemory(TP.FLOAT, array), [])):
        for kept, expected in (([one], array[one]), ([one, two], array[one][:, two]), ([None, two], array[:, two])):
            part = taken(base, kept)
            assert part.dims == expected.shape
            np.testing.assert_array_equal(part.numpy(), expected)
            np.testing.assert_array_equal(np.concatenate([*part.blocks()]), expected.reshape(-1))
            np.testing.assert_array_equal(part.float64(), expected)
    assert taken(base, [None]) is base
    assert isinstance(taken(Exact(TP.FLOAT, np.arange(3.0)), [np.array([1])]), Exact)


def test_other_columns_in_each_row(tmp_path: Path) -> None:
    array = np.arange(4000, dtype=np.float32).reshape(40, 100)
    columns = np.stack([np.arange(5) + row for row in range(3)])
    part = Taken(stored(tmp_path, array), (np.array([[1], [7], [30]]), columns))
    expected = np.stack([array[row, places] for row, places in zip((1, 7, 30), columns, strict=True)])
    np.testing.assert_array_equal(np.concatenate([*part.blocks()]).reshape(3, 5), expected)


def test_rows_are_all_of_a_tensor(tmp_path: Path) -> None:
    array = np.arange(300000, dtype=np.float32).reshape(3000, 100)
    pieces = [*rows(stored(tmp_path, array))]
    assert len(pieces) > 1
    np.testing.assert_array_equal(np.concatenate([piece for _, piece in pieces]), array)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_subnormal_numbers(kind: type[np.floating]) -> None:
    tiny = np.finfo(kind).tiny
    numbers = np.array([0, -0.0, 1, np.inf, -np.inf, np.nan, tiny, -tiny, tiny / 2, -tiny / 4, tiny * 0.999], kind)
    assert count_subnormal(InMemory(helper.np_dtype_to_tensor_dtype(np.dtype(kind)), numbers)) == 3
    assert count_subnormal(InMemory(TP.FLOAT16, np.array([1e-7], np.float16))) == 0


def test_a_note_names_them() -> None:
    weights = np.ones((4, 4), np.float32)
    weights[0] = 1e-40
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TP.FLOAT, [1, 4])], [helper.make_tensor_value_info("y", TP.FLOAT, [1, 4])],
        [numpy_helper.from_array(weights, "w")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    notes = [note for note in bnfold.inspect(model).report.notes if "normal number" in note]
    assert len(notes) == 1
    assert notes[0].startswith("4 weights are not 0, but below the smallest normal number: w (4)")
