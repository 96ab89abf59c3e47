"""Steps down of nodes whose pads or lengths the model computes: these are put together at run time as well."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bnfold import ir
from bnfold.converting.node_conversion import INT64_MAX, NodeConversion
from bnfold.converting.registry import down


def pads_of_every_axis(conversion: NodeConversion, pads: ir.Value, axes: Sequence[int], rank: int) -> ir.Value:
    """Return the pads of every axis, from those of some: each is looked up, and the others are a 0 behind them."""
    table = [2 * len(axes)] * (2 * rank)
    for place, axis in enumerate(axes):
        table[axis % rank] = place
        table[rank + axis % rank] = place + len(axes)
    longer = conversion.add("Concat", [pads, conversion.ints([0], "no_pad")], "pads_and_0", axis=0)
    return conversion.add("Gather", [longer, conversion.ints(table, "places")], "all_pads", axis=0)


def equal_parts(conversion: NodeConversion, parts: int) -> None:
    """Write a Split of an axis of dynamic size as Slices; the last part is shorter if the division has a remainder."""
    data, axis = conversion.input(0), int(conversion.node.attr("axis", 0))
    rank = conversion.context.types.rank(data)
    axis = axis if rank is None else axis % rank  # old versions of Gather do not count from the end
    shape = conversion.add("Shape", [data], "shape")
    size = conversion.add("Gather", [shape, conversion.ints([axis], "axis")], "size", axis=0)
    raised = conversion.add("Add", [size, conversion.ints([parts - 1], "rest")], "raised")
    length = conversion.add("Div", [raised, conversion.ints([parts], "parts")], "length")
    bounds = [conversion.ints([0], "start"), length]
    bounds += [conversion.add("Mul", [length, conversion.ints([n], "part")], "bound") for n in range(2, parts)]
    _sliced(conversion, data, axis, bounds)


@down("Split", 13)
def given_lengths(conversion: NodeConversion) -> None:
    """Write a Split 13 into computed lengths as Slices; into constant ones they become an attribute."""
    lengths = conversion.node.input(1)
    if lengths is None or conversion.known(lengths) is not None:
        if lengths is not None:
            conversion.node.set_attr("split", conversion.numbers(lengths, "its split"))
        conversion.node.set_inputs([conversion.input(0)])
        return
    data, axis = conversion.input(0), int(conversion.node.attr("axis", 0))
    bounds = [conversion.ints([0], "start")]
    for place in range(len(conversion.node.outputs) - 1):
        length = conversion.add("Gather", [lengths, conversion.ints([place], "place")], "length", axis=0)
        bounds.append(conversion.add("Add", [bounds[-1], length], "bound") if place else length)
    with conversion.computing(lengths, "its split"):
        _sliced(conversion, data, axis, bounds)


def _sliced(conversion: NodeConversion, data: ir.Value, axis: int, bounds: Sequence[ir.Value]) -> None:
    """Take the parts between ``bounds``, and the one behind the last of them, which the node makes."""
    node, over = conversion.node, conversion.ints([axis], "axes")
    outputs = list(node.outputs)
    for index in range(len(outputs)):
        if outputs[index] is not None:
            conversion.divert(index, "part")
    node.trim_outputs(1)
    for place, output in enumerate(outputs[:-1]):
        if output is not None:
            conversion.add("Slice", [data, bounds[place], bounds[place + 1], over], output)
    end = conversion.constant(np.array([INT64_MAX], np.int64), "end")
    conversion.become("Slice", [data, bounds[-1], end, over])
    node.set_output(0, outputs[-1])
