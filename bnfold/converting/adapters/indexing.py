"""Operators that read or write at computed places, where old opsets lack them: Gather and Scatter along one axis."""

from __future__ import annotations

import math

import numpy as np
import onnx

from bnfold import ir
from bnfold.converting.adapters import places
from bnfold.converting.context import Inexpressible
from bnfold.converting.node_conversion import NodeConversion
from bnfold.converting.registry import down


@down("GatherND", 11)
def gather_nd(conversion: NodeConversion) -> None:
    """Decompose GatherND: the axes that are indexed become one, and each row of indices one number."""
    data, (depth, rest) = conversion.input(0), _indexed(conversion)
    flat_places = _places(conversion, data, conversion.input(1), depth)
    if depth > 1:
        data = conversion.reshape(data, [-1, *rest], "flat")
    conversion.become("Gather", [data, flat_places], axis=0)


@down("ScatterND", 11)
def scatter_nd(conversion: NodeConversion) -> None:
    """Decompose ScatterND: Scatter writes rows into the input with the indexed axes as one, and the others as one."""
    data, updates, (depth, rest) = conversion.input(0), conversion.input(2), _indexed(conversion)
    dims, width = _dims_around(conversion, data), math.prod(rest)
    column = conversion.reshape(_places(conversion, data, conversion.input(1), depth), [-1, 1], "rows")
    rows = conversion.reshape(updates, [-1, width], "updated_rows")
    wide = conversion.add("Expand", [column, conversion.add("Shape", [rows], "rows_shape")], "places")
    flat = conversion.reshape(data, [-1, width], "flat")
    written = conversion.add("Scatter", [flat, wide, rows], "written", axis=0)
    conversion.become("Reshape", [written, conversion.ints(dims, "shape")])


@down("GatherElements", 11)
def gather_elements(conversion: NodeConversion) -> None:
    """Decompose GatherElements: a Gather from all elements in a row, of known sizes."""
    data, indices, axis = conversion.input(0), conversion.input(1), int(conversion.take("axis", 0))
    dims, shape = conversion.shape(data) or (), conversion.shape(indices) or ()
    sizes, counts = ([size for size in each if isinstance(size, int) and size] for each in (dims, shape))
    if not dims or len(sizes) < len(dims) or len(counts) < len(shape) or math.prod(counts) > _MOST_PLACES:
        raise Inexpressible("has indices or an input of open sizes, or very many")
    if len(counts) != len(sizes) or not -len(sizes) <= axis < len(sizes):
        raise Inexpressible(f"has axis {axis}, and indices of rank {len(counts)} into an input of rank {len(sizes)}")
    axis %= len(sizes)
    steps = [math.prod(sizes[place + 1 :]) for place in range(len(sizes))]
    others = [0 if place == axis else step for place, step in enumerate(steps)]
    offsets = np.tensordot(np.array(others), np.indices(counts), 1).astype(np.int64)
    indices = _wide(conversion, indices, "wide_indices")
    if not places.is_never_negative(conversion.input(1)):
        indices = places.wrapped(conversion, indices, conversion.ints([sizes[axis]], "size"))
    rows = conversion.add("Mul", [indices, conversion.ints([steps[axis]], "step")], "rows")
    flat_places = conversion.add("Add", [rows, conversion.constant(offsets, "offsets")], "places")
    flat = conversion.reshape(data, [-1], "flat")
    conversion.become("Gather", [flat, flat_places], axis=0)


@down("OneHot", 11)
def one_hot(conversion: NodeConversion) -> None:
    """Convert OneHot 11 → 9, which forbids places that count from the end, and shape inference refuses stored ones.

    What lies before the first place stays nowhere.
    """
    indices, held, depth = (
        conversion.input(0),
        conversion.known(conversion.input(0)),
        conversion.known(conversion.input(1)),
    )
    if conversion.dtype(indices) in _UNSIGNED or places.is_never_negative(indices):
        return
    if held is None or depth is None:
        conversion.node.set_input(0, _computed_places(conversion, indices))
        return
    array, size = np.trunc(held.numpy()), np.trunc(depth.numpy().reshape(-1)[0])  # the text casts to int64 first
    turned = np.where(array < 0, array + size, array)
    turned = np.where(turned < 0, size, turned).astype(held.numpy().dtype)
    conversion.node.set_input(0, conversion.constant(turned, "places"))


def _computed_places(conversion: NodeConversion, indices: ir.Value) -> ir.Value:
    """Count the places of OneHot from the front; one that is still negative becomes the depth, which is no place."""
    size = _wide(conversion, conversion.input(1), "wide_depth")
    counted = places.wrapped(conversion, _wide(conversion, indices, "wide_indices"), size)
    zero = conversion.constant(np.array(0, np.int64), "zero")
    is_nowhere = conversion.add("Less", [counted, zero], "is_nowhere")
    return conversion.add("Where", [is_nowhere, size, counted], "places")


