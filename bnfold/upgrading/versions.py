"""Which version of an operator an opset number selects, as the installed onnx has it."""

from __future__ import annotations

from bisect import bisect_right
from functools import cache

from onnx import defs


@cache
def _history() -> dict[str, dict[int, defs.OpSchema]]:
    schemas: dict[str, dict[int, defs.OpSchema]] = {}
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == "":
            schemas.setdefault(schema.name, {})[schema.since_version] = schema
    return {name: dict(sorted(versions.items())) for name, versions in schemas.items()}


@cache
def versions_of(op_type: str) -> tuple[int, ...]:
    """All versions of a default-domain operator, rising; empty if the installed onnx knows none."""
    return tuple(_history().get(op_type, ()))


def operator_names() -> tuple[str, ...]:
    """All default-domain operators of any version, sorted."""
    return tuple(sorted(_history()))


def schema_of(op_type: str, version: int) -> defs.OpSchema:
    """The operator's schema of exactly this version."""
    return _history()[op_type][version]


@cache
def version_at(op_type: str, opset: int) -> int | None:
    """Version of ``op_type`` that ``opset`` selects, or None if the operator does not exist there."""
    versions = versions_of(op_type)
    index = bisect_right(versions, opset)
    return versions[index - 1] if index else None


def newest_opset() -> int:
    """The newest opset of the default domain that the installed onnx knows."""
    return int(defs.onnx_opset_version())
