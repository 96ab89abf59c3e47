"""From an IR to the graph that the rest of bnfold works on, every node and value linked to where it came from.

Constants become initializers whose bytes stay in the .bin. A 16-bit constant that is only widened (Const → Convert, as
compressed weights are written) becomes *one* initializer of the 16-bit type, so that folding judges it by that type and
rounds to it once. A body becomes a subgraph without captures, which folding does not leave.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as ET

import onnx

from bnfold import ir
from bnfold.errors import MalformedModel
from bnfold.interop.openvino.document import ELEMENT_TYPES, PRECISIONS, Document, Layer, Net, Port, fresh, read_document
from bnfold.interop.openvino.operators import DOMAIN, NORM, ONNX_NAMES, Meaning, Seen, meaning
from bnfold.interop.openvino.views import View, seen_as
from bnfold.ir.elements import TP
from bnfold.ir.storage.payloads import Payloads

OPSET = 18
"""The opset of the graph: the first in which every reduction takes its axes as an input, as OpenVINO's do."""
_ONNX_IR = 8

BODIES = ("then_body", "else_body", "body")


@dataclass(frozen=True, slots=True)
class Origin:
    """What a node was read from: its layer, and the ports of its inputs and outputs, slot by slot."""

    layer: Layer
    inputs: tuple[str, ...]
    views: tuple[View, ...]
    outputs: tuple[str, ...]


Held = tuple[ir.Tensor, Port]
"""An initializer as it was read: its tensor, and the port that gives it (of the Const, or of its Convert)."""


@dataclass(slots=True, eq=False)
class Scope:
    """One graph and the net it was read from."""

    net: Net
    graph: ir.Graph
    origins: dict[ir.Node, Origin]
    held: dict[ir.Value, Held]
    results: list[tuple[Port, ir.Value]]
    made: dict[ir.Value, Port]


class IrModel(ir.Model):
    """A model as a graph; `bnfold.interop.openvino.write_back` takes what was edited back into the document."""

    document: Document
    scopes: list[Scope]
    raise_norms: bool = False
    """Whether what is left of version 0 is to be written as version 5."""
    written_back: dict[ET.Element, ir.Tensor] | None = None
    """Once the document is in line with the graph: what its new Const layers hold."""
    spans: dict[ET.Element, tuple[int, int]]
    """By then: where the bytes of each of the file's Const layers lie."""

    @property
    def label(self) -> str:
        return str(self.document.path)


def load(path: Path) -> IrModel:
    """Return the model at ``path`` (.xml, with its .bin beside it). Raises BadInput, MalformedModel, Unsupported."""
    document = read_document(path)
    proto = onnx.ModelProto(ir_version=_ONNX_IR)
    proto.opset_import.add(domain="", version=OPSET)
    proto.opset_import.add(domain=DOMAIN, version=1)
    payloads = Payloads()
    try:
        draft = _Draft(document, document.net, proto.graph, set(), payloads).filled()
        proto.graph.name = document.root.get("name", "")
        model = IrModel(proto, payloads)
    except MalformedModel as error:
        raise MalformedModel(f"{path}: {error}") from error
    model.document = document
    model.scopes = list(_scopes(draft, model.graph))
    return model


def _scopes(draft: _Draft, graph: ir.Graph) -> Iterator[Scope]:
    """Link a draft and those of its bodies with the graphs that were indexed from them."""
    origins = dict(zip(graph.nodes, draft.origins, strict=True))
    yield Scope(
        net=draft.net,
        graph=graph,
        origins=origins,
        held={graph.values[name]: held for name, held in draft.held.items()},
        results=[(port, graph.values[name]) for port, name in draft.results],
        made={graph.values[name]: port for port, name in draft.names.items() if name in graph.values},
    )
    for node, bodies in zip(graph.nodes, draft.bodies, strict=True):
        for attribute, body in bodies.items():
            (subgraph,) = node.subgraphs[attribute]
            yield from _scopes(body, subgraph)


