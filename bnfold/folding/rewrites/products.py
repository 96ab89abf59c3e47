"""Products in a row: a 1×1 Conv and a Conv, or two Gemms, become one where its weight is not larger than theirs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bnfold import ir
from bnfold.edits.edit import SetConstant
from bnfold.folding import facts
from bnfold.folding.context import Change, FoldContext, key_of
from bnfold.folding.ops import conv, window
from bnfold.folding.ops.registry import decline_excluded
from bnfold.ir.summed import Product
from bnfold.ir.tensor import Exact, Float64, Scaled
from bnfold.report.reasons import Declined, Reason
from bnfold.report.rewrites import PRODUCTS

LARGEST = 1 << 23
"""Elements of a weight: both are in memory while they are multiplied."""


def find_products(run: FoldContext) -> Iterator[Change]:
    """Find two products in a row that one product can replace."""
    for second in [node for node in run.model.nodes() if node.is_op("Conv", "Gemm")]:
        while not second.removed and (x := second.input(0)) is not None and x.only_use == (second, 0):
            first, made = x.producer, second.output(0)
            if first is None or made is None or first.graph is not second.graph or not first.is_op(second.op_type):
                break
            if key_of(second) in run.limits.banned:
                break
            try:
                yield run.planned(PRODUCTS, second, _plan, run, first, second)
            except Declined:
                break


def _plan(run: FoldContext, first: ir.Node, second: ir.Node) -> Change:
    """Say how one does the work of both. Raises Declined where it is not equivalent, or is more work."""
    weights = []
    for node in (first, second):
        decline_excluded(node, run.limits)
        if any(facts.is_quantized(value) for value in node.inputs[1:]):
            raise Declined(Reason.QUANTIZED_WEIGHT, facts.where(node))
        weights.append(Scaled(facts.weight(node, 1), []))
    one, two = weights
    if one.dtype != two.dtype or max(one.size, two.size) > LARGEST:
        raise Declined(Reason.TYPE if one.dtype != two.dtype else Reason.NO_GAIN, facts.where(second))
    kept, edits = (_convs if first.op_type == "Conv" else _gemms)(first, second, one, two)
    if (made := edits[0].tensor).size > one.size + two.size:
        raise Declined(Reason.NO_GAIN, f"{made.size} weights for {one.size} and {two.size}")
    source = first.inputs[0]
    assert source is not None, "its rank was asked for"
    note = f"{first.label} and {second.label} became one {kept.op_type}"
    title = f"{first.label} times {second.label}"
    return run.merge_of(PRODUCTS, kept, (second, first), source, edits, title, lambda: run.report.notes.append(note))


Edits = tuple[SetConstant, ...]


def _convs(first: ir.Node, second: ir.Node, one: ir.Tensor, two: ir.Tensor) -> tuple[ir.Node, Edits]:
    """Return ``W[o,c,k] = Σ V[o,m]·U[m,c,k]``, the 1×1 one on either side; a bias before padding would be diluted."""
    fit = len(one.dims) == len(two.dims) and two.dims[1] == one.dims[0] and 0 not in (*one.dims, *two.dims)
    if not fit or first.attr("group", 1) != 1:
        raise Declined(Reason.AXIS, facts.where(second))
    if second.attr("group", 1) != 1 or not (window.is_pointwise(second, two) or window.is_pointwise(first, one)):
        raise Declined(Reason.AXIS, facts.where(second))
    if window.pads(second):
        raise Declined(Reason.SHIFT_THROUGH_PADDING, facts.where(second))
    kept, taps = (first, one.dims[2:]) if window.is_pointwise(second, two) else (second, two.dims[2:])
    dims = (two.dims[0], one.dims[1], *taps)

    def multiply(inner: Float64, outer: Float64) -> Float64:
        (middle, inputs), outputs = inner.shape[:2], outer.shape[0]
        if kept is first:
            return (outer.reshape(outputs, middle) @ inner.reshape(middle, -1)).reshape(dims)
        rows = np.moveaxis(outer.reshape(outputs, middle, -1), 1, 2) @ inner.reshape(middle, inputs)
        return np.moveaxis(rows, 2, 1).reshape(dims)

    edits = [SetConstant(kept, 1, Product((one, two), dims, multiply))]
    shift = conv.bias(second, two.dims[0])
    if first.input(2) is not None:
        shift = shift + two.float64().reshape(*two.dims[:2], -1).sum(axis=2) @ conv.bias(first, one.dims[0])
    if kept.input(2) is not None or shift.any():
        edits.append(SetConstant(kept, 2, Exact(one.dtype, shift), hint="bias"))
    return kept, tuple(edits)


def _gemms(first: ir.Node, second: ir.Node, one: ir.Tensor, two: ir.Tensor) -> tuple[ir.Node, Edits]:
    """Return ``A·(a·B) + c``, times ``b·D``, plus ``d``: ``A·(a·b·B·D) + (c·b·D + d)``."""
    if second.attr("transA", 0):
        raise Declined(Reason.AXIS, facts.where(second))
    if first.graph.opset() < 7:
        raise Declined(Reason.LEGACY_BROADCAST, facts.where(first))
    turned = [bool(node.attr("transB", 0)) for node in (first, second)]
    alphas = [float(node.attr("alpha", 1.0)) for node in (first, second)]
    (inputs, middle), (inner, outputs) = (
        weight.dims[::-1] if back else weight.dims for weight, back in zip((one, two), turned, strict=True)
    )
    if middle != inner:
        raise Declined(Reason.UNREADABLE, facts.where(second))

    def multiply(left: Float64, right: Float64) -> Float64:
        left, right = (block.T if back else block for block, back in zip((left, right), turned, strict=True))
        made = alphas[0] * alphas[1] * left @ right
        return made.T if turned[0] else made

    dims = (outputs, inputs) if turned[0] else (inputs, outputs)
    edits = [SetConstant(first, 1, Product((one, two), dims, multiply))]
    shift = _row(second, outputs)
    if first.input(2) is not None:
        matrix = two.float64().T if turned[1] else two.float64()
        shift = shift + _row(first, middle) @ (alphas[1] * matrix)
    if first.input(2) is not None or shift.any():
        edits.append(SetConstant(first, 2, Exact(one.dtype, shift), hint="bias"))
    return first, tuple(edits)


def _row(node: ir.Node, columns: int) -> Float64:
    """Return what a Gemm adds to every row alike. Raises Declined for what differs by row."""
    if node.input(2) is None:
        return np.zeros(columns)
    block = facts.weight(node, 2).float64() * float(node.attr("beta", 1.0))
    if block.size != 1 and (block.size != columns or block.shape[-1] != columns):
        raise Declined(Reason.AXIS, f"C of {facts.where(node)} differs by row")
    return np.broadcast_to(block.reshape(-1), (columns,))
