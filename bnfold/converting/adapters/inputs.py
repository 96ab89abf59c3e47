"""Steps that turn attributes into inputs."""

from __future__ import annotations

import numpy as np
import onnx

from bnfold import ir
from bnfold.converting.adapters.attributes import drop, keep_default
from bnfold.converting.context import Inexpressible
from bnfold.converting.node_conversion import Site


def moved(name: str, missing: str, site: Site) -> None:
    """Attribute ``name``, of integers, becomes input 1; ``missing`` says what is wrong where there is neither, if so.

    An empty list means the default, as no list does, but of Reshape. Some exporters wrote the later form already.
    """
    drop("consumed_inputs", site)
    stated = site.take(name)
    values = [stated] if isinstance(stated, int) else stated
    if values or (values is not None and site.node.op_type == "Reshape"):
        site.node.set_input(1, site.ints(values, name))
    elif missing and site.node.input(1) is None:
        raise Inexpressible(missing)


def split_count(site: Site) -> None:
    """Split 13 → 18: equal parts have to be counted; version 13 counted the outputs."""
    if site.node.input(1) is None:
        site.node.set_attr("num_outputs", len(site.node.outputs))


def split_input(site: Site) -> None:
    """Split 1 → 2: the lengths as a second input go; the axis gets its default."""
    lengths = site.node.input(1)
    if lengths is not None:
        site.node.set_attr("split", constant_ints(lengths, "its split lengths"))
        site.node.set_inputs([site.input(0)])
    keep_default({"axis": 0}, site)


def slice_bounds(site: Site) -> None:
    """Slice 1 → 10: ``starts``, ``ends``, ``axes``."""
    starts, ends, over = site.take("starts"), site.take("ends"), site.take("axes")
    if starts is None or ends is None:
        if site.node.input(2) is None:
            raise Inexpressible("has no starts or no ends")
        return
    inputs = [site.input(0), site.ints(starts, "starts"), site.ints(ends, "ends")]
    site.node.set_inputs(inputs + ([site.ints(over, "axes")] if over else []))


def pad_values(site: Site) -> None:
    """Pad 2 → 11: ``pads`` and ``value``."""
    pads, value = site.take("pads"), site.take("value", 0.0)
    if pads is None:
        if site.node.input(1) is None:
            raise Inexpressible("has no pads")
        return
    inputs = [site.input(0), site.ints(pads, "pads")]
    if value:
        inputs.append(site.scalar(value, inputs[0], "value"))
    site.node.set_inputs(inputs)


def clip_bounds(site: Site) -> None:
    """Clip 6 → 11: ``min`` and ``max``. The old defaults are float32's limits, the new ones those of the type."""
    low, high, data = site.take("min"), site.take("max"), site.input(0)
    if len(site.node.inputs) > 1:
        return  # written in the later form already
    if (low is None or high is None) and site.shared.types.dtype(data) == onnx.TensorProto.DOUBLE:
        limit = float(np.finfo(np.float32).max)
        low, high = (-limit if low is None else low), (limit if high is None else high)
    bounds = [
        None if bound is None else site.scalar(bound, data, name) for name, bound in (("min", low), ("max", high))
    ]
    while bounds and bounds[-1] is None:
        bounds.pop()
    if bounds:
        site.node.set_inputs([data, *bounds])


def dft_axis(site: Site) -> None:
    """DFT 17 → 20: ``axis``, whose default was 1 and is now the last but one."""
    axis = site.constant(np.array(site.take("axis", 1), np.int64), "axis")
    site.node.set_inputs([site.input(0), site.node.input(1), axis])


def tile_repeats(site: Site) -> None:
    """Tile 1 → 6: one axis and one count become a count for every axis."""
    data = site.input(0)
    (count,), (axis,) = (_one(site.input(index), what) for index, what in ((1, "tiles"), (2, "axis")))
    repeats = [1] * site.rank(data)
    if not -len(repeats) <= axis < len(repeats):
        raise Inexpressible(f"tiles axis {axis} of rank {len(repeats)}")
    repeats[axis] = count
    site.node.set_inputs([data, site.ints(repeats, "repeats")])


def _one(value: ir.Value, what: str) -> list[int]:
    elements = constant_ints(value, what)
    if len(elements) != 1:
        raise Inexpressible(f"{what} ({value.name!r}) has {len(elements)} elements, not one")
    return elements


def constant_ints(value: ir.Value, what: str) -> list[int]:
    """The integers that ``value`` holds in every run.

    Raises:
        Inexpressible: It is computed.
    """
    tensor = ir.constant(value)
    if tensor is None:
        raise Inexpressible(f"{what} ({value.name!r}) is not constant")
    values = tensor.numpy().reshape(-1)
    if values.dtype.kind not in "iuf" or not np.isfinite(values).all():
        raise Inexpressible(f"{what} ({value.name!r}) is no number")
    return [int(element) for element in values]
