"""The form that a version's schema asks of a node: its attributes, their types, the numbers of inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

import onnx

from bnfold.ir.node import Node
from bnfold.ir.schemas import attribute_type, schema_of, versions_of
from bnfold.ir.value import Value


class SchemaForm(NamedTuple):
    """What a version's schema asks of a node before anything is known of its values."""

    attributes: dict[str, onnx.AttributeProto.AttributeType]
    required: frozenset[str]
    inputs: range
    outputs: range


@cache
def form_of(op_type: str, version: int) -> SchemaForm:
    """Return the form of a version."""
    schema = schema_of(op_type, version)
    return SchemaForm(
        {name: attribute_type(attribute) for name, attribute in schema.attributes.items()},
        frozenset(name for name, attribute in schema.attributes.items() if attribute.required),
        range(schema.min_input, schema.max_input + 1),
        range(schema.min_output, schema.max_output + 1),
    )


def fits(node: Node, version: int, ignored: frozenset[str] = frozenset()) -> bool:
    """Whether a node of the default domain has the form of ``version``, but for attributes that are ``ignored``."""
    form = form_of(node.op_type, version)
    stated = {entry.name: entry.type for entry in node.proto.attribute[:] if entry.name not in ignored}
    return (
        form.required - ignored <= stated.keys() <= form.attributes.keys()
        and all(kind in (onnx.AttributeProto.UNDEFINED, form.attributes[name]) for name, kind in stated.items())
        and _count(node.inputs) in form.inputs
        and _count(node.outputs) in form.outputs
    )


def fitting_versions(node: Node, version: int, newest: int) -> Iterator[int]:
    """Yield the other versions whose form a node has: later ones up to ``newest``, then earlier ones, newest first.

    A withdrawn version is none.
    """
    versions = [known for known in versions_of(node.op_type) if not schema_of(node.op_type, known).deprecated]
    for other in [v for v in versions if version < v <= newest] + [v for v in versions[::-1] if v < version]:
        if fits(node, other):
            yield other


def _count(values: Sequence[Value | None]) -> int:
    """Return how many there are, up to the last that is named."""
    count = len(values)
    while count and values[count - 1] is None:
        count -= 1
    return count
