"""Steps down that turn inputs back into attributes, if they are constants that no caller overrides.

Axes that the model computes are made sizes: a reduction splits each axis in two, and reduces every second one.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import onnx

from bnfold import ir
from bnfold.converting.adapters import computed, element_types, indexing, places
from bnfold.converting.adapters.inputs import REDUCTIONS
from bnfold.converting.context import Inexpressible, numeric_type
from bnfold.converting.node_conversion import NodeConversion
from bnfold.converting.registry import down

TP = onnx.TensorProto


def reduced(conversion: NodeConversion, axes: ir.Value) -> None:
    """Reduce over computed ``axes``: one of size n is reshaped to 1 by n if it is among them, and to n by 1 if not.

    A reduction over a single element is what one over no axis leaves of it.
    """
    node, data = conversion.node, conversion.input(0)
    rank, zeros = conversion.rank(data), _keeping_zeros(conversion, data)
    keeps, stands = bool(conversion.take("keepdims", 1)), bool(conversion.take("noop_with_empty_axes", 0))
    picked = _picked(conversion, axes, rank, all_of_none=not stands)
    sizes, ones = conversion.add("Shape", [data], "sizes"), conversion.ints([1] * rank, "ones")
    left = conversion.add("Where", [picked, ones, sizes], "left")
    gone = conversion.add("Where", [picked, sizes, ones], "gone")
    columns = [conversion.along("Unsqueeze", value, [1], "column") for value in (left, gone)]
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
    column = conversion.along("Unsqueeze", counted, [1], "axes")
    hits = conversion.add("Equal", [column, conversion.ints(range(rank), "every_axis")], "hits")
    numbers = conversion.add("Cast", [hits], "numbers", to=TP.FLOAT)
    picked = conversion.add("Cast", [conversion.along("ReduceSum", numbers, [0], "count", keepdims=0)], "picked",
                            to=TP.BOOL)  # fmt: skip
    if not all_of_none:
        return picked
    zero = conversion.constant(np.array(0, np.int64), "zero")
    is_empty = conversion.add("Equal", [conversion.add("Size", [axes], "count_of_axes"), zero], "is_empty")
    return conversion.add("Or", [picked, is_empty], "picked_or_all")


def squeezed(conversion: NodeConversion, axes: ir.Value) -> None:
    """Remove computed axes: those that stay are looked up."""
    data = conversion.input(0)
    rank, zeros = conversion.rank(data), _keeping_zeros(conversion, data)
    stays = conversion.add("Not", [_picked(conversion, axes, rank, all_of_none=False)], "stays")
    kept = conversion.add("Compress", [conversion.add("Shape", [data], "sizes"), stays], "kept", axis=0)
    conversion.become("Reshape", [data, kept], **zeros)


def unsqueezed(conversion: NodeConversion, axes: ir.Value) -> None:
    """Insert computed axes: the sizes that there are go to the places of the others, among ones."""
    data, (count,) = conversion.input(0), conversion.shape(axes) or (None,)
    if not isinstance(count, int):
        raise Inexpressible(f"has an unknown number of axes ({axes.name!r})")
    rank, zeros = conversion.rank(data) + count, _keeping_zeros(conversion, data)
    stays = conversion.add("Not", [_picked(conversion, axes, rank, all_of_none=False)], "stays")
    found = conversion.along("Squeeze", conversion.add("NonZero", [stays], "found"), [0], "places")
    ones, sizes = conversion.ints([1] * rank, "ones"), conversion.add("Shape", [data], "sizes")
    shape = conversion.add("ScatterElements", [ones, found, sizes], "shape", axis=0)
    conversion.become("Reshape", [data, shape], **zeros)


def _keeping_zeros(conversion: NodeConversion, data: ir.Value) -> dict[str, int]:
    """Return attributes of a Reshape to computed sizes: one that may be 0 is not to be taken over."""
    known = conversion.shape(data)
    return {} if known is not None and all(isinstance(size, int) and size for size in known) else {"allowzero": 1}


_WITHOUT_AXES = {"ReduceL1": "Abs", "ReduceL2": "Abs", "ReduceLogSum": "Log"}
"""What a reduction over no axis leaves of a single element; of the others, itself or its square."""


def ints(name: str, conversion: NodeConversion) -> None:
    """Move input 1, of integers, to attribute ``name``; without the input there is no attribute."""
    value = conversion.node.input(1)
    data = conversion.input(0)
    if value is not None and name == "axes" and conversion.known(value) is None:
        with conversion.computing(value, "its axes"):
            (squeezed if conversion.node.is_op("Squeeze") else unsqueezed)(conversion, value)
        return
    if value is not None:
        values = conversion.numbers(value, f"its {name}")
        if conversion.node.is_op("Squeeze") and min(values, default=0) >= 0:
            values.sort()  # its old shape inference takes them in this order only
        if not values and name == "axes":
            raise Inexpressible("has an empty list of axes, which means all of them where it is an attribute")
        conversion.node.del_attr(name)
        attribute = onnx.helper.make_attribute(name, values, attr_type=onnx.AttributeProto.INTS)
        conversion.node.proto.attribute.append(attribute)  # which may be empty: the shape of a scalar
    conversion.node.set_inputs([data])


down("Squeeze Unsqueeze", 13)(partial(ints, "axes"))
down("Reshape", 5)(partial(ints, "shape"))


@down(REDUCTIONS, 18)
@down("ReduceSum", 13)
def reduced_axes(conversion: NodeConversion) -> None:
    """Convert Reduce* 18 → 13, ReduceSum 13 → 11: ``axes`` becomes an attribute.

    No axes mean all of them, or none if ``noop_with_empty_axes`` is set.
    """
    value, data = conversion.node.input(1), conversion.input(0)
    if value is not None and conversion.known(value) is None:  # a size that is declared as 0 is open
        with conversion.computing(value, "its axes"):
            reduced(conversion, value)
        return
    axes = [] if value is None else conversion.numbers(value, "its axes")
    if conversion.take("noop_with_empty_axes", 0) and not axes:
        _reduce_nothing(conversion, data)
        return
    conversion.node.set_inputs([data])
    if axes:
        conversion.node.set_attr("axes", axes)


def _reduce_nothing(conversion: NodeConversion, data: ir.Value) -> None:
    """Reduce every element on its own."""
    op_type = conversion.node.op_type
    if op_type == "ReduceSumSquare":
        conversion.become("Mul", [data, data])
    else:
        conversion.become(_WITHOUT_AXES.get(op_type, "Identity"), [data])


@down("Split", 18)
def split_lengths(conversion: NodeConversion) -> None:
    """Convert Split 18 → 13: ``num_outputs`` goes, and lengths are stated where the last part is shorter."""
    count, parts = conversion.take("num_outputs"), len(conversion.node.outputs)
    if conversion.node.input(1) is not None or parts == 1:
        return
    if count is not None and count != parts:
        raise Inexpressible(f"has {parts} outputs and num_outputs={count}")
    axis, shape = conversion.node.attr("axis", 0), conversion.shape(conversion.input(0))
    if shape is None or not -len(shape) <= axis < len(shape) or not (isinstance(size := shape[axis], int) and size):
        computed.equal_parts(conversion, parts)
        return
    if size % parts == 0:
        return
    length = -(-size // parts)
    lengths = [length] * (parts - 1) + [size - length * (parts - 1)]
    if lengths[-1] < 0:
        raise Inexpressible(f"splits {size} elements into {parts}")
    conversion.node.set_input(1, conversion.ints(lengths, "split"))


@down("Clip", 11)
def clip_limits(conversion: NodeConversion) -> None:
    """Convert Clip 11 → 6: constant bounds become attributes, and others a Max and a Min."""
    node, data = conversion.node, conversion.input(0)
    given = {name: node.input(index) for index, name in enumerate(("min", "max"), 1)}
    try:
        stated = _constant_limits(conversion, given)
    except Inexpressible:
        _clip_between(conversion, given["min"], given["max"])
        return
    node.set_inputs([data])
    for name, bound in stated.items():
        node.set_attr(name, bound)


def _constant_limits(conversion: NodeConversion, given: Mapping[str, ir.Value | None]) -> dict[str, float]:
    """Return bounds that version 6 can say: an absent one is the limit of float32."""
    stated = {name: _float_of(conversion, value, f"its {name}") for name, value in given.items() if value is not None}
    if len(stated) == 2 and stated["min"] > stated["max"]:
        raise Inexpressible("has a min above its max")
    if len(stated) < 2 and conversion.dtype(conversion.input(0)) != onnx.TensorProto.FLOAT:
        raise Inexpressible("leaves a bound to its type, which version 6 has for float32 only")
    return stated


def _clip_between(conversion: NodeConversion, low: ir.Value | None, high: ir.Value | None) -> None:
    """Clip by Max and Min, the upper bound last, for it counts where they cross; an absent one is the type's limit."""
    data = conversion.input(0)
    limit = float(np.finfo(numeric_type(conversion.dtype(data))).max)
    low = low or conversion.scalar(-limit, data, "lowest")
    high = high or conversion.scalar(limit, data, "highest")
    conversion.become("Min", [conversion.add("Max", [data, low], "raised"), high])


