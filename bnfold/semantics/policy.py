"""Attributes that a decision rests on, and the record of every decision made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bnfold.classes import frozen
from bnfold.errors import MistypedAttribute, Unsupported

if TYPE_CHECKING:
    from bnfold import ir


@frozen
class Repair:
    """One thing that was decided, corrected or changed at one node, for the report."""

    kind: str
    node: str
    text: str

    def to_json(self) -> dict[str, str]:
        """The repair as the report stores it."""
        return {"kind": self.kind, "node": self.node, "text": self.text}


class Unreadable(Unsupported):
    """A node whose form no version of its operator allows, or whose meaning cannot be proven."""

    def __init__(self, node: ir.Node, reason: str) -> None:
        super().__init__(f"{node.op_type} {node.label!r}: {reason}")
        self.node = node.label
        self.reason = reason


def flag(node: ir.Node, name: str) -> bool | None:
    """Integer attribute ``name`` as truth, or None if the node has no such attribute; raises as `literal`."""
    value = literal(node, name)
    return None if value is None else bool(value)


def literal(node: ir.Node, name: str) -> int | float | None:
    """Number stored in attribute ``name``, or None if the node has no such attribute.

    Raises:
        Unreadable: The attribute is a parameter of the enclosing function, or not a number.
    """
    attribute = node.find(name)
    if attribute is None:
        return None
    if attribute.ref_attr_name:
        raise Unreadable(node, f"attribute {name} is the function's parameter {attribute.ref_attr_name}: value unknown")
    try:
        value = node.attr(name)
    except MistypedAttribute as error:
        raise Unreadable(node, f"attribute {name} is no number") from error
    if not isinstance(value, int | float):
        raise Unreadable(node, f"attribute {name} is no number")
    return value
