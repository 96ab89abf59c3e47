"""Take the edits of the graph back into its document: edges, constants, and layers that came or went.

A layer whose node was not touched keeps its element as the file has it. A bias that ONNX's convolution or Gemm took in
becomes an Add behind the layer.
"""

from __future__ import annotations

from collections import Counter
from xml.etree import ElementTree as ET

from bnfold import analysis, ir
from bnfold.errors import Unsupported
from bnfold.interop.openvino.document import PRECISIONS, Layer, Port, fresh
from bnfold.interop.openvino.emit import Emitter, Kind, spelled
from bnfold.interop.openvino.load import IrModel, Scope
from bnfold.interop.openvino.naming import Naming, output_port
from bnfold.interop.openvino.views import Transposed, View
from bnfold.ir.tensor import FLOATS

BIAS = 2
"""The slot of the bias of Conv, ConvTranspose and Gemm; no OpenVINO layer has it."""


def write_back(model: IrModel) -> dict[ET.Element, ir.Tensor]:
    """Bring ``model.document`` in line with the graph; what its new Const layers hold.

    Raises Unsupported for a node that has no layer, which only a decomposition over an unknown rank needs.
    """
    payloads: dict[ET.Element, ir.Tensor] = {}
    emitters = []
    for scope in model.scopes:
        writer = _Writer(scope)
        writer.run()
        emitters.append(writer)
    taken = {layer.get("name", "") for layer in model.document.root.iter("layer")}
    for writer in emitters:
        writer.name(taken)
        payloads |= writer.emitter.payloads
    return payloads


