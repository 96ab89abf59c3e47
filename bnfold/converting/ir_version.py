"""The IR version of a model: what belongs to an opset, what the file uses, and what is done to reach a lower one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Literal

import onnx

from bnfold import ir
from bnfold.converting.imports import SPELLINGS, unread_imports
from bnfold.errors import Unsupported
from bnfold.ir.elements import type_name
from bnfold.ir.schemas import schema_of, versions_of

TP = onnx.TensorProto
FUNCTIONS_SINCE = 8
"""The IR version from which on a model has functions of its own."""
SPARSE_SINCE = 6
"""The IR version from which on initializers may be sparse."""
LOWEST = 4
"""The lowest IR version that a conversion chooses by itself: below, weights have to be inputs as well."""
DEVICES_SINCE = 11
"""The IR version that the assignment of nodes to devices came with."""
Wanted = int | Literal["auto", "keep"]
"""What a caller may ask for: `Options.ir_version`."""

_TYPES_SINCE = {
    TP.BFLOAT16: 4,
    **dict.fromkeys((TP.FLOAT8E4M3FN, TP.FLOAT8E4M3FNUZ, TP.FLOAT8E5M2, TP.FLOAT8E5M2FNUZ), 9),
    **dict.fromkeys((21, 22), 10),  # by number: older onnx does not know these names
    23: 11,
    24: 12,
    **dict.fromkeys((25, 26), 13),
    **dict.fromkeys((27, 28), 14),
}
"""The IR version that an element type came with."""


def ir_version_of(opset: int) -> int:
    """Return the IR version that was released together with ``opset``."""
    table: dict[tuple[str, int], int] = onnx.helper.OP_SET_ID_VERSION_MAP
    known = [(version, needed) for (domain, version), needed in table.items() if domain == "ai.onnx"]
    return min((needed for version, needed in known if version >= opset), default=max(needed for _, needed in known))


def write_ir_version(model: ir.Model, target: int, *, lower: bool) -> None:
    """Set ``ir_version`` to what the target opset and the features in use need.

    It is lowered only if ``lower``.
    """
    needed = max(LOWEST, ir_version_of(target), ir_version_in_use(model))
    model.proto.ir_version = needed if lower else max(model.proto.ir_version, needed)


def require_ir_version(model: ir.Model, wanted: int) -> list[str]:
    """Set ``ir_version`` to ``wanted``, and return what a user should know about it.

    Raises:
        Unsupported: The model uses something that came with a later IR version.
    """
    needed, what = max(_needs(model))
    if needed > wanted:
        why = f"{what} came with IR version {needed}; --ir-version {needed} is possible"
        raise Unsupported(f"the model cannot be of IR version {wanted}: {why}")
    model.proto.ir_version = wanted
    notes = ["the assignment of nodes to devices is gone"] if wanted < DEVICES_SINCE and _drop_devices(model) else []
    if wanted < (own := ir_version_of(model.opset(""))):
        text = f"opset {model.opset('')} came with IR version {own}"
        notes.append(f"{text}: a runtime that stops at IR version {wanted} may lack its operators")
    return notes


def explain_ir_version(model: ir.Model) -> list[str]:
    """Return a note if the model uses something that came with a later IR version than its opset."""
    needed, what = max(_needs(model))
    usual = max(LOWEST, ir_version_of(model.opset("")))
    return [f"IR version {needed}, and not {usual}: {what} came with it"] if needed > usual else []


def keep_ir_version(model: ir.Model, before: int) -> None:
    """Set ``ir_version`` to what it was ``before``, or to the lowest that has what the model uses."""
    model.proto.ir_version = max(before, ir_version_in_use(model))


def ir_version_in_use(model: ir.Model) -> int:
    """Return the lowest IR version that has what the file uses."""
    return max(_needs(model))[0]


def _needs(model: ir.Model) -> Iterator[tuple[int, str]]:
    """Yield the IR versions that introduced features of the file. Older programs ignore metadata_props."""
    proto = model.proto
    yield 3, "an opset import"
    values = [value for graph in model.graphs() for value in graph.values.values()]
    hidden = next((value for value in values if value.is_initializer and not value.is_input), None)
    if hidden is not None:
        yield 4, f"a weight that is no input, such as {hidden.name!r},"
    for function in proto.functions:
        yield from _function_needs(function)
    if proto.training_info:
        yield 7, "training_info"
    if any(getattr(graph.proto, "sparse_initializer", ()) for graph in model.graphs()):
        yield SPARSE_SINCE, "a sparse initializer"
    if proto.graph.quantization_annotation:
        yield 5, "a quantization annotation"
    typed = {value.dtype: value.name for value in values if value.dtype in _TYPES_SINCE}
    typed.update((dtype, name) for dtype, name in _named_types(model) if dtype in _TYPES_SINCE)
    for dtype, name in typed.items():
        assert dtype is not None
        yield _TYPES_SINCE[dtype], f"the type {type_name(dtype)} of {name!r}"
    table: dict[tuple[str, int], int] = onnx.helper.OP_SET_ID_VERSION_MAP
    unread = unread_imports(model)
    for entry in proto.opset_import:
        if entry.domain not in (*SPELLINGS, *unread):
            yield table.get((entry.domain, entry.version), 0), f"version {entry.version} of {entry.domain}"


def _named_types(model: ir.Model) -> Iterator[tuple[int, str]]:
    """Yield the element types that attributes name: no annotation may say what such a node makes."""
    for node in model.nodes():
        if not node.domain and not _may_name_types(node.op_type):
            continue
        for attribute in node.proto.attribute[:]:
            if attribute.name in _NAMING_TYPES:
                yield attribute.i, node.label
            elif attribute.name == _HOLDING_TENSOR:
                yield attribute.t.data_type, node.label


@cache
def _may_name_types(op_type: str) -> bool:
    """Whether some version of an operator has such an attribute, or the operator is not known."""
    schemas = [schema_of(op_type, version) for version in versions_of(op_type)]
    return not schemas or any(
        name in schema.attributes for schema in schemas for name in (*_NAMING_TYPES, _HOLDING_TENSOR)
    )


_NAMING_TYPES, _HOLDING_TENSOR = ("dtype", "output_dtype", "to"), "value"


def _function_needs(function: onnx.FunctionProto) -> Iterator[tuple[int, str]]:
    yield FUNCTIONS_SINCE, f"function {function.name!r}"
    if getattr(function, "attribute_proto", ()):
        yield 9, f"a default in function {function.name!r}"
    if getattr(function, "overload", ""):
        yield 10, f"the overload of function {function.name!r}"


def _drop_devices(model: ir.Model) -> bool:
    """Remove the assignment of nodes to devices, which changes no result; whether there was any."""
    holders: list[tuple[Any, str]] = [
        (model.proto, "configuration"),
        *((node.proto, "device_configurations") for node in model.nodes()),
    ]
    found = [(holder, name) for holder, name in holders if len(getattr(holder, name, ()))]
    for holder, name in found:
        holder.ClearField(name)
    return bool(found)
