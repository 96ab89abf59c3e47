"""The language of edits: each describes a change of the graph, and changes nothing until it is applied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from bnfold.ir import Graph, Node, Tensor, Value
from bnfold.ir.tensor import Array, Float64


class NewNode(NamedTuple):
    """A new node in front of the one that reads its result."""

    op_type: str
    inputs: Sequence[Value]
    attrs: Mapping[str, Any]


Operand = Value | Array | NewNode | None
"""An input of a node: a value, a constant that is going to be stored, or the result of a new node."""


class Bypass(NamedTuple):
    """Remove ``node``: the consumers of each of its outputs read the value at that place in ``sources`` instead.

    Sources are equal to the outputs, and keep their names, but for those that take the place of a graph output. If the
    edit ``renames``, they become the outputs by other edits, and take their names.
    """

    node: Node
    sources: Sequence[Value | None]
    renames: bool = False


class Remove(NamedTuple):
    """Remove ``node``, whose outputs nothing reads any more."""

    node: Node


class Replace(NamedTuple):
    """Turn ``node`` into another operator of its domain, or give it other inputs; its first output stays.

    Without ``inputs`` or ``attrs`` it keeps those that it has.
    """

    node: Node
    op_type: str
    inputs: Sequence[Operand] | None = None
    attrs: Mapping[str, Any] | None = None


class StoreConstant(NamedTuple):
    """Let the only output of ``node`` be an initializer, and remove the node."""

    node: Node
    tensor: Tensor


class SetConstant(NamedTuple):
    """Let ``node`` read ``tensor`` at ``slot`` instead of the constant, or of nothing, that it reads now.

    ``hint`` is what to call it behind the node's own name, where the old name does not stay.
    """

    node: Node
    slot: int
    tensor: Tensor
    hint: str = ""


class SetAttr(NamedTuple):
    """Give ``node`` an attribute; without a value, take it away."""

    node: Node
    name: str
    value: int | float | None


class ExtraAdd(NamedTuple):
    """A cheaper affine that stays: an Add of a constant ``block``, before an input of ``node`` or behind an output."""

    node: Node
    slot: int
    block: Float64
    dtype: int
    side: Literal["before", "behind"] = "behind"

    @property
    def value(self) -> Value | None:
        """What the constant is added to."""
        return self.node.outputs[self.slot] if self.side == "behind" else self.node.inputs[self.slot]

    @property
    def edge(self) -> object:
        """Equal for extra Adds that are the same operation: several consumers of a value share them."""
        if self.side == "behind":
            return self.node, self.slot
        return self.value, self.dtype, self.block.shape, self.block.tobytes()


Edit = Bypass | Remove | Replace | StoreConstant | SetConstant | SetAttr | ExtraAdd


def distinct_adds(edits: Iterable[Edit]) -> list[ExtraAdd]:
    """Return the operations between two nodes that edits ask for, each once."""
    return list({edit.edge: edit for edit in edits if isinstance(edit, ExtraAdd)}.values())


def plainest(block: Float64) -> Float64:
    """Return the block without leading axes of size 1, the form in which other tools recognise a bias."""
    dims = block.shape
    while dims[:1] == (1,):
        dims = dims[1:]
    return block.reshape(dims)


def can_bypass(node: Node, source: Value | None) -> bool:
    """Whether consumers of the first output may read ``source`` instead, and no other output has a consumer."""
    made = node.output(0)
    if made is None or source is None or any(other is not None and not other.is_unread for other in node.outputs[1:]):
        return False
    return can_take_place(made, source, node)


def can_take_place(made: Value, source: Value, node: Node) -> bool:
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


def _means(graph: Graph, value: Value) -> bool:
    """Whether this value is what nodes of a graph find under its name: an inner value may hide it."""
    scope: Graph | None = graph
    while scope is not None and scope is not value.graph:
        if value.name in scope.values:
            return False
        scope = scope.parent.graph if scope.parent is not None else None
    return scope is not None
