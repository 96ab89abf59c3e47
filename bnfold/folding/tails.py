"""What stands behind a BatchNormalization as Caffe wrote it: a Mul and an Add of one number for each channel."""

from __future__ import annotations

import numpy as np

from bnfold import ir
from bnfold.classes import frozen
from bnfold.ir.tensor import FLOATS, Float64
from bnfold.ir.traits import ARITHMETIC

_MOST = 4
"""Nodes; a longer row is left to the search."""


@frozen(eq=False)
class Tail:
    """Mul and Add nodes in a row, each the only reader of the one before; often there are none.

    ``constants`` are the numbers that each multiplies by or adds, one for each channel or one for all.
    """

    nodes: tuple[ir.Node, ...]
    constants: tuple[Float64, ...]

    def after(self, s: Float64, t: Float64) -> tuple[Float64, Float64]:
        """Vectors ``s`` and ``t`` of what stands before the tail, with it applied to them: in the order of `Affine`."""
        with np.errstate(all="ignore"):
            for node, constant in zip(self.nodes, self.constants, strict=True):
                s, t = (constant * s, constant * t + 0.0) if node.is_op("Mul") else (s, t + constant)
        return s, t


def behind(node: ir.Node, kernel: ir.Value) -> Tail | None:
    """All affines behind ``node``, which reads what a Conv with this kernel makes; None where not all are plain."""
    dims = kernel.shape
    nodes: list[ir.Node] = []
    constants: list[Float64] = []
    value = node.outputs[0]
    while value is not None and dims and not _is_end_of_row(value):
        reader = value.only_reader
        constant = _constant(reader, value, dims[0], len(dims)) if reader is not None else None
        if reader is None or constant is None or reader.graph is not node.graph or len(nodes) == _MOST:
            return None
        nodes.append(reader)
        constants.append(constant)
        value = reader.outputs[0]
    return Tail(tuple(nodes), tuple(constants)) if value is not None else None


def _is_end_of_row(made: ir.Value) -> bool:
    """Whether somebody reads the value, and no affine that would have to move along."""
    if made.is_output:
        return True
    reader = made.only_reader
    if reader is None:
        return bool(made.uses)
    return not (reader.is_op("BatchNormalization") or reader.has_trait(ARITHMETIC)) or _joins(reader)


def _joins(reader: ir.Node) -> bool:
    """Whether arithmetic has two computed operands, as where a shortcut ends: no affine then."""
    return len(reader.inputs) == 2 and all(ir.constant(value) is None for value in reader.inputs)


def _constant(node: ir.Node, value: ir.Value, channels: object, rank: int) -> Float64 | None:
    """What a Mul or Add does to the channels of ``value``, as a vector; None where it is more than that."""
    if not node.is_op("Mul", "Add") or len(node.inputs) != 2 or len(node.outputs) != 1:
        return None
    if node.has_attr("broadcast") or node.has_attr("axis"):
        return None
    held = ir.constant(node.inputs[1 if node.inputs[0] is value else 0])
    if held is None or held.dtype not in FLOATS or len(held.dims) > rank:
        return None
    block = (1,) * (rank - len(held.dims)) + held.dims
    if block[1] not in (1, channels) or held.size != block[1]:
        return None
    constant = held.float64().reshape(-1)
    return constant if np.isfinite(constant).all() else None
