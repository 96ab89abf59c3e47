"""Convolutions whose weight is read a few rows at a time, and tables of which only the chosen rows are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import bnfold
from bnfold import ir, reference
from bnfold.ir.elements import Array
from bnfold.ir.storage.stored import Stored
from bnfold.reference import streamed


def _convolution(folder: Path, x: tuple[int, ...], w: tuple[int, ...], **attributes: Any) -> ir.Model:
    rng = np.random.default_rng(len(w))
    weights = [("w", rng.standard_normal(w).astype(np.float32)), ("b", rng.standard_normal(w[0]).astype(np.float32))]
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w", "b"], ["y"], **attributes)],
        "convolution",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in weights],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(proto, folder / "model.onnx", save_as_external_data=True, location="data", size_threshold=0)
    return ir.load(folder / "model.onnx")


@pytest.fixture
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed, "_LARGE", 0)
    monkeypatch.setattr(streamed, "_BLOCK", 100)


CASES = [
    ((2, 3, 9, 8), (5, 3, 3, 2), {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
    ((1, 8, 6), (7, 8, 1), {}),
    ((3, 4, 5, 4, 3), (6, 4, 2, 2, 2), {"dilations": [2, 1, 1]}),
]


@pytest.mark.parametrize(("x", "w", "attributes"), CASES)
def test_rows_make_what_the_whole_weight_makes(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    x: tuple[int, ...],
    w: tuple[int, ...],
    attributes: dict[str, Any],
) -> None:
    model = _convolution(tmp_path, x, w, **attributes)
    feeds = {"x": np.random.default_rng(1).standard_normal(x).astype(np.float32)}
    expected = reference.evaluate(model, feeds)["y"]
    monkeypatch.setattr(streamed, "_LARGE", 0)
    monkeypatch.setattr(streamed, "_BLOCK", 100)
    monkeypatch.setattr(streamed.StreamedWeight, "whole", None)  # it is not read at once
    found = reference.evaluate(model, feeds)["y"]
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.usefixtures("everything_is_large")
def test_a_weight_is_read_once_where_the_columns_do_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bnfold.reference.kernels import conv

    x, w, attributes = CASES[0]
    model, feeds = _convolution(tmp_path, x, w, **attributes), {"x": np.ones(x, np.float32)}
    expected = reference.evaluate(model, feeds)["y"]
    monkeypatch.setattr(conv, "COLUMN_ELEMENTS", 64)
    reads: list[int] = []
    read = Stored.read

    def counted(self: Stored, start: int, count: int) -> Array:
        reads.append(count)
        return read(self, start, count)

    monkeypatch.setattr(Stored, "read", counted)
    np.testing.assert_allclose(reference.evaluate(model, feeds)["y"], expected, rtol=1e-12, atol=1e-12)
    assert sorted(reads) == [5, 90]


@pytest.mark.usefixtures("everything_is_large")
def test_of_no_image_nothing_is_made(tmp_path: Path) -> None:
    model = _convolution(tmp_path, (0, 3, 9, 8), (5, 3, 3, 2))
    assert reference.evaluate(model, {"x": np.ones((0, 3, 9, 8), np.float32)})["y"].shape == (0, 5, 7, 7)


@pytest.mark.usefixtures("everything_is_large")
def test_a_damaged_row_of_a_large_weight_is_found(tmp_path: Path) -> None:
    x, w, attributes = CASES[0]
    _convolution(tmp_path, x, w, **attributes)
    before = onnx.load(tmp_path / "model.onnx")
    after = onnx.ModelProto.FromString(before.SerializeToString())
    damaged = numpy_helper.to_array(after.graph.initializer[0]).copy()
    damaged[-1, 0, 0, 0] += 0.25
    after.graph.initializer[0].CopyFrom(numpy_helper.from_array(damaged, "w"))
    for name, proto in (("before.onnx", before), ("after.onnx", after)):
        onnx.save(proto, tmp_path / name, save_as_external_data=True, location=f"{name}.data", size_threshold=0)
    assert bnfold.verify(tmp_path / "before.onnx", tmp_path / "after.onnx").status == "failed"
    assert bnfold.verify(tmp_path / "before.onnx", tmp_path / "before.onnx").verified


def test_small_and_grouped_weights_are_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = _convolution(tmp_path, (1, 4, 5), (6, 2, 3), group=2)
    assert streamed.streamed(model.graph.nodes[0], 1) is None
    monkeypatch.setattr(streamed, "_LARGE", 0)
    assert streamed.streamed(model.graph.nodes[0], 1) is None
    whole = _convolution(tmp_path, (1, 2, 5), (6, 2, 3))
    assert streamed.streamed(whole.graph.nodes[0], 1) is not None
    assert streamed.streamed(whole.graph.nodes[0], 2) is None


def _table(folder: Path, axis: int = 0) -> ir.Model:
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (int64[N,M] i) => (float[A,B,C,D] y) '
        f"{{ y = Gather <axis = {axis}> (t, i) }}"
    )
    rows = np.random.default_rng(2).standard_normal((50, 6, 4)).astype(np.float32)
    proto.graph.initializer.append(numpy_helper.from_array(rows, "t"))
    onnx.save(proto, folder / "model.onnx", save_as_external_data=True, location="data", size_threshold=0)
    return ir.load(folder / "model.onnx")


@pytest.mark.parametrize("places", [[[3, 4, 5], [-1, 0, 4]], [[7, 7, 7], [7, 7, 7]], [[], []]])
def test_only_the_rows_that_are_chosen_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, places: list[list[int]]
) -> None:
    model, feeds = _table(tmp_path), {"i": np.array(places, np.int64)}
    expected = reference.evaluate(model, feeds)["y"]
    monkeypatch.setattr(streamed, "_LARGE", 0)
    reads: list[int] = []
    read = Stored.read

    def counted(self: Stored, start: int, count: int) -> Array:
        reads.append(count // 24)
        return read(self, start, count)

    monkeypatch.setattr(Stored, "read", counted)
    found = reference.evaluate(model, feeds)["y"]
    assert (found.shape, found.dtype) == (expected.shape, np.dtype(np.float64))
    np.testing.assert_array_equal(found, expected)
    assert sum(reads) == len({place % 50 for row in places for place in row})


@pytest.mark.parametrize("place", [50, -51])
def test_a_row_that_is_not_there_is_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int) -> None:
    model = _table(tmp_path)
    for size in (1 << 25, 0):
        monkeypatch.setattr(streamed, "_LARGE", size)
        with pytest.raises(reference.Misfit):
            reference.evaluate(model, {"i": np.array([[place]], np.int64)})


def test_other_slices_than_rows_are_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed, "_LARGE", 0)
    assert streamed.streamed(_table(tmp_path, axis=1).graph.nodes[0], 0) is None


@pytest.mark.usefixtures("everything_is_large")
@pytest.mark.parametrize(("row", "status"), [(None, "verified"), (31, "failed")])
def test_every_row_of_a_large_table_is_compared(tmp_path: Path, row: int | None, status: str) -> None:
    """A sum that went into the table, or not into one of its rows."""
    rows = np.random.default_rng(2).standard_normal((50, 64)).astype(np.float32)
    moved = rows + np.float32(1)
    if row is not None:
        moved[row] = rows[row]
    head = '<ir_version: 8, opset_import: ["" : 17]> g (int64[1,4] i) => (float[A,B,C] y)'
    for name, table, body in (("a", rows, "h = Gather (t, i)  y = Add (h, one)"), ("b", moved, "y = Gather (t, i)")):
        proto = onnx.parser.parse_model(f"{head} {{ {body} }}")
        proto.graph.initializer.append(numpy_helper.from_array(table, "t"))
        proto.graph.initializer.append(numpy_helper.from_array(np.array(1, np.float32), "one"))
        onnx.save(proto, tmp_path / f"{name}.onnx", save_as_external_data=True, location=f"{name}.data")
    assert bnfold.verify(tmp_path / "a.onnx", tmp_path / "b.onnx").status == status