@down("Pad", 18)
def padded_axes(conversion: NodeConversion) -> None:
    """Convert Pad 18 → 13: ``axes`` go, and there are pads for every axis."""
    node = conversion.node
    if (over := node.input(3)) is None:
        node.set_inputs(node.inputs[:3])
        return
    axes, rank = conversion.numbers(over, "its axes"), conversion.rank(conversion.input(0))
    if not all(-rank <= axis < rank for axis in axes):
        raise Inexpressible(f"pads the axes {axes} of rank {rank}")
    if conversion.known(conversion.input(1)) is None:
        full = computed.pads_of_every_axis(conversion, conversion.input(1), axes, rank)
        node.set_inputs([node.input(0), full, node.input(2)])
        return
    given = conversion.numbers(conversion.input(1), "its pads")
    if len(given) != 2 * len(axes):
        raise Inexpressible(f"has {len(given)} pads for the axes {axes} of rank {rank}")
    pads = [0] * (2 * rank)
    for place, axis in enumerate(axes):
        pads[axis % rank] = given[place]
        pads[rank + axis % rank] = given[place + len(axes)]
    node.set_inputs([node.input(0), conversion.ints(pads, "pads"), node.input(2)])


@down("Pad", 11)
def pads_and_value(conversion: NodeConversion) -> None:
    """Convert Pad 11 → 2: ``pads`` and ``value``."""
    node, value = conversion.node, conversion.node.input(2)
    pads = conversion.numbers(conversion.input(1), "its pads")
    if conversion.dtype(conversion.input(0)) == onnx.TensorProto.INT64:
        element_types.padded_in_halves(conversion, pads)
        return
    filling = 0.0 if value is None else _float_of(conversion, value, "its value")
    node.set_inputs([conversion.input(0)])
    node.set_attr("pads", pads)
    if filling:
        node.set_attr("value", filling)


