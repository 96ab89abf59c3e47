"""Attention in terms of primitive operators, in the form that exporters write most; others have a function body."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from bnfold import ir
from bnfold.converting.context import Inexpressible
from bnfold.converting.node_conversion import NodeConversion

TP = onnx.TensorProto
_LARGEST_MASK = 1 << 20


def plain(conversion: NodeConversion) -> None:
    """Decompose Attention without mask, cache, soft cap or shared heads, of known head size."""
    query, key, data = (conversion.input(index) for index in range(3))
    shape, keys = _checked(conversion, query, key, data)
    node, rank = conversion.node, len(shape)
    heads = int(node.attr("q_num_heads", 0)) if rank == 3 else shape[1]
    width = shape[-1] if rank == 4 else _divided(shape[-1], heads)
    if not isinstance(width, int) or not isinstance(heads, int):
        raise Inexpressible("has a head size that is not known")
    mask = _causal(conversion, query, shape[-2], keys[-2]) if node.attr("is_causal", 0) else None
    scale = float(node.attr("scale", 0)) if node.has_attr("scale") else 1 / float(np.sqrt(width))
    if not scale > 0:
        raise Inexpressible(f"has scale={scale}")
    if rank == 3:
        query, key, data = (_by_head(conversion, value, heads) for value in (query, key, data))
    root = conversion.scalar(float(np.sqrt(scale)), query, "root_of_scale")
    flipped = conversion.add("Transpose", [key], "key_columns", perm=[0, 1, 3, 2])
    left, right = (conversion.add("Mul", [value, root], "scaled") for value in (query, flipped))
    weights = conversion.add("MatMul", [left, right], "weights")
    if mask is not None:
        weights = conversion.add("Add", [weights, mask], "masked")
    shares = conversion.add("Softmax", [weights], "shares", axis=3)
    if rank == 4:
        conversion.become("MatMul", [shares, data])
        return
    made = conversion.add("MatMul", [shares, data], "made")
    rows = conversion.add("Transpose", [made], "rows", perm=[0, 2, 1, 3])
    conversion.become("Reshape", [rows, conversion.ints([0, 0, -1], "shape")])


def _checked(
    conversion: NodeConversion, query: ir.Value, key: ir.Value, data: ir.Value
) -> tuple[Sequence[int | str | None], Sequence[int | str | None]]:
    """Return the shapes of query and key. Raises Inexpressible for forms that need more than this."""
    node = conversion.node
    shapes = [conversion.shape(value) for value in (query, key, data)]
    if any(value is not None for value in node.inputs[3:]) or any(
        value is not None and not value.is_unread for value in node.outputs[1:]
    ):
        raise Inexpressible("has a mask or a cache")
    if node.attr("softcap", 0.0) or node.has_attr("softmax_precision"):
        raise Inexpressible("has a soft cap or a precision of its own")
    if conversion.dtype(query) not in (TP.FLOAT, TP.DOUBLE) or conversion.dtype(data) != conversion.dtype(query):
        raise Inexpressible("is not of float32 or float64")
    if conversion.target < 7:
        raise Inexpressible("needs the broadcasting of opset 7")
    first, second, third = shapes
    if first is None or second is None or third is None or not len(first) == len(second) == len(third) in (3, 4):
        raise Inexpressible("has inputs of an unknown rank")
    heads = [shape[1] for shape in (first, second, third)]
    if len(first) == 3:
        heads = [node.attr("q_num_heads", 0), node.attr("kv_num_heads", 0)]
    if len(set(heads)) != 1 or not isinstance(heads[0], int) or heads[0] < 1:
        raise Inexpressible("shares heads")
    return first, second


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
    kind = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(conversion.dtype(like)))
    hidden = np.arange(columns)[None, :] > np.arange(rows)[:, None]
    return conversion.constant(np.where(hidden, -np.inf, 0).astype(kind), "causal")
