"""Take the edits of a lifted graph back into its document: edges, constants, and layers that came or went.

A layer whose node was not touched keeps its element as the file has it. A bias that ONNX's convolution or Gemm took in
becomes an Add behind the layer. A value that kept its meaning keeps its tensor names; one whose meaning changed loses
them, and layers keep their names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.etree import ElementTree as ET

from bnfold import ir
from bnfold.errors import Unsupported
from bnfold.ir.tensor import FLOATS
from bnfold.openvino_ir.document import PRECISIONS, Layer, Port
from bnfold.openvino_ir.emit import Emitter, Kind, Payload
from bnfold.openvino_ir.lift import IrModel, Scope, tensor_names
from bnfold.openvino_ir.operators import NORM, View, is_v0
from bnfold.openvino_ir.spell import spelled

BIAS = 2
"""The slot of the bias of Conv, ConvTranspose and Gemm; no OpenVINO layer has it."""


def lower(model: IrModel) -> dict[ET.Element, Payload]:
    """Bring ``model.document`` in line with the graph; what its new Const layers hold.

    Raises Unsupported for a node that has no layer, which only a decomposition over an unknown rank needs.
    """
    payloads: dict[ET.Element, Payload] = {}
    emitters = []
    for scope in model.scopes:
        lowering = _Lowering(scope)
        lowering.run()
        emitters.append(lowering)
    taken = {layer.get("name", "") for layer in model.document.root.iter("layer")}
    for lowering in emitters:
        lowering.name(taken)
        payloads |= lowering.emitter.payloads
    return payloads


class _Lowering:
    """One scope."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.emitter = Emitter(scope.net)
        self.nodes = scope.graph.nodes
        self.made: dict[ir.Value, Port] = {}
        self.alias: dict[ir.Value, ir.Value] = {}
        self.kinds: dict[ir.Value, Kind] = {}
        self.labels: dict[ir.Value, tuple[str, list[str], str]] = {}
        self._constants: dict[tuple[ir.Value, View, int, tuple[int, ...], int], Port] = {}
        self._renamed: list[tuple[Layer, str]] = []
        for value, port in scope.made.items():
            layer, element = self._port(port)
            self.kinds[value] = _kind(element)
            self.labels[value] = (layer.name, tensor_names(element), value.name)

    def _port(self, port: Port) -> tuple[Layer, ET.Element]:
        layer = self.scope.net.layers[port[0]]
        return layer, next(found for found in layer.ports("output") if found.get("id") == port[1])

    def run(self) -> None:
        read_before = self._read()
        for value in self.scope.graph.inputs:
            self.made[value] = self.scope.made[value]
        for node in self.nodes:
            self._place(node)
        for node in self.nodes:
            self._connect(node)
        for target, value in self.scope.results:
            self.emitter.connect(self._source_of_result(value), target)
        self._remove(read_before)
        self._label_ports()

    # -- layers

    def _place(self, node: ir.Node) -> None:
        """Where each value comes from; layers for what is new."""
        origin, output = self.scope.origins.get(node), node.output(0)
        if node.is_op("Identity") and output is not None and node.inputs[0] is not None:
            self.alias[output] = node.inputs[0]
            return
        if origin is None:
            self._place_new(node)
            return
        for value, port in zip(node.outputs, origin.outputs, strict=True):
            if value is not None:
                self.made[value] = (origin.layer.id, port)
        if node.input(BIAS) is not None and len(origin.inputs) <= BIAS and output is not None and not node.domain:
            self._add_bias(node, origin.layer, output)

    def _place_new(self, node: ir.Node) -> None:
        output = node.output(0)
        assert output is not None, "what bnfold adds has an output"
        inputs = [self._kind(value, node) for value in node.inputs[:BIAS] if value is not None]
        spelling = spelled(node, inputs)
        if spelling is None:
            raise Unsupported(
                f"{node.op_type} {node.label!r} has no place in an IR: the rank of its input is not known"
            )
        layer = self.emitter.layer(
            spelling.type, spelling.attributes, inputs, spelling.output, node.label, before=self._anchor(node)
        )
        self.kinds[output] = spelling.output
        self.made[output] = (layer.id, str(len(inputs)))
        if node.input(BIAS) is not None:
            self._add_bias(node, layer, output)

    def _add_bias(self, node: ir.Node, layer: Layer, output: ir.Value) -> None:
        """``y + b``: the Add makes the value, and takes its name."""
        bias = node.input(BIAS)
        held = ir.constant(bias)
        kind = self.kinds[output]
        assert held is not None, "a bias is a constant"
        assert bias is not None, "likewise"
        size, rank = held.size, len(kind.dims or ()) or self._rank(node)
        dims = tuple(held.dims) if len(held.dims) > 1 else (1, size, *(1,) * (rank - 2))
        add = self.emitter.layer(
            "Add", {"auto_broadcast": "numpy"}, (kind, Kind(kind.dtype, dims)), kind, self._hint(output), before=layer
        )
        _behind(self.scope.net.layer_list, layer, add)
        constant = self._constant(bias, held, "", 1, dims, kind.dtype, add, f"{layer.name}/bias")
        self.emitter.connect(self.made[output], (add.id, "0"))
        self.emitter.connect(constant, (add.id, "1"))
        self._renamed.append((layer, f"{layer.name}/WithoutBiases"))
        self.made[output] = (add.id, "2")

    def _rank(self, node: ir.Node) -> int:
        kernel = ir.constant(node.input(1)) or ir.constant(node.input(0))
        assert kernel is not None, "what takes a bias in has a constant weight"
        return len(kernel.dims)

    def _anchor(self, node: ir.Node) -> Layer:
        """The layer that a new one goes in front of: the next old one."""
        for other in self.nodes[self.nodes.index(node) + 1 :]:
            if other in self.scope.origins and not other.is_op("Identity"):
                return self.scope.origins[other].layer
        return next(layer for layer in reversed(self.scope.net.layers.values()) if layer.type == "Result")

    def _hint(self, value: ir.Value) -> str:
        return self.labels[value][0] if value in self.labels else value.name

    # -- edges

    def _connect(self, node: ir.Node) -> None:
        origin = self.scope.origins.get(node)
        if node.is_op("Identity"):
            return
        if origin is not None:
            for value, port, view in zip(node.inputs, origin.inputs, origin.views, strict=False):
                if value is not None:
                    self.emitter.connect(self._source(value, node, view, origin.layer), (origin.layer.id, port))
            return
        output = node.output(0)
        layer = next(found for found in self._new_layers(output))
        view: View = "grouped" if node.is_op("Conv") else ""
        for slot, value in enumerate(node.inputs[:BIAS]):
            if value is not None:
                self.emitter.connect(self._source(value, node, view if slot else "", layer), (layer.id, str(slot)))

    def _new_layers(self, output: ir.Value | None) -> Iterator[Layer]:
        """The layer of a new node: what makes its output, or what stands before the Add that does."""
        assert output is not None, "what bnfold adds has an output"
        layer = self.scope.net.layers[self.made[output][0]]
        before = self.scope.net.source((layer.id, "0"))
        if before is not None:  # connected already: the Add of a bias
            layer = self.scope.net.layers[before[0]]
        yield layer

    def _source(self, value: ir.Value, node: ir.Node, view: View, layer: Layer) -> Port:
        value = self._resolved(value)
        if value in self.made:
            return self.made[value]
        held = self.scope.held.get(value)
        tensor = value.tensor
        assert tensor is not None, "what nobody makes is a constant"
        if held is not None and held.tensor is tensor:
            return held.port
        group = int(node.attr("group", 1)) if view == "grouped" else 1
        dims = (group, tensor.dims[0] // group, *tensor.dims[1:]) if view == "grouped" else tuple(tensor.dims)
        if view == "transposed":
            dims = (*dims[:-2], dims[-1], dims[-2])
        return self._constant(value, tensor, view, group, dims, self._wanted(node, tensor), layer, value.name)

    def _source_of_result(self, value: ir.Value) -> Port:
        value = self._resolved(value)
        if value in self.made:
            return self.made[value]
        held = self.scope.held[value]
        if value.tensor is held.tensor:
            return held.port
        assert value.tensor is not None, "it is held"
        first = next(iter(self.scope.net.layers.values()))
        return self._constant(
            value, value.tensor, "", 1, tuple(value.tensor.dims), value.tensor.dtype, first, value.name
        )

    def _resolved(self, value: ir.Value) -> ir.Value:
        while value in self.alias:
            value = self.alias[value]
        return value

    def _constant(  # noqa: PLR0913 - the facts of one constant
        self,
        value: ir.Value,
        tensor: ir.Tensor,
        view: View,
        group: int,
        dims: tuple[int, ...],
        as_type: int,
        layer: Layer,
        hint: str,
    ) -> Port:
        key = (value, view, group, dims, as_type)
        if key not in self._constants:
            payload = Payload(tensor, view, group)
            self._constants[key] = self.emitter.constant(payload, dims, hint, before=layer, as_type=as_type)
        return self._constants[key]

    def _wanted(self, node: ir.Node, tensor: ir.Tensor) -> int:
        """The type in which a node reads a constant: that of its activation, if both are floats."""
        if tensor.dtype in FLOATS:
            for other in node.inputs:
                kind = self.kinds.get(self._resolved(other)) if other is not None else None
                if kind is not None and kind.dtype in FLOATS:
                    return kind.dtype
        return tensor.dtype

    def _kind(self, value: ir.Value, node: ir.Node) -> Kind:
        value = self._resolved(value)
        if value in self.kinds:
            return self.kinds[value]
        held = ir.constant(value)
        assert held is not None, "what has no port is a constant"
        return Kind(self._wanted(node, held), tuple(held.dims))

    # -- at the end

    def _read(self) -> set[str]:
        """The layers that somebody reads."""
        return {edge.get("from-layer", "") for edge in self.scope.net.edges.values()}

    def _remove(self, read_before: set[str]) -> None:
        live = {node for node in self.nodes if not node.is_op("Identity")}
        for node, origin in self.scope.origins.items():
            if node not in live:
                self.emitter.remove(origin.layer)
        constants = [layer for layer in self.scope.net.layers.values() if layer.type in ("Convert", "Const")]
        nodes = {origin.layer.id for node, origin in self.scope.origins.items() if node in live}
        for layer in sorted(constants, key=lambda layer: layer.type == "Const"):
            if layer.id in read_before and layer.id not in nodes and layer.id not in self._read():
                self.emitter.remove(layer)

    def _label_ports(self) -> None:
        """Tensor names follow the values that still mean what they did."""
        names: dict[Port, list[str]] = {port: [] for port in (*self.made.values(), *self.scope.made.values())}
        for value, (_, known, name) in self.labels.items():
            source = self.made.get(self._resolved(value))
            if source is not None and value.name == name:
                names[source] += [other for other in known if other not in names[source]]
        for port, wanted in names.items():
            if port[0] in self.scope.net.layers:
                _, element = self._port(port)
                if tensor_names(element) != wanted:
                    _set_names(element, wanted)

    def name(self, taken: set[str]) -> None:
        """Names for new layers, now that removed ones have left theirs; a result's maker takes the name of the value."""
        for layer, other in self._renamed:
            if any(hint == layer.name for _, hint in self.emitter.wanted):
                taken.discard(layer.name)
                layer.element.set("name", _fresh(other, taken))
        for element, hint in self.emitter.wanted:
            element.set("name", _fresh(hint, taken))
        for _, value in self.scope.results:
            source = self.made.get(self._resolved(value))
            label = self.labels.get(value, ("", [], ""))[0]
            if source is not None and source[0] in self.scope.net.layers and label and label not in taken:
                self.scope.net.layers[source[0]].element.set("name", _fresh(label, taken))


def _fresh(hint: str, taken: set[str]) -> str:
    name, count = hint, 0
    while name in taken:
        count += 1
        name = f"{hint}_{count}"
    taken.add(name)
    return name


def _kind(port: ET.Element) -> Kind:
    dims = tuple(int(dim.text or "-1") for dim in port.findall("dim"))
    return Kind(PRECISIONS.get(port.get("precision", ""), 0), dims or None)


def _behind(layers: ET.Element, first: Layer, second: Layer) -> None:
    """Put an element right behind another one, white space included."""
    if layers[-1] is first.element:
        first.element.tail, second.element.tail = second.element.tail, first.element.tail
    layers.remove(second.element)
    layers.insert(list(layers).index(first.element) + 1, second.element)


def _set_names(port: ET.Element, names: Sequence[str]) -> None:
    if names:
        port.set("names", ",".join(name.replace(",", "\\,") for name in names))
    else:
        port.attrib.pop("names", None)


def raise_norms(model: IrModel) -> list[str]:
    """Turn every BatchNormInference of version 0 into version 5, whose inputs stand in another order; their names."""
    raised = []
    for scope in model.scopes:
        for layer in scope.net.layers.values():
            if layer.type == NORM and is_v0(layer):
                _raise(scope, layer)
                raised.append(layer.name)
    return raised


def _raise(scope: Scope, layer: Layer) -> None:
    """(gamma, beta, data, mean, variance) becomes (data, gamma, beta, mean, variance)."""
    side, ports = layer.element.find("input"), layer.ports("input")
    assert side is not None, "a BatchNormInference has five inputs"
    ids, tails = [port.get("id", "") for port in ports], [port.tail for port in ports]
    order = (2, 0, 1, 3, 4)
    edges = [scope.net.edges.pop((layer.id, ids[index])) for index in order]
    for place, (index, edge) in enumerate(zip(order, edges, strict=True)):
        edge.set("to-port", ids[place])
        scope.net.edges[layer.id, ids[place]] = edge
        side.remove(ports[index])
        side.append(ports[index])
    for port, name, tail in zip(layer.ports("input"), ids, tails, strict=True):
        port.set("id", name)
        port.tail = tail
    layer.element.set("version", "opset5")