@down("Dropout", 12)
def dropout_ratio(conversion: NodeConversion) -> None:
    """Convert Dropout 12 → 10: ``ratio``; training, which needs an input, cannot be said."""
    node, mode, ratio = conversion.node, conversion.node.input(2), conversion.node.input(1)
    if mode is not None and (tensor := conversion.known(mode), tensor is None or bool(tensor.numpy().any()))[1]:
        raise Inexpressible("may drop at random, which versions 7 to 11 cannot say")
    mask = node.output(1)
    if mask is not None and not mask.is_unread:
        raise Inexpressible("has a mask, of which versions 7 to 11 do not say what it is in inference")
    node.trim_outputs(1)
    stated = None if ratio is None else conversion.known(ratio)
    node.set_inputs([conversion.input(0)])
    node.del_attr("seed")  # nothing is drawn
    if stated is not None:
        node.set_attr("ratio", float(stated.numpy().reshape(-1)[0]))


@down("Gemm", 11, by_form=True)
def zero_bias(conversion: NodeConversion) -> None:
    """Convert Gemm 11 → 9, which demands a C."""
    node = conversion.node
    if node.input(2) is None:
        zero = conversion.constant(np.zeros(1, numeric_type(conversion.dtype(conversion.input(0)))), "zero")
        node.set_inputs([conversion.input(0), conversion.input(1), zero])


@down("Dropout", 10)
def no_mask(conversion: NodeConversion) -> None:
    """Convert Dropout 10 → 7, whose mask is of another type: nothing may read it."""
    mask = conversion.node.output(1)
    if mask is not None and not mask.is_unread:
        raise Inexpressible("has a mask, which version 7 makes of another type")
    conversion.node.trim_outputs(1)


@down("DFT", 20)
def dft_axis(conversion: NodeConversion) -> None:
    """Convert DFT 20 → 17: ``axis``, whose default was 1."""
    node, over = conversion.node, conversion.node.input(2)
    axes = [-2] if over is None else conversion.numbers(over, "its axis")
    if len(axes) != 1:
        raise Inexpressible(f"has {len(axes)} axes")
    axis = axes[0] if axes[0] >= 0 else axes[0] % conversion.rank(conversion.input(0))
    node.set_inputs(node.inputs[:2] if node.input(1) is not None else node.inputs[:1])
    node.set_attr("axis", axis)


