"""Whether roundoff of the model explains a difference: a model may divide by a number that nearly vanishes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from bnfold import ir, reference
from bnfold.errors import BnfoldError
from fuzz import parts
from fuzz.builder import Array
from fuzz.distance import apart

_ROUNDOFF: dict[int, float] = {TensorProto.DOUBLE: 2.0**-53, TensorProto.FLOAT: 2.0**-24, TensorProto.FLOAT16: 2.0**-11}
DISCONTINUOUS = (
    "Floor", "Ceil", "Round", "Sign", "Greater", "Less", "GreaterOrEqual", "LessOrEqual", "ArgMax", "ArgMin",
)  # fmt: skip
_HAIR = 1e-7
_DRAWS = 4
_SLACK = 16
"""Multiple of the largest change by rounding each weight anew; a fold rounds products of several."""


Feeds = Mapping[str, Array]


def is_roundoff(before: Path, after: Path, feeds: Feeds) -> bool:
    """Whether the first model's results change as much when its own weights are rounded."""
    try:
        expected, found = (reference.evaluate(ir.load(path), feeds) for path in (before, after))
    except BnfoldError:
        return False
    differs = any(not np.array_equal(array, found[name], equal_nan=True) for name, array in expected.items())
    return differs and explains(onnx.load(before), feeds, expected, found, by_channel=True)


def explains(proto: onnx.ModelProto, feeds: Feeds, expected: Feeds, found: Feeds, *, by_channel: bool = False) -> bool:
    """Whether results change as much if weights move by a roundoff, and each step by one of float64.

    ``by_channel`` compares each channel alone: one channel of two may be nothing but noise.
    """
    try:
        moved = [reference.evaluate(ir.load(_moved(proto, seed)), feeds, jitter=seed) for seed in range(_DRAWS)]
    except BnfoldError:
        return False
    for name, array in expected.items():
        if array.shape != found[name].shape:
            return False
        if array.dtype.kind != "f":
            if not np.array_equal(array, found[name]):
                return False
            continue
        alike = [draw[name] for draw in moved if draw[name].shape == array.shape]  # factors of a Resize move, too
        axes = tuple(axis for axis in range(array.ndim) if axis != 1) if by_channel and array.ndim > 1 else None
        spread = np.max([apart(draw, array).max(axis=axes, initial=0.0) for draw in alike], axis=0, initial=0.0)
        if not (apart(found[name], array).max(axis=axes, initial=0.0) <= _SLACK * spread).all():
            return False
    return True


def without_ties(proto: onnx.ModelProto, feeds: Feeds, expected: Feeds, found: Feeds, tolerance: float) -> Feeds:
    """Return the expected result, with found elements if the original slightly beside its discontinuity has them.

    Zeros of padding stay exactly zero through a network, and Floor turns a rounding error beside them into -1.
    """
    settled = dict(expected)
    if not any(node.op_type in DISCONTINUOUS for node in proto.graph.node):
        return expected
    if any(info.type.tensor_type.elem_type == TensorProto.FLOAT16 for info in proto.graph.input):
        # Rounded weights move many numbers across, in both directions, and what follows adds them up.
        return {**settled, **{name: found[name] for name in _behind_discontinuous(proto) & settled.keys()}}
    for hair in (_HAIR, -_HAIR):
        try:
            beside = reference.evaluate(ir.load(_beside(proto, hair)), feeds)
        except BnfoldError:
            continue
        for name, array in settled.items():
            if array.shape == found[name].shape == beside[name].shape and array.dtype.kind == "f":
                scale = max(1.0, _largest(expected[name]))
                settled[name] = np.where(np.abs(beside[name] - found[name]) <= tolerance * scale, found[name], array)
    return settled


def _behind_discontinuous(proto: onnx.ModelProto) -> set[str]:
    """Return the values of the main graph that depend on a discontinuous operator."""
    behind: set[str] = set()
    for node in proto.graph.node:
        if node.op_type in DISCONTINUOUS or not behind.isdisjoint(node.input):
            behind.update(node.output)
    return behind


def _beside(proto: onnx.ModelProto, hair: float) -> onnx.ModelProto:
    """Return the model with a number added to all floats that discontinuous operators read."""
    copy = onnx.shape_inference.infer_shapes(proto)
    types = {info.name: info.type.tensor_type.elem_type for info in (*copy.graph.value_info, *copy.graph.input)}
    for place, node in reversed([*enumerate(copy.graph.node)]):
        read = node.input[0] if node.op_type in DISCONTINUOUS else ""
        dtype = types.get(read, TensorProto.FLOAT)
        if read and dtype in _ROUNDOFF:
            number = onnx.helper.make_tensor(f"hair {place}", dtype, [], [hair])
            copy.graph.initializer.append(number)
            node.input[0] = f"beside {place}"
            copy.graph.node.insert(place, onnx.helper.make_node("Add", [read, number.name], [f"beside {place}"]))
    return copy


def _moved(proto: onnx.ModelProto, seed: int) -> onnx.ModelProto:
    rng = np.random.default_rng(seed)
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for tensor in parts.tensors(copy):
        if tensor.data_type in _ROUNDOFF:
            values = numpy_helper.to_array(tensor).astype(np.float64)
            values = values * (1 + _ROUNDOFF[tensor.data_type] * rng.choice([-2.0, 2.0], values.shape))
            dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
            tensor.CopyFrom(numpy_helper.from_array(values.astype(dtype), tensor.name))
    return copy


def _largest(array: Array) -> float:
    return float(np.abs(array).max(initial=0.0))
