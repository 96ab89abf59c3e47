"""Whether a difference is no more than a model makes of roundoff: one that divides by what nearly vanishes, say."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from _fuzz import parts
from _fuzz.builder import Array
from bnfold import ir, reference
from bnfold.errors import BnfoldError

_ROUNDOFF: dict[int, float] = {TensorProto.DOUBLE: 2.0**-53, TensorProto.FLOAT: 2.0**-24, TensorProto.FLOAT16: 2.0**-11}
_DRAWS = 4
_SLACK = 16
"""Times the largest change that rounding each weight anew makes; a fold rounds products of several."""


Feeds = Mapping[str, Array]


def explains(proto: onnx.ModelProto, feeds: Feeds, expected: Feeds, found: Feeds) -> bool:
    """Whether weights moved by a roundoff, and each step by one of float64, change the original's results as much."""
    try:
        moved = [reference.evaluate(ir.load(_moved(proto, seed)), feeds, jitter=seed) for seed in range(_DRAWS)]
    except BnfoldError:
        return False
    for name, array in expected.items():
        if array.shape != found[name].shape or array.dtype.kind != "f":
            return False
        alike = [draw[name] for draw in moved if draw[name].shape == array.shape]  # factors of a Resize move, too
        spread = max((_largest(draw - array) for draw in alike), default=0.0)
        if not _largest(found[name] - array) <= _SLACK * spread:
            return False
    return True


def _moved(proto: onnx.ModelProto, seed: int) -> onnx.ModelProto:
    rng = np.random.default_rng(seed)
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for tensor in parts.tensors(copy):
        if tensor.data_type in _ROUNDOFF:
            values = numpy_helper.to_array(tensor).astype(np.float64)
            size = np.where(values == 0, _largest(values) or 1.0, values)  # what is zero cancels: to a roundoff of others
            values = values + size * _ROUNDOFF[tensor.data_type] * rng.choice([-2.0, 2.0], values.shape)
            dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
            tensor.CopyFrom(numpy_helper.from_array(values.astype(dtype), tensor.name))
    return copy


def _largest(array: Array) -> float:
    return float(np.abs(array).max(initial=0.0))
