"""A Pad, and the convolutions and poolings behind it, without the Pad."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np

from bnfold import analysis, ir
from bnfold.analysis.shapes.arithmetic import Proven
from bnfold.edits.edit import NewNode, Operand
from bnfold.ir.tensor import FLOATS, TP, numpy_type
from bnfold.report import rewrites
from bnfold.simplifying.parameters import numbers
from bnfold.simplifying.plan import Simplification, replace

PADDED = ("Conv", "MaxPool", "AveragePool")
"""What can pad its input itself."""


def find_padding(node: ir.Node, known: Proven) -> Simplification | None:
    """Plan a node that pads its input itself, in place of a Pad that only such nodes read."""
    padded = node.input(0)
    first = padded.producer if padded is not None and not padded.is_output else None
    if padded is None or first is None or not first.is_op("Pad") or first.has_references:
        return None
    uses = [(consumer, slot) for consumer, slot in padded.uses if consumer is not node]
    if any(slot or _attrs(consumer, first, known) is None for consumer, slot in uses):
        return None
    attrs = _attrs(node, first, known)
    if attrs is None or len(uses) + 1 < len(padded.uses):
        return None
    rewrite = rewrites.PAD_CONV if node.op_type == "Conv" else rewrites.PAD_POOL.of(node.op_type)
    source: Operand = first.input(0)
    if node.op_type == "MaxPool" and not _fills_the_least(first, known):
        source = _again(first, uses)
    return replace(rewrite, node, node.op_type, [source, *node.inputs[1:]], attrs) if source is not None else None


def _again(pad: ir.Node, others: Collection[object]) -> NewNode | None:
    """Return the node whose results are never negative once more, under a name of its own, if only the Pad reads it.

    Verification compares the nodes that differ. With other numbers than these the two are not equal, so that it is to
    begin in front of that node.
    """
    source = pad.input(0)
    first = source.producer if source is not None and source.only_consumer is pad else None
    if first is None or others or any(value is None for value in first.inputs):
        return None
    inputs = [value for value in first.inputs if value is not None]
    return NewNode(first.op_type, inputs, {name: first.attr(name) for name in first.attrs})


def _attrs(node: ir.Node, pad: ir.Node, known: Proven) -> dict[str, Any] | None:
    """Return the attributes of a node that also does what a Pad before it does; None if it cannot."""
    is_ordinary = node.is_op(*PADDED) and node.graph is pad.graph and not (node.has_references or known.calls(node))
    if not is_ordinary or node.attr("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return None
    kernel = (known.dims(node.input(1)) or ())[2:] if node.op_type == "Conv" else node.attr("kernel_shape", [])
    added = _added(pad, len(kernel) + 2, known) if kernel else None
    if added is None or any(amount < 0 for amount in added):
        return None
    rank = len(added) // 2
    begins, ends = added[:rank], added[rank:]
    if any(begins[:2]) or any(ends[:2]):
        return None
    attrs = {name: node.attr(name) for name in node.attrs if name != "auto_pad"}
    own = attrs.get("pads") if node.attr("auto_pad", "NOTSET") == "NOTSET" else None
    pads = [one + other for one, other in zip(begins[2:] + ends[2:], own or [0] * (2 * rank - 4), strict=True)]
    return _padding({**attrs, "pads": pads}, node, pad, known)


def _padding(attrs: dict[str, Any], node: ir.Node, pad: ir.Node, known: Proven) -> dict[str, Any] | None:
    """Return the attributes with which a node pads as a Pad does; None if it would pad something else."""
    if node.op_type == "Conv":
        return attrs if _fills_zeros(pad) else None
    if not _has_data_in_windows(node, pad, attrs, known):
        return None
    if node.op_type == "MaxPool":
        return attrs if _fills_what_never_wins(pad, known) else None
    counts = node.attr("count_include_pad", 0) or not any(node.attr("pads", []))
    can_count = node.graph.opset() >= 7 and counts and _fills_zeros(pad)
    return {**attrs, "count_include_pad": 1} if can_count else None


def _has_data_in_windows(node: ir.Node, pad: ir.Node, attrs: dict[str, Any], known: Proven) -> bool:
    """Whether each window of a pooling has an element of what is padded, so that runtimes take such pads.

    A window of ``ceil_mode`` may begin in the padding.
    """
    kernel, pads = attrs["kernel_shape"], attrs["pads"]
    dims = known.dims(pad.input(0))
    if dims is None or node.attr("ceil_mode", 0) or set(node.attr("dilations", [])) - {1} or len(node.outputs) > 1:
        return False
    sizes = dims[2:]
    return all(amount < size for amount, size in zip(pads, [*kernel, *kernel], strict=True)) and all(
        not amount or (size > 0 if isinstance(size, int) else size in known.positive)
        for amount, size in zip(pads, [*sizes, *sizes], strict=True)
    )


def _filling(pad: ir.Node) -> int | float | None:
    """Return the number that a Pad puts around its input; None if it is not known, or not one number."""
    if pad.attr("mode", "constant") != "constant" or pad.graph.opset() < 2:
        return None
    stated: int | float
    if pad.graph.opset() < 11:
        stated = pad.attr("value", 0.0)
        return stated
    if pad.input(2) is None:
        return 0
    held = analysis.constant(pad.input(2))
    stated = held.numpy().item() if held is not None and held.size == 1 else math.nan
    return None if math.isnan(stated) else stated


def _fills_zeros(pad: ir.Node) -> bool:
    return _filling(pad) == 0 and math.copysign(1, _filling(pad) or 0) > 0


def _fills_what_never_wins(pad: ir.Node, known: Proven) -> bool:
    """Whether a Pad puts the least number of a type around its input, or zeros around what is never negative."""
    return _fills_the_least(pad, known) or (_fills_zeros(pad) and _is_never_negative(pad.input(0), known))


def _fills_the_least(pad: ir.Node, known: Proven) -> bool:
    filling, dtype = _filling(pad), known.dtype(pad.input(0))
    if dtype in (TP.INT8, TP.UINT8):
        return filling == np.iinfo(numpy_type(dtype)).min
    return filling == -math.inf


def _is_never_negative(value: ir.Value | None, known: Proven) -> bool:
    """Whether a Relu or Clip makes a value, which leaves nothing below zero."""
    node = value.producer if value is not None else None
    if value is None or node is None or node.has_references or known.calls(node) or known.dtype(value) not in FLOATS:
        return False
    if node.is_op("Clip"):  # between bounds that are the wrong way round, it returns the upper one
        bounds = [node.attr("min", -math.inf), node.attr("max", math.inf)]
        for place, bound in enumerate((node.input(1), node.input(2))):
            if bound is not None:
                held = analysis.constant(bound)
                bounds[place] = held.numpy().item() if held is not None and held.size == 1 else math.nan
        return all(bound >= 0 for bound in bounds)
    return node.is_op("Relu")


def _added(pad: ir.Node, rank: int, known: Proven) -> list[int] | None:
    """Return what a Pad adds before each axis, and then what it adds behind each."""
    pads, axes = numbers(pad, "pads", known), numbers(pad, "axes", known, [*range(rank)])
    if pads is None or axes is None or len(pads) != 2 * len(axes) or not all(-rank <= axis < rank for axis in axes):
        return None
    places = [axis % rank for axis in axes]
    found = dict(zip([*places, *(rank + place for place in places)], pads, strict=True))
    return [found.get(place, 0) for place in range(2 * rank)] if len(found) == len(pads) else None
