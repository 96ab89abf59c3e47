"""Weights in every element type and storage form, in the message and on disk."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from bnfold import ir
from bnfold.errors import MalformedModel
from bnfold.ir import tensor as module
from bnfold.ir.elements import TP
from bnfold.ir.storage.save import encode
from bnfold.ir.storage.source import BufferSource
from bnfold.ir.storage.stored import Span, Stored
from bnfold.ir.tensor import Inline
from tests.ir.build import model, stored

DIMS = (3, 2, 5)
TYPED = [dtype for dtype in TP.DataType.values() if dtype not in (TP.UNDEFINED, TP.STRING, 25, 26, 27, 28)]


def _values(dtype: int, dims: Sequence[int]) -> np.ndarray[Any, Any]:
    numbers = np.arange(math.prod(dims)).reshape(dims) % 2  # in every type, also those of few bits
    if dtype == TP.FLOAT8E8M0:
        numbers += 1  # it has no zero
    return numbers.astype(helper.tensor_dtype_to_np_dtype(dtype))


def _loaded(proto: onnx.TensorProto) -> ir.Tensor:
    """As it comes out of a model; the tensor has to be large to lie outside the skeleton."""
    tensor = ir.load(model([], [proto])).graph.values["w"].tensor
    assert tensor is not None
    return tensor


def _rewritten(tensor: ir.Tensor) -> onnx.ModelProto:
    """The tensor given to another value, of another type and shape, and written."""
    loaded = ir.load(model([], [numpy_helper.from_array(np.zeros((2, 9)), "other")], outputs=["other"]))
    loaded.graph.values["other"].tensor = tensor
    back = onnx.ModelProto()
    back.ParseFromString(encode(loaded))
    return back


@pytest.mark.parametrize("large", [False, True], ids=["inline", "stored"])
@pytest.mark.parametrize("raw", [True, False], ids=["raw", "typed"])
@pytest.mark.parametrize("dtype", TYPED, ids=TP.DataType.Name)
def test_every_type_in_every_form(dtype: int, raw: bool, large: bool) -> None:
    values = _values(dtype, (300, *DIMS) if large else DIMS)
    if raw:
        proto = numpy_helper.from_array(values, "w")
    else:
        proto = helper.make_tensor("w", dtype, values.shape, values.astype(helper.tensor_dtype_to_np_dtype(dtype)))
        assert not proto.HasField("raw_data") or dtype >= TP.FLOAT8E4M3FN
    tensor = _loaded(proto)
    if large and len(proto.SerializeToString()) > 4200:
        assert isinstance(tensor, Stored)
    assert (tensor.dtype, tensor.dims) == (dtype, values.shape)
    np.testing.assert_array_equal(tensor.numpy().astype(np.complex128), values.astype(np.complex128))
    flat = np.concatenate([np.asarray(block) for block in tensor.blocks()])
    np.testing.assert_array_equal(flat.astype(np.complex128), values.reshape(-1).astype(np.complex128))
    (back,) = _rewritten(tensor).graph.initializer
    assert back.name == "other"
    np.testing.assert_array_equal(numpy_helper.to_array(back), numpy_helper.to_array(proto))


def test_strings_are_read_and_never_lifted() -> None:
    values = np.array(["ä" * 3000, "b"], dtype=object)
    tensor = _loaded(numpy_helper.from_array(values, "w"))
    assert isinstance(tensor, Inline)
    assert tensor.numpy().tolist() == values.tolist()
    assert tensor.nbytes == 0


def test_what_is_read_must_not_be_written_to() -> None:
    tensor = stored(np.arange(4, dtype=np.float32), TP.FLOAT)
    with pytest.raises(ValueError, match="read-only"):
        tensor.numpy()[0] = 1


@pytest.mark.parametrize("dims", [(2, 3), (-1, 5), (-5, -1), (6,)])
def test_data_that_does_not_fit_its_dims_is_refused(dims: tuple[int, ...]) -> None:
    for proto in (
        TP(name="w", data_type=TP.FLOAT, dims=dims, raw_data=bytes(20)),
        TP(name="w", data_type=TP.FLOAT, dims=dims, float_data=[1.0] * 5),
        TP(name="w", data_type=TP.INT8, dims=dims, int32_data=[300] * 5),
    ):
        with pytest.raises(MalformedModel, match="tensor 'w'"):
            Inline(proto).numpy()
    span = Span(BufferSource(bytes(20)), 0, 20)
    for use in (Stored.numpy, Stored.check, lambda tensor: list(tensor.blocks())):
        with pytest.raises(MalformedModel, match="tensor 'w'"):
            use(Stored(TP.FLOAT, dims, span, "w"))


def test_an_element_type_from_the_future_is_carried_but_not_read() -> None:
    tensor = Stored(200, (5,), Span(BufferSource(bytes(20)), 0, 20), "w")
    tensor.check()
    assert tensor.nbytes == 20
    with pytest.raises(MalformedModel, match="tensor 'w'"):
        tensor.numpy()


def test_blocks_of_a_stored_tensor_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", 8 * 7)
    values = np.arange(31, dtype=np.int64)
    blocks = list(stored(values, TP.INT64).blocks())
    assert [block.size for block in blocks] == [7, 7, 7, 7, 3]
    np.testing.assert_array_equal(list(itertools.chain(*blocks)), values)
