"""The element type that an operator's text ties to that of an input, or says outright: no shape is needed for it."""

from __future__ import annotations

from functools import cache

import onnx

from bnfold.ir.schemas import schema_of, version_at
from bnfold.ir.value import Value

_STATED = {"Cast": "to"}
"""The attribute that names the element type of the output."""
_TYPES = {f"tensor({name.lower()})": number for name, number in onnx.TensorProto.DataType.items()}


def tied_source(value: Value, target: int) -> Value | int | None:
    """Return the input that has the element type of ``value``, or the type itself; None where the text ties it not.

    The node is one of the form that opset ``target`` knows, or else of the graph's own.
    """
    node = value.producer
    if (
        node is None
        or not node.is_known
        or node.has_references
        or (version := version_at(node.op_type, target)) is None
    ):
        return None
    if node.op_type == "Constant":
        held = node.find("value")
        return None if held is None else held.t.data_type or None
    if node.op_type == "ConstantOfShape":
        return onnx.TensorProto.FLOAT if (filling := node.find("value")) is None else filling.t.data_type or None
    if node.op_type == "If":  # whose branches end in values of one type
        ends = [body.outputs[value.slot] for body in node.bodies if value.slot < len(body.outputs)]
        return ends[0] if len(ends) > 1 else None
    if node.op_type in _STATED:
        stated = node.attr(_STATED[node.op_type])
        return stated if isinstance(stated, int) else None
    tie = _tie(node.op_type, version, value.slot)
    return node.input(tie[0]) if isinstance(tie, tuple) else tie


@cache
def _tie(op_type: str, version: int, slot: int) -> tuple[int] | int | None:
    """Return the slot of the input whose type an output has, or the only type that it can have."""
    schema = schema_of(op_type, version)
    if slot >= len(schema.outputs):
        return None
    made = schema.outputs[slot]
    if len(made.types) == 1:
        return _TYPES.get(next(iter(made.types)))
    places = [place for place, given in enumerate(schema.inputs) if given.type_str == made.type_str]
    is_tensor = all(kind.startswith("tensor(") for kind in made.types)
    return (places[0],) if places and is_tensor and "(" not in made.type_str else None
