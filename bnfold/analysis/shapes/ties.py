"""The element type that an operator's text ties to that of an input, or says outright: no shape is needed for it."""

from __future__ import annotations

from functools import cache

import onnx

from bnfold.ir.bodies import operand_of
from bnfold.ir.schemas import schema_of, version_at
from bnfold.ir.value import Value

_STATED = {"Cast": "to"}
"""The attribute that names the element type of the output."""
_FILLED = {"Constant": None, "ConstantOfShape": onnx.TensorProto.FLOAT}
"""Operators with a tensor of the output's type, and that type without one."""
TYPES = {f"tensor({name.lower()})": number for name, number in onnx.TensorProto.DataType.items()}


_FEW = 64
"""Values that are visited to find one whose element type is certain."""


def tied_type(value: Value) -> int | None:
    """Return the element type that follows from stored tensors and operators' texts alone; None where none does.

    An input of a body has the type of what the node around it reads.
    """
    waiting, seen = [value], {value}
    while waiting and len(seen) <= _FEW:
        made = waiting.pop()
        if made.tensor_proto is not None:
            return made.tensor_proto.data_type or None
        if made.producer is None:
            operand = operand_of(made)
            found: list[Value] | int | None = None if operand is None else [operand]
        else:
            found = None if made.producer.is_call else _tied(made, made.graph.opset())
        if isinstance(found, int):
            return found
        fresh = [source for source in found or () if source not in seen]
        waiting += fresh
        seen.update(fresh)
    return None


def tied_source(value: Value, target: int) -> Value | int | None:
    """Return the input that has the element type of ``value``, or the type itself; None where the text ties it not.

    The node is one of the form that opset ``target`` knows, or else of the graph's own.
    """
    found = _tied(value, target)
    return found if found is None or isinstance(found, int) else found[0]


def _tied(value: Value, target: int) -> list[Value] | int | None:
    """Return the inputs that have the element type of ``value``, as `tied_source`."""
    node = value.producer
    if (
        node is None
        or not node.is_known
        or node.has_references
        or (version := version_at(node.op_type, target)) is None
    ):
        return None
    if node.op_type in _FILLED:
        filling = node.find("value")
        return _FILLED[node.op_type] if filling is None else filling.t.data_type or None
    if node.op_type == "If":  # whose branches end in values of one type
        ends = [body.outputs[value.slot] for body in node.bodies if value.slot < len(body.outputs)]
        return ends[:1] if len(ends) > 1 else None
    if node.op_type in _STATED:
        stated = node.attr(_STATED[node.op_type])
        return stated if isinstance(stated, int) else None
    tie = _tie(node.op_type, version, value.slot)
    if not isinstance(tie, tuple):
        return tie
    return [source for place in tie if (source := node.input(place)) is not None] or None


@cache
def _tie(op_type: str, version: int, slot: int) -> tuple[int, ...] | int | None:
    """Return the slots of the inputs whose type an output has, or the only type that it can have."""
    schema = schema_of(op_type, version)
    made = schema.outputs[min(slot, len(schema.outputs) - 1)]
    is_one_of_many = made.option == onnx.defs.OpSchema.FormalParameterOption.Variadic and made.is_homogeneous
    if slot >= len(schema.outputs) and not is_one_of_many:
        return None
    if len(made.types) == 1:
        return TYPES.get(next(iter(made.types)))
    places = [place for place, given in enumerate(schema.inputs) if given.type_str == made.type_str]
    is_tensor = all(kind.startswith("tensor(") for kind in made.types)
    return tuple(places) if places and is_tensor and "(" not in made.type_str else None
