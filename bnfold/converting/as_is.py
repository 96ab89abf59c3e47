"""Which nodes are of an older version as they stand: nothing has to be rewritten, and little has to be looked at."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import onnx

from bnfold import ir
from bnfold.analysis.shapes.stepwise import Types
from bnfold.converting import steps
from bnfold.ir.elements import type_name
from bnfold.ir.forms import SchemaForm, form_of
from bnfold.ir.schemas import schema_of, version_at, versions_of

_NEGATIVE_AXES_SINCE = 11
_BROADCASTS_SINCE = 8
_KINDS = {f"tensor({type_name(dtype)})": dtype for dtype in onnx.TensorProto.DataType.values() if dtype}


TypedSlots = tuple[tuple[int, frozenset[int]], ...]


class Passage(NamedTuple):
    """What all versions of an operator from one down to another have in common.

    Attributes:
        form: Attributes that all know, of one type, and the numbers of inputs and outputs that all take.
        asked: Inputs whose types the older version does not all take, each with those that it takes.
        made: Outputs whose types it does not all make, unless they are an input's.
    """

    form: SchemaForm
    asked: TypedSlots
    made: TypedSlots


def stands(node: ir.Node, version: int, target: int, types: Types) -> bool:
    """Whether a valid node of ``version`` is one of the older ``target`` too; if not, the steps down decide."""
    passage = _passage(node.op_type, version, target)
    if passage is None or None in node.inputs:
        return False
    form, stated = passage.form, {entry.name: entry.type for entry in node.proto.attribute[:]}
    return (
        form.required <= stated.keys() <= form.attributes.keys()
        and all(kind in (onnx.AttributeProto.UNDEFINED, form.attributes[name]) for name, kind in stated.items())
        and len(node.inputs) in form.inputs
        and len(node.outputs) in form.outputs
        and _are_of(node.inputs, passage.asked, types)
        and _are_of(node.outputs, passage.made, types)
    )


def _are_of(values: Sequence[ir.Value | None], slots: TypedSlots, types: Types) -> bool:
    return all(
        slot >= len(values) or ((value := values[slot]) is not None and types.dtype(value) in kinds)
        for slot, kinds in slots
    )


@cache
def _passage(op_type: str, version: int, target: int) -> Passage | None:
    """Return what a node has to have to stand as it is; None if its version or its values have to be looked at."""
    older = version_at(op_type, target)
    if older is None or older > version or target < _BROADCASTS_SINCE:
        return None  # one that is newer than the last living version says that the target withdrew the operator
    path = [step for step in versions_of(op_type) if older <= step <= version]
    if any(steps.has_to_adapt(op_type, newer) for newer in path[1:]):
        return None
    asked = _asked(schema_of(op_type, version), schema_of(op_type, older))
    return None if asked is None else Passage(_common(op_type, path, target), *asked)


def _common(op_type: str, path: list[int], target: int) -> SchemaForm:
    forms = [form_of(op_type, version) for version in path]
    attributes = {
        name: kind
        for name, kind in forms[0].attributes.items()
        if all(form.attributes.get(name) == kind for form in forms)
        and (target >= _NEGATIVE_AXES_SINCE or name not in ("axis", "axes"))
    }
    inputs, outputs = ([getattr(form, name) for form in forms] for name in ("inputs", "outputs"))
    return SchemaForm(
        attributes,
        frozenset[str]().union(*(form.required for form in forms)),
        range(max(each.start for each in inputs), min(each.stop for each in inputs)),
        range(max(each.start for each in outputs), min(each.stop for each in outputs)),
    )


def _asked(newer: onnx.defs.OpSchema, older: onnx.defs.OpSchema) -> tuple[TypedSlots, TypedSlots] | None:
    """Return the inputs and outputs whose types matter; None if the versions do not tie the same places."""
    ties = [
        {place.type_str: mine.type_str for place, mine in zip(places, own, strict=False)}
        for places, own in ((older.inputs, newer.inputs), (older.outputs, newer.outputs))
    ]
    named = [(place.type_str, mine.type_str) for place, mine in zip(older.inputs, newer.inputs, strict=False)]
    named += [(place.type_str, mine.type_str) for place, mine in zip(older.outputs, newer.outputs, strict=False)]
    if any(ties[0].get(tie, own) != own or ties[1].get(tie, own) != own for tie, own in named):
        return None  # what the older version ties may be of two types in the newer one
    asked: dict[str, tuple[int, frozenset[int]]] = {}
    for slot, (place, mine) in enumerate(zip(older.inputs, newer.inputs, strict=False)):
        if {*mine.types} <= {*place.types} or place.type_str in asked:
            continue
        if not place.is_homogeneous:
            return None
        asked[place.type_str] = slot, _dtypes(place)
    made = tuple(
        (slot, _dtypes(place))
        for slot, (place, mine) in enumerate(zip(older.outputs, newer.outputs, strict=False))
        if not {*mine.types} <= {*place.types} and place.type_str not in asked
    )
    return tuple(asked.values()), made


def _dtypes(place: onnx.defs.OpSchema.FormalParameter) -> frozenset[int]:
    return frozenset(_KINDS[kind] for kind in place.types if kind in _KINDS)
