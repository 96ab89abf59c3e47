"""Names that another tool gave anew: what both models compute in the same way gets one name.

A wrong name cannot make models equal: each node of the rewritten model is compared with what the original computes
under the same name.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from itertools import chain

import onnx

from bnfold import ir
from bnfold.ir.messages import nested_graphs
from bnfold.reference.dispatch import meaning
from bnfold.verification.changes.extract import constant_of
from bnfold.verification.changes.from_constants import are_one_constant
from bnfold.verification.changes.unchanged import copied, is_same_function

_MOST = 64
"""Nodes that are compared with one: so many may be alike but for their constants or bodies."""


def rename(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    """Rename values in the graph and in those nested in it; each of the names means one value."""
    for each in nested_graphs(graph):
        for holder in chain(each.input, each.initializer, each.value_info, each.output):
            holder.name = names.get(holder.name, holder.name)
        for node in each.node:
            for field in (node.input, node.output):
                if not names.keys().isdisjoint(field):
                    field[:] = [names.get(name, name) for name in field]


def new_names(before: ir.Graph, after: ir.Graph, known: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the original's names by new ones, for values that nodes compute in the same way from the same inputs.

    ``known`` are those of the graphs around.
    """
    waiting: dict[Hashable, list[ir.Node]] = {}
    for node in _free(before, after.values):
        waiting.setdefault(_key(node, {}), []).append(node)
    names = {**(known or {})}
    for node in _free(after, before.values) if waiting else ():
        alike = waiting.get(_key(node, names), [])
        for old in alike[:_MOST]:
            if (found := _if_same(old, node, names)) is not None:
                alike.remove(old)
                names |= found
                break
    return names


def _free(graph: ir.Graph, taken: Collection[str]) -> list[ir.Node]:
    """Return the nodes whose results are no constants, and have names that the other graph lacks."""
    return [
        node
        for node in graph.nodes
        if not any(value is not None and value.name in taken for value in node.outputs)
        and constant_of(node.output(0)) is None
    ]


def _key(node: ir.Node, names: Mapping[str, str]) -> Hashable:
    """Return what is equal at first sight: the operator, inputs that are no constants, and which outputs there are."""
    sources = map(copied, node.inputs)
    read = tuple(value and ("" if _is_constant(value) else names.get(value.name, value.name)) for value in sources)
    return meaning(node), read, tuple(value is None for value in node.outputs)


def _is_constant(value: ir.Value) -> bool:
    return ir.constant(value) is not None


def _if_same(old: ir.Node, new: ir.Node, names: Mapping[str, str]) -> dict[str, str] | None:
    """Return the names of two nodes of one key, if attributes, constants and bodies are the same as well."""
    for one, other in zip(map(copied, old.inputs), map(copied, new.inputs), strict=True):
        if one is not None and _is_constant(one) and not are_one_constant(one, other):
            return None
    found = _of_pairs(old.outputs, new.outputs)
    if not old.bodies and not new.bodies:
        return found if is_same_function(old, new) else None
    if [*old.subgraphs] != [*new.subgraphs] or len(old.bodies) != len(new.bodies):
        return None
    for body, new_body in zip(old.bodies, new.bodies, strict=True):
        inside = new_names(body, new_body, {**names, **_of_pairs(body.inputs, new_body.inputs)})
        if not _have_same_results(body, new_body, inside):
            return None
        found |= {name: original for name, original in inside.items() if name not in names}
    return found


def _have_same_results(old: ir.Graph, new: ir.Graph, names: Mapping[str, str]) -> bool:
    pairs = [(copied(one), copied(other)) for one, other in zip(old.outputs, new.outputs, strict=False)]
    return len(old.outputs) == len(new.outputs) and all(
        (one and other and names.get(other.name, other.name) == one.name) or are_one_constant(one, other)
        for one, other in pairs
    )


def _of_pairs(old: Collection[ir.Value | None], new: Collection[ir.Value | None]) -> dict[str, str]:
    pairs = zip(old, new, strict=False)
    return {other.name: one.name for one, other in pairs if one is not None and other is not None}
