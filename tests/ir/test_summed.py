"""Kernels added up: the same numbers whole and in pieces, each rounded once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from bnfold import analysis, ir
from bnfold.ir import summed as summed_module
from bnfold.ir.summed import Summed
from bnfold.ir.tensor import TP, Exact, RangeViolation, Scaled


def stored(tmp_path: Path, *arrays: np.ndarray) -> list[ir.Tensor]:
    """The arrays as tensors whose bytes stay in a file."""
    tensors = [numpy_helper.from_array(array, f"w{index}") for index, array in enumerate(arrays)]
    path = tmp_path / "weights.onnx"
    onnx.save(helper.make_model(helper.make_graph([], "weights", [], [], tensors)), path)
    model = ir.load(path)
    found = [analysis.constant(model.graph.values[tensor.name]) for tensor in tensors]
    assert all(tensor is not None and tensor.can_read for tensor in found)
    return [tensor for tensor in found if tensor is not None]


def example(wide: ir.Tensor, narrow: ir.Tensor) -> tuple[Summed, np.ndarray]:
    """A kernel of two groups and a smaller one at a corner, factors on both axes, and the value itself."""
    rng = np.random.default_rng(5)
    outputs, inputs = wide.dims[:2]
    s, u, r = rng.normal(size=outputs), rng.normal(size=outputs), rng.normal(size=inputs)
    expected = wide.float64() * (s[:, None, None, None] * r[None, :, None, None])
    expected[:, :, 1:, 2:3] += narrow.float64()
    for output in range(outputs):
        expected[output, output % inputs, 1, 1] += u[output]
    terms = [(Scaled(wide, [(0, s), (1, r)]), (0, 0)), (Scaled(narrow, []), (1, 2))]
    return Summed(terms, u, (1, 1)), expected


def test_whole_and_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    arrays = [rng.normal(size=(6, 60, *taps)).astype(np.float32) for taps in ((3, 4), (2, 1))]
    found, expected = example(*stored(tmp_path, *arrays))
    assert (found.dims, found.dtype, found.can_read) == ((6, 60, 3, 4), TP.FLOAT, True)
    np.testing.assert_array_equal(found.float64(), expected)
    np.testing.assert_array_equal(found.numpy(), expected.astype(np.float32))
    np.testing.assert_array_equal(found.read(17, 40), expected.reshape(-1)[17:57])
    monkeypatch.setattr(summed_module, "CHUNK", 8 * 50)
    pieces = list(found.blocks())
    assert max(piece.size for piece in pieces) <= 50
    np.testing.assert_array_equal(np.concatenate(pieces), expected.astype(np.float32).reshape(-1))


def test_scaled_and_added_again(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    arrays = [rng.normal(size=(6, 60, *taps)).astype(np.float32) for taps in ((3, 4), (2, 1))]
    inner, _ = example(*stored(tmp_path, *arrays))
    factors = rng.normal(size=6)
    outer = Summed([(Scaled(inner, [(0, factors)]), (0, 0))], np.zeros(6), (0, 0))
    exact = (inner.float64() * factors[:, None, None, None]).astype(np.float32)
    np.testing.assert_array_equal(np.concatenate(list(outer.blocks())), exact.reshape(-1))
    np.testing.assert_array_equal(np.concatenate(list(Scaled(inner, [(0, factors)]).blocks())), exact.reshape(-1))
    assert len(set(outer.sources)) == 2


@pytest.mark.parametrize("dtype", [TP.FLOAT16, TP.BFLOAT16, TP.FLOAT])
def test_other_types_in_memory(dtype: int) -> None:
    rng = np.random.default_rng(4)
    wide, narrow = (Exact(dtype, rng.normal(size=(6, 3, *taps))) for taps in ((3, 4), (2, 1)))
    found, expected = example(wide, narrow)
    assert not found.can_read
    np.testing.assert_array_equal(found.numpy(), Exact(dtype, expected).numpy())
    np.testing.assert_array_equal(next(iter(found.blocks())), Exact(dtype, expected).numpy().reshape(-1))


def test_what_overflows_is_told(tmp_path: Path) -> None:
    (kernel,) = stored(tmp_path, np.full((16, 16, 1, 1), 3e38, np.float32))
    found = Summed([(Scaled(kernel, []), (0, 0))] * 2, np.zeros(16), (0, 0))
    assert np.isfinite(found.float64()).all()
    with pytest.raises(RangeViolation) as caught:
        next(iter(found.blocks()))
    assert caught.value.tensor is found
