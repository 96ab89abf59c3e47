"""Attributes that a decision rests on, and the record of every decision made."""

from __future__ import annotations

from typing import NamedTuple

from bnfold import ir
from bnfold.errors import MistypedAttribute, ReferenceAttribute, Unsupported


class Repair(NamedTuple):
    """One thing that was decided, corrected or changed at one node, for the report."""

    kind: str
    node: str
    text: str

    def to_json(self) -> dict[str, str]:
        """Return the repair as the report stores it."""
        return {"kind": self.kind, "node": self.node, "text": self.text}


class Unreadable(Unsupported):
    """A node whose form no version of its operator allows, or whose meaning cannot be proven."""

    def __init__(self, node: ir.Node, reason: str) -> None:
        super().__init__(f"{node.op_type} {node.label!r}: {reason}")
        self.node = node.label
        self.reason = reason


def flag(node: ir.Node, name: str) -> bool | None:
    """Return integer attribute ``name`` as truth, or None if the node has no such attribute; raises as `literal`."""
    value = literal(node, name)
    return None if value is None else bool(value)


def truth(node: ir.Node, name: str) -> bool | None:
    """Return attribute ``name`` as truth, or None if the node has no such attribute.

    Raises:
        Unreadable: As `literal`, or it is neither 0 nor 1: runtimes disagree whether another number is true.
    """
    stated = literal(node, name)
    if stated not in (None, 0, 1):
        raise Unreadable(node, f"{name}={stated} is neither 0 nor 1")
    return flag(node, name)


def literal(node: ir.Node, name: str) -> int | float | None:
    """Return number stored in attribute ``name``, or None if the node has no such attribute.

    Raises:
        Unreadable: The attribute is a parameter of the enclosing function, or not a number.
    """
    try:
        value = node.attr(name)
    except MistypedAttribute as error:
        raise Unreadable(node, f"attribute {name} is no number") from error
    except ReferenceAttribute as error:
        parameter = node.attrs[name].ref_attr_name
        raise Unreadable(node, f"attribute {name} is the function's parameter {parameter}: value unknown") from error
    if isinstance(value, int | float):
        return value
    if node.has_attr(name):
        raise Unreadable(node, f"attribute {name} is no number")
    return None
