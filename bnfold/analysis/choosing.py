"""Operators that put constants together, choose from them or say their sizes: every element stays what it is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bnfold.analysis.evaluators import EVALUATORS, PARTS, Operands, every, integers, moved, need, places, small
from bnfold.ir.node import Node
from bnfold.ir.tensor import TP, Array, InMemory, Tensor


def _of_one_type(sources: Sequence[Tensor]) -> None:
    if len({source.dtype for source in sources}) > 1:
        raise ValueError("several types")


def _concat(node: Node, operands: Operands) -> Tensor:
    sources = every(operands)
    _of_one_type(sources)
    axis = int(node.attr("axis", 1))  # which version 1 may leave out
    small([sum(source.size for source in sources)])
    return moved(lambda *arrays: np.concatenate(arrays, axis=axis), *sources)


def _slice(node: Node, operands: Operands) -> Tensor:
    """Take what lies between ``starts`` and ``ends``; a start below zero is clamped, and so is an end."""
    source = need(operands, 0)
    if node.has_attr("starts"):  # as before opset 10: while a graph is converted, nodes of both forms stand in it
        starts, ends = list(node.attr("starts")), list(node.attr("ends"))
        axes, steps = node.attr("axes"), None
    else:
        starts, ends = integers(need(operands, 1)), integers(need(operands, 2))
        axes, steps = (_numbers_of(operands, index, len(starts)) for index in (3, 4))
    axes = places(range(len(starts)) if axes is None else axes, len(source.dims))
    steps = steps or [1] * len(starts)
    window = [slice(None)] * len(source.dims)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        window[axis] = _window(start, end, step, source.dims[axis])
    return moved(lambda array: array[tuple(window)], source)


def _numbers_of(operands: Operands, index: int, count: int) -> list[int] | None:
    held = operands[index] if index < len(operands) else None
    numbers = integers(held) if held is not None else None
    if numbers is not None and len(numbers) != count:
        raise ValueError("not as many numbers")
    return numbers


def _window(start: int, end: int, step: int, size: int) -> slice:
    """Return Python's slice for ONNX's: an end below zero counts from the back once, and stops at the edge."""
    low, high = (0, size) if step > 0 else (-1, size - 1)
    start, end = (place + size if place < 0 else place for place in (start, end))
    start = min(max(start, 0), high)
    end = min(max(end, low), size)
    return slice(start, None if end < 0 else end, step)


def _gather(node: Node, operands: Operands) -> Tensor:
    source, places, axis = need(operands, 0), need(operands, 1), int(node.attr("axis", 0))
    integers(places)
    size = source.dims[axis]
    small((*source.dims[:axis], places.size, *source.dims[axis:][1:]))
    indices = places.numpy().astype(np.int64)
    if ((indices < -size) | (indices >= size)).any():
        raise ValueError("no such element")
    return moved(lambda array: np.take(array, indices, axis=axis), source)


def _tile(node: Node, operands: Operands) -> Tensor | None:
    source = need(operands, 0)
    if node.graph.opset() < 6:
        return None
    repeats = integers(need(operands, 1))
    if len(repeats) != len(source.dims) or min(repeats, default=0) < 0:
        raise ValueError("not as many numbers as axes")
    small([size * times for size, times in zip(source.dims, repeats, strict=True)])
    return moved(lambda array: np.tile(array, repeats), source)


def _pad(node: Node, operands: Operands) -> Tensor | None:
    """Pad with one number; what pads with the edge is no weight's."""
    source = need(operands, 0)
    if node.attr("mode", "constant") != "constant" or node.graph.opset() < 2:
        return None
    fill: Tensor = InMemory(source.dtype, np.zeros((), source.numpy().dtype))
    if node.has_attr("pads"):
        pads = list(node.attr("pads"))
        fill = InMemory(source.dtype, np.asarray(node.attr("value", 0.0)).astype(source.numpy().dtype))
        axes: Sequence[int] = range(len(source.dims))
    else:
        pads, numbers = integers(need(operands, 1)), _numbers_of(operands, 3, len(integers(need(operands, 1))) // 2)
        fill = operands[2] if len(operands) > 2 and operands[2] is not None else fill
        axes = range(len(source.dims)) if numbers is None else numbers
    if min(pads, default=0) < 0:
        return None
    widths = [(0, 0)] * len(source.dims)
    for axis, before, behind in zip(axes, pads[: len(pads) // 2], pads[len(pads) // 2 :], strict=True):
        widths[axis] = before, behind
    small([size + sum(width) for size, width in zip(source.dims, widths, strict=True)])
    _of_one_type([source, fill])
    return moved(lambda array, number: np.pad(array, widths, constant_values=number.reshape(())), source, fill)


def _where(_: Node, operands: Operands) -> Tensor:
    truth, *sources = every(operands)
    if truth.dtype != TP.BOOL or len(sources) != 2:
        raise ValueError("no condition")
    _of_one_type(sources)
    small(np.broadcast_shapes(truth.dims, *(source.dims for source in sources)))
    condition = truth.numpy()
    return moved(lambda yes, no: np.where(condition, yes, no), *sources)


def _shape(node: Node, operands: Operands) -> Tensor:
    dims = need(operands, 0).dims
    return InMemory(TP.INT64, np.array(dims[slice(node.attr("start", 0), node.attr("end", None))], np.int64))


def _size(_: Node, operands: Operands) -> Tensor:
    return InMemory(TP.INT64, np.array(need(operands, 0).size, np.int64))


def _parts(node: Node, operands: Operands, source: Tensor, axis: int) -> list[int]:
    """Return how long each part of a Split is."""
    numbers = _numbers_of(operands, 1, len(node.outputs))
    if node.has_attr("split"):
        numbers = list(node.attr("split"))
    if numbers is None:
        longest = -(-source.dims[axis] // len(node.outputs))
        numbers = [longest] * (len(node.outputs) - 1)
        numbers.append(source.dims[axis] - sum(numbers))
    if sum(numbers) != source.dims[axis] or min(numbers) < 0 or len(numbers) != len(node.outputs):
        raise ValueError("other parts than there are outputs")
    return numbers


def _split(node: Node, operands: Operands, slot: int) -> Tensor:
    source, axis = need(operands, 0), int(node.attr("axis", 0))
    parts = _parts(node, operands, source, axis)
    start = sum(parts[:slot])
    window: list[slice] = [slice(None)] * len(source.dims)
    window[axis] = slice(start, start + parts[slot])

    def part(array: Array) -> Array:
        return array[tuple(window)]

    return moved(part, source)


EVALUATORS.update(
    Concat=_concat,
    Slice=_slice,
    Gather=_gather,
    Tile=_tile,
    Pad=_pad,
    Where=_where,
    Shape=_shape,
    Size=_size,
)
PARTS["Split"] = _split
