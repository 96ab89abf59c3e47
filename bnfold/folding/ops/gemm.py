"""Gemm: ``Y = alpha·A'·B' + beta·C`` with A' (M, K), B' (K, N), C broadcast to (M, N)."""

from __future__ import annotations

import numpy as np

from bnfold import analysis, ir
from bnfold.edits.edit import Edit, SetAttr, SetConstant
from bnfold.folding import facts
from bnfold.folding.affine import Affine, vector
from bnfold.folding.ops import weights
from bnfold.folding.ops.registry import Handler, register
from bnfold.folding.step import Step
from bnfold.ir.tensor import Exact, Float64, Tensor
from bnfold.report.reasons import Declined, Reason


def up(node: ir.Node, _: int, affine: Affine) -> Step:
    """Let B's N axis take ``s``; ``C' = s·beta·C + t`` and beta becomes 1."""
    matrix, axis = weights.shape_of(node, 1), 0 if node.attr("transB", 0) else 1
    if affine.s.shape[0] != 1:
        raise Declined(Reason.AXIS, f"{facts.where(node)} scales columns only")
    s = vector(affine.s, 1, matrix.dims[axis])
    return weights.scaled(node, 1, matrix, axis, s).plus(*_new_c(node, matrix, s, affine.t))


def _new_c(node: ir.Node, matrix: Tensor, s: Float64, t: Float64) -> tuple[Edit, ...]:
    """Return the edits for ``C' = s·beta·C + t``, in the shape that both sides need."""
    if node.input(2) is None and not t.any():
        return ()
    _decline_legacy(node)
    old = facts.weight(node, 2).float64() * float(node.attr("beta", 1.0)) if node.input(2) is not None else np.zeros(())
    if old.ndim > 2:
        raise Declined(Reason.UNREADABLE, f"C of {facts.where(node)} has rank {old.ndim}")
    fresh = old.reshape((1,) * (2 - old.ndim) + old.shape) * s + t
    if fresh.shape[0] == 1:
        fresh = np.broadcast_to(fresh, (1, s.size)).reshape(-1)
    bias = SetConstant(node, 2, Exact(matrix.dtype, fresh), hint="bias")
    return (bias, SetAttr(node, "beta", 1.0)) if node.attr("beta", 1.0) != 1.0 else (bias,)


def _decline_legacy(node: ir.Node) -> None:
    """Decline before opset 7, where C is required and broadcast only if the attribute says so.

    A vector over rows is what it means.
    """
    if node.graph.opset() >= 7:
        return
    held = analysis.constant(node.input(2))
    if held is None or not node.attr("broadcast", 0) or len(held.dims) != 1:
        raise Declined(Reason.LEGACY_BROADCAST, facts.where(node))


def down(node: ir.Node, _: int, affine: Affine) -> Step:
    """Let, for A without transA, B's K axis take ``s``, ``C' = beta·C + alpha·t·B'`` and beta becomes 1."""
    if node.attr("transA", 0):
        raise Declined(Reason.AXIS, f"{facts.where(node)} does not contract the axis with a constant matrix")
    matrix = weights.shape_of(node, 1)
    n_axis, k_axis = (0, 1) if node.attr("transB", 0) else (1, 0)
    s, t = weights.on_channels(node, affine, matrix.dims[k_axis])
    scaled = weights.scaled(node, 1, matrix, k_axis, s)
    if affine.is_scale_only:
        return scaled
    moved = float(node.attr("alpha", 1.0)) * np.tensordot(matrix.float64(), t, axes=([k_axis], [0]))
    return scaled.plus(*_new_c(node, matrix, np.ones(matrix.dims[n_axis]), moved.reshape(1, -1)))


register(Gemm=Handler(up, down, shift="absorbed"))
