"""Calls replaced by the bodies of their functions, where one model lacks a function that the other one has.

So a function that was only inlined, outlined or renamed changes nothing that is computed, and its nodes are compared
one by one, whether or not they can be run. A rewrite inlines with onnx's inliner; this module uses none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain, count

import onnx

from bnfold import ir, reference
from bnfold.errors import BnfoldError, Unsupported
from bnfold.ir.index import graphs_of
from bnfold.ir.messages import FunctionKey, function_key, nested_nodes
from bnfold.reference.dispatch import definition
from bnfold.reference.shapes import state_types
from bnfold.verification.changes.boundaries import changed_functions
from bnfold.verification.changes.new_names import exchangeable, new_names, rename

_MARK = "__inlined"
"""Ends the names of values that were inside functions of the original, until they get others."""

_Attributes = Mapping[str, onnx.AttributeProto]
_Names = Mapping[str, str]
_Fresh = Callable[[str], str]


def with_common_functions(before: ir.Model, after: ir.Model) -> tuple[ir.Model, ir.Model]:
    """Return both models with the functions inlined that only one of them has, or that have another signature.

    Values inside them get the names that the rewritten model has for what it computes in the same way; else those that
    onnx's inliner would have given, if the rewritten model has them for what an operator of the same kind makes.
    """
    keys = _changed(before, after)
    if not keys:
        return before, after
    try:
        old, new = _inlined(before, keys, {}, _MARK), _inlined(after, keys, before.graph.values)
    except BnfoldError:  # the calls differ then, and are compared as they are
        return before, after
    with reference.keeping_constants(old), reference.keeping_constants(new):
        alike = {name: now for now, name in new_names(old.graph, new.graph).items()}
        inside = {name: name.removesuffix(_MARK) for graph in old.graphs() for name in graph.values if _MARK in name}
        inside = {name: now for name, now in inside.items() if name not in alike and now not in alike.values()}
        inside = {name: now for name, now in inside.items() if _may_be_one(old, new, name, now)}
    names = exchangeable({name: now for name, now in {**alike, **inside}.items() if name != now}, old)
    return (old.clone(lambda proto: rename(proto.graph, names)) if names else old), new


def _may_be_one(old: ir.Model, new: ir.Model, name: str, now: str) -> bool:
    """Whether operators of one kind make a value of the original and what the rewritten model calls ``now``."""
    values = [graph.values.get(called) for model, called in ((old, name), (new, now)) for graph in model.graphs()]
    kinds = {value.producer.op_type if value.producer is not None else None for value in values if value is not None}
    return len(kinds) == 1


def _changed(before: ir.Model, after: ir.Model) -> set[FunctionKey]:
    """Return the functions that differ between the models, and those that call one of these."""
    found = changed_functions(before, after)
    functions = [function for model in (before, after) for function in model.proto.functions]
    while found and (callers := {function_key(each) for each in functions if _calls(each, found)} - found):
        found |= callers
    return found


def _calls(function: onnx.FunctionProto, keys: Collection[FunctionKey]) -> bool:
    return any(function_key(node) in keys for node in nested_nodes(function.node))


def _inlined(model: ir.Model, keys: Collection[FunctionKey], taken: Collection[str], mark: str = "") -> ir.Model:
    """Return a copy of the model without calls of these functions. Raises Unsupported if one cannot be inlined.

    Values inside get names that are not ``taken``, with a ``mark`` at their end.
    """
    functions = {function_key(graph.proto): graph for graph in model.functions if function_key(graph.proto) in keys}
    if not functions:
        return model
    model.sync()
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    kept = [function for function in proto.functions if function_key(function) not in functions]
    for holder in (proto.graph, *kept):
        _Inlining(model, functions, holder, taken, mark).run()
    del proto.functions[:]
    proto.functions.extend([onnx.FunctionProto.FromString(each.SerializeToString()) for each in kept])
    known = {entry.domain for entry in proto.opset_import}
    for entry in chain.from_iterable(graph.proto.opset_import for graph in functions.values()):
        if entry.domain not in known:
            known.add(entry.domain)
            proto.opset_import.add(domain=entry.domain, version=entry.version)
    copy = model.with_proto(proto)
    state_types(copy)
    return copy


class _Inlining:
    """The main graph, or a function, in which calls are replaced."""

    def __init__(
        self,
        model: ir.Model,
        functions: Mapping[FunctionKey, ir.Graph],
        holder: onnx.GraphProto | onnx.FunctionProto,
        taken: Collection[str],
        mark: str,
    ) -> None:
        self._functions, self._holder, self._mark = functions, holder, mark
        imports = holder.opset_import if isinstance(holder, onnx.FunctionProto) else model.proto.opset_import
        self._opsets = {_domain(entry.domain): entry.version for entry in imports}
        self._taken = {*taken, *(name for node in nested_nodes(holder.node) for name in (*node.input, *node.output))}

    def run(self) -> None:
        """Replace all calls."""
        nodes = [*self._replaced(self._holder.node)]
        del self._holder.node[:]
        self._holder.node.extend(nodes)

    def _replaced(self, nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
        for node in nodes:
            if function_key(node) in self._functions:
                yield from self._replaced(self._body(node))
                continue
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            for graph in chain.from_iterable(graphs_of(copy).values()):
                inside = [*self._replaced(graph.node)]
                del graph.node[:]
                graph.node.extend(inside)
            yield copy

    def _body(self, call: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
        """Yield the nodes of a function, as they are in this call."""
        function = self._functions[function_key(call)].proto
        assert isinstance(function, onnx.FunctionProto), "as those of a model are"
        self._check_versions(function)
        attributes = {each.name: each for each in (*function.attribute_proto, *call.attribute)}
        names = dict.fromkeys(function.input, "") | dict(zip(function.input, call.input, strict=False))
        made = {name for node in function.node for name in node.output}
        ends = dict(zip(function.output, call.output, strict=False))
        names |= {name: ends.get(name) or self._fresh(name) for name in made if name}
        for node in function.node:
            yield _renamed(node, names, attributes, self._fresh)
        for name, end in ends.items():
            if name not in made and end:
                yield onnx.helper.make_node("Identity", [names[name]], [end])

    def _check_versions(self, function: onnx.FunctionProto) -> None:
        """Raise Unsupported unless each node of the function is of the version that it has outside."""
        own = {_domain(entry.domain): entry.version for entry in function.opset_import}
        for node in nested_nodes(function.node):
            domain = _domain(node.domain)
            here, there = own.get(domain), self._opsets.setdefault(domain, own.get(domain, 1))
            one, other = (definition(domain, node.op_type, opset or 1) for opset in (here, there))
            is_same = one is not None and other is not None and one.version == other.version and not domain
            if here != there and not is_same and function_key(node) not in self._functions:
                raise Unsupported(f"function {function.name!r} has another version of {node.op_type}")

    def _fresh(self, name: str) -> str:
        """Return an unused name, but for the mark as onnx's inliner would."""
        fresh = next(each for number in count(1) if (each := f"{name}__{number}") not in self._taken)
        self._taken |= {fresh, fresh + self._mark}
        return fresh + self._mark


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _renamed(node: onnx.NodeProto, names: _Names, attributes: _Attributes, fresh: _Fresh) -> onnx.NodeProto:
    """Return a node of a function with the names and the attributes of a call, its bodies included."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.input[:] = [names.get(name, name) for name in node.input]
    copy.output[:] = [names.get(name, name) for name in node.output]
    resolved = [_resolved(each, attributes) for each in node.attribute]
    del copy.attribute[:]
    copy.attribute.extend(each for each in resolved if each is not None)
    for graph in chain.from_iterable(graphs_of(copy).values()):
        held = [info.name for info in (*graph.input, *graph.initializer)]
        held += [sparse.values.name for sparse in graph.sparse_initializer]
        held += [name for inner in graph.node for name in inner.output if name]
        inside = {**names, **{name: fresh(name) for name in held}}
        nodes = [_renamed(inner, inside, attributes, fresh) for inner in graph.node]
        del graph.node[:]
        graph.node.extend(nodes)
        for holder in (*graph.input, *graph.initializer, *graph.value_info, *graph.output):
            holder.name = inside.get(holder.name, holder.name)
        for sparse in graph.sparse_initializer:
            sparse.values.name = inside[sparse.values.name]
    return copy


def _resolved(entry: onnx.AttributeProto, given: _Attributes) -> onnx.AttributeProto | None:
    """Return an attribute as it is in a call; None if the call leaves it out."""
    source = given.get(entry.ref_attr_name) if entry.ref_attr_name else entry
    if source is None:
        return None
    copy = onnx.AttributeProto()
    copy.CopyFrom(source)
    copy.name = entry.name
    return copy
