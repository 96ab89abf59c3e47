"""Name layers and tensors after a rewrite.

A tensor name belongs to a value and moves with it. If the meaning of a value changes, it loses its tensor names. Layers
keep their names. The layer that produces an input or output of the model takes the name of the layer that produced it
before, because callers may use that name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from xml.etree import ElementTree as ET

from bnfold import ir
from bnfold.interop.openvino.document import Layer, Port, fresh
from bnfold.interop.openvino.load import IrModel, Scope, tensor_names
from bnfold.ir.elements import Array

PortSource = Callable[[ir.Value], Port | None]
"""The port that gives a value now; None for a value that is gone."""


class Naming:
    """The names in one scope, as they are before its document is touched."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._layers: dict[ir.Value, str] = {}
        self._tensors: dict[ir.Value, tuple[str, list[str]]] = {}
        for value, port in scope.made.items():
            layer, element = output_port(scope, port)
            self._layers[value] = layer.name
            self._tensors[value] = (value.name, tensor_names(element))

    def hint(self, value: ir.Value) -> str:
        """Return what a new layer that makes ``value`` would like to be called."""
        return self._layers.get(value, value.name)

    def label_ports(self, made: Mapping[ir.Value, Port], source: PortSource) -> None:
        """Let tensor names follow the values that still mean what they did."""
        names: dict[Port, list[str]] = {port: [] for port in (*made.values(), *self._scope.made.values())}
        for value, (name, tensors) in self._tensors.items():
            port = source(value)
            if port is not None and value.name == name:
                names[port] += [other for other in tensors if other not in names[port]]
        for port, wanted in names.items():
            if port[0] in self._scope.net.layers:
                _, element = output_port(self._scope, port)
                if tensor_names(element) != wanted:
                    _set_names(element, wanted)

    def name_results(self, made: Mapping[ir.Value, Port], taken: set[str]) -> None:
        """Let a layer that took over a result's value take the name of the layer that made it."""
        for _, value in self._scope.results:
            port, name = made.get(value), self._layers.get(value, "")
            if port is None or port == self._scope.made.get(value) or not name or name in taken:
                continue
            layer = self._scope.net.layers[port[0]]
            if len(layer.ports("output")) == 1:
                taken.discard(layer.name)
                layer.element.set("name", fresh(name, taken))


def output_port(scope: Scope, port: Port) -> tuple[Layer, ET.Element]:
    """Return an output port's layer and element."""
    layer = scope.net.layers[port[0]]
    return layer, next(found for found in layer.ports("output") if found.get("id") == port[1])


def _set_names(port: ET.Element, names: Sequence[str]) -> None:
    if names:
        port.set("names", ",".join(name.replace(",", "\\,") for name in names))
    else:
        port.attrib.pop("names", None)


def output_names(model: IrModel, results: Mapping[str, Array]) -> list[str]:
    """Return one name for each output: of several that a tensor has, the first."""
    named = [name for name, _ in named_results(model, results)]
    aliases = {name for names in _result_names(model) for name in names}
    return list(dict.fromkeys([*named, *(name for name in results if name not in aliases)]))


def named_results(model: IrModel, results: Mapping[str, Array]) -> Iterator[tuple[str, str]]:
    """Yield for each Result that has a tensor name the name, and that of the value in the graph."""
    for names, (_, value) in zip(_result_names(model), model.scopes[0].results, strict=True):
        given = [name for name in names if name in results]
        if given:
            yield given[0], value.name


def _result_names(model: IrModel) -> Iterator[list[str]]:
    """Yield the tensor names of what each Result reads."""
    scope = model.scopes[0]
    for _, value in scope.results:
        port = scope.made.get(value)
        yield tensor_names(output_port(scope, port)[1]) if port is not None else []
