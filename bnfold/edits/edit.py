"""The language of edits: each describes a change of the graph, and changes nothing until it is applied."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from bnfold.ir import Node, Tensor, Value
from bnfold.ir.tensor import Float64


class SetConstant(NamedTuple):
    """Let ``node`` read ``tensor`` at ``slot`` instead of the constant, or of nothing, that it reads now.

    ``hint`` is what to call it behind the node's own name, where the old name does not stay.
    """

    node: Node
    slot: int
    tensor: Tensor
    hint: str = ""


class SetAttr(NamedTuple):
    """Give ``node`` an attribute."""

    node: Node
    name: str
    value: int | float


class Become(NamedTuple):
    """Turn ``node`` into another operator of the default domain."""

    node: Node
    op_type: str


class Bypass(NamedTuple):
    """Remove ``node``: its consumers read its input at ``slot``."""

    node: Node
    slot: int


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


def distinct_adds(edits: Iterable[Edit]) -> list[ExtraAdd]:
    """Return the operations between two nodes that edits ask for, each once."""
    return list({edit.edge: edit for edit in edits if isinstance(edit, ExtraAdd)}.values())


Edit = SetConstant | SetAttr | Become | Bypass | ExtraAdd
