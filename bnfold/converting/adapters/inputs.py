"""Steps that turn attributes into inputs."""

from __future__ import annotations

from functools import partial

import numpy as np
import onnx

from bnfold import ir
from bnfold.analysis.traits import REDUCING
from bnfold.converting.adapters.attributes import drop, keep_default
from bnfold.converting.context import Inexpressible
from bnfold.converting.node_conversion import NodeConversion
from bnfold.converting.registry import up

REDUCTIONS = " ".join(sorted(REDUCING - {"ReduceSum"}))
"""Reductions whose axes are an input from opset 18 on; those of ReduceSum are one from 13 on."""


def moved(name: str, missing: str, conversion: NodeConversion) -> None:
    """Move attribute ``name``, of integers, to input 1; ``missing`` says what is wrong where there is neither, if so.

    An empty list means the default, as no list does, but of Reshape. Some exporters wrote the later form already.
    """
    drop("consumed_inputs", conversion)
    stated = conversion.take(name)
    values = [stated] if isinstance(stated, int) else stated
    if values or (values is not None and conversion.node.op_type == "Reshape"):
        conversion.node.set_input(1, conversion.ints(values, name))
    elif missing and conversion.node.input(1) is None:
        raise Inexpressible(missing)


up(REDUCTIONS, 18)(partial(moved, "axes", ""))
up("ReduceSum Squeeze", 13)(partial(moved, "axes", ""))
up("Reshape", 5)(partial(moved, "shape", "has no shape"))
up("Split", 13)(partial(moved, "split", ""))
up("Unsqueeze", 13)(partial(moved, "axes", "has no axes"))
up("TopK", 10)(partial(moved, "k", ""))


@up("Split", 18)
def split_count(conversion: NodeConversion) -> None:
    """Split 13 → 18: equal parts have to be counted; version 13 counted the outputs."""
    if conversion.node.input(1) is None:
        conversion.node.set_attr("num_outputs", len(conversion.node.outputs))


@up("Split", 2)
def split_input(conversion: NodeConversion) -> None:
    """Split 1 → 2: the lengths as a second input go; the axis gets its default."""
    lengths = conversion.node.input(1)
    if lengths is not None:
        conversion.node.set_attr("split", conversion.numbers(lengths, "its split lengths"))
        conversion.node.set_inputs([conversion.input(0)])
    keep_default({"axis": 0}, conversion)


@up("Slice", 10)
def slice_bounds(conversion: NodeConversion) -> None:
    """Slice 1 → 10: ``starts``, ``ends``, ``axes``."""
    starts, ends, over = conversion.take("starts"), conversion.take("ends"), conversion.take("axes")
    if starts is None or ends is None:
        if conversion.node.input(2) is None:
            raise Inexpressible("has no starts or no ends")
        return
    inputs = [conversion.input(0), conversion.ints(starts, "starts"), conversion.ints(ends, "ends")]
    conversion.node.set_inputs(inputs + ([conversion.ints(over, "axes")] if over else []))


@up("Pad", 11)
def pad_values(conversion: NodeConversion) -> None:
    """Pad 2 → 11: ``pads`` and ``value``."""
    pads, value = conversion.take("pads"), conversion.take("value", 0.0)
    if pads is None:
        if conversion.node.input(1) is None:
            raise Inexpressible("has no pads")
        return
    inputs = [conversion.input(0), conversion.ints(pads, "pads")]
    if value:
        inputs.append(conversion.scalar(value, inputs[0], "value"))
    conversion.node.set_inputs(inputs)


@up("Clip", 11)
def clip_bounds(conversion: NodeConversion) -> None:
    """Clip 6 → 11: ``min`` and ``max``. The old defaults are float32's limits, the new ones those of the type."""
    low, high, data = conversion.take("min"), conversion.take("max"), conversion.input(0)
    if len(conversion.node.inputs) > 1:
        return  # written in the later form already
    if (low is None or high is None) and conversion.context.types.dtype(data) == onnx.TensorProto.DOUBLE:
        limit = float(np.finfo(np.float32).max)
        low, high = (-limit if low is None else low), (limit if high is None else high)
    bounds = [
        None if bound is None else conversion.scalar(bound, data, name) for name, bound in (("min", low), ("max", high))
    ]
    while bounds and bounds[-1] is None:
        bounds.pop()
    if bounds:
        conversion.node.set_inputs([data, *bounds])


@up("DFT", 20)
def dft_axis(conversion: NodeConversion) -> None:
    """Convert DFT 17 → 20: ``axis``, whose default was 1 and is now the last but one."""
    axis = conversion.constant(np.array(conversion.take("axis", 1), np.int64), "axis")
    conversion.node.set_inputs([conversion.input(0), conversion.node.input(1), axis])


@up("Tile", 6)
def tile_repeats(conversion: NodeConversion) -> None:
    """Convert Tile 1 → 6: one axis and one count become a count for every axis."""
    data = conversion.input(0)
    (count,), (axis,) = (_one(conversion, conversion.input(index), what) for index, what in ((1, "tiles"), (2, "axis")))
    repeats = [1] * conversion.rank(data)
    if not -len(repeats) <= axis < len(repeats):
        raise Inexpressible(f"tiles axis {axis} of rank {len(repeats)}")
    repeats[axis] = count
    conversion.node.set_inputs([data, conversion.ints(repeats, "repeats")])


def _one(conversion: NodeConversion, value: ir.Value, what: str) -> list[int]:
    elements = conversion.numbers(value, what)
    if len(elements) != 1:
        raise Inexpressible(f"{what} ({value.name!r}) has {len(elements)} elements, not one")
    return elements
