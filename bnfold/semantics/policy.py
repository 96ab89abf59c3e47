"""The choices a user may make where an operator's text leaves one, and the record of every choice made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from bnfold.classes import frozen
from bnfold.errors import MistypedAttribute, Unsupported

if TYPE_CHECKING:
    from bnfold import ir

LegacyMode = Literal["auto", "inference", "training", "error"]
SavedVar = Literal["variance", "inv-std"]


@frozen
class Policy:
    """How to read what is ambiguous.

    Attributes:
        legacy_mode: Mode of a BatchNormalization-1 or -6 without ``is_test``. The attribute's default says training,
            one output says inference. ``auto`` goes by the outputs named; ``inference`` takes every one for inference
            whose statistics nobody reads; ``training`` follows the attribute's default; ``error`` refuses to choose.
            Likewise for Dropout-1 and -6, which ``auto`` takes for inference.
        force_inference: Read training mode as inference wherever no statistics output is read, and so with Dropout.
        saved_var: What output 5 of versions up to 9 holds: the variance its name says, or the ``1/sqrt(var + epsilon)``
            that onnxruntime returns.
    """

    legacy_mode: LegacyMode = "auto"
    force_inference: bool = False
    saved_var: SavedVar = "variance"


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
