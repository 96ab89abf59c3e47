"""ScatterElements and ScatterND that reduce, where the target cannot: at constant places, each written once."""

from __future__ import annotations

import numpy as np

from bnfold import ir
from bnfold.converting.adapters import indexing
from bnfold.converting.context import Inexpressible
from bnfold.converting.node_conversion import NodeConversion
from bnfold.converting.registry import down
from bnfold.ir.elements import TP, Array

_OPERATORS = {"add": "Add", "mul": "Mul", "max": "Max", "min": "Min"}
_FLOATS = (TP.FLOAT16, TP.FLOAT, TP.DOUBLE)
_WHOLE = (TP.INT32, TP.INT64)


@down("ScatterElements", 16, by_form=True)
@down("ScatterElements", 18)
def elements(conversion: NodeConversion) -> None:
    """Convert ScatterElements 18 → 16 → 13: what is there is read, and the results are written in its place."""
    _reduced(conversion, "GatherElements", axis=int(conversion.node.attr("axis", 0)))


@down("ScatterND", 16, by_form=True)
@down("ScatterND", 18)
def rows(conversion: NodeConversion) -> None:
    """Convert ScatterND 18 → 16 → 13, as ScatterElements."""
    _reduced(conversion, "GatherND")


def _reduced(conversion: NodeConversion, reading: str, **attrs: int) -> None:
    node, reduction = conversion.node, conversion.node.attr("reduction", "none")
    if reduction == "none":
        node.del_attr("reduction")
        return
    if reduction in ("add", "mul") and conversion.target >= 16:
        return
    data, indices, updates = (conversion.input(slot) for slot in range(3))
    if reduction not in _OPERATORS:
        raise Inexpressible(f"has reduction={reduction}")
    if conversion.dtype(data) not in (*_FLOATS, *_WHOLE) or (
        reduction in ("max", "min") and conversion.target < 12 and conversion.dtype(data) not in _FLOATS
    ):
        raise Inexpressible(f"has reduction={reduction} of a type that {_OPERATORS[reduction]} does not take")
    tensor = conversion.known(indices)
    if tensor is None or not _are_distinct(conversion, tensor.numpy(), data, attrs.get("axis")):
        raise Inexpressible(f"has reduction={reduction} at places that are computed, or may be written several times")
    there = conversion.add(reading, [data, indices], "there", **attrs)
    if conversion.target < 11:
        inner = NodeConversion(conversion.added[-1], conversion.context)
        (indexing.gather_nd if reading == "GatherND" else indexing.gather_elements)(inner)
        conversion.added += inner.added
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
