"""The edits of rewrites: finders plan them without changing anything, and `simplifying.apply` carries them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bnfold import ir
from bnfold.ir.tensor import Array
from bnfold.report.rewrites import Rewrite


class Made(NamedTuple):
    """What a new node in front of another one is going to make of values."""

    op_type: str
    inputs: Sequence[ir.Value]
    attrs: Mapping[str, Any]


Operand = ir.Value | Array | Made | None
"""An input of a node: a value, a constant that is going to be stored, or what a new node makes."""


class SkipNode(NamedTuple):
    """The consumers of the first output of ``node`` read ``source``, which is equal to it."""

    rewrite: Rewrite
    node: ir.Node
    source: ir.Value


class StoreConstant(NamedTuple):
    """The only output of ``node`` becomes an initializer.

    The weights grow by ``growth`` bytes, and ``saved`` nodes go: of results that share weights the first has both.
    """

    rewrite: Rewrite
    node: ir.Node
    tensor: ir.Tensor
    growth: int = 0
    saved: int = 0


class Replace(NamedTuple):
    """The node becomes another operator, or the same with other inputs; its outputs stay.

    Without ``attrs`` it keeps those that it has.
    """

    rewrite: Rewrite
    node: ir.Node
    op_type: str
    inputs: Sequence[Operand]
    attrs: Mapping[str, Any] | None


class Deduplicate(NamedTuple):
    """The consumers of ``node`` read the outputs of ``twin``, an equal node."""

    rewrite: Rewrite
    node: ir.Node
    twin: ir.Node


Simplification = SkipNode | StoreConstant | Replace | Deduplicate


def can_replace(made: ir.Value, source: ir.Value, node: ir.Node) -> bool:
    """Whether every consumer of ``made``, an output of ``node``, can read ``source`` instead.

    A graph output keeps its name; the producer of ``source`` then produces it under that name.
    """
    if made.is_output:
        producer = source.producer
        if producer is None or producer.graph is not node.graph or source.is_output or source.tensor_proto is not None:
            return False
        if producer.is_op("Constant"):
            return False
        return all(_means(consumer.graph, made) for consumer, _ in source.uses)
    return all(_means(consumer.graph, source) for consumer, _ in made.uses)


def _means(graph: ir.Graph, value: ir.Value) -> bool:
    """Whether this value is what nodes of a graph find under its name: an inner value may hide it."""
    scope: ir.Graph | None = graph
    while scope is not None and scope is not value.graph:
        if value.name in scope.values:
            return False
        scope = scope.parent.graph if scope.parent is not None else None
    return scope is not None


def can_skip(node: ir.Node, source: ir.Value | None) -> bool:
    """Whether consumers of the first output may read ``source`` instead, and no other output has a consumer."""
    made = node.output(0)
    if made is None or source is None or any(other is not None and not other.is_unread for other in node.outputs[1:]):
        return False
    return can_replace(made, source, node)


def only_above(node: ir.Node) -> ir.Node | None:
    """Return the node whose result only this one reads, as its first input."""
    middle = node.input(0)
    first = middle.producer if middle is not None and middle.only_consumer is node else None
    return first if first is not None and not first.has_references else None


def can_replace_inputs(node: ir.Node, inputs: Sequence[Operand]) -> bool:
    """Whether constants among the inputs can become initializers: functions have none."""
    is_function = not hasattr(node.graph.proto, "initializer")
    return not (is_function and any(isinstance(operand, np.ndarray) for operand in inputs))
