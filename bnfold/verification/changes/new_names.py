"""Names that another tool gave anew: what both models compute in the same way gets one name.

A wrong name cannot make models equal: each node of the rewritten model is compared with what the original computes
under the same name.

A tool may also give an old name to another value. If a BatchNormalization was folded into a Conv, the result may keep
the name of the Conv's output. Inputs and outputs that exporters name differently are paired by position.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain

import onnx

from bnfold import ir, reference
from bnfold.ir.elements import FLOATS
from bnfold.ir.messages import nested_graphs
from bnfold.reference.dispatch import meaning
from bnfold.verification.changes.copies import copied
from bnfold.verification.changes.extract import constant_of, draws
from bnfold.verification.changes.from_constants import are_one_constant, fixed
from bnfold.verification.changes.unchanged import is_same_function, meaningful_attributes
from bnfold.verification.tolerance.bits import same
from bnfold.verification.tolerance.floats import is_float

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


def with_original_names(before: ir.Model, after: ir.Model, *, by_others: bool) -> ir.Model:
    """Return the rewritten model with the original's names for what it computes in the same way under new ones.

    Values of the main graph that consumers read in the same places get theirs as well. Only names that mean one value
    are exchanged, for free ones. New names are looked for only if another tool wrote the model (``by_others``).
    """
    if after.proto.training_info:
        return after
    found: dict[str, str] = {}
    if by_others and not after.graph.values.keys() <= before.graph.values.keys():
        with reference.keeping_constants(before), reference.keeping_constants(after):
            names = new_names(before.graph, after.graph)
        found = {name: original for name, original in names.items() if name != original}
    given = set(found.values())
    for value in before.graph.values.values():
        is_left = value.name not in after.graph.values and value.name not in given
        moved = _counterpart(value, after.graph) if is_left else None
        if moved is not None:
            found.setdefault(moved.name, value.name)
    if found:
        found = exchangeable(found, after)
    return after.clone(lambda proto: rename(proto.graph, found)) if found else after


def exchangeable(names: Mapping[str, str], model: ir.Model) -> dict[str, str]:
    """Return the names without those that mean two values, before or afterwards, and those that callers use."""
    meanings = Counter(name for graph in model.graphs() for name in graph.values)
    wanted = Counter(names.values())
    ends = {value.name for value in (*model.graph.inputs, *model.graph.outputs)}
    return {
        name: original
        for name, original in names.items()
        if meanings[name] == wanted[original] == 1 and name not in ends and not model.has_name(original)
    }


def _counterpart(value: ir.Value, graph: ir.Graph) -> ir.Value | None:
    """Return the value that all counterparts of a value's consumers read in its place, and no other node reads."""
    if value.producer is None or value.is_output or not value.uses:
        return None
    found = {_read_instead(node, slot, graph) for node, slot in value.uses}
    moved = found.pop()
    if found or moved is None or moved.producer is None or moved.producer.graph is not graph or moved.is_output:
        return None
    own = value.graph.values.get(moved.name)
    if own is None or own.producer is None or not _has_other_weights(own.producer, moved.producer):
        return None  # the name is new, or it may have the same value as before
    return moved if len(moved.uses) == len(value.uses) else None


def _has_other_weights(old: ir.Node, new: ir.Node) -> bool:
    """Whether nodes of one operator compute with different float constants, so that their results differ."""
    if old.op_type != new.op_type or old.domain != new.domain:
        return False
    pairs = [tuple(map(reference.constant, pair)) for pair in zip(old.inputs, new.inputs, strict=False)]
    return any(one and other and is_float(one.dtype) and not same(one, other) for one, other in pairs)


def _read_instead(node: ir.Node, slot: int, graph: ir.Graph) -> ir.Value | None:
    """Return the input of the node that makes the same output in the other model; None for another operator."""
    output = node.output(0)
    made = graph.values.get(output.name) if output is not None and node.graph.path == graph.path else None
    other = made.producer if made is not None else None
    return other.input(slot) if other is not None and other.is_op(node.op_type) else None


def paired(before: ir.Model, after: ir.Model, *, any_float: bool = False) -> tuple[ir.Model, list[str]]:
    """Return the second model with the first one's names for its inputs and outputs, and a note about each side.

    Values are paired if number, types and shapes agree and the names are free. Otherwise the model is returned as it
    is, without a note. With ``any_float``, floats of two widths are of one type.
    """
    sides = [
        [[value for value in graph.inputs if reference.constant(value) is None], graph.outputs]
        for graph in (before.graph, after.graph)
    ]
    names: dict[str, str] = {}
    notes = []
    for what, old, new in zip(("inputs", "outputs"), *sides, strict=True):
        found = dict(_pairs(old, new, any_float))
        if found:
            listed = ", ".join(f"{mine} = {theirs}" for theirs, mine in found.items())
            notes.append(f"{what} are paired by position: {listed}")
            names |= found
    if not names or not _are_free(after, names):
        return after, []
    return after.clone(lambda proto: rename(proto.graph, names)), notes


def _pairs(old: Sequence[ir.Value], new: Sequence[ir.Value], any_float: bool) -> Iterator[tuple[str, str]]:
    """Yield the second model's name and the first one's of the values that have other names; none unless all fit."""
    names = [{value.name for value in side} for side in (old, new)]
    agree = partial(_agree, any_float=any_float)
    if len(old) != len(new) or names[0] == names[1] or not all(map(agree, old, new)):
        return
    if any(one.name in names[1] and one.name != other.name for one, other in zip(old, new, strict=True)):
        return  # in another order, too: then positions say nothing
    yield from ((other.name, one.name) for one, other in zip(old, new, strict=True) if one.name != other.name)


def _agree(one: ir.Value, other: ir.Value, *, any_float: bool) -> bool:
    is_one_type = one.dtype == other.dtype or (any_float and {one.dtype, other.dtype} <= FLOATS)
    if not is_one_type or one.dtype is None or one.shape is None or other.shape is None:
        return False
    sizes = zip(one.shape, other.shape, strict=False)
    return len(one.shape) == len(other.shape) and all(
        here == there for here, there in sizes if isinstance(here, int) and isinstance(there, int)
    )


def _are_free(model: ir.Model, names: Mapping[str, str]) -> bool:
    """Whether the new names are nothing else's in the model, and the old ones mean one thing everywhere."""
    main, *inner = model.graphs()
    taken = {name for graph in (main, *inner) for name in graph.values}
    return not taken.intersection(names.values()) and not any(
        value.name in names for graph in inner for value in graph.inputs
    )
