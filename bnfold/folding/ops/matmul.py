"""Products with a constant operand, axes labelled as in Einsum: MatMul, onnxruntime's FusedMatMul, an Einsum of two.

They have no bias: a shift needs a Gemm, an Add that stays, or is declined. An Einsum of one operand turns its axes.
"""

from __future__ import annotations

import math
from string import ascii_letters
from typing import NamedTuple

import numpy as np

from bnfold import analysis, ir
from bnfold.edits.edit import Edit, ExtraAdd, Replace, SetConstant
from bnfold.folding import chains, facts, shapes
from bnfold.folding.affine import Affine, bounded, make
from bnfold.folding.ops import weights
from bnfold.folding.ops.registry import Handler, register
from bnfold.folding.step import Step, leaves, wants
from bnfold.ir.tensor import Exact, Float64, Tensor
from bnfold.report.reasons import Declined, Reason

Labels = list[str]


class _Product(NamedTuple):
    """Labels of the axes of ``x``, of the constant ``w`` at ``slot``, and of the result, without those summed over."""

    node: ir.Node
    slot: int
    matrix: Tensor
    x: Labels
    w: Labels
    made: Labels

    def scaled(self, block: Float64, labels: Labels) -> Step:
        """Multiply the constant by factors along one axis, or by one for all."""
        varying = [label for label, size in zip(labels, block.shape, strict=True) if size > 1]
        shared = [label for label in varying or labels[::-1] if label in self.w]
        if not shared or len(varying) > 1:
            raise Declined(Reason.AXIS, f"the constant of {facts.where(self.node)} lacks the axis that is scaled")
        axis = self.w.index(shared[0])
        size = self.matrix.dims[axis]
        if block.size not in (1, size):
            raise Declined(Reason.AXIS, f"the constant of {facts.where(self.node)} is broadcast")
        return weights.scaled(self.node, self.slot, self.matrix, axis, np.broadcast_to(block.reshape(-1), (size,)))

    def image(self, t: Float64) -> Float64:
        """Use ``Σ t·W``, what a shift of ``x`` comes to."""
        for axis, label in enumerate(self.x):
            alone = label not in self.w or self._is_broadcast(axis, label)
            if alone and (label not in self.made or (label in self.w and t.shape[axis] > 1)):
                raise Declined(Reason.SHIFT_NO_ROOM, f"the constant of {facts.where(self.node)} lacks axis {label!r}")
        sizes = {label: size for label, size in zip(self.x, t.shape, strict=True) if size > 1}
        varying = [*sizes]
        sizes |= zip(self.w, self.matrix.dims, strict=True)
        kept = [label for label in self.made if label in sizes]
        bounded(math.prod(sizes[label] for label in kept))
        letters = dict(zip(sizes, ascii_letters, strict=False))
        shift, matrix, made = ("".join(letters[label] for label in labels) for labels in (varying, self.w, kept))
        block = np.einsum(f"{shift},{matrix}->{made}", t.squeeze(), self.matrix.float64(), optimize=True)
        block = float(self.node.attr("alpha", 1.0)) * block
        return np.asarray(block.reshape([sizes.get(label, 1) for label in self.made]))

    def _is_broadcast(self, axis: int, label: str) -> bool:
        x = self.node.input(1 - self.slot)
        return self.matrix.dims[self.w.index(label)] == 1 and (x is None or shapes.size(x, axis) != 1)


def up(node: ir.Node, _: int, affine: Affine) -> Step:
    """Use ``s·Σ x·W + t = Σ x·(s·W) + t``, where ``W`` has the axis that ``s`` varies along."""
    if node.is_op("Einsum") and len(node.inputs) == 1:
        (x,), made = _equation(node, affine.rank)
        return wants(affine.map(lambda block: block.transpose([made.index(label) for label in x])))
    product = _product(node, affine.rank, behind=True)
    return product.scaled(affine.s, product.made).plus(*_shift(product, affine.t))


def down(node: ir.Node, _: int, affine: Affine) -> Step:
    """Use ``Σ (s·x + t)·W = Σ x·(s·W) + Σ t·W``."""
    if node.is_op("Einsum") and len(node.inputs) == 1:
        (x,), made = _equation(node, affine.rank)
        return leaves(affine.map(lambda block: block.transpose([x.index(label) for label in made])))
    product = _product(node, affine.rank, behind=False)
    scaled = product.scaled(affine.s, product.x)
    if affine.is_scale_only:
        return scaled
    moved = product.image(affine.t)
    if _adds_constant(node.output(0)):
        return scaled.plus(pending=((0, make(np.ones((1,) * moved.ndim), moved)),))
    return scaled.plus(*_shift(product, moved))


