"""Reshape 14 → 13, where an element 0 of the shape always means the input's size, Shape 15 → 13, and broadcasting."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx

from bnfold import ir
from bnfold.converting.adapters.constants import LARGEST
from bnfold.converting.context import Inexpressible, numeric_type
from bnfold.converting.node_conversion import INT64_MAX, NodeConversion
from bnfold.converting.registry import down
from bnfold.ir.elements import MAX_RANK
from bnfold.ir.value import Dims, shape_of


@down("Reshape", 14, by_form=True)
def no_zeros(conversion: NodeConversion) -> None:
    """Drop ``allowzero`` where no size can be 0 unless the input's at the same place is; else ask at run time."""
    data, shape = conversion.input(0), conversion.input(1)
    if not conversion.take("allowzero", 0):
        return
    _drop_false_rank(conversion, shape)
    known, tensor = conversion.shape(data), conversion.known(shape)
    parts = _elements(conversion, shape) if tensor is None else tensor.numpy().reshape(-1).tolist()
    if _is_never_empty(known) or -1 in parts:  # beside a -1, allowzero allows no zero
        return
    if sum(not size for size in parts) == 1:  # of nothing, -1 is 0 beside others
        conversion.node.set_input(1, conversion.ints([size or -1 for size in parts], "shape"))
        return
    sizes = tuple(parts) if tensor is not None else _declared(conversion)
    if sizes is not None and all(_means_itself(place, size, known) for place, size in enumerate(sizes)):
        return
    if 0 in parts:
        _spread_nothing(conversion, data, shape, parts)
    else:
        _ask_whether_empty(conversion, data, shape)


def _drop_false_rank(conversion: NodeConversion, shape: ir.Value) -> None:
    """Drop a declaration of the result that has another number of axes than ``shape`` has elements.

    Raises Inexpressible for an output of the graph, whose declaration callers read.
    """
    made, (count, *_) = conversion.output(), conversion.shape(shape) or [None]
    declared = _shape_of_output(made) if made.is_output else made.shape
    if not isinstance(count, int) or declared is None or len(declared) == count:
        return
    text = f"{made.name!r} is declared with {len(declared)} axes and has {count}"
    if made.is_output:
        raise Inexpressible(f"its output {text}: correct the declaration")
    conversion.graph.forget_type(made)
    conversion.repair("false-rank", f"{text}: the declaration is dropped")


def _shape_of_output(value: ir.Value) -> Dims | None:
    """Return the shape that the graph declares of an output, whatever inference found since."""
    infos = value.graph.proto.output if isinstance(value.graph.proto, onnx.GraphProto) else ()
    return next((shape_of(info.type) for info in infos if info.name == value.name), value.shape)


def _spread_nothing(conversion: NodeConversion, data: ir.Value, shape: ir.Value, parts: Sequence[int | None]) -> None:
    """Give an input that has to be empty, because a size is always 0, one axis of 0 elements, and expand the others."""
    dims = [-1 if place == parts.index(0) else 1 for place in range(len(parts))]
    conversion.become("Expand", [conversion.add("Reshape", [data, conversion.ints(dims, "axis")], "nothing"), shape])


def _elements(conversion: NodeConversion, shape: ir.Value) -> list[int | None]:
    """Return the elements of a shape that is put together from parts: None for one that is computed; [] if unknown."""
    producer, found = shape.producer, list[int | None]()
    for part in producer.inputs if producer is not None and producer.is_op("Concat") else ():
        tensor = None if part is None else conversion.known(part)
        count = None if part is None else conversion.shape(part)
        if tensor is not None:
            found += tensor.numpy().reshape(-1).tolist()
        elif count is None or len(count) != 1 or not isinstance(count[0], int):
            return []
        else:
            found += [None] * min(count[0], MAX_RANK + 1)
    return found


def _is_never_empty(shape: Dims | None) -> bool:
    return shape is not None and all(isinstance(size, int) and size > 0 for size in shape)


def _declared(conversion: NodeConversion) -> Dims | None:
    return conversion.context.types.stated(conversion.output())


def _means_itself(place: int, size: int | str | None, known: Dims | None) -> bool:
    """Whether a size is the same if a 0 stands for the input's size."""
    if isinstance(size, int) and size > 0:
        return True
    return size is not None and known is not None and place < len(known) and known[place] == size


