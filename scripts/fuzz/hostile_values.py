"""Hostile changes to a model's declared values and weights: types, ranks, dims, bytes, numbers."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto

from fuzz.parts import DIMS, pick, tensors


def retype(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Set another element type, or a type other than tensors."""
    info = pick(rng, [*model.graph.input, *model.graph.output, *model.graph.value_info])
    if info is None:
        return
    if rng.random() < 0.3:
        info.type.CopyFrom(onnx.helper.make_sequence_type_proto(info.type))
    elif rng.random() < 0.3:
        info.ClearField("type")
    else:
        info.type.tensor_type.elem_type = int(rng.integers(0, 30))


def reshape_info(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Set another dim or rank of an input, an output or an annotation."""
    info = pick(rng, [*model.graph.input, *model.graph.output, *model.graph.value_info])
    if info is None or not info.type.HasField("tensor_type"):
        return
    dims = info.type.tensor_type.shape.dim
    kind = int(rng.integers(4))
    if kind == 0 and dims:
        del dims[int(rng.integers(len(dims)))]
    elif kind == 1:
        dims.add(dim_value=pick(rng, DIMS))
    elif kind == 2:
        info.type.tensor_type.ClearField("shape")
    elif dims:
        dims[int(rng.integers(len(dims)))].dim_value = pick(rng, DIMS)


def resize_tensor(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Set dims that contradict the data."""
    tensor = pick(rng, tensors(model))
    if tensor is None:
        return
    kind = int(rng.integers(5))
    if kind == 0:
        tensor.dims.append(pick(rng, DIMS))
    elif kind == 1 and tensor.dims:
        tensor.dims[int(rng.integers(len(tensor.dims)))] = pick(rng, DIMS)
    elif kind == 2:
        del tensor.dims[:]
    elif kind == 3:
        tensor.dims[:] = list(tensor.dims)[::-1]
    else:
        tensor.dims[:] = [1] * int(rng.choice([1, 8, 33, 70])) + list(tensor.dims)


def retype_tensor(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Set another element type for the same bytes, or other bytes, or a second payload."""
    tensor = pick(rng, tensors(model))
    if tensor is None:
        return
    kind = int(rng.integers(4))
    if kind == 0:
        tensor.data_type = int(rng.integers(0, 30))
    elif kind == 1:
        tensor.raw_data = tensor.raw_data[: int(rng.integers(len(tensor.raw_data) + 1))]
    elif kind == 2:
        tensor.float_data.extend([1.0] * int(rng.integers(1, 5)))
    else:
        tensor.raw_data = rng.bytes(len(tensor.raw_data))


def special_numbers(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Write NaN, infinities, negative variances, tiny and huge weights."""
    found = [tensor for tensor in tensors(model) if tensor.data_type == TensorProto.FLOAT and len(tensor.raw_data) >= 4]
    tensor = pick(rng, found)
    if tensor is None:
        return
    values = np.frombuffer(tensor.raw_data[: len(tensor.raw_data) // 4 * 4], "<f4").copy()
    special = pick(rng, (np.nan, np.inf, -np.inf, 0.0, -1.0, 1e38, 1e-38, 1e-45, -0.0))
    values[rng.random(values.size) < pick(rng, (0.1, 1.1))] = special
    tensor.raw_data = values.tobytes()
