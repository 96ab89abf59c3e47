"""If: from opset 11 on, its branches may make values of different shapes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bnfold import ir
from bnfold.converting.context import Inexpressible
from bnfold.converting.node_conversion import NodeConversion
from bnfold.converting.registry import down
from bnfold.ir.types import is_inferred


@down("If", 11)
def of_one_shape(conversion: NodeConversion) -> None:
    """Convert If 11 → 1, whose shape inference gives an output all that is known of either branch.

    Runtimes put such a shape in the place of a Shape node, so it must not be that of one branch alone. Branches that
    only add or drop axes of one value become a Reshape of it, to the sizes that the condition selects.
    """
    node = conversion.node
    bodies = [body for name in ("then_branch", "else_branch") for body in node.subgraphs.get(name, ())]
    ends = list(zip(*(body.outputs for body in bodies), strict=False))
    if len(bodies) != 2:
        raise Inexpressible("does not have a then_branch and an else_branch")
    differing = [pair for pair in ends if _stated(conversion, pair[0]) != _stated(conversion, pair[1])]
    if not differing:
        return
    views = [_selected_view(conversion, *pair) for pair in ends]
    if None in views:
        names = " and ".join(repr(end.name) for end in differing[0])
        raise Inexpressible(f"its branches may make different shapes ({names})")
    for slot, (output, view) in enumerate(zip(list(node.outputs), views, strict=False)):
        if output is not None and view is not None:
            conversion.divert(slot, "replaced")
            conversion.append("Reshape", view, output)
    conversion.graph.remove(node)
    conversion.finished = conversion.replaced = True


def _stated(conversion: NodeConversion, value: ir.Value) -> list[int | str | None] | None:
    """Return the shape without names that inference invented, which are others in each branch; None if unknown."""
    dims = conversion.shape(value)
    return None if dims is None else [None if is_inferred(dim) else dim for dim in dims]


class _View(NamedTuple):
    """A value of an outer graph, and for each axis that a branch makes of it its own axis, or None for a new one."""

    source: ir.Value
    axes: list[int | None]


def _view(conversion: NodeConversion, value: ir.Value) -> _View | None:
    """Follow the output of a branch to the outer value that has the same elements; None if it is computed."""
    node, inner = value.producer, {graph for body in conversion.node.bodies for graph in body.subgraphs()}
    if value.graph not in inner:
        rank = conversion.context.types.rank(value)
        return None if rank is None else _View(value, list(range(rank)))
    data = node.input(0) if node is not None and node.is_op("Identity", "Squeeze", "Unsqueeze") else None
    view = None if data is None else _view(conversion, data)
    if view is None or node is None or node.is_op("Identity"):
        return view
    changed = node.attr("axes") or ()
    if not changed or min(changed) < 0:
        return None
    if node.is_op("Squeeze"):
        return _View(view.source, [axis for place, axis in enumerate(view.axes) if place not in changed])
    kept = iter(view.axes)
    return _View(
        view.source, [None if place in changed else next(kept) for place in range(len(view.axes) + len(changed))]
    )


def _selected_view(conversion: NodeConversion, *ends: ir.Value) -> list[ir.Value] | None:
    """Return the value that both branches have the elements of, and the shape that it gets; None if there is none."""
    then, other = (_view(conversion, end) for end in ends)
    if then is None or other is None or then.source is not other.source:
        return None
    shape = _selected_shape(conversion, then, other)
    return None if shape is None else [then.source, shape]


def _selected_shape(conversion: NodeConversion, then: _View, other: _View) -> ir.Value | None:
    """Add what drops the sizes that only one view has, if the condition selects the other one; None if both have some.

    In a Reshape before opset 14, a 0 is the size of the same place.
    """
    most, least = (then, other) if len(then.axes) > len(other.axes) else (other, then)
    mask = _places_of(least.axes, most.axes)
    if mask is None:
        return None
    source, dims = then.source, conversion.shape(then.source) or ()
    for place, axis in (*enumerate(then.axes), *enumerate(other.axes)):
        if axis is not None and axis != place and not (isinstance(size := dims[axis], int) and size):
            raise Inexpressible(f"has branches of different axes, and axis {axis} of {source.name!r} may be empty")
    sizes = conversion.add("Shape", [source], "sizes")
    if None in most.axes:
        sizes = conversion.add("Concat", [sizes, conversion.ints([1], "one")], "sizes_and_one", axis=0)
    places = [len(dims) if axis is None else axis for axis in most.axes]
    if places != list(range(len(dims))):
        sizes = conversion.add("Gather", [sizes, conversion.ints(places, "axes")], "most_sizes", axis=0)
    is_most = conversion.input(0)
    if conversion.shape(is_most) not in ((), (1,)):
        is_most = conversion.reshape(is_most, [1], "condition")
    if most is other:
        is_most = conversion.add("Not", [is_most], "is_else")
    kept = conversion.add("Or", [is_most, conversion.constant(np.array(mask, bool), "shared")], "is_kept")
    return conversion.add("Compress", [sizes, kept], "selected", axis=0)


def _places_of(least: list[int | None], most: list[int | None]) -> list[bool] | None:
    """Say which elements of the longer list are those of the shorter one, in order; None if it has others."""
    mask = list[bool]()
    for axis in most:
        mask.append(sum(mask) < len(least) and least[sum(mask)] == axis)
    return mask if sum(mask) == len(least) else None
