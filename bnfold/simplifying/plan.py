"""What finders answer: an edit, by the name of its rewrite. They change nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bnfold import ir
from bnfold.edits.edit import Bypass, Operand, Replace, StoreConstant, can_bypass
from bnfold.report.rewrites import Rewrite


class Simplification(NamedTuple):
    """An edit that leaves fewer nodes.

    Attributes:
        growth: Bytes that stored results add to the weights; of those that share weights, the first has them.
        saved: Nodes that go with it.
        counterpart: An equal node, whose outputs are read instead.
    """

    rewrite: Rewrite
    edit: Bypass | Replace | StoreConstant
    growth: int = 0
    saved: int = 0
    counterpart: ir.Node | None = None


def bypass(rewrite: Rewrite, node: ir.Node, source: ir.Value | None) -> Simplification | None:
    """Plan that consumers of the first output read ``source``, which is equal; None if they cannot."""
    return Simplification(rewrite, Bypass(node, (source,))) if can_bypass(node, source) else None


def replace(
    rewrite: Rewrite, node: ir.Node, op_type: str, inputs: Sequence[Operand], attrs: Mapping[str, Any] | None = None
) -> Simplification | None:
    """Plan another operator, or other inputs; None if constants are to be stored in a function, which has none."""
    is_function = not hasattr(node.graph.proto, "initializer")
    if is_function and any(isinstance(operand, np.ndarray) for operand in inputs):
        return None
    return Simplification(rewrite, Replace(node, op_type, inputs, attrs))


def only_above(node: ir.Node) -> ir.Node | None:
    """Return the node whose result only this one reads, as its first input."""
    middle = node.input(0)
    first = middle.producer if middle is not None and middle.only_consumer is node else None
    return first if first is not None and not first.has_references else None