@dataclass(slots=True, eq=False)
class _Draft:
    """One net while it is written into ``proto``."""

    document: Document
    net: Net
    proto: onnx.GraphProto
    given: set[str]
    """Names of values, each given once in the whole model: a body must not seem to capture what is outside."""
    payloads: Payloads
    names: dict[Port, str] = field(default_factory=dict)
    held: dict[str, Held] = field(default_factory=dict)
    origins: list[Origin] = field(default_factory=list)
    bodies: list[dict[str, _Draft]] = field(default_factory=list)
    results: list[tuple[Port, str]] = field(default_factory=list)
    _tensors: dict[str, ir.Stored | None] = field(default_factory=dict)
    _views: dict[tuple[str, View], str] = field(default_factory=dict)

    def filled(self) -> _Draft:
        """Return the draft itself, with all layers written."""
        layers = [layer for layer in self.net.layers.values() if self._tensor(layer) is None]
        for layer in layers:
            self._name_outputs(layer)
        for layer in layers:
            if layer.type == "Parameter":
                self.proto.input.append(self._info(layer, layer.ports("output")[0]))
            elif layer.type == "Result":
                self._result(layer)
            else:
                self._node(layer)
        return self

    # -- constants

    def _tensor(self, layer: Layer) -> ir.Stored | None:
        """Return what a Const holds, or a Convert that only widens a 16-bit Const."""
        if layer.id not in self._tensors:
            self._tensors[layer.id] = None
            if layer.type == "Const":
                self._tensors[layer.id] = self.document.tensor(layer)
            elif layer.type == "Convert" and layer.data.get("destination_type") == "f32":
                source = self._sources(layer)[0]
                below = self.net.layers[source[0]]
                held = self._tensor(below) if below.type == "Const" else None
                if held is not None and held.dtype in (TP.FLOAT16, TP.BFLOAT16):
                    self._tensors[layer.id] = held
        return self._tensors[layer.id]

    def _value(self, source: Port, view: View = "") -> str:
        """Return the name of what an output port gives, as ``view`` shows it."""
        layer = self.net.layers[source[0]]
        tensor = self._tensor(layer)
        if tensor is None:
            try:
                return self.names[source]
            except KeyError:
                raise MalformedModel(f"an edge starts at port {source[1]} of {layer.where}, which has none") from None
        key = (layer.id, view)
        if key not in self._views:
            name = self._views[key] = fresh(f"{layer.name}.{view}" if view else layer.name or "value", self.given)
            shown = seen_as(tensor, view)
            self.held[name] = shown, source
            self.proto.initializer.add(
                name=name, data_type=shown.dtype, dims=shown.dims, raw_data=self.payloads.add(shown)
            )
        return self._views[key]

    # -- layers

    def _name_outputs(self, layer: Layer) -> None:
        ports = layer.ports("output")
        for index, port in enumerate(ports):
            name = fresh(_hint(layer, port) or "value" if len(ports) == 1 else f"{layer.name}.{index}", self.given)
            self.names[layer.id, port.get("id", "")] = name
            if layer.type != "Parameter":
                self.proto.value_info.append(self._info(layer, port))

    def _info(self, layer: Layer, port: ET.Element) -> onnx.ValueInfoProto:
        """Name, type and dims. A port without dims is a scalar or of unknown rank: only a Parameter says which."""
        found = [int(dim.text or "-1") for dim in port.findall("dim")]
        is_known = bool(found) or (layer.type == "Parameter" and layer.data.get("shape") == "")
        dims = [dim if dim >= 0 else None for dim in found] if is_known else None
        dtype = PRECISIONS.get(port.get("precision", ""), TP.UNDEFINED)
        if layer.type == "Parameter":
            dtype = ELEMENT_TYPES.get(layer.data.get("element_type", ""), dtype)
        return onnx.helper.make_tensor_value_info(self.names[layer.id, port.get("id", "")], dtype, dims)

    def _sources(self, layer: Layer) -> list[Port]:
        found = [self.net.source((layer.id, port)) for port in layer.port_ids("input")]
        missing = [index for index, source in enumerate(found) if source is None]
        if missing:
            raise MalformedModel(f"{layer.where}: nothing leads to its input {missing[0]}")
        return [source for source in found if source is not None]

    def _result(self, layer: Layer) -> None:
        (source,) = self._sources(layer)
        name = self._value(source)
        self.results.append(((layer.id, layer.port_ids("input")[0]), name))
        if name not in {info.name for info in self.proto.output}:
            self.proto.output.add(name=name)

    def _node(self, layer: Layer) -> None:
        sources, inputs, outputs = self._sources(layer), layer.port_ids("input"), layer.port_ids("output")
        constants = tuple(self._tensor(self.net.layers[source[0]]) for source in sources)
        found = meaning(Seen(layer, constants))
        if found is None and layer.type == NORM:
            raise MalformedModel(f"{layer.where} is of no known opset ({layer.element.get('version', '')!r})")
        name, domain = layer.type, DOMAIN
        if found is not None:
            name, domain = ONNX_NAMES.get(name, name), ""
        found = found or Meaning(range(len(sources)), outputs=len(outputs))
        if max(found.slots, default=-1) >= len(sources) or len(outputs) < min(found.outputs, 1):
            raise MalformedModel(f"{layer.where} has too few inputs or outputs")
        node = self.proto.node.add(op_type=name, name=layer.name, domain=domain)
        views = tuple(found.views.get(slot, "") for slot in found.slots)
        node.input.extend(self._value(sources[slot], view) for slot, view in zip(found.slots, views, strict=True))
        node.output.extend(self._output(layer, port, index) for index, port in enumerate(outputs[: found.outputs]))
        node.attribute.extend(onnx.helper.make_attribute(*told) for told in found.attributes.items())
        self.bodies.append(self._bodies(layer, node))
        read = tuple(inputs[slot] for slot in found.slots)
        self.origins.append(Origin(layer, read, views, tuple(outputs[: found.outputs])))

    def _output(self, layer: Layer, port: str, index: int) -> str:
        """Return the value's name; empty for a second output (MaxPool's indices) without a consumer."""
        if index and layer.type == "MaxPool" and (layer.id, port) not in self.net.read:
            return ""
        return self.names[layer.id, port]

    def _bodies(self, layer: Layer, node: onnx.NodeProto) -> dict[str, _Draft]:
        found = {}
        for kind in BODIES:
            element = layer.element.find(kind)
            if element is None:
                continue
            graph = onnx.GraphProto(name=f"{layer.name}.{kind}")
            net = Net(element, f"{layer.name}.{kind}")
            found[kind] = _Draft(self.document, net, graph, self.given, self.payloads).filled()
            node.attribute.append(onnx.helper.make_attribute(kind, graph))
        return found


def _hint(layer: Layer, port: ET.Element) -> str:
    """Return a hint: a value goes by its layer's name; an input by its tensor's, which is what it is fed by."""
    return next(iter(tensor_names(port)), layer.name) if layer.type == "Parameter" else layer.name


def tensor_names(port: ET.Element) -> list[str]:
    """Return the tensor names of a port, whose list escapes commas in them with a backslash."""
    return [part.replace("\\,", ",") for part in re.split(r"(?<!\\),", port.get("names", "")) if part]