@down("Slice", 10)
def slice_bounds(conversion: NodeConversion) -> None:
    """Convert Slice 10 → 1: ``starts``, ``ends`` and ``axes``; there are no steps, and no bounds that are computed."""
    node, kept = conversion.node, conversion.node.inputs
    over, steps = (
        None if node.input(index) is None else conversion.numbers(conversion.input(index), what)
        for index, what in ((3, "its axes"), (4, "its steps"))
    )
    has_steps = steps is not None and set(steps) != {1}
    for index, what in _BOUNDS if not has_steps else ():
        if conversion.known(bound := conversion.input(index)) is None:
            with conversion.computing(bound, f"its {what}"):
                _between_computed(conversion, over)
            return
    starts, ends = (conversion.numbers(conversion.input(index), f"its {what}") for index, what in _BOUNDS)
    if steps is not None and has_steps:
        _with_steps(conversion, starts, ends, over, steps)
        return
    node.set_inputs(kept[:1])
    for name, values in (("starts", starts), ("ends", ends), ("axes", over)):
        if values is not None:
            node.set_attr(name, values)


_BOUNDS = ((1, "starts"), (2, "ends"))


def _between_computed(conversion: NodeConversion, over: list[int] | None) -> None:
    """Read between bounds, some of them computed, along one axis after the other."""
    data, bounds = conversion.input(0), [conversion.input(index) for index, _ in _BOUNDS]
    shape = conversion.shape(bounds[0])
    count = shape[0] if shape else None
    if over is None and not isinstance(count, int):
        raise Inexpressible("has bounds for an unknown number of axes")
    axes = over if over is not None else list(range(count if isinstance(count, int) else 0))
    for place, axis in enumerate(axes):
        start, end = (_bound_at(conversion, value, place, len(axes)) for value in bounds)
        data = places.part(conversion, data, axis, start, end)
    conversion.become("Identity", [data])


def _bound_at(conversion: NodeConversion, value: ir.Value, place: int, count: int) -> ir.Value:
    tensor = conversion.known(value)
    if tensor is not None:
        return conversion.ints([int(tensor.numpy().reshape(-1)[place])], "bound")
    if count > 1:
        value = conversion.add("Gather", [value, conversion.ints([place], "place")], "bound", axis=0)
    is_wide = conversion.dtype(value) == onnx.TensorProto.INT64 if count == 1 else False
    return value if is_wide else conversion.add("Cast", [value], "bound", to=onnx.TensorProto.INT64)


def _with_steps(
    conversion: NodeConversion, starts: list[int], ends: list[int], over: list[int] | None, steps: list[int]
) -> None:
    data, axes = conversion.input(0), list(range(len(starts))) if over is None else over
    bounds = dict(zip(axes, zip(starts, ends, steps, strict=True), strict=True))
    for axis in [axis for axis, (_, _, step) in bounds.items() if step != 1]:
        data = indexing.strided(conversion, data, axis, bounds.pop(axis))
    if not bounds:
        conversion.become("Identity", [data])
        return
    conversion.node.set_inputs([data])
    for name, values in zip(("starts", "ends"), zip(*bounds.values(), strict=True), strict=False):
        conversion.node.set_attr(name, list(values))
    conversion.node.set_attr("axes", list(bounds))


def count_of(name: str, conversion: NodeConversion) -> None:
    """Move input 1, of one integer, to attribute ``name`` (TopK 10 → 1)."""
    values = conversion.numbers(conversion.input(1), f"its {name}")
    if len(values) != 1:
        raise Inexpressible(f"has {len(values)} values for {name}")
    if values[0] < 1:
        raise Inexpressible(f"has {name}={values[0]}")
    conversion.node.set_inputs([conversion.input(0)])
    conversion.node.set_attr(name, values[0])


down("TopK", 10)(partial(count_of, "k"))


@down("Constant", 12, by_form=True)
def constant_value(conversion: NodeConversion) -> None:
    """Convert Constant 12 → 11: numbers and texts become a tensor."""
    types: dict[str, type] = {"value_float": np.float32, "value_int": np.int64, "value_string": np.object_}
    for name, kind in {**types, **{f"{each}s": kind for each, kind in types.items()}}.items():
        if conversion.node.has_attr(name):
            array: np.ndarray[Any, Any] = np.array(conversion.take(name), kind)
            conversion.node.set_attr("value", onnx.numpy_helper.from_array(array))


def _float_of(conversion: NodeConversion, value: ir.Value, what: str) -> float:
    """Return the number that a constant holds, which an attribute has to hold exactly."""
    tensor = conversion.known(value)
    if tensor is None or tensor.size != 1 or tensor.dtype in (onnx.TensorProto.STRING, onnx.TensorProto.BOOL):
        raise Inexpressible(f"{what} ({value.name!r}) is not a constant number")
    number = float(tensor.numpy().astype(np.float64).reshape(-1)[0])
    if not np.isnan(number) and float(np.float32(number)) != number:
        raise Inexpressible(f"{what} ({value.name!r}) is no float32")
    return number
