"""How new nodes are written: in front of the node they replace, in the form of their graph's opset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import onnx

from bnfold import ir
from bnfold.converting.context import ConversionContext
from bnfold.converting.node_conversion import INT64_MAX, NodeConversion
from bnfold.ir.tensor import Exact, Float64, round_once

TP = onnx.TensorProto


class Builder(NodeConversion):
    """The place of one node that is about to go; ``made`` are the nodes that stand in for it, in order."""

    def __init__(self, node: ir.Node, context: ConversionContext) -> None:
        super().__init__(node, context)
        self.made: list[ir.Node] = []

    def add(self, op_type: str, inputs: Sequence[ir.Value | None], output: str | ir.Value, **attrs: Any) -> ir.Value:
        made = super().add(op_type, inputs, output, **attrs)
        if made.producer is not None:
            self.made.append(made.producer)
        return made

    def deliver(self, values: dict[ir.Value, ir.Value]) -> None:
        """Replace the outputs of the old node (the keys) by the given values, and remove the node.

        Call this when everything is computed: an unused value takes over the output's name. The producer of the first
        output takes over the old node's doc string and metadata, and its name if it has one.
        """
        for output, value in values.items():
            producer = value.producer
            if producer is None or producer not in self.made or value.uses:
                producer = self.add("Identity", [value], output).producer
            else:
                producer.set_output(value.slot, output)
            if producer is not None and output is self.node.output(0):
                producer.proto.name = self.node.name or producer.proto.name
                producer.proto.doc_string = self.node.proto.doc_string
                producer.proto.metadata_props.extend(self.node.proto.metadata_props)
        self.graph.remove(self.node)

    # -- constants

    def number(self, value: float, dtype: int, hint: str) -> ir.Value:
        """Return a rank-0 constant, rounded once to ``dtype``."""
        return self.constant(round_once(np.array(value, np.float64), dtype), hint)

    def attribute(self, name: str, value: float | str, dtype: int) -> ir.Value:
        """Return the number of an attribute; a ``str`` is the name under which the enclosing function is given it."""
        if not isinstance(value, str):
            return self.number(value, dtype, name)
        held = self.add("Constant", [], name)
        if held.producer is not None:
            reference = onnx.AttributeProto(name="value_float", type=onnx.AttributeProto.FLOAT, ref_attr_name=value)
            held.producer.proto.attribute.append(reference)
        return self.cast(held, TP.FLOAT, dtype)

    def successor(self, old: ir.Value, block: Float64, dtype: int, hint: str) -> ir.Value:
        """Return a constant in place of parameter ``old``: under its name, if that has no other consumer."""
        tensor = Exact(dtype, block)
        alone = len(old.uses) == 1 and not old.is_output and not old.is_input
        if not (alone and old.holds_constant and old.dtype == dtype):
            return self.graph.add_constant(f"{self.node.label}_{hint}", tensor)
        old.replace_tensor(tensor)
        return old

    # -- operators whose form depends on the opset

    def cast(self, value: ir.Value, have: int, want: int) -> ir.Value:
        """Return ``value`` in element type ``want``; no node where it has that already."""
        return value if have == want else self.add("Cast", [value], "cast", to=want)

    # -- shapes that only a run knows

    @cached_property
    def dims(self) -> ir.Value:
        """Shape of the activation, (rank,)."""
        return self.add("Shape", [self.input(0)], "shape")

    @cached_property
    def inner_dims(self) -> ir.Value:
        """Sizes of the axes behind the channels, (max(rank − 2, 0),)."""
        if self.target < 10:
            return self.add("Slice", [self.dims], "inner", axes=[0], starts=[2], ends=[INT64_MAX])
        return self.add("Slice", [self.dims, self.ints([2], "begin"), self.ints([INT64_MAX], "end")], "inner")

    @cached_property
    def channel_dims(self) -> ir.Value:
        """Dims that put a vector on the channel axis in an unknown rank: −1, and a 1 for each later axis."""
        zeros = self.add("Sub", [self.inner_dims, self.inner_dims], "zeros")
        ones = self.add("Add", [zeros, self.ints([1], "one")], "ones")
        return self.add("Concat", [self.ints([-1], "channels"), ones], "channel_dims", axis=0)

    def three_axes(self, channels: ir.Value) -> ir.Value:
        """Return dims (N, C, the rest) of an activation of unknown rank; ``channels`` is (C,), as int64.

        From opset 14 on.
        """
        batch = self.add("Slice", [self.dims, self.ints([0], "first"), self.ints([1], "second")], "batch")
        factors = self.add("Concat", [self.ints([1], "one"), self.inner_dims], "factors", axis=0)
        rest = self.add("ReduceProd", [factors], "rest", keepdims=1)
        return self.add("Concat", [batch, channels, rest], "three_dims", axis=0)


Emit = Callable[[Builder], dict[ir.Value, ir.Value]]
"""Adds the new nodes; for each used output of the old node the value that is to take its place."""
