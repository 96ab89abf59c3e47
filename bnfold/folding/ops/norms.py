"""Normalisers with a scale and a bias of their own; a constant shift before InstanceNormalization is dead."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from bnfold import ir
from bnfold.edits.edit import Edit, SetAttr, SetConstant
from bnfold.folding import facts
from bnfold.folding.affine import Affine, vector
from bnfold.folding.ops import weights
from bnfold.folding.ops.registry import Handler, register
from bnfold.folding.step import Step
from bnfold.ir.tensor import Exact
from bnfold.report.reasons import Declined, Reason


def channels_up(node: ir.Node, _: int, affine: Affine) -> Step:
    """Use ``scale' = s·scale``, ``bias' = s·bias + t``, whatever is normalised by.

    GroupNormalization has them since 21.
    """
    if node.op_type == "GroupNormalization" and node.graph.opset() < 21:
        raise Declined(Reason.AXIS, f"{facts.where(node)} scales groups, not channels, before opset 21")
    scale, bias = facts.weight(node, 1), facts.weight(node, 2)
    if len(scale.dims) != 1:
        raise Declined(Reason.AXIS, f"{facts.where(node)} has parameters for single activations")
    if scale.dims != bias.dims:
        raise Declined(Reason.UNREADABLE, facts.where(node))
    s, t = weights.on_channels(node, affine, scale.size)
    return Step(
        (
            SetConstant(node, 1, Exact(scale.dtype, s * scale.float64())),
            SetConstant(node, 2, Exact(bias.dtype, s * bias.float64() + t)),
        )
    )


def layer_up(node: ir.Node, _: int, affine: Affine) -> Step:
    """Scale LayerNormalization's parameters, over the normalised axes, which must hold all the affine's."""
    first = int(node.attr("axis", -1)) % affine.rank
    if not affine.varies_only_on(*range(first, affine.rank)):
        raise Declined(Reason.AXIS, f"{facts.where(node)} scales its normalised axes only")
    scale, width = facts.weight(node, 1), affine.rank - first
    if len(scale.dims) > width or 1 in scale.dims:
        raise Declined(Reason.AXIS, f"the scale of {facts.where(node)} is broadcast")
    s, t = (block.reshape(block.shape[first:]) for block in (affine.s, affine.t))
    edits = [SetConstant(node, 1, Exact(scale.dtype, s * scale.float64()))]
    if node.input(2) is not None or t.any():
        bias = facts.weight(node, 2).float64() if node.input(2) is not None else np.zeros(scale.dims)
        whole = np.broadcast_shapes(scale.dims, bias.shape)
        edits.append(
            SetConstant(node, 2, Exact(scale.dtype, s * np.broadcast_to(bias, whole) + t), f"{node.label}_bias")
        )
    if any(edit.tensor.dims != scale.dims for edit in edits):
        raise Declined(Reason.AXIS, f"the scale of {facts.where(node)} is broadcast")
    return Step(tuple(edits))


def instance_down(node: ir.Node, _: int, affine: Affine) -> Step:
    """Drop the shift, which the mean takes with it.

    One size of all scales turns epsilon into ``epsilon/s²``, signs go to γ.
    """
    if not affine.varies_only_on(0, 1):
        raise Declined(Reason.SUBGRAPH_STATISTICS, facts.where(node))
    size = np.abs(affine.s)
    if (size != size.reshape(-1)[0]).any() or size.reshape(-1)[0] == 0:
        raise Declined(
            Reason.SUBGRAPH_STATISTICS, f"epsilon of {facts.where(node)} weighs less where the scale is larger"
        )
    edits: list[Edit] = []
    if size.reshape(-1)[0] != 1:
        epsilon = float(np.float32(node.attr("epsilon", 1e-5))) / float(size.reshape(-1)[0]) ** 2
        if not np.finfo(np.float32).tiny < epsilon < np.finfo(np.float32).max:
            raise Declined(Reason.RANGE, f"epsilon of {facts.where(node)}")
        if _is_double(node) and float(np.float32(epsilon)) != epsilon:
            raise Declined(Reason.RANGE, f"epsilon of {facts.where(node)} is a float32, whatever the data are")
        edits.append(SetAttr(node, "epsilon", epsilon))
    if (affine.s < 0).any():
        if not affine.scale_part().varies_only_on(1):
            raise Declined(Reason.AXIS, facts.where(node))
        scale = facts.weight(node, 1)
        edits.append(
            SetConstant(node, 1, Exact(scale.dtype, np.sign(vector(affine.s, 1, scale.size)) * scale.float64()))
        )
    return Step(tuple(edits))


def _is_double(node: ir.Node) -> bool:
    return any(value is not None and value.dtype == TensorProto.DOUBLE for value in (*node.inputs, *node.outputs))


register(
    InstanceNormalization=Handler(channels_up, instance_down, shift="vanishes"),
    GroupNormalization=Handler(channels_up),
    LayerNormalization=Handler(layer_up),
)