def _product(node: ir.Node, rank: int, *, behind: bool) -> _Product:
    """Return the product of a node that makes (``behind``) or reads a value of ``rank``.

    Raises Declined where there is no constant.
    """
    for slot in (1, 0):
        held = analysis.constant(node.input(slot))
        least = 1 if node.is_op("Einsum") else 2
        if held is not None and len(held.dims) >= least and analysis.constant(node.input(1 - slot)) is None:
            break
    else:
        raise Declined(Reason.DYNAMIC_WEIGHT, facts.where(node))
    if node.is_op("Einsum"):
        operands, made = _equation(node)
    else:
        x = 1 if behind and rank < len(held.dims) else rank
        operands, made = _matrices(node, *((x, len(held.dims)) if slot == 1 else (len(held.dims), x)))
    product = _Product(node, slot, weights.shape_of(node, slot), operands[1 - slot], operands[slot], made)
    if len(made if behind else product.x) != rank or len(product.w) != len(held.dims):
        raise Declined(Reason.UNREADABLE, facts.where(node))
    return product


def _matrices(node: ir.Node, left: int, right: int) -> tuple[list[Labels], Labels]:
    """Return labels of two operands of these ranks, and of their product.

    Stacks of matrices are aligned at the last ones.
    """
    turned = [name for name in ("transA", "transB") if node.attr(name, 0)]
    if node.attr("transBatchA", 0) or node.attr("transBatchB", 0) or (turned and min(left, right) < 2):
        raise Declined(Reason.AXIS, f"{facts.where(node)} transposes stacks of matrices, or a vector")
    stacks = [str(number) for number in range(max(left, right) - 2, 0, -1)]
    rows, columns = (["k"] if rank == 1 else [*stacks[len(stacks) - rank + 2 :], *"mk"] for rank in (left, right))
    if right > 1:
        columns[-2:] = "kn"
    for name, labels in (("transA", rows), ("transB", columns)):
        if name in turned:
            labels[-2:] = labels[:-3:-1]
    return [rows, columns], [*stacks, *("m" if left > 1 else ""), *("n" if right > 1 else "")]


def _equation(node: ir.Node, rank: int | None = None) -> tuple[list[Labels], Labels]:
    """Return labels of the operands and of the result, as an Einsum spells them out.

    With ``rank`` those of a mere turn.
    """
    read, arrow, made = node.attr("equation", "").replace(" ", "").partition("->")
    operands = read.split(",")
    is_plain = arrow and read.replace(",", "").isalpha() and set(made) <= set(read) - {","}
    if (
        not is_plain
        or len(operands) != len(node.inputs)
        or any(len(set(term)) < len(term) for term in (*operands, made))
    ):
        raise Declined(Reason.NO_HANDLER, f"the equation of {facts.where(node)}")
    if rank is not None and not (len(read) == len(made) == rank):
        raise Declined(Reason.AXIS, f"{facts.where(node)} sums over what it reads")
    return [list(term) for term in operands], list(made)


def _shift(product: _Product, t: Float64) -> tuple[Edit, ...]:
    """Return the shift as Gemm's C where everything is a matrix, as an Add behind the product elsewhere."""
    node, matrix = product.node, product.matrix
    if not t.any():
        return ()
    if node.graph.opset() < 7:
        raise Declined(Reason.OPSET, f"a shift behind {facts.where(node)} needs opset 7")
    x = node.input(1 - product.slot)
    is_plain = node.is_op("MatMul") and not node.attrs  # what means nothing to a MatMul may turn a Gemm's operand
    if is_plain and x is not None and len(matrix.dims) == 2 and t.ndim == 2 and shapes.rank(x) == 2:
        columns = matrix.dims[1] if product.slot else t.shape[1]
        block = t if t.shape[0] > 1 else np.broadcast_to(t, (1, columns)).reshape(-1)
        return (Replace(node, "Gemm"), SetConstant(node, 2, Exact(matrix.dtype, block), hint="bias"))
    return (ExtraAdd(node, 0, t, matrix.dtype),)


def _adds_constant(value: ir.Value | None) -> bool:
    """Whether a constant is added to the product, which takes a shift."""
    consumer = value.only_consumer if value is not None else None
    return consumer is not None and consumer.is_op("Add") and chains.has_constant(consumer)


register(**dict.fromkeys(("MatMul", "FusedMatMul", "Einsum"), Handler(up, down, shift="stops", inputs=2)))
