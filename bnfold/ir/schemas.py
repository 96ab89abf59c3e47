"""Which version of an operator an opset number selects, as the installed onnx has it."""

from __future__ import annotations

from bisect import bisect_right
from functools import cache

from onnx import AttributeProto, defs

MACHINE_LEARNING = "ai.onnx.ml"
"""The domain of trees, linear models and encoders."""


@cache
def _schemas(op_type: str) -> dict[int, defs.OpSchema]:
    """Return an operator's schemas by version, rising.

    Asking for one operator's takes a hundredth of asking for all.
    """
    found = {}
    opset = newest_opset()
    while opset > 0 and defs.has(op_type, opset, ""):
        schema = defs.get_schema(op_type, opset, "")
        found[schema.since_version] = schema
        opset = schema.since_version - 1
    return dict(sorted(found.items()))


@cache
def versions_of(op_type: str) -> tuple[int, ...]:
    """Return all versions of a default-domain operator, rising; empty if the installed onnx knows none."""
    return tuple(_schemas(op_type))


def schema_of(op_type: str, version: int) -> defs.OpSchema:
    """Return the operator's schema of exactly this version."""
    return _schemas(op_type)[version]


@cache
def version_at(op_type: str, opset: int) -> int | None:
    """Return version of ``op_type`` that ``opset`` selects, or None if the operator does not exist there."""
    versions = versions_of(op_type)
    index = bisect_right(versions, opset)
    return versions[index - 1] if index else None


def newest_opset() -> int:
    """Return the newest opset of the default domain that the installed onnx knows."""
    return int(defs.onnx_opset_version())


def attribute_type(attribute: defs.OpSchema.Attribute) -> AttributeProto.AttributeType:
    """Return the type that a schema wants, as messages say it."""
    kind: AttributeProto.AttributeType = AttributeProto.AttributeType.Value(
        str(attribute.type).removeprefix("AttrType.")
    )
    return kind