def _wide(conversion: NodeConversion, value: ir.Value, hint: str) -> ir.Value:
    """Return ``value`` as int64."""
    is_wide = conversion.dtype(value) == onnx.TensorProto.INT64
    return value if is_wide else conversion.add("Cast", [value], hint, to=onnx.TensorProto.INT64)


_UNSIGNED = frozenset(getattr(onnx.TensorProto, f"UINT{bits}") for bits in (8, 16, 32, 64))
_MOST_PLACES = 1 << 20
"""Places of elements that are worth a stored constant."""


def _indexed(conversion: NodeConversion) -> tuple[int, list[int]]:
    """Return how many axes the indices point into, and the sizes of the axes behind these."""
    data, indices = conversion.input(0), conversion.input(1)
    rank, shape = conversion.rank(indices), conversion.shape(indices)
    depth = shape[-1] if shape and rank else None
    known = conversion.shape(data)
    if not isinstance(depth, int) or depth < 1 or known is None:
        raise Inexpressible("has indices or an input of unknown shape")
    if conversion.node.op_type == "GatherND" and depth == 1:
        return depth, []  # the input stays as it is
    rest = known[1:] if conversion.node.op_type == "ScatterND" else known[depth:]
    sizes = [size for size in rest if isinstance(size, int) and size > 0]
    if len(sizes) < len(rest):
        raise Inexpressible("has an input that is open, or empty, along an axis that stays as it is")
    return depth, sizes[len(sizes) - (len(known) - depth) :]


def _dims_around(conversion: NodeConversion, data: ir.Value) -> list[int]:
    """Return the shape of the result as Reshape takes it: the first size may be open."""
    return [-1, *(size for size in (conversion.shape(data) or ())[1:] if isinstance(size, int))]


def _places(conversion: NodeConversion, data: ir.Value, indices: ir.Value, depth: int) -> ir.Value:
    """Return one number for each row of indices; negative ones count from the end of their axis."""
    sizes = (conversion.shape(data) or ())[:depth]
    known = [size for size in sizes if isinstance(size, int)]
    behind = [size for size in sizes[1:] if isinstance(size, int)]
    strides = [math.prod(behind[place:]) for place in range(depth)] if len(behind) == depth - 1 else None
    tensor = conversion.known(indices)
    if strides and tensor is not None and (len(known) == depth or not (tensor.numpy() < 0).any()):
        rows = tensor.numpy()
        rows = np.where(rows < 0, rows + np.array(known if len(known) == depth else 0), rows)
        return conversion.constant(np.asarray((rows * np.array(strides)).sum(-1), np.int64), "places")
    rows_of = indices
    if not places.is_never_negative(indices):
        own = conversion.ints(known, "sizes") if len(known) == depth else _first_sizes(conversion, data, depth)
        rows_of = places.wrapped(conversion, indices, own)
    last = [conversion.rank(indices) - 1]
    if depth == 1:
        return conversion.along("Squeeze", rows_of, last, "places")
    steps = conversion.ints(strides, "strides") if strides else _computed_strides(conversion, data, depth)
    weighted = conversion.add("Mul", [rows_of, steps], "weighted")
    return conversion.along("ReduceSum", weighted, last, "places", keepdims=0)


def _first_sizes(conversion: NodeConversion, data: ir.Value, depth: int) -> ir.Value:
    shape = conversion.add("Shape", [data], "shape")
    return conversion.add("Gather", [shape, conversion.ints(range(depth), "axes")], "sizes", axis=0)


def _computed_strides(conversion: NodeConversion, data: ir.Value, depth: int) -> ir.Value:
    """Return how many elements a step along each of the first axes leaves out, some of whose sizes are open."""
    shape, strides = conversion.add("Shape", [data], "shape"), [conversion.ints([1], "one")]
    for axis in range(depth - 1, 0, -1):
        size = conversion.add("Gather", [shape, conversion.ints([axis], "axis")], "size", axis=0)
        strides.insert(0, conversion.add("Mul", [size, strides[0]], "stride") if axis < depth - 1 else size)
    return conversion.add("Concat", strides, "strides", axis=0)


def strided(conversion: NodeConversion, data: ir.Value, axis: int, bounds: tuple[int, int, int]) -> ir.Value:
    """Read every n-th element of an axis, or backwards: Slice had no steps before opset 10."""
    start, end, step = bounds
    shape = conversion.shape(data)
    if shape is None or not -len(shape) <= axis < len(shape) or not step:
        raise Inexpressible(f"has the step {step} along an axis of unknown size, which needs opset 10")
    size = shape[axis]
    if isinstance(size, int) and size:
        kept = conversion.ints(range(*slice(start, end, step).indices(size)), "places")
    else:
        kept = _to_the_end(conversion, data, axis % len(shape), bounds)
    return conversion.add("Gather", [data, kept], "strided", axis=axis % len(shape))


