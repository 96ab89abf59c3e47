"""Inputs for a drawn model beyond its own: other values, and other sizes of its dynamic dims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from fuzz import parts
from fuzz.builder import Array

Feeds = Mapping[str, Array]
FACTORS = (1.0, 1.0, 1.0, 0.1, 10.0)
FAR = 500.0


def numbers(drawn: Feeds, rng: np.random.Generator, shapes: Mapping[str, list[int]] | None = None) -> Feeds:
    """Draw floats of every scale; integers, which may be indices or sizes, are a choice of the drawn ones."""
    return {name: _array(array, (shapes or {}).get(name, [*array.shape]), rng) for name, array in drawn.items()}


def _array(drawn: Array, shape: list[int], rng: np.random.Generator) -> Array:
    if drawn.dtype.kind in "iub":
        return rng.choice(drawn.reshape(-1), shape) if drawn.size else np.zeros(shape, drawn.dtype)
    return np.asarray(rng.standard_normal(shape) * rng.choice(FACTORS)).astype(drawn.dtype)


def far(drawn: Feeds, number: float) -> Feeds:
    """Return ``number`` for every single float: any bound among them crosses the other one."""
    return {
        name: array if array.ndim or array.dtype.kind != "f" else np.asarray(number, array.dtype)
        for name, array in drawn.items()
    }


def turned(drawn: Feeds) -> Iterator[Feeds]:
    """Yield the inputs with one single boolean turned, for each of them."""
    for name, array in drawn.items():
        if array.dtype == bool and not array.ndim:
            yield {**drawn, name: np.asarray(~array)}


def open_dims(model: onnx.ModelProto, drawn: Feeds) -> dict[Any, list[tuple[str, int]]]:
    """Return the dynamic axes of inputs, those of one name together; exporters write 0 for an unknown size."""
    found: dict[Any, list[tuple[str, int]]] = {}
    for info in (info for info in model.graph.input if info.name in drawn):
        for axis, dim in enumerate(info.type.tensor_type.shape.dim[: drawn[info.name].ndim]):
            if not dim.dim_value:
                found.setdefault(dim.dim_param or (info.name, axis), []).append((info.name, axis))
    return found


def resized(model: onnx.ModelProto, drawn: Feeds, rng: np.random.Generator, *, empty: bool = True) -> Feeds:
    """Draw other numbers, with another size for every dynamic dim, 0 too if ``empty``.

    Dims of one name stay equal.
    """
    shapes = {name: [*array.shape] for name, array in drawn.items()}
    for places in open_dims(model, drawn).values():
        size = max(shapes[name][axis] for name, axis in places)
        chosen = max(int(rng.choice([0, 1, 1, size + 1, 2 * size, 2 * size + 1])), int(not empty))
        for name, axis in places:
            shapes[name][axis] = chosen
    return numbers(drawn, rng, shapes)


def emptied(model: onnx.ModelProto, drawn: Feeds) -> Feeds | None:
    """Return the inputs with no elements along the axes whose size is declared as 0; None if there is no such axis."""
    shapes = {name: [*array.shape] for name, array in drawn.items()}
    zeros = [
        (info.name, axis)
        for info in model.graph.input
        for axis, dim in enumerate(info.type.tensor_type.shape.dim)
        if info.name in drawn and dim.HasField("dim_value") and not dim.dim_value and axis < drawn[info.name].ndim
    ]
    for name, axis in zeros:
        shapes[name][axis] = 0
    return numbers(drawn, np.random.default_rng(0), shapes) if zeros else None


def opened(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with dynamic dims for declared sizes of 0, also inside it."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    held = [graph for graph in parts.graphs(copy) if isinstance(graph, onnx.GraphProto)]
    for info in (info for graph in held for info in (*graph.input, *graph.output, *graph.value_info)):
        for dim in info.type.tensor_type.shape.dim:
            if dim.HasField("dim_value") and not dim.dim_value:
                dim.ClearField("dim_value")
    return copy


def other_defaults(model: onnx.ModelProto, rng: np.random.Generator) -> dict[str, Array]:
    """Draw other numbers, of the same signs, for most of the floats that have a default."""
    arrays = _overridable(model)
    return {
        name: (rng.permutation(array.flatten()) * rng.choice([0.5, 1.5, 2.0])).reshape(array.shape).astype(array.dtype)
        for name, array in arrays.items()
        if rng.random() < 0.8
    }


def _overridable(model: onnx.ModelProto) -> dict[str, Array]:
    """Return the floats with a default that a file of numpy can hold."""
    listed = {info.name for info in model.graph.input} if model.ir_version >= 4 else set()
    found = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer if tensor.name in listed}
    return {name: array for name, array in found.items() if array.dtype.kind == "f" and array.dtype.isbuiltin == 1}


def overriding(model: onnx.ModelProto, rng: np.random.Generator) -> dict[str, Array]:
    """Draw other numbers for some of the defaults that callers may override: the stored ones, in another order."""
    return {
        name: rng.permutation(array.flatten()).reshape(array.shape)
        for name, array in _overridable(model).items()
        if rng.random() < 0.3
    }