def _ask_whether_empty(conversion: NodeConversion, data: ir.Value, shape: ir.Value) -> None:
    """Make, of an input without elements, an output without elements of the shape that is asked for."""
    zero = conversion.constant(np.array(0, np.int64), "zero")
    is_empty = conversion.add("Equal", [conversion.add("Size", [data], "size"), zero], "is_empty")
    nothing = onnx.numpy_helper.from_array(np.zeros(1, numeric_type(conversion.dtype(data))))
    made = [conversion.graph.model.fresh_name(f"{conversion.node.label}_{hint}") for hint in ("empty", "reshaped")]
    empty = onnx.helper.make_node(
        "ConstantOfShape", [shape.name], made[:1], conversion.node_name("empty"), value=nothing
    )
    reshaped = onnx.helper.make_node("Reshape", [data.name, shape.name], made[1:], conversion.node_name("reshaped"))
    branches = {
        attribute: onnx.GraphProto(name=name, node=[node], output=[onnx.ValueInfoProto(name=name)])
        for attribute, name, node in zip(("then_branch", "else_branch"), made, (empty, reshaped), strict=True)
    }
    conversion.become("If", [is_empty], **branches)
    ir.index_subgraphs(conversion.node)


@down("Shape", 15, by_form=True)
def whole_shape(conversion: NodeConversion) -> None:
    """Convert Shape 15 → 13: ``start`` and ``end`` become a Slice."""
    start, end, data = conversion.take("start", 0), conversion.take("end"), conversion.input(0)
    if start == 0 and end is None:
        return
    shape = conversion.add("Shape", [data], "shape")
    bounds = [start, INT64_MAX if end is None else end]
    first, last = (conversion.ints([bound], hint) for bound, hint in zip(bounds, ("start", "end"), strict=True))
    conversion.become("Slice", [shape, first, last, conversion.ints([0], "axis")])


@down("Expand", 8)
def repeated(conversion: NodeConversion) -> None:
    """Write Expand as Tile, if all sizes are known; one number is stored as often as it is repeated."""
    data, wanted = conversion.input(0), tuple(conversion.numbers(conversion.input(1), "its shape"))
    own, tensor = conversion.shape(data), conversion.known(data)
    if tensor is not None and tensor.size == 1 and 0 <= math.prod(wanted) <= LARGEST:
        filled = np.full(_together(tensor.dims, wanted), tensor.numpy().reshape(()))
        conversion.become("Identity", [conversion.constant(filled, "filled")])
        return
    if own is None or not _is_never_empty(own) or not _is_never_empty(wanted):
        raise Inexpressible("has an input of open sizes, or none")
    dims = _together(tuple(size for size in own if isinstance(size, int)), wanted)
    conversion.become("Identity", [_spread(conversion, data, dims)])


@down("Max Mean Min Sum", 8)
def of_one_shape(conversion: NodeConversion) -> None:
    """Repeat the operands of an operator that does not broadcast before opset 8, if all sizes are known."""
    shapes = [conversion.shape(conversion.input(slot)) for slot in range(len(conversion.node.inputs))]
    known = [tuple(size for size in shape or () if isinstance(size, int) and size) for shape in shapes]
    if len(set(known)) == 1 or any(
        shape is None or len(shape) != len(sizes) for shape, sizes in zip(shapes, known, strict=True)
    ):
        return
    dims = _together(*known)
    for slot in range(len(shapes)):
        conversion.node.set_input(slot, _spread(conversion, conversion.input(slot), dims))


def _together(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return what shapes broadcast to."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise Inexpressible("has inputs whose sizes do not fit together") from None


def _spread(conversion: NodeConversion, value: ir.Value, dims: tuple[int, ...]) -> ir.Value:
    """Return a value of known sizes as others that it broadcasts to."""
    own = [size for size in conversion.shape(value) or () if isinstance(size, int)]
    if len(own) < len(dims):
        own = [1] * (len(dims) - len(own)) + own
        value = conversion.reshape(value, own, "ranked")
    repeats = [size // one for size, one in zip(dims, own, strict=True)]
    return (
        value if set(repeats) <= {1} else conversion.add("Tile", [value, conversion.ints(repeats, "repeats")], "spread")
    )
