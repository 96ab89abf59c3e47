"""How each operator treats an affine: one explicit table, one file an operator family.

A handler is a pure function ``(node, slot, affine) -> Step``. Upward, ``affine`` is wanted on output ``slot``: the step
makes the node compute it. Downward, it stands on input ``slot``: the node must compute what it did, although it now
reads the value without it. A handler that cannot raises `Declined`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from bnfold.fold.affine import Affine
from bnfold.fold.ops import batchnorm, conv, conv_transpose, elementwise, gemm, matmul, passing, reshape, transpose
from bnfold.fold.step import Step
from bnfold.ir import Node
from bnfold.reasons import Declined, Reason

Solve = Callable[[Node, int, Affine], Step]


@dataclass(frozen=True, slots=True)
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
    # affines themselves
    "Mul": Handler(elementwise.up, elementwise.down),
    "Add": Handler(elementwise.up, elementwise.down),
    "Sub": Handler(elementwise.up, elementwise.down),
    "Div": Handler(elementwise.up, elementwise.down),
    "Neg": Handler(elementwise.up, elementwise.down),
    # carriers
    "Identity": Handler(passing.up, passing.down),
    "Dropout": Handler(passing.dropout_up, passing.dropout_down),
    "Flatten": Handler(reshape.up, reshape.down),
    "Reshape": Handler(reshape.up, reshape.down),
    "Squeeze": Handler(reshape.up, reshape.down),
    "Unsqueeze": Handler(reshape.up, reshape.down),
    "Transpose": Handler(transpose.up, transpose.down),
}


def handler(node: Node, direction: Literal["up", "down"]) -> Solve:
    """The handler's function for a node. Raises Declined where there is none."""
    entry = HANDLERS.get(node.op_type) if not node.domain else None
    solve = getattr(entry, direction) if entry is not None else None
    if solve is None:
        raise Declined(Reason.NO_HANDLER, f"{node.op_type} {node.label!r}")
    found: Solve = solve
    return found
