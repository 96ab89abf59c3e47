"""Reshape 14 → 13, where an element 0 of the shape always means the input's size, Shape 15 → 13, and broadcasting."""

from __future__ import annotations

import numpy as np
import onnx

from bnfold import ir
from bnfold.converting.context import FIX_SHAPES, Inexpressible, numeric_type
from bnfold.converting.node_conversion import INT64_MAX, NodeConversion
from bnfold.ir.value import Dims


def no_zeros(conversion: NodeConversion) -> None:
    """Drop ``allowzero`` where no size can be 0 unless the input's at the same place is; else ask at run time."""
    data, shape = conversion.input(0), conversion.input(1)
    if not conversion.take("allowzero", 0):
        return
    known, tensor = conversion.shape(data), ir.constant(shape)
    parts = [] if tensor is not None else _elements(conversion, shape)
    if _is_never_empty(known) or -1 in parts:  # beside a -1, allowzero allows no zero
        return
    if parts.count(None) == 1 and all(size is None or size > 0 for size in parts):
        dims = [-1 if size is None else size for size in parts]  # of nothing, -1 is 0 beside other sizes
        conversion.node.set_input(1, conversion.ints(dims, "shape"))
        return
    sizes = _sizes_of_constant(tensor) if tensor is not None else _declared(conversion)
    if sizes is None or not all(_means_itself(place, size, known) for place, size in enumerate(sizes)):
        _ask_whether_empty(conversion, data, shape)


def _elements(conversion: NodeConversion, shape: ir.Value) -> list[int | None]:
    """Return the elements of a shape that is put together from parts: None for one that is computed; [] if unknown."""
    producer, found = shape.producer, list[int | None]()
    for part in producer.inputs if producer is not None and producer.is_op("Concat") else ():
        tensor = None if part is None else ir.constant(part)
        if tensor is not None:
            found += tensor.numpy().reshape(-1).tolist()
        elif part is None or conversion.shape(part) != (1,):
            return []
        else:
            found.append(None)
    return found


def _is_never_empty(shape: Dims | None) -> bool:
    return shape is not None and all(isinstance(size, int) and size > 0 for size in shape)


def _sizes_of_constant(tensor: ir.Tensor) -> Dims:
    """Return the sizes that a constant shape asks for; what is to be inferred counts as one of them."""
    return tuple(abs(int(size)) for size in tensor.numpy().reshape(-1))


def _declared(conversion: NodeConversion) -> Dims | None:
    return conversion.context.types.stated(conversion.output())


def _means_itself(place: int, size: int | str | None, known: Dims | None) -> bool:
    """Whether a size is the same if a 0 stands for the input's size."""
    if isinstance(size, int) and size > 0:
        return True
    return size is not None and known is not None and place < len(known) and known[place] == size


def _ask_whether_empty(conversion: NodeConversion, data: ir.Value, shape: ir.Value) -> None:
    """Make, of an input without elements, an output without elements of the shape that is asked for."""
    if conversion.target < 9:
        raise Inexpressible(f"has allowzero=1, and sizes that may be 0: {FIX_SHAPES}")
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


def whole_shape(conversion: NodeConversion) -> None:
    """Convert Shape 15 → 13: ``start`` and ``end`` become a Slice."""
    start, end, data = conversion.take("start", 0), conversion.take("end"), conversion.input(0)
    if start == 0 and end is None:
        return
    shape = conversion.add("Shape", [data], "shape")
    bounds = [start, INT64_MAX if end is None else end]
    if conversion.target < 10:
        conversion.become("Slice", [shape], axes=[0], starts=bounds[:1], ends=bounds[1:])
        return
    first, last = (conversion.ints([bound], hint) for bound, hint in zip(bounds, ("start", "end"), strict=True))
    conversion.become("Slice", [shape, first, last, conversion.ints([0], "axis")])


def repeated(conversion: NodeConversion) -> None:
    """Write Expand as Tile, if all sizes are known."""
    data, wanted = conversion.input(0), tuple(conversion.numbers(conversion.input(1), "its shape"))
    own = conversion.shape(data)
    if own is None or not _is_never_empty(own) or not _is_never_empty(wanted):
        raise Inexpressible(f"has an input of open sizes, or none: {FIX_SHAPES}")
    dims = _together(tuple(size for size in own if isinstance(size, int)), wanted)
    conversion.become("Identity", [_spread(conversion, data, dims)])


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
    if conversion.target < 6:
        raise Inexpressible("needs the Tile of opset 6, or the same sizes everywhere")
    own = [size for size in conversion.shape(value) or () if isinstance(size, int)]
    if len(own) < len(dims):
        own = [1] * (len(dims) - len(own)) + own
        value = conversion.reshape(value, own, "ranked")
    repeats = [size // one for size, one in zip(dims, own, strict=True)]
    return (
        value if set(repeats) <= {1} else conversion.add("Tile", [value, conversion.ints(repeats, "repeats")], "spread")
    )
