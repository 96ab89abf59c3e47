"""Scaling a weight, stored as it is or in a smaller type: the one place that knows the difference."""

from __future__ import annotations

import math

import numpy as np

from bnfold import analysis, ir
from bnfold.edits.edit import SetAttr, SetConstant
from bnfold.folding import facts
from bnfold.folding.affine import Affine, every, make, vector
from bnfold.folding.step import Step
from bnfold.ir.tensor import TP, Exact, Float64, Scaled, Tensor
from bnfold.report.reasons import Declined, Reason


def scaled(node: ir.Node, slot: int, weight: Tensor, axis: int, factors: Float64) -> Step:
    """Return the ``weight`` at ``slot`` scaled along ``axis``: a new constant, or wanted of what widens it."""
    if every(factors == 1):  # a mere shift needs no copy of a weight that others share
        return Step()
    if factors.size != weight.dims[axis]:
        detail = f"{facts.where(node)} has a weight for {weight.dims[axis]} channels and reads {factors.size}"
        raise Declined(Reason.UNREADABLE, detail)
    if not facts.is_quantized(node.input(slot)):
        return Step((SetConstant(node, slot, Scaled(weight, [(axis, factors)])),))
    shape = [1] * len(weight.dims)
    shape[axis] = -1
    return Step(requested=((slot, make(factors.reshape(shape), np.zeros((1,) * len(shape)))),))


def on_channels(node: ir.Node, affine: Affine, channels: int) -> tuple[Float64, Float64]:
    """Return the affine as vectors along axis 1. Raises Declined where it varies along others."""
    try:
        return vector(affine.s, 1, channels), vector(affine.t, 1, channels)
    except (ValueError, IndexError) as error:
        raise Declined(Reason.AXIS, f"{facts.where(node)} scales channels only") from error


def shape_of(node: ir.Node, slot: int) -> ir.Tensor:
    """Return the constant weight at ``slot``, for its dims and type.

    One in a smaller type counts as what is made of it.
    """
    if facts.is_quantized(node.input(slot)) and (held := analysis.constant(node.input(slot))) is not None:
        return held
    return facts.weight(node, slot)


def scaled_in_groups(node: ir.Node, kernel: ir.Tensor, factors: Float64, groups: int) -> Step:
    """Return a kernel of dims (groups·m, n, k…) with a factor multiplied in for each of ``groups·n`` channels."""
    by_group = factors.reshape(groups, -1)
    if (by_group == by_group[:1]).all():
        return scaled(node, 1, kernel, 1, by_group[0])
    if (by_group == by_group[:, :1]).all():
        return scaled(node, 1, kernel, 0, np.repeat(by_group[:, 0], kernel.dims[0] // groups))
    if facts.is_quantized(node.input(1)):
        raise Declined(Reason.QUANTIZED_WEIGHT, f"the groups of {facts.where(node)} are scaled differently")
    whole = np.repeat(by_group, kernel.dims[0] // groups, axis=0)
    values = kernel.float64() * whole.reshape(*whole.shape, *(1,) * (len(kernel.dims) - 2))
    return Step((SetConstant(node, 1, Exact(kernel.dtype, values)),))


def number(node: ir.Node, slot: int, name: str, default: float = 0.0) -> float:
    """Return a number that is the attribute ``name`` before opset 11, and an input since."""
    if node.graph.opset() < 11:
        return float(node.attr(name, default))
    return default if node.input(slot) is None else facts.weight(node, slot).float64().item()


def set_number(node: ir.Node, slot: int, name: str, block: Float64, hint: str) -> SetAttr | SetConstant:
    """Return the edit of such a number.

    Raises Declined where the attribute, a float32, would round or cannot hold it.
    """
    dtype = facts.float_type(node.input(0))
    if node.graph.opset() >= 11:
        return SetConstant(node, slot, Exact(dtype, block), hint)
    with np.errstate(over="ignore"):
        stored = float(np.float32(block.item()))
    if math.isinf(stored) or (dtype == TP.DOUBLE and stored != block.item()):
        raise Declined(Reason.RANGE, f"{name} of {facts.where(node)} is a float32, whatever the data are")
    return SetAttr(node, name, block.item())