class _Writer:
    """One scope."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.emitter = Emitter(scope.net)
        self.nodes = scope.graph.nodes
        self.made: dict[ir.Value, Port] = {}
        self.alias: dict[ir.Value, ir.Value] = {}
        self.kinds: dict[ir.Value, Kind] = {}
        self.naming = Naming(scope)
        self._constants: dict[tuple[ir.Value, tuple[int, ...], int], Port] = {}
        self._biased: list[Layer] = []
        self._new: dict[ir.Node, Layer] = {}
        for value, port in scope.made.items():
            self.kinds[value] = _kind(output_port(scope, port)[1])

    def run(self) -> None:
        read_before = self._read()
        for value in self.scope.graph.inputs:
            self.made[value] = self.scope.made[value]
        for node in self.nodes:
            self._place(node)
        for node in self.nodes:
            self._connect(node)
        first = next(iter(self.scope.net.layers.values()))
        for target, value in self.scope.results:
            self.emitter.connect(self._source(value, None, "", first), target)
        self._remove(read_before)
        self.naming.label_ports(self.made, lambda value: self.made.get(self._resolved(value)))

    # -- layers

    def _place(self, node: ir.Node) -> None:
        """Place each value, where it comes from; layers for what is new."""
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
                self.kinds.setdefault(value, _kind(output_port(self.scope, self.made[value])[1]))
        if node.input(BIAS) is not None and len(origin.inputs) <= BIAS and output is not None and not node.domain:
            self._add_bias(node, origin.layer, output)

    def _place_new(self, node: ir.Node) -> None:
        output = node.output(0)
        assert output is not None, "what bnfold adds has an output"
        inputs = [self._kind(value, node) for value in _own(node) if value is not None]
        spelling = spelled(node, inputs)
        if spelling is None:
            raise Unsupported(
                f"{node.op_type} {node.label!r} has no place in an IR, most likely because the rank of its input is "
                "not known: leave out --decompose"
            )
        type_name, attributes, kind = spelling
        layer = self.emitter.layer(type_name, attributes, inputs, kind, node.label, before=self._anchor(node))
        self._new[node] = layer
        self.kinds[output] = kind
        self.made[output] = (layer.id, str(len(inputs)))
        if len(_own(node)) < len(node.inputs):
            self._add_bias(node, layer, output)

    def _add_bias(self, node: ir.Node, layer: Layer, output: ir.Value) -> None:
        """Add ``y + b``: the Add makes the value, and takes its name."""
        bias = node.input(BIAS)
        held = analysis.constant(bias)
        kind = self.kinds[output]
        assert held is not None, "a bias is a constant"
        assert bias is not None, "likewise"
        size, rank = held.size, len(kind.dims or ()) or self._rank(node)
        dims = tuple(held.dims) if len(held.dims) > 1 else (1, size, *(1,) * (rank - 2))
        inputs = (kind, Kind(kind.dtype, dims))
        hint = self.naming.hint(output)
        add = self.emitter.layer("Add", {"auto_broadcast": "numpy"}, inputs, kind, hint, behind=layer)
        constant = self._constant(bias, held, dims, kind.dtype, add, f"{layer.name}/bias")
        self.emitter.connect(self.made[output], (add.id, "0"))
        self.emitter.connect(constant, (add.id, "1"))
        self._biased.append(layer)
        self.made[output] = (add.id, "2")

    def _rank(self, node: ir.Node) -> int:
        kernel = analysis.constant(node.input(1)) or analysis.constant(node.input(0))
        assert kernel is not None, "what takes a bias in has a constant weight"
        return len(kernel.dims)

    def _anchor(self, node: ir.Node) -> Layer:
        """Return the layer that a new one goes in front of: the next old one."""
        for other in self.nodes[self.nodes.index(node) + 1 :]:
            if other in self.scope.origins and not other.is_op("Identity"):
                return self.scope.origins[other].layer
        return next(layer for layer in reversed(self.scope.net.layers.values()) if layer.type == "Result")

    # -- edges

    def _connect(self, node: ir.Node) -> None:
        origin = self.scope.origins.get(node)
        if node.is_op("Identity"):
            return
        if origin is not None:
            for value, port, seen in zip(node.inputs, origin.inputs, origin.views, strict=False):
                if value is not None:
                    self.emitter.connect(self._source(value, node, seen, origin.layer), (origin.layer.id, port))
            return
        layer = self._new[node]
        view: View = "grouped" if node.is_op("Conv") else ""
        for slot, value in enumerate(_own(node)):
            if value is not None:
                self.emitter.connect(self._source(value, node, view if slot else "", layer), (layer.id, str(slot)))

    def _source(self, value: ir.Value, node: ir.Node | None, view: View, layer: Layer) -> Port:
        """Return what gives a value to ``node``, or to a result: a port, or a new Const in front of ``layer``."""
        value = self._resolved(value)
        if value in self.made:
            return self.made[value]
        held = self.scope.held.get(value)
        tensor = value.tensor
        assert tensor is not None, "what nobody makes is a constant"
        if held is not None and held[0] is tensor:
            return held[1]
        group = int(node.attr("group", 1)) if node is not None and view == "grouped" else 1
        stored = Transposed(tensor) if view == "transposed" else tensor
        dims = (group, tensor.dims[0] // group, *tensor.dims[1:]) if view == "grouped" else stored.dims
        return self._constant(value, stored, dims, self._wanted(node, tensor), layer, value.name)

    def _resolved(self, value: ir.Value) -> ir.Value:
        while value in self.alias:
            value = self.alias[value]
        return value

    def _constant(
        self, value: ir.Value, tensor: ir.Tensor, dims: tuple[int, ...], as_type: int, layer: Layer, hint: str
    ) -> Port:
        """Return a new Const in front of ``layer``; layers that need an equal one share it."""
        key = (value, dims, as_type)
        if key not in self._constants:
            self._constants[key] = self.emitter.constant(tensor, dims, hint, before=layer, as_type=as_type)
        return self._constants[key]

    def _wanted(self, node: ir.Node | None, tensor: ir.Tensor) -> int:
        """Return the type in which a node reads a constant: that of its activation, if both are floats."""
        if node is not None and tensor.dtype in FLOATS:
            for other in node.inputs:
                kind = self.kinds.get(self._resolved(other)) if other is not None else None
                if kind is not None and kind.dtype in FLOATS:
                    return kind.dtype
        return tensor.dtype

    def _kind(self, value: ir.Value, node: ir.Node) -> Kind:
        value = self._resolved(value)
        if value in self.kinds:
            return self.kinds[value]
        held = analysis.constant(value)
        assert held is not None, "what has no port is a constant"
        return Kind(self._wanted(node, held), tuple(held.dims))

    # -- at the end

    def _read(self) -> Counter[str]:
        """Count how often each layer is read."""
        return Counter(edge.get("from-layer", "") for edge in self.scope.net.edges.values())

    def _remove(self, read_before: Counter[str]) -> None:
        """Remove layers whose nodes are gone, and constants that have lost their last consumer with them."""
        live = {node for node in self.nodes if not node.is_op("Identity")}
        kept = {origin.layer.id for node, origin in self.scope.origins.items() if node in live}
        for node, origin in self.scope.origins.items():
            if node not in live:
                self.emitter.remove(origin.layer)
        for kind in ("Convert", "Const"):
            read = self._read()
            for layer in list(self.scope.net.layers.values()):
                if layer.type == kind and layer.id not in kept and read_before[layer.id] and not read[layer.id]:
                    self.emitter.remove(layer)
        self.emitter.finish()

    def name(self, taken: set[str]) -> None:
        """Name new layers, now that removed ones have left theirs.

        Where an Add takes the name of the convolution whose bias it is, that is called as OpenVINO calls it then.
        """
        wanted = {hint for _, hint in self.emitter.wanted}
        for layer in self._biased:
            if layer.name in wanted:
                taken.discard(layer.name)
                layer.element.set("name", fresh(f"{layer.name}/WithoutBiases", taken))
        for element, hint in self.emitter.wanted:
            element.set("name", fresh(hint, taken))
        self.naming.name_results(self.made, taken)


def _own(node: ir.Node) -> list[ir.Value | None]:
    """Return the inputs of a new node that its layer has too: all but a bias."""
    return node.inputs if node.is_op("BatchNormalization") else node.inputs[:BIAS]


def _kind(port: ET.Element) -> Kind:
    dims = tuple(int(dim.text or "-1") for dim in port.findall("dim"))
    return Kind(PRECISIONS.get(port.get("precision", ""), 0), dims or None)
