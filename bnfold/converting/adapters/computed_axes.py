"""Reductions over axes that the model computes: each axis is split in two, and every second one is reduced."""

from __future__ import annotations

import numpy as np
import onnx

from bnfold import ir
from bnfold.converting.adapters import places
from bnfold.converting.context import Inexpressible
from bnfold.converting.node_conversion import NodeConversion

TP = onnx.TensorProto


def reduced(conversion: NodeConversion, axes: ir.Value) -> None:
    """Reduce over computed ``axes``: one of size n is reshaped to 1 by n if it is among them, and to n by 1 if not.

    A reduction over a single element is what one over no axis leaves of it.
    """
    node, data = conversion.node, conversion.input(0)
    rank, zeros = conversion.rank(data), _keeping_zeros(conversion, axes, data)
    keeps, stands = bool(conversion.take("keepdims", 1)), bool(conversion.take("noop_with_empty_axes", 0))
    picked = _picked(conversion, axes, rank, all_of_none=not stands)
    sizes, ones = conversion.add("Shape", [data], "sizes"), conversion.ints([1] * rank, "ones")
    left = conversion.add("Where", [picked, ones, sizes], "left")
    gone = conversion.add("Where", [picked, sizes, ones], "gone")
    columns = [conversion.along("Unsqueeze", 13, value, [1], "column") for value in (left, gone)]
    pairs = conversion.reshape(conversion.add("Concat", columns, "pairs", axis=1), [-1], "split_sizes")
    node.set_inputs([conversion.add("Reshape", [data, pairs], "split_axes", **zeros)])
    node.set_attr("axes", list(range(1, 2 * rank, 2)))
    node.set_attr("keepdims", 0)
    if not keeps:
        kept = conversion.add("Compress", [left, conversion.add("Not", [picked], "stays")], "kept", axis=0)
        output = conversion.output()
        conversion.append("Reshape", [conversion.divert(0, "reduced"), kept], output, **zeros)


def _picked(conversion: NodeConversion, axes: ir.Value, rank: int, *, all_of_none: bool) -> ir.Value:
    """Return for each axis whether it is among ``axes``."""
    counted = places.wrapped(conversion, axes, conversion.ints([rank], "rank"))
    column = conversion.along("Unsqueeze", 13, counted, [1], "axes")
    hits = conversion.add("Equal", [column, conversion.ints(range(rank), "every_axis")], "hits")
    numbers = conversion.add("Cast", [hits], "numbers", to=TP.FLOAT)
    picked = conversion.add("Cast", [conversion.along("ReduceSum", 13, numbers, [0], "count", keepdims=0)], "picked",
                            to=TP.BOOL)  # fmt: skip
    if not all_of_none:
        return picked
    zero = conversion.constant(np.array(0, np.int64), "zero")
    is_empty = conversion.add("Equal", [conversion.add("Size", [axes], "count_of_axes"), zero], "is_empty")
    return conversion.add("Or", [picked, is_empty], "picked_or_all")


def squeezed(conversion: NodeConversion, axes: ir.Value) -> None:
    """Remove computed axes: those that stay are looked up."""
    data = conversion.input(0)
    rank, zeros = conversion.rank(data), _keeping_zeros(conversion, axes, data)
    stays = conversion.add("Not", [_picked(conversion, axes, rank, all_of_none=False)], "stays")
    kept = conversion.add("Compress", [conversion.add("Shape", [data], "sizes"), stays], "kept", axis=0)
    conversion.become("Reshape", [data, kept], **zeros)


def unsqueezed(conversion: NodeConversion, axes: ir.Value) -> None:
    """Insert computed axes: the sizes that there are go to the places of the others, among ones."""
    data, (count,) = conversion.input(0), conversion.shape(axes) or (None,)
    if not isinstance(count, int):
        raise Inexpressible(f"has an unknown number of axes ({axes.name!r})")
    rank, zeros = conversion.rank(data) + count, _keeping_zeros(conversion, axes, data)
    stays = conversion.add("Not", [_picked(conversion, axes, rank, all_of_none=False)], "stays")
    found = conversion.along("Squeeze", 13, conversion.add("NonZero", [stays], "found"), [0], "places")
    ones, sizes = conversion.ints([1] * rank, "ones"), conversion.add("Shape", [data], "sizes")
    scatter = "Scatter" if conversion.target < 11 else "ScatterElements"
    shape = conversion.add(scatter, [ones, found, sizes], "shape", axis=0)
    conversion.become("Reshape", [data, shape], **zeros)


def _keeping_zeros(conversion: NodeConversion, axes: ir.Value, data: ir.Value) -> dict[str, int]:
    """Return attributes of a Reshape to computed sizes. Raises Inexpressible if one may be 0 and is taken over then."""
    if conversion.target < 9:
        raise Inexpressible(f"its axes ({axes.name!r}) is not constant, which needs the Where of opset 9")
    known = conversion.shape(data)
    if known is not None and all(isinstance(size, int) and size for size in known):
        return {}
    if conversion.target < 14:
        raise Inexpressible(f"its axes ({axes.name!r}) is not constant, and it may have no elements")
    return {"allowzero": 1}
