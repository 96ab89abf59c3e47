"""What handlers answer and plans are made of: frozen descriptions of edits, and demands on the neighbours."""

from __future__ import annotations

from dataclasses import dataclass, field

from bnfold.fold.affine import Affine
from bnfold.ir import Node, Tensor, Value
from bnfold.ir.tensor import Float64


@dataclass(frozen=True, slots=True, eq=False)
class SetConstant:
    """Let ``node`` read ``tensor`` at ``slot`` instead of the constant, or of nothing, that it reads now."""

    node: Node
    slot: int
    tensor: Tensor
    hint: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class SetAttr:
    """Give ``node`` an attribute."""

    node: Node
    name: str
    value: int | float


@dataclass(frozen=True, slots=True, eq=False)
class Become:
    """Turn ``node`` into another operator of the default domain."""

    node: Node
    op_type: str


@dataclass(frozen=True, slots=True, eq=False)
class Bypass:
    """Take ``node`` out: its readers read what it reads at ``slot``."""

    node: Node
    slot: int


@dataclass(frozen=True, slots=True, eq=False)
class Residual:
    """A cheaper affine that stays behind: ``op_type`` (Add or Mul) with a constant, on the edge that ``value`` is."""

    value: Value
    op_type: str
    block: Float64
    dtype: int


Edit = SetConstant | SetAttr | Become | Bypass | Residual


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One node's part of a plan.

    ``demands`` are (slot, affine): upward, what is wanted on which of the node's inputs; downward, what stands on which
    of its outputs. A node without demands has absorbed the affine.
    """

    edits: tuple[Edit, ...] = ()
    demands: tuple[tuple[int, Affine], ...] = ()


@dataclass(slots=True, eq=False)
class Draft:
    """A plan while it is being searched for."""

    edits: list[Edit] = field(default_factory=list)
    relabelled: dict[Value, Affine] = field(default_factory=dict)
    nodes: dict[Node, None] = field(default_factory=dict)
    absorbers: dict[Node, None] = field(default_factory=dict)
    edges: set[tuple[Node, int]] = field(default_factory=set)
