"""Function bodies say little of themselves: what their inputs and attributes are, all of their calls say together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy

import onnx

from bnfold import ir
from bnfold.ir.messages import function_key

Arguments = Mapping[str, onnx.AttributeProto | None]
"""Attributes of a function in one call; None for one that is left out and has no default."""


class Calls:
    """The calls of each function of a model."""

    def __init__(self, model: ir.Model) -> None:
        self._main = model.graph
        self._of: dict[ir.Graph, list[ir.Node]] = {function: [] for function in model.functions}
        self._by_name = {
            function_key(function.proto): function
            for function in model.functions
            if isinstance(function.proto, onnx.FunctionProto)
        }
        for node in model.nodes() if self._by_name else ():
            called = self.callee(node)
            if called is not None:
                self._of[called].append(node)
        self.order = list(self._callers_first())

    def callee(self, node: ir.Node) -> ir.Graph | None:
        """Return the function that ``node`` calls; None where it is an operator."""
        return self._by_name.get(function_key(node.proto))

    def is_given(self, graph: ir.Graph, attribute: str) -> bool:
        """Whether every call of the function around ``graph`` says ``attribute``, or the function has a default."""
        function = _root(graph)
        calls = self._of.get(function, [])
        return _default(function, attribute) is not None or bool(calls and all(n.has_attr(attribute) for n in calls))

    def agreed(self, node: ir.Node) -> Arguments:
        """Return what the references of ``node`` refer to, where all calls agree on it."""
        references = {entry.ref_attr_name for entry in node.proto.attribute if entry.ref_attr_name}
        meant = {name: self._meant(node.graph, name) for name in references}
        return {name: next(iter(values.values())) for name, values in meant.items() if len(values) == 1}

    def arguments(self, node: ir.Node) -> Arguments:
        """Return what a call gives for the attributes of the function it calls."""
        function = self._by_name[function_key(node.proto)].proto
        names = [
            *getattr(function, "attribute", ()),
            *(entry.name for entry in getattr(function, "attribute_proto", ())),
        ]
        return {name: node.attrs.get(name, _default(self._by_name[function_key(node.proto)], name)) for name in names}

    def _meant(self, graph: ir.Graph, attribute: str) -> dict[bytes, onnx.AttributeProto | None]:
        """Return the different values that calls give ``attribute``, None for one that leaves it out."""
        function = _root(graph)
        found: dict[bytes, onnx.AttributeProto | None] = {}
        for node in self._of[function] if function in self.order else ():
            given = node.attrs.get(attribute, _default(function, attribute))
            if given is not None and given.ref_attr_name:
                found |= self._meant(node.graph, given.ref_attr_name)
            else:
                found[b"" if given is None else _copy(given, "").SerializeToString()] = given
        return found

    def _callers_first(self) -> Iterator[ir.Graph]:
        """Sort functions behind all that call them; those that call each other, which is illegal, not at all."""
        settled = {self._main}
        while len(settled) <= len(self._of):
            waiting = [function for function in self._of if function not in settled]
            ready = [f for f in waiting if all(_root(node.graph) in settled for node in self._of[f])]
            if not ready:
                return
            settled.update(ready)
            yield from ready


@contextmanager
def bound(nodes: Iterable[ir.Node], arguments: Arguments) -> Iterator[None]:
    """Let the references of ``nodes`` to ``arguments`` be, within the block, what they refer to."""
    held = {node: [_copy(entry) for entry in node.proto.attribute] for node in nodes if node.has_references}
    for node, attributes in held.items():
        for entry in attributes:
            if entry.ref_attr_name in arguments:
                node.del_attr(entry.name)
                meant = arguments[entry.ref_attr_name]
                node.proto.attribute.extend([] if meant is None else [_copy(meant, entry.name)])
    try:
        yield
    finally:
        for node, attributes in held.items():
            node.replace_attrs(attributes)


def _root(graph: ir.Graph) -> ir.Graph:
    while graph.parent is not None:
        graph = graph.parent.graph
    return graph


def _default(function: ir.Graph, attribute: str) -> onnx.AttributeProto | None:
    defaults = getattr(function.proto, "attribute_proto", ())
    return next((default for default in defaults if default.name == attribute), None)


def _copy(attribute: onnx.AttributeProto, name: str | None = None) -> onnx.AttributeProto:
    copy = deepcopy(attribute)
    if name is not None:
        copy.name = name
        copy.ClearField("doc_string")
    return copy