def _to_the_end(conversion: NodeConversion, data: ir.Value, axis: int, bounds: tuple[int, int, int]) -> ir.Value:
    """Add the places along an axis of a dynamic size: to its end from one counted from the front, or all backwards."""
    start, end, step = bounds
    is_forward = step > 0 and start >= 0 and end >= places.NO_BOUND
    is_backward = step < 0 and (start == -1 or start >= places.NO_BOUND) and end <= -places.NO_BOUND
    if not (is_forward or is_backward):
        raise Inexpressible(f"has the step {step} along an axis of unknown size, which needs opset 10")
    shape, first = conversion.add("Shape", [data], "shape"), conversion.ints([start if is_forward else 0], "first")
    size = conversion.add("Gather", [shape, conversion.ints([axis], "axis")], "size", axis=0)
    stride = conversion.ints([abs(step)], "stride")
    # Between `first` and the size, rounded up to whole strides, there are as many places as strides.
    raised = conversion.add("Add", [size, conversion.ints([abs(step) - 1], "rest")], "raised")
    count = conversion.add("Div", [conversion.add("Sub", [raised, first], "length"), stride], "count")
    if is_forward and start:
        count = places.not_below_zero(conversion, count)
    numbers = places.between(conversion, conversion.ints([0], "zero"), count, from_zero=True)
    kept = conversion.add("Mul", [numbers, stride], "multiples")
    if is_forward:
        return conversion.add("Add", [kept, first], "places")
    last = conversion.add("Sub", [size, conversion.ints([1], "one")], "last")
    return conversion.add("Sub", [last, kept], "places")


@down("DepthToSpace", 11)
def from_depth(conversion: NodeConversion) -> None:
    """Convert DepthToSpace 11 → 1, where the blocks come before the channels: in the other mode these are reordered."""
    mode = conversion.take("mode", "DCR")
    if mode == "DCR":
        return
    data, blocks = conversion.input(0), int(conversion.node.attr("blocksize", 1)) ** 2
    depth = (conversion.shape(data) or (None, None))[1:2]
    if mode != "CRD" or blocks < 1:
        raise Inexpressible(f"has mode={mode} and blocksize={conversion.node.attr('blocksize', 1)}")
    if depth and isinstance(depth[0], int) and depth[0]:
        if depth[0] % blocks:
            raise Inexpressible(f"has {depth[0]} channels, which are no multiple of {blocks}")
        order = conversion.ints(np.arange(depth[0]).reshape(-1, blocks).T.reshape(-1).tolist(), "order")
    else:
        shape = conversion.add("Shape", [data], "shape")
        size = conversion.add("Gather", [shape, conversion.ints([1], "axis")], "channels", axis=0)
        numbers = places.between(conversion, conversion.ints([0], "zero"), size, from_zero=True)
        rows = conversion.reshape(numbers, [-1, blocks], "channels_by_block")
        order = conversion.reshape(conversion.add("Transpose", [rows], "blocks_first", perm=[1, 0]), [-1], "order")
    conversion.node.set_input(0, conversion.add("Gather", [data, order], "ordered", axis=1))


@down("ArgMax ArgMin", 12, by_form=True)
def last_place(conversion: NodeConversion) -> None:
    """Convert ArgMax, ArgMin 12 → 11: the last of equal elements is the first along the reversed axis."""
    if not conversion.take("select_last_index", 0):
        return
    data, output, axis = conversion.input(0), conversion.output(), int(conversion.node.attr("axis", 0))
    size = (conversion.shape(data) or {axis: None})[axis]
    if not isinstance(size, int) or not size:
        raise Inexpressible("has select_last_index along an axis of unknown size")
    conversion.node.set_input(0, strided(conversion, data, axis, (size - 1, -size - 1, -1)))
    from_end = conversion.divert(0, "from_end")
    last = conversion.constant(np.array(size - 1, np.int64), "last")
    conversion.append("Sub", [last, from_end], output)


@down("ScatterElements", 11)
def scatter(conversion: NodeConversion) -> None:
    """Convert ScatterElements 11 → Scatter 9, whose axis and indices count from the front."""
    data, indices, updates = (conversion.input(index) for index in range(3))
    rank, axis = conversion.rank(data), int(conversion.take("axis", 0))
    if not -rank <= axis < rank:
        raise Inexpressible(f"has axis {axis} in rank {rank}")
    if not places.is_never_negative(indices):
        indices = _wide(conversion, indices, "wide_indices")
        shape = conversion.add("Shape", [data], "shape")
        size = conversion.add("Gather", [shape, conversion.ints([axis % rank], "axis")], "size", axis=0)
        indices = places.wrapped(conversion, indices, size)
    conversion.become("Scatter", [data, indices, updates], axis=axis % rank)
