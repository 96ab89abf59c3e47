"""Numbers for a drawn model beyond those it was drawn with: other values, and other sizes of what it leaves open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from _fuzz.builder import Array

Feeds = Mapping[str, Array]
FACTORS = (1.0, 1.0, 1.0, 0.1, 10.0)


def numbers(drawn: Feeds, rng: np.random.Generator, shapes: Mapping[str, list[int]] | None = None) -> Feeds:
    """Floats of every scale; integers, which may be places or sizes, out of those drawn."""
    return {name: _array(array, (shapes or {}).get(name, [*array.shape]), rng) for name, array in drawn.items()}


def _array(drawn: Array, shape: list[int], rng: np.random.Generator) -> Array:
    if drawn.dtype.kind in "iub":
        return rng.choice(drawn.reshape(-1), shape) if drawn.size else np.zeros(shape, drawn.dtype)
    return np.asarray(rng.standard_normal(shape) * rng.choice(FACTORS)).astype(drawn.dtype)


def resized(model: onnx.ModelProto, drawn: Feeds, rng: np.random.Generator) -> Feeds:
    """Other numbers, with another size for every dim that is open; what is called the same stays the same."""
    sizes: dict[Any, int] = {}
    shapes: dict[str, list[int]] = {}
    for info in (info for info in model.graph.input if info.name in drawn):
        shape = shapes[info.name] = [*drawn[info.name].shape]
        for axis, dim in enumerate(info.type.tensor_type.shape.dim[: len(shape)]):
            if not dim.HasField("dim_value"):
                options = [0, 1, 1, shape[axis] + 1, 2 * shape[axis], 2 * shape[axis] + 1]
                shape[axis] = sizes.setdefault(dim.dim_param or (info.name, axis), int(rng.choice(options)))
    return numbers(drawn, rng, shapes)


def overriding(model: onnx.ModelProto, rng: np.random.Generator) -> dict[str, Array]:
    """Other numbers for some of the defaults that a caller may override: those stored, in another order."""
    listed = {info.name for info in model.graph.input} if model.ir_version >= 4 else set()
    fed = [tensor for tensor in model.graph.initializer if tensor.name in listed and rng.random() < 0.3]
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in fed}
    return {
        name: rng.permutation(array.flatten()).reshape(array.shape)
        for name, array in arrays.items()
        if array.dtype.kind == "f" and array.dtype.isbuiltin == 1  # no file of numpy's holds 8-bit floats
    }
