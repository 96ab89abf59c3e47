"""Repair what early exporters wrote against the specification. Every repair is reported."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import onnx

from bnfold import ir
from bnfold.ir.schemas import attribute_type, schema_of, versions_of
from bnfold.ir.traits import WINDOWED
from bnfold.semantics import Repair


def complete_pads(node: ir.Node) -> Repair | None:
    """One pad for every axis instead of two: PyTorch in 2017, read by Caffe2 as the same on both sides."""
    if node.op_type not in WINDOWED or (stated := node.find("pads")) is None:
        return None
    pads = list(stated.ints)
    window = node.find("kernel_shape")
    if not pads or window is None or len(pads) != len(window.ints) or node.has_references:
        return None
    node.set_attr("pads", [*pads, *pads])
    return Repair("half-pads", node.label, f"pads {pads} for {len(pads)} axes: read as the same on both sides")


class Form(NamedTuple):
    """What a version's schema asks of a node before anything is known of its values."""

    attributes: dict[str, onnx.AttributeProto.AttributeType]
    required: frozenset[str]
    inputs: range
    outputs: range


@cache
def form_of(op_type: str, version: int) -> Form:
    """The form of a version."""
    schema = schema_of(op_type, version)
    return Form(
        {name: attribute_type(attribute) for name, attribute in schema.attributes.items()},
        frozenset(name for name, attribute in schema.attributes.items() if attribute.required),
        range(schema.min_input, schema.max_input + 1),
        range(schema.min_output, schema.max_output + 1),
    )


def version_meant(node: ir.Node, version: int, target: int) -> int:
    """The version that a node was written for which does not fit its own.

    Exporters, and converters that only stamp an opset, left attributes behind that a newer version has no more: the
    newest older version that has them all. Or they stamped an opset lower than that of the operators they wrote, a
    Cast-1 with a number for a type: the next later one, up to ``target``, that it fits. What fits is decided by the
    schemas alone: the attributes that there are, their types, the numbers of inputs and outputs.
    """
    if _fits(node, version):
        return version
    names = {attribute.name for attribute in node.proto.attribute[:]}
    others = versions_of(node.op_type) if not names <= form_of(node.op_type, version).attributes.keys() else ()
    older = [v for v in others if v < version and names <= form_of(node.op_type, v).attributes.keys()]
    later = (
        v for v in versions_of(node.op_type) if version < v <= target and not schema_of(node.op_type, v).deprecated
    )
    return max(older) if older else next((v for v in later if _fits(node, v)), version)


def _fits(node: ir.Node, version: int) -> bool:
    form = form_of(node.op_type, version)
    stated = {attribute.name: attribute.type for attribute in node.proto.attribute[:]}
    return (
        form.required <= stated.keys() <= form.attributes.keys()
        and all(kind in (onnx.AttributeProto.UNDEFINED, form.attributes[name]) for name, kind in stated.items())
        and _count(node.inputs) in form.inputs
        and _count(node.outputs) in form.outputs
    )


def _count(values: Sequence[ir.Value | None]) -> int:
    """How many there are, up to the last that is named."""
    return max((slot for slot, value in enumerate(values, 1) if value is not None), default=0)
