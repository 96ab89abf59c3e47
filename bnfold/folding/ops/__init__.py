"""How each operator treats an affine: one explicit table, one file an operator family.

A handler is a pure function ``(node, slot, affine) -> Step``. Upward, ``affine`` is wanted on output ``slot``: the step
makes the node compute it. Downward, it stands on input ``slot``: the node must compute what it did, although it now
reads the value without it. A handler that cannot raises `Declined`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from bnfold.classes import frozen
from bnfold.folding.affine import Affine
from bnfold.folding.ops import (
    activation,
    arms,
    batchnorm,
    border,
    concat,
    conv,
    conv_transpose,
    elementwise,
    gemm,
    matmul,
    normaliser,
    passing,
    pick,
    pool,
    quantized,
    repeat,
    reshape,
    transpose,
)
from bnfold.folding.step import Step
from bnfold.ir import Node
from bnfold.report.reasons import Declined, Reason

Solve = Callable[[Node, int, Affine], Step]


@frozen
class Handler:
    """The two equations of an operator; None where it has no solution in that direction."""

    up: Solve | None = None
    down: Solve | None = None


HANDLERS: dict[str, Handler] = {
    # absorbers
    "Conv": Handler(conv.up, conv.down),
    "ConvTranspose": Handler(conv_transpose.up, conv_transpose.down),
    "Gemm": Handler(gemm.up, gemm.down),
    "MatMul": Handler(matmul.up, matmul.down),
    "BatchNormalization": Handler(batchnorm.up, batchnorm.down),
    "InstanceNormalization": Handler(normaliser.channels_up, normaliser.instance_down),
    "GroupNormalization": Handler(normaliser.channels_up),
    "LayerNormalization": Handler(normaliser.layer_up),
    "DequantizeLinear": Handler(quantized.up),
    # affines themselves where one operand is constant, arms where none is
    "Mul": Handler(elementwise.up, elementwise.down),
    "Add": Handler(elementwise.up, elementwise.down),
    "Sub": Handler(elementwise.up, elementwise.down),
    "Div": Handler(elementwise.up, elementwise.down),
    "Neg": Handler(elementwise.up, elementwise.down),
    # several arms
    "Sum": Handler(arms.up, arms.down),
    "Mean": Handler(arms.up),
    "Max": Handler(arms.up, arms.down),
    "Min": Handler(arms.up, arms.down),
    "Concat": Handler(concat.concat_up, concat.concat_down),
    "Split": Handler(concat.split_up, concat.split_down),
    # carriers of a scale; a shift stays behind
    "Relu": Handler(activation.up, activation.down),
    "LeakyRelu": Handler(activation.up, activation.down),
    "PRelu": Handler(activation.up, activation.down),
    "Abs": Handler(activation.up, activation.down),
    # carriers along axes that they do not mix
    "AveragePool": Handler(pool.window_up, pool.window_down),
    "GlobalAveragePool": Handler(pool.window_up, pool.window_down),
    "MaxPool": Handler(pool.window_up, pool.window_down),
    "GlobalMaxPool": Handler(pool.window_up, pool.window_down),
    "ReduceMean": Handler(pool.reduce_up, pool.reduce_down),
    "ReduceSum": Handler(pool.reduce_up, pool.reduce_down),
    "ReduceMax": Handler(pool.reduce_up, pool.reduce_down),
    "ReduceMin": Handler(pool.reduce_up, pool.reduce_down),
    "Pad": Handler(border.pad_up, border.pad_down),
    "Resize": Handler(border.resize_up, border.resize_down),
    "Upsample": Handler(border.resize_up, border.resize_down),
    # carriers that move elements
    "Identity": Handler(passing.up, passing.down),
    "Dropout": Handler(passing.dropout_up, passing.dropout_down),
    "Flatten": Handler(reshape.up, reshape.down),
    "Reshape": Handler(reshape.up, reshape.down),
    "Squeeze": Handler(reshape.up, reshape.down),
    "Unsqueeze": Handler(reshape.up, reshape.down),
    "Transpose": Handler(transpose.up, transpose.down),
    "Slice": Handler(pick.slice_up, pick.slice_down),
    "Gather": Handler(pick.gather_up, pick.gather_down),
    "Tile": Handler(repeat.tile_up, repeat.tile_down),
    "Expand": Handler(repeat.expand_up, repeat.expand_down),
    "DepthToSpace": Handler(repeat.to_space, repeat.from_depth),
    "SpaceToDepth": Handler(repeat.to_depth, repeat.from_space),
    "Cast": Handler(passing.cast_up, passing.cast_down),
}


JOINT: dict[str, Callable[[Node, Mapping[int, Affine]], Step]] = {
    "Concat": concat.concat_joint,
    "Add": arms.sum_joint,
    "Sub": arms.sum_joint,
    "Sum": arms.sum_joint,
}
"""Downward, for several operands of one node at once, by slot."""


def handler(node: Node, direction: Literal["up", "down"]) -> Solve:
    """The handler's function for a node. Raises Declined where there is none."""
    entry = HANDLERS.get(node.op_type) if not node.domain else None
    solve = getattr(entry, direction) if entry is not None else None
    if solve is None:
        raise Declined(Reason.NO_HANDLER, f"{node.op_type} {node.label!r}")
    found: Solve = solve
    return found
