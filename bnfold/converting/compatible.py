"""Decide from the schemas whether one version of an operator means the same as the next.

Then a node written for the older version is valid as the newer one. The other way round, a node is valid unless it uses
an addition of the newer version.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations

from onnx import defs

from bnfold.ir.node import attribute_value
from bnfold.ir.schemas import schema_of

FormParameter = defs.OpSchema.FormalParameter
Option = defs.OpSchema.FormalParameterOption


@cache
def objection(op_type: str, old: int, new: int) -> str | None:
    """Say why version ``new`` is not provably a superset of ``old``; None if it is.

    A superset keeps every attribute with its type and default, takes every input and makes every output at its place,
    allows every element type, and demands nothing new. An attribute that is new has a default, which by the standard's
    own rule keeps the old meaning; the exceptions are in :mod:`bnfold.converting.steps`.
    """
    before, after = schema_of(op_type, old), schema_of(op_type, new)
    if after.deprecated and not before.deprecated:
        return "withdrawn"
    return (
        _attributes(before, after)
        or _parameters("input", before.inputs, after.inputs)
        or _parameters("output", before.outputs, after.outputs)
        or _arity(before, after)
        or _ties(before, after)
    )


def default_of(attribute: defs.OpSchema.Attribute) -> object:
    """Return the attribute's default as a Python value, or None if it has none."""
    proto = attribute.default_value
    return attribute_value(proto) if proto.name else None


def _attributes(before: defs.OpSchema, after: defs.OpSchema) -> str | None:
    for name, old in before.attributes.items():
        new = after.attributes.get(name)
        if new is None:
            return f"attribute {name} is gone"
        if new.type != old.type:
            return f"attribute {name} has another type"
        if default_of(new) != default_of(old):
            return f"attribute {name} has another default"
    for name, new in after.attributes.items():
        if new.required and not (name in before.attributes and before.attributes[name].required):
            return f"attribute {name} is required now"
    return None


def _parameters(what: str, before: Sequence[FormParameter], after: Sequence[FormParameter]) -> str | None:
    for index, old in enumerate(before):
        if index >= len(after):
            return f"{what} {index} is gone"
        new = after[index]
        if (old.option == Option.Variadic) != (new.option == Option.Variadic):
            return f"{what} {index} is another kind of list"
        if lost := set(old.types) - set(new.types):
            return f"{what} {index} no longer takes {', '.join(sorted(lost))}"
    return None


def _arity(before: defs.OpSchema, after: defs.OpSchema) -> str | None:
    if after.min_input > before.min_input or after.max_input < before.max_input:
        return "another number of inputs"
    if after.min_output > before.min_output or after.max_output < before.max_output:
        return "another number of outputs"
    return None


def _ties(before: defs.OpSchema, after: defs.OpSchema) -> str | None:
    """Return two places that could differ in type before and have to agree now."""
    places = [(*before.inputs, *before.outputs), (*after.inputs[: len(before.inputs)], *after.outputs)]
    for (a, new_a), (b, new_b) in combinations(zip(*places, strict=False), 2):
        tied = new_a.type_str == new_b.type_str and "(" not in new_a.type_str
        if tied and a.type_str != b.type_str and not (len(a.types) == 1 and a.types == b.types):
            return f"{a.name} and {b.name} have to agree in type now"
    return None
