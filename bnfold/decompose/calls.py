"""Function bodies say little of themselves: what their inputs and attributes are, all of their calls say together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import onnx

from bnfold import ir


class Calls:
    """Who calls which function of a model."""

    def __init__(self, model: ir.Model) -> None:
        self._main = model.graph
        self._of: dict[ir.Graph, list[ir.Node]] = {function: [] for function in model.functions}
        by_name = {_key(function.proto): function for function in model.functions}
        for node in model.nodes() if by_name else ():
            called = by_name.get((node.domain, node.op_type, getattr(node.proto, "overload", "")))
            if called is not None:
                self._of[called].append(node)
        self.order = list(self._callers_first())

    def of(self, function: ir.Graph) -> list[ir.Node]:
        """The nodes that call ``function``."""
        return self._of[function]

    def is_given(self, graph: ir.Graph, attribute: str) -> bool:
        """Whether every call of the function around ``graph`` says ``attribute``, or the function has a default."""
        function = _root(graph)
        calls = self._of.get(function, [])
        return _default(function, attribute) is not None or bool(calls and all(n.has_attr(attribute) for n in calls))

    @contextmanager
    def bound(self, node: ir.Node) -> Iterator[None]:
        """Meanwhile ``node`` has, for references on which all calls agree, what they refer to."""
        saved = [_copy(attribute) for attribute in node.proto.attribute]
        for attribute in saved:
            if not attribute.ref_attr_name:
                continue
            meant = self._meant(node.graph, attribute.ref_attr_name)
            if len(meant) == 1:
                node.del_attr(attribute.name)
                node.proto.attribute.extend(
                    _copy(value, attribute.name) for value in meant.values() if value is not None
                )
        try:
            yield
        finally:
            del node.proto.attribute[:]
            node.proto.attribute.extend(saved)

    def _meant(self, graph: ir.Graph, attribute: str) -> dict[bytes, onnx.AttributeProto | None]:
        """The different values that calls give ``attribute``, None for one that leaves it out."""
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
        """Functions behind all that call them; those that call each other, which is illegal, not at all."""
        settled = {self._main}
        while len(settled) <= len(self._of):
            waiting = [function for function in self._of if function not in settled]
            ready = [f for f in waiting if all(_root(node.graph) in settled for node in self._of[f])]
            if not ready:
                return
            settled.update(ready)
            yield from ready


def _key(proto: onnx.GraphProto | onnx.FunctionProto) -> tuple[str, str, str]:
    domain = getattr(proto, "domain", "")
    return ("" if domain == "ai.onnx" else domain), proto.name, getattr(proto, "overload", "")


def _root(graph: ir.Graph) -> ir.Graph:
    while graph.parent is not None:
        graph = graph.parent.graph
    return graph


def _default(function: ir.Graph, attribute: str) -> onnx.AttributeProto | None:
    defaults = getattr(function.proto, "attribute_proto", ())
    return next((default for default in defaults if default.name == attribute), None)


def _copy(attribute: onnx.AttributeProto, name: str | None = None) -> onnx.AttributeProto:
    copy = onnx.AttributeProto()
    copy.CopyFrom(attribute)
    if name is not None:
        copy.name = name
        copy.ClearField("doc_string")
    return copy
