"""ScatterElements and ScatterND that reduce, where an older version cannot: at constant places, each written once."""

from __future__ import annotations

import numpy as np

from bnfold import ir
from bnfold.converting.context import Inexpressible
from bnfold.converting.node_conversion import NodeConversion
from bnfold.converting.registry import down
from bnfold.ir.elements import TP, Array

_OPERATORS = {"add": "Add", "mul": "Mul", "max": "Max", "min": "Min"}
_NUMBERS = (TP.FLOAT16, TP.FLOAT, TP.DOUBLE, TP.INT32, TP.INT64)


@down("ScatterElements ScatterND", 18)
def extremes(conversion: NodeConversion) -> None:
    """Convert 18 → 16, which adds and multiplies."""
    if conversion.node.attr("reduction", "none") not in ("none", "add", "mul"):
        reduced(conversion)


@down("ScatterElements ScatterND", 16, by_form=True)
def reduced(conversion: NodeConversion) -> None:
    """Convert 16 → 13: what is there is read, and the results are written in its place."""
    node, reduction = conversion.node, conversion.node.attr("reduction", "none")
    is_along_axis = node.is_op("ScatterElements")
    attrs = {"axis": int(node.attr("axis", 0))} if is_along_axis else {}
    if reduction == "none":
        node.del_attr("reduction")
        return
    data, indices, updates = (conversion.input(slot) for slot in range(3))
    if reduction not in _OPERATORS:
        raise Inexpressible(f"has reduction={reduction}")
    if conversion.dtype(data) not in _NUMBERS:
        raise Inexpressible(f"has reduction={reduction} of a type that {_OPERATORS[reduction]} does not take")
    tensor = conversion.known(indices)
    if tensor is None or not _are_distinct(conversion, tensor.numpy(), data, attrs.get("axis")):
        raise Inexpressible(f"has reduction={reduction} at places that are computed, or may be written several times")
    reading = "GatherElements" if is_along_axis else "GatherND"
    there = conversion.add(reading, [data, indices], "there", **attrs)
    node.set_input(2, conversion.add(_OPERATORS[reduction], [there, updates], "reduced"))
    node.del_attr("reduction")


def _are_distinct(conversion: NodeConversion, numbers: Array, data: ir.Value, axis: int | None) -> bool:
    """Whether no two indices mean the same place; of negative ones, the sizes that they count from are known."""
    rank = numbers.ndim if axis is not None else numbers.shape[-1] if numbers.ndim else 0
    shape = conversion.shape(data)
    sizes = [None] * rank if shape is None else [size if isinstance(size, int) and size else None for size in shape]
    if axis is not None:
        if not -rank <= axis < rank or len(sizes) != rank:
            return False
        grid: list[Array] = list(np.indices(numbers.shape))
        grid[axis % rank] = numbers
        places = np.stack(grid, -1).reshape(-1, rank)
    else:
        if not rank or len(sizes) < rank:
            return False
        places = numbers.reshape(-1, rank)
    if any(size is None and (places[:, place] < 0).any() for place, size in enumerate(sizes[:rank])):
        return False
    counted = np.where(places < 0, places + np.array([size or 0 for size in sizes[:rank]]), places)
    return len(np.unique(counted, axis=0)) == len(counted)
