"""Rules of operators that make truths of items, or choose by them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from bnfold.ir.elements import TP
from bnfold.ir.shapes.items import chosen
from bnfold.ir.tensor import InMemory, Tensor

if TYPE_CHECKING:
    from bnfold.ir.node import Node
    from bnfold.ir.shapes.arithmetic import Proven


def of_two(item: Callable[[Any, Any], int | None], dtypes: frozenset[int]) -> Callable[[Node, Proven], Tensor]:
    """Return the rule of an operator that makes truths of two operands of a type among ``dtypes``."""

    def compute(node: Node, known: Proven) -> Tensor:
        one, other = known.operand(node, 0), known.operand(node, 1)
        if node.graph.opset() < 7 or one.dtype not in dtypes:  # operands are broadcast since then
            raise ValueError("not followed")
        return InMemory(TP.BOOL, np.asarray(np.frompyfunc(item, 2, 1)(one.array, other.array), dtype=object))

    return compute


def negated(node: Node, known: Proven) -> Tensor:
    """Return the truths that a Not makes."""
    source = known.operand(node, 0)
    if source.dtype != TP.BOOL:
        raise ValueError("no truths")
    turned = np.frompyfunc(lambda item: None if item is None else 1 - item, 1, 1)(source.array)
    return InMemory(TP.BOOL, np.asarray(turned, dtype=object))


def where(node: Node, known: Proven) -> Tensor:
    """Return the items that a Where chooses."""
    truth, yes, no = (known.operand(node, slot) for slot in range(3))
    return InMemory(yes.dtype, np.asarray(np.frompyfunc(chosen, 3, 1)(truth.array, yes.array, no.array), dtype=object))
