"""Attention in terms of primitive operators, in the form that exporters write most; others have a function body."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx

from bnfold import ir
from bnfold.converting.context import Inexpressible, Meaningless
from bnfold.converting.node_conversion import NodeConversion
from bnfold.converting.registry import down

TP = onnx.TensorProto
_LARGEST_MASK = 1 << 20


class _Form(NamedTuple):
    """Rank of the inputs, heads of the query, how many of them share a key, and the width of a head."""

    rank: int
    heads: int
    shared: int
    width: int


@down("Attention", 23)
def plain(conversion: NodeConversion) -> None:
    """Decompose Attention without a soft cap or an output of the weights, of known head size."""
    _check_mask(conversion)
    query, key, data = (conversion.input(index) for index in range(3))
    form, masks = _checked(conversion, query, key, data)
    node, kind = conversion.node, conversion.dtype(query)
    scale = float(node.attr("scale", 0)) if node.has_attr("scale") else 1 / float(np.sqrt(form.width))
    if not scale > 0:
        raise Inexpressible(f"has scale={scale}")
    if form.rank == 3:
        query = _by_head(conversion, query, form.heads)
        key, data = (_by_head(conversion, value, form.heads // form.shared) for value in (key, data))
    key, data = (_with_past(conversion, place, value) for place, value in ((0, key), (1, data)))
    node.trim_outputs(1)
    if form.shared > 1:
        places = conversion.ints([head // form.shared for head in range(form.heads)], "heads")
        key, data = (conversion.add("Gather", [value, places], "by_head", axis=1) for value in (key, data))
    root = conversion.scalar(float(np.sqrt(scale)), query, "root_of_scale")
    flipped = conversion.add("Transpose", [key], "key_columns", perm=[0, 1, 3, 2])
    left, right = (conversion.add("Mul", [value, root], "scaled") for value in (query, flipped))
    weights = conversion.add("MatMul", [left, right], "weights")
    bias = _sum_of_masks(conversion, masks, kind)
    if bias is not None:
        weights = conversion.add("Add", [weights, bias], "masked")
    shares = conversion.add("Softmax", [weights], "shares", axis=3)
    if bias is not None and node.input(3) is not None:
        shares = _without_hidden_rows(conversion, shares, bias, kind)
    if form.rank == 4:
        conversion.become("MatMul", [shares, data])
        return
    made = conversion.add("MatMul", [shares, data], "made")
    rows = conversion.add("Transpose", [made], "rows", perm=[0, 2, 1, 3])
    conversion.become("Reshape", [rows, conversion.ints([0, 0, -1], "shape")])


@down("Attention", 24)
def whole_mask(conversion: NodeConversion) -> None:
    """Convert Attention 24 → 23: a mask for the first keys only hides the others. With lengths, the body does so."""
    mask = conversion.node.input(3)
    if mask is None or conversion.node.input(6) is not None:
        return
    dims, (width, count) = conversion.shape(mask), _check_mask(conversion, may_be_shorter=True)
    if width is not None and width == count:
        return
    if dims is None:
        raise Inexpressible("has a mask that may be shorter than its keys, and its rank is not known")
    kind = conversion.dtype(mask)
    hidden = np.array(False) if kind == TP.BOOL else _array(-np.inf, kind)
    sizes = [size for size in dims[:-1] if isinstance(size, int)]
    if isinstance(width, int) and isinstance(count, int) and len(sizes) == len(dims) - 1:
        rest = conversion.constant(np.broadcast_to(hidden, [*sizes, count - width]), "hidden")
        conversion.node.set_input(3, conversion.add("Concat", [mask, rest], "whole_mask", axis=len(sizes)))
        return
    missing = conversion.add("Sub", [_length(conversion), _size(conversion, mask, len(dims) - 1)], "missing")
    kept = conversion.ints([0] * (2 * len(dims) - 1), "kept")
    pads = conversion.add("Concat", [kept, missing], "pads", axis=0)
    conversion.node.set_input(3, conversion.add("Pad", [mask, pads, conversion.constant(hidden, "out")], "whole_mask"))


def _check_mask(conversion: NodeConversion, *, may_be_shorter: bool = False) -> tuple[int | str | None, ...]:
    """Return for how many keys there is a mask, and how many there are. Raises Meaningless where they do not fit."""
    mask, past = conversion.node.input(3), conversion.node.input(4)
    dims, key = None if mask is None else conversion.shape(mask), conversion.shape(conversion.input(1))
    count = key[-2] if key is not None and len(key) > 1 else None
    if past is not None:
        count = _sum(count, (conversion.shape(past) or (None,) * 3)[2])
    width = dims[-1] if dims else None
    if isinstance(width, int) and isinstance(count, int) and (width > count or (width < count and not may_be_shorter)):
        raise Meaningless(f"has a mask for {width} keys, and {count} keys")
    return width, count


def _length(conversion: NodeConversion) -> ir.Value:
    """Return the number of keys, those of a cache among them."""
    key, past = conversion.input(1), conversion.node.input(4)
    length = _size(conversion, key, conversion.rank(key) - 2)
    return length if past is None else conversion.add("Add", [length, _size(conversion, past, 2)], "length")


def _size(conversion: NodeConversion, value: ir.Value, axis: int) -> ir.Value:
    shape = conversion.add("Shape", [value], "shape")
    return conversion.add("Gather", [shape, conversion.ints([axis], "axis")], "size", axis=0)


def _sum_of_masks(conversion: NodeConversion, masks: Sequence[ir.Value], kind: int) -> ir.Value | None:
    bias: ir.Value | None = None
    for mask in masks:
        numbers = _numbers(conversion, mask, kind)
        bias = numbers if bias is None else conversion.add("Add", [bias, numbers], "masks")
    return bias


def _without_hidden_rows(conversion: NodeConversion, shares: ir.Value, bias: ir.Value, kind: int) -> ir.Value:
    """Return the shares, 0 where a mask hides everything from a place: of nothing but -inf Softmax makes NaN."""
    peak = conversion.along("ReduceMax", bias, [conversion.rank(bias) - 1], "peak", keepdims=1)
    lowest = np.finfo(onnx.helper.tensor_dtype_to_np_dtype(kind)).min
    is_hidden = conversion.add("Less", [peak, conversion.constant(_array(lowest, kind), "lowest")], "is_hidden")
    return conversion.add("Where", [is_hidden, conversion.constant(_array(0, kind), "zero"), shares], "seen")


def _numbers(conversion: NodeConversion, mask: ir.Value, kind: int) -> ir.Value:
    """Return what a mask adds to the weights: of truths, 0 or what hides."""
    if conversion.dtype(mask) != TP.BOOL:
        return mask
    numbers = [conversion.constant(_array(number, kind), hint) for number, hint in ((0, "zero"), (-np.inf, "hidden"))]
    return conversion.add("Where", [mask, *numbers], "mask")


def _array(number: object, kind: int) -> np.ndarray[Any, Any]:
    return np.array(number).astype(onnx.helper.tensor_dtype_to_np_dtype(kind))


def _checked(
    conversion: NodeConversion, query: ir.Value, key: ir.Value, data: ir.Value
) -> tuple[_Form, list[ir.Value]]:
    """Return the form, and what is added to the weights. Raises Inexpressible for forms that need more than this."""
    node, kind = conversion.node, conversion.dtype(query)
    if node.attr("softcap", 0.0) or node.has_attr("softmax_precision") or len(node.inputs) > 6:
        raise Inexpressible("has a soft cap, a precision of its own or lengths")
    if (weights := node.output(3)) is not None and not weights.is_unread:
        raise Inexpressible("gives its weights away")
    if kind not in (TP.FLOAT, TP.DOUBLE, TP.FLOAT16) or any(conversion.dtype(value) != kind for value in (key, data)):
        raise Inexpressible("is not of one type of floats")
    form, rows, columns = _form(conversion, query, key, data)
    past = node.input(4)
    if past is not None:
        columns = _sum(columns, (conversion.shape(past) or (None,) * 3)[2])
    masks = _masks(conversion, kind, columns)
    if node.attr("is_causal", 0):
        if past is not None:
            raise Inexpressible("hides what is behind each place, of a cache as well")
        masks.append(_causal(conversion, query, rows, columns))
    return form, masks


def _masks(conversion: NodeConversion, kind: int, columns: int | str | None) -> list[ir.Value]:
    """Return the mask that is an input, if there is one."""
    mask = conversion.node.input(3)
    if mask is None:
        return []
    dims = conversion.shape(mask)
    if dims is None or len(dims) not in (2, 4) or dims[-1] is None or dims[-1] != columns:
        raise Inexpressible("has a mask of sizes that are not known to fit")
    if conversion.dtype(mask) not in (kind, TP.BOOL):
        raise Inexpressible("has a mask of another type")
    return [mask]


def _sum(size: int | str | None, more: int | str | None) -> int | None:
    return size + more if isinstance(size, int) and isinstance(more, int) else None


def _form(
    conversion: NodeConversion, query: ir.Value, key: ir.Value, data: ir.Value
) -> tuple[_Form, int | str | None, int | str | None]:
    """Return the form, and the numbers of queries and keys."""
    first, second, third = (conversion.shape(value) for value in (query, key, data))
    if first is None or second is None or third is None or not len(first) == len(second) == len(third) in (3, 4):
        raise Inexpressible("has inputs of an unknown rank")
    rank = len(first)
    heads = [shape[1] for shape in (first, second, third)]
    if rank == 3:
        stated = [conversion.node.attr(name, 0) for name in ("q_num_heads", "kv_num_heads")]
        heads = [stated[0], stated[1], stated[1]]
    queries, keys, values = heads
    if not isinstance(queries, int) or not isinstance(keys, int) or keys != values or not 0 < keys <= queries:
        raise Inexpressible("has heads of which it is not known which belong together")
    width = first[-1] if rank == 4 else _divided(first[-1], queries)
    if not isinstance(width, int) or not width or queries % keys:
        raise Inexpressible("has a head size that is not known")
    return _Form(rank, queries, queries // keys, width), first[-2], second[-2]


def _with_past(conversion: NodeConversion, place: int, value: ir.Value) -> ir.Value:
    """Return keys or values behind those of the cache, which are an output as well."""
    past, present = conversion.node.input(4 + place), conversion.node.output(1 + place)
    is_wanted = present is not None and not present.is_unread
    if past is not None:
        return conversion.add("Concat", [past, value], present if present and is_wanted else "with_past", axis=2)
    if present is not None and is_wanted:
        conversion.add("Identity", [value], present)
    return value


def _divided(size: int | str | None, heads: int | str | None) -> int | None:
    if not isinstance(size, int) or not isinstance(heads, int) or heads < 1 or size % heads:
        return None
    return size // heads


def _by_head(conversion: NodeConversion, value: ir.Value, heads: int) -> ir.Value:
    """Split the rows of a sequence by head: batch, head, place, element."""
    split = conversion.add("Reshape", [value, conversion.ints([0, 0, heads, -1], "by_head")], "split")
    return conversion.add("Transpose", [split], "heads", perm=[0, 2, 1, 3])


def _causal(conversion: NodeConversion, like: ir.Value, rows: int | str | None, columns: int | str | None) -> ir.Value:
    """Return the constant that hides what is behind each place."""
    if not isinstance(rows, int) or not isinstance(columns, int) or rows * columns > _LARGEST_MASK:
        raise Inexpressible("hides what is behind each place, of an open number of places")
    hidden = np.arange(columns)[None, :] > np.arange(rows)[:, None]
    return conversion.constant(_array(np.where(hidden, -np.inf, 0), conversion.dtype(like)), "causal")
