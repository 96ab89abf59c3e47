"""MatMul with a constant operand. It has no bias: a shift needs a Gemm, an Add that stays, or is declined."""

from __future__ import annotations

import numpy as np

from bnfold import ir
from bnfold.fold import facts
from bnfold.fold.affine import Affine, vector
from bnfold.fold.step import Become, Edit, Residual, SetConstant, Step
from bnfold.ir.tensor import Exact, Scaled
from bnfold.reasons import Declined, Reason


def up(node: ir.Node, _: int, affine: Affine) -> Step:
    """The constant right operand takes ``s`` on its last axis, or the constant left one on its rows."""
    rank, output = affine.rank, node.outputs[0]
    right, left = ir.constant(node.input(1)), ir.constant(node.input(0))
    edits: list[Edit]
    if right is not None and len(right.dims) >= 2 and left is None:
        if any(size != 1 for axis, size in enumerate(affine.s.shape) if axis != rank - 1):
            raise Declined(Reason.AXIS, f"{node.op_type} {node.label!r} scales its last axis only")
        right = facts.weight(node, 1)
        edits = [SetConstant(node, 1, Scaled(right, [(len(right.dims) - 1, vector(affine.s, rank - 1, right.dims[-1]))]))]
        dtype = right.dtype
    elif left is not None and len(left.dims) >= 2 and right is None and rank >= 2 and _has_columns(node):
        if any(size != 1 for axis, size in enumerate(affine.s.shape) if axis != rank - 2):
            raise Declined(Reason.AXIS, f"{node.op_type} {node.label!r} scales its rows only")
        left = facts.weight(node, 0)
        edits = [SetConstant(node, 0, Scaled(left, [(len(left.dims) - 2, vector(affine.s, rank - 2, left.dims[-2]))]))]
        dtype = left.dtype
    else:
        raise Declined(Reason.DYNAMIC_WEIGHT, f"{node.op_type} {node.label!r}")
    if not affine.is_scale_only and output is not None:
        edits += _shift(node, output, affine, dtype)
    return Step(edits=tuple(edits))


def _has_columns(node: ir.Node) -> bool:
    """Whether the right operand is no mere vector, which would make the rows the last axis."""
    right = node.input(1)
    return right is not None and facts.rank(right) >= 2


def _shift(node: ir.Node, output: ir.Value, affine: Affine, dtype: int) -> list[Edit]:
    """The shift as Gemm's C where everything is a matrix, as an Add behind the product elsewhere."""
    if node.graph.opset() < 7:
        raise Declined(Reason.OPSET, f"a shift behind {node.op_type} {node.label!r} needs opset 7")
    x, right = node.input(0), ir.constant(node.input(1))
    is_matrix = right is not None and len(right.dims) == 2 and affine.rank == 2 and x is not None and facts.rank(x) == 2
    if is_matrix and right is not None and affine.t.shape[0] == 1:
        t = np.ascontiguousarray(vector(affine.t, 1, right.dims[1]))
        return [Become(node, "Gemm"), SetConstant(node, 2, Exact(dtype, t), hint=f"{node.label}_bias")]
    return [Residual(output, "Add", affine.t, dtype)]


def down(node: ir.Node, slot: int, affine: Affine) -> Step:
    """On the left operand: the constant right one takes ``s`` on the axis that is summed over."""
    if slot != 0:
        raise Declined(Reason.AXIS, f"{node.op_type} {node.label!r} reads the value as its right operand")
    right, output = facts.weight(node, 1), node.outputs[0]
    if len(right.dims) < 2 or not affine.varies_only_on(affine.rank - 1) or affine.rank < 2:
        raise Declined(Reason.AXIS, f"{node.op_type} {node.label!r} sums over another axis")
    inner = right.dims[-2]
    s, t = (vector(block, affine.rank - 1, inner) for block in (affine.s, affine.t))
    edits: list[Edit] = [SetConstant(node, 1, Scaled(right, [(len(right.dims) - 2, s)]))]
    if affine.is_scale_only or output is None:
        return Step(edits=tuple(edits))
    moved = np.einsum("...kn,k->...n", right.float64(), t)[..., None, :]
    rank = max(affine.rank, moved.ndim)
    whole = Affine(np.ones((1,) * rank), moved.reshape((1,) * (rank - moved.ndim) + moved.shape))
    return Step(edits=(*edits, *_shift(node, output, whole, right.dtype)))
