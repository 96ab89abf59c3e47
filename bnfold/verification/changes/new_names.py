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
from bnfold.verification.changes.copies import copied
from bnfold.verification.changes.extract import constant_of, draws
from bnfold.verification.changes.from_constants import are_one_constant, fixed
from bnfold.verification.changes.unchanged import is_same_function, meaningful_attributes

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


def new_names(before: ir.Graph, after: ir.Graph, around: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the original's names by those of the other model, for values that are computed in the same way.

    A value that kept its name is listed under it; an output keeps its name in any case. ``around`` has the names of the
    graphs around, and of this graph's inputs.
    """
    waiting: dict[Hashable, list[ir.Node]] = {}
    for node in before.nodes:
        if _is_matched(node) and all(value is None or value.name not in after.values for value in node.outputs):
            waiting.setdefault(_key(node, None), []).append(node)
    ends = (*after.inputs, *after.outputs) if around is None else ()
    names = {**(around or {}), **{value.name: value.name for value in ends}}
    for node in filter(_is_matched, after.nodes):
        key = _key(node, names)
        kept = [before.values[value.name].producer for value in node.outputs if value and value.name in before.values]
        alike = waiting.get(key, []) if not kept else [old for old in kept[:1] if old and _key(old, None) == key]
        for old in alike[:_MOST]:
            if (found := _if_same(old, node, names)) is not None:
                alike.remove(old)
                names |= found
                break
    return names


def _is_matched(node: ir.Node) -> bool:
    """Whether a node computes, and is known to do so: two draws may be each other, a function another one."""
    return not (draws(node) or node.is_call) and constant_of(node.output(0)) is None


def _key(node: ir.Node, names: Mapping[str, str] | None) -> Hashable:
    """Return what is equal at first sight: the operator, inputs that are no constants, and which outputs there are.

    Of the rewritten model, an input without one of the ``names`` equals nothing.
    """
    read: list[Hashable] = []
    for value in map(copied, node.inputs):
        if value is None or _is_constant(value):
            read.append(value is None)
        else:
            read.append(value.name if names is None else names.get(value.name, value))
    return meaning(node), tuple(read), tuple(value is None for value in node.outputs)


def _is_constant(value: ir.Value) -> bool:
    return fixed(value) is not None


def _if_same(old: ir.Node, new: ir.Node, names: Mapping[str, str]) -> dict[str, str] | None:
    """Return the names of two nodes of one key, if attributes, constants and bodies are the same as well."""
    for one, other in zip(map(copied, old.inputs), map(copied, new.inputs), strict=True):
        if one is not None and _is_constant(one) and not are_one_constant(one, other):
            return None
    found = _of_pairs(old.outputs, new.outputs)
    if not old.bodies and not new.bodies:
        return found if is_same_function(old, new) else None
    if _besides_bodies(old) != _besides_bodies(new) or len(old.bodies) != len(new.bodies):
        return None
    for body, new_body in zip(_bodies(old), _bodies(new), strict=True):
        inside = new_names(body, new_body, {**names, **_of_pairs(body.inputs, new_body.inputs)})
        if not _have_same_results(body, new_body, inside):
            return None
        found |= {name: original for name, original in inside.items() if name not in names}
    return found


def _besides_bodies(node: ir.Node) -> list[object]:
    attributes = [each for each in meaningful_attributes(node) if each.name not in node.subgraphs]
    return [sorted(node.subgraphs), sorted(each.SerializeToString(deterministic=True) for each in attributes)]


def _bodies(node: ir.Node) -> list[ir.Graph]:
    """Return the graphs of a node, in the order of their attributes' names."""
    return [body for name in sorted(node.subgraphs) for body in node.subgraphs[name]]


def _have_same_results(old: ir.Graph, new: ir.Graph, names: Mapping[str, str]) -> bool:
    pairs = zip(old.outputs, new.outputs, strict=False)
    return len(old.outputs) == len(new.outputs) and all(
        names.get(other.name) == one.name or _is_named(copied(one), copied(other), names) for one, other in pairs
    )


def _is_named(old: ir.Value | None, new: ir.Value | None, names: Mapping[str, str]) -> bool:
    return (old and new and names.get(new.name) == old.name) or are_one_constant(old, new)


def _of_pairs(old: Collection[ir.Value | None], new: Collection[ir.Value | None]) -> dict[str, str]:
    pairs = zip(old, new, strict=False)
    return {other.name: one.name for one, other in pairs if one is not None and other is not None}
