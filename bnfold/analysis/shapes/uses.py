"""Element types that follow from how values are used, where nothing is known of the operator that makes them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import onnx

from bnfold.analysis.shapes.ties import TYPES, tied_source
from bnfold.ir.bodies import operand_of, states_of
from bnfold.ir.forms import fits
from bnfold.ir.graph import Graph
from bnfold.ir.model import Model
from bnfold.ir.node import Node
from bnfold.ir.schemas import schema_of, version_at, versions_of
from bnfold.ir.value import Value

_FUSED = {"FusedConv": "Conv", "FusedMatMul": "MatMul"}
"""Operators of com.microsoft, and those of the default domain whose inputs and outputs have the same types."""


class Tie(NamedTuple):
    """Values of one element type; it is ``dtype`` if an operator's text says it outright."""

    values: tuple[Value, ...]
    dtype: int | None = None


def types_by_use(model: Model, target: int) -> dict[Value, int]:
    """Return the element types of values that state none, as far as the operators around them determine one.

    A node has the form of its graph's opset, or of the opset ``target`` if it is converted already.
    """
    ties = [tie for graph in model.graphs() for tie in _ties(graph, target)]
    known = {value: value.dtype for tie in ties for value in tie.values if value.dtype is not None}
    known.update((tie.values[0], tie.dtype) for tie in ties if tie.dtype is not None and tie.values[0] not in known)
    by_value: dict[Value, list[Tie]] = defaultdict(list)
    for tie in ties:
        for value in tie.values:
            by_value[value].append(tie)
    waiting = list(known)
    while waiting:
        value = waiting.pop()
        fresh = {other for tie in by_value[value] for other in tie.values if other not in known}
        known.update(dict.fromkeys(fresh, known[value]))
        waiting += fresh
    return {value: dtype for value, dtype in known.items() if value.dtype is None}


def _ties(graph: Graph, target: int) -> Iterator[Tie]:
    for value in graph.inputs:
        if (operand := operand_of(value)) is not None:
            yield Tie((value, operand))
    for node in graph.nodes:
        yield from _ends(node)
        if not node.is_call:
            yield from _of_operator(node, target)


def _ends(node: Node) -> Iterator[Tie]:
    """Yield the ties of the outputs of If, Loop and Scan to the values that their bodies end in."""
    if not node.is_op("If") and states_of(node) is None:
        return
    for slot, value in enumerate(node.outputs):
        ends = [body.outputs[slot + node.is_op("Loop")] for body in node.bodies if value is not None]
        yield from [Tie((value, *ends))] if value is not None else ()


def _of_operator(node: Node, target: int) -> Iterator[Tie]:
    for made in (value for value in node.outputs if value is not None):
        if isinstance(stated := tied_source(made, target), int):
            yield Tie((made,), stated)
    schemas = _schemas(node, target)
    tied: dict[tuple[str, ...], list[Value]] = defaultdict(list)
    for values, kind in ((node.inputs, "inputs"), (node.outputs, "outputs")):
        for slot, value in enumerate(values):
            places = [_place(getattr(schema, kind), slot) for schema in schemas]
            both = [place for place in places if place is not None]
            if value is None or not both or len(both) < len(places):
                continue
            only = set(both[0].types).intersection(*(place.types for place in both[1:]))
            if len(only) == 1:
                yield Tie((value,), TYPES.get(only.pop()))
            else:
                tied[tuple(place.type_str for place in both)].append(value)
    yield from (Tie(tuple(values)) for values in tied.values() if len(values) > 1)


def _schemas(node: Node, target: int) -> list[onnx.defs.OpSchema]:
    """Return what the operator's text says at both opsets that a node may have the form of."""
    if node.domain == "com.microsoft" and node.op_type in _FUSED:
        op_type = _FUSED[node.op_type]
        return [schema_of(op_type, versions_of(op_type)[-1])]
    if node.domain:
        return []
    opsets = (node.graph.opset(), target)
    versions = {version for opset in opsets if (version := version_at(node.op_type, opset)) is not None}
    fitting = [version for version in versions if fits(node, version)]
    return [schema_of(node.op_type, version) for version in fitting or versions]  # the one at work may fit neither


def _place(
    places: Sequence[onnx.defs.OpSchema.FormalParameter], slot: int
) -> onnx.defs.OpSchema.FormalParameter | None:
    """Return the text's entry for an input or output; None if each of a list may be of another type."""
    if not places:
        return None
    place = places[min(slot, len(places) - 1)]
    is_list = place.option == onnx.defs.OpSchema.FormalParameterOption.Variadic
    return None if (slot >= len(places) and not is_list) or (is_list and not place.is_homogeneous) else place
