"""MatMul with a constant operand. It has no bias: a shift needs a Gemm, an Add that stays, or is declined."""

from __future__ import annotations

import numpy as np

from bnfold import ir
from bnfold.folding import facts, recognise
from bnfold.folding.affine import Affine, make, vector
from bnfold.folding.ops import weights
from bnfold.folding.ops.registry import Handler, register
from bnfold.folding.step import Become, Edit, Residual, SetConstant, Step
from bnfold.ir.tensor import Exact, Float64, Tensor
from bnfold.report.reasons import Declined, Reason


def up(node: ir.Node, _: int, affine: Affine) -> Step:
    """The constant right operand takes ``s`` on its last axis, or the constant left one on its rows."""
    slot, matrix = _constant_operand(node)
    inner = len(matrix.dims) - (1 if slot == 1 else 2)
    outer = affine.rank - (1 if slot == 1 or _is_vector(node.input(1)) else 2)
    if outer < 0 or any(size != 1 for axis, size in enumerate(affine.s.shape) if axis != outer):
        raise Declined(Reason.AXIS, f"{facts.where(node)} scales its {'last axis' if slot else 'rows'} only")
    scaled = weights.scaled(node, slot, matrix, inner, vector(affine.s, outer, matrix.dims[inner]))
    return scaled.plus(*_shift(node, slot, matrix, affine.t))


def _constant_operand(node: ir.Node) -> tuple[int, Tensor]:
    """Which operand is a constant matrix (or a stack of them), and that constant."""
    for slot in (1, 0):
        held = ir.constant(node.input(slot))
        if held is not None and len(held.dims) >= 2 and ir.constant(node.input(1 - slot)) is None:
            return slot, weights.shape_of(node, slot)
    raise Declined(Reason.DYNAMIC_WEIGHT, facts.where(node))


def _is_vector(value: ir.Value | None) -> bool:
    """Whether the right operand is a mere vector, which makes the rows the last axis."""
    return value is not None and facts.rank(value) == 1


def _shift(node: ir.Node, slot: int, matrix: Tensor, t: Float64) -> tuple[Edit, ...]:
    """The shift as Gemm's C where everything is a matrix, as an Add behind the product elsewhere."""
    if not t.any():
        return ()
    if node.graph.opset() < 7:
        raise Declined(Reason.OPSET, f"a shift behind {facts.where(node)} needs opset 7")
    x = node.input(1 - slot)
    if x is not None and len(matrix.dims) == 2 and t.ndim == 2 and facts.rank(x) == 2:
        block = t if t.shape[0] > 1 else np.broadcast_to(t, (1, matrix.dims[1] if slot else t.shape[1])).reshape(-1)
        return (Become(node, "Gemm"), SetConstant(node, 2, Exact(matrix.dtype, block), hint="bias"))
    return (Residual(node, 0, t, matrix.dtype),)


def down(node: ir.Node, slot: int, affine: Affine) -> Step:
    """The constant operand takes ``s`` on the axis that is summed over; the shift is its product with ``t``."""
    constant, matrix = _constant_operand(node)
    axis = affine.rank - (1 if slot == 0 or affine.rank == 1 else 2)
    if constant == slot or not affine.varies_only_on(axis) or affine.rank < 2:
        raise Declined(Reason.AXIS, f"{facts.where(node)} sums over another axis")
    inner = len(matrix.dims) - (2 if constant == 1 else 1)
    size = matrix.dims[inner]
    scaled = weights.scaled(node, constant, matrix, inner, vector(affine.s, axis, size))
    if affine.is_scale_only:
        return scaled
    product = np.tensordot(matrix.float64(), vector(affine.t, axis, size), axes=([inner], [0]))
    moved = product[..., None, :] if constant == 1 else product[..., None]
    rank = max(affine.rank, moved.ndim)
    moved = moved.reshape((1,) * (rank - moved.ndim) + moved.shape)
    if _adds_constant(node.output(0)):
        return scaled.plus(standing=((0, make(np.ones((1,) * rank), moved)),))
    return scaled.plus(*_shift(node, constant, matrix, moved))


def _adds_constant(value: ir.Value | None) -> bool:
    """Whether a constant is added to the product, which takes a shift."""
    reader = value.only_reader if value is not None else None
    return reader is not None and reader.is_op("Add") and recognise.has_constant(reader)


register(MatMul=Handler(up, down, shift="stops", inputs=2))
