"""New layers, written as OpenVINO writes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from xml.etree import ElementTree as ET

from bnfold import ir
from bnfold.openvino_ir.document import ELEMENT_TYPES, PRECISIONS, Layer, Net, Port
from bnfold.openvino_ir.operators import View

_ELEMENT_NAMES = {dtype: name for name, dtype in ELEMENT_TYPES.items()}
_PRECISION_NAMES = {dtype: name for name, dtype in PRECISIONS.items()}


@dataclass(frozen=True, slots=True)
class Kind:
    """Element type and dims of a value; dims None for an unknown rank, -1 for an unknown size."""

    dtype: int
    dims: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Payload:
    """What a new Const holds: a weight as ONNX sees it, and how it is stored."""

    tensor: ir.Tensor
    view: View = ""
    group: int = 1


@dataclass(slots=True)
class Emitter:
    """Puts new layers into one net. Names are given last (`wanted`): some become free only then."""

    net: Net
    payloads: dict[ET.Element, Payload] = field(default_factory=dict)
    wanted: list[tuple[ET.Element, str]] = field(default_factory=list)
    _last: int = -1

    def layer(
        self, kind: str, attributes: dict[str, str], inputs: Sequence[Kind], output: Kind, hint: str, *, before: Layer
    ) -> Layer:
        """A layer of opset 1 with one output, in front of another one; ``hint`` is the name it would like."""
        element = ET.Element("layer", {"id": self._fresh_id(), "name": "", "type": kind, "version": "opset1"})
        if attributes:
            ET.SubElement(element, "data", attributes)
        if inputs:
            side = ET.SubElement(element, "input")
            for index, read in enumerate(inputs):
                _port(side, index, read)
        _port(ET.SubElement(element, "output"), len(inputs), output)
        made = Layer(element)
        layers = self.net.layer_list
        layers.insert(list(layers).index(before.element), element)
        _indent(element, layers)
        self.net.layers[made.id] = made
        self.wanted.append((element, hint))
        return made

    def constant(self, payload: Payload, dims: Sequence[int], hint: str, *, before: Layer, as_type: int) -> Port:
        """A Const, and behind it a Convert where it is to be read as another type than it is stored in."""
        dtype = payload.tensor.dtype
        kind = Kind(dtype, tuple(dims))
        name = hint if dtype == as_type else f"{hint}_compressed"
        text = {"element_type": _ELEMENT_NAMES[dtype], "shape": ", ".join(map(str, dims)), "offset": "0", "size": "0"}
        made = self.layer("Const", text, (), kind, name, before=before)
        self.payloads[made.element] = payload
        if dtype == as_type:
            return made.id, "0"
        widened = self.layer(
            "Convert",
            {"destination_type": _ELEMENT_NAMES[as_type]},
            (kind,),
            Kind(as_type, kind.dims),
            hint,
            before=before,
        )
        info = ET.Element("rt_info")
        ET.SubElement(info, "attribute", {"name": "decompression", "version": "0"})
        widened.element.insert(1, info)
        _indent(widened.element, self.net.layer_list)
        self.connect((made.id, "0"), (widened.id, "0"))
        return widened.id, "1"

    def connect(self, source: Port, target: Port) -> None:
        """Let the input port ``target`` read the output port ``source``."""
        edge = self.net.edges.get(target)
        if edge is None:
            edges = self.net.edge_list
            edge = ET.SubElement(
                edges, "edge", {"from-layer": "", "from-port": "", "to-layer": target[0], "to-port": target[1]}
            )
            self.net.edges[target] = edge
            _indent(edge, edges)
        edge.set("from-layer", source[0])
        edge.set("from-port", source[1])

    def remove(self, layer: Layer) -> None:
        """Take a layer out, with the edges that lead to it."""
        for port in layer.port_ids("input"):
            edge = self.net.edges.pop((layer.id, port), None)
            if edge is not None:
                _drop(self.net.edge_list, edge)
        _drop(self.net.layer_list, layer.element)
        del self.net.layers[layer.id]
        self.payloads.pop(layer.element, None)

    def _fresh_id(self) -> str:
        if self._last < 0:
            self._last = max((int(key) for key in self.net.layers if key.isdecimal()), default=-1)
        self._last += 1
        return str(self._last)


def _port(side: ET.Element, index: int, kind: Kind) -> None:
    port = ET.SubElement(side, "port", {"id": str(index), "precision": _PRECISION_NAMES[kind.dtype]})
    for dim in kind.dims or ():
        ET.SubElement(port, "dim").text = str(dim)


def _drop(parent: ET.Element, child: ET.Element) -> None:
    """Remove a child; the white space behind the last one leads back to the parent's own level."""
    children = list(parent)
    index = children.index(child)
    if index and index == len(children) - 1:
        children[index - 1].tail = child.tail
    parent.remove(child)


def _indent(element: ET.Element, parent: ET.Element) -> None:
    """White space as the file has it, which is one tab a level where OpenVINO wrote it."""
    lead = parent.text or ""
    if not lead.strip() and "\n" in lead:
        ET.indent(element, "\t", level=lead.count("\t") or 0)
        element.tail = lead
    if parent[-1] is element:
        element.tail = lead.removesuffix("\t")
        if len(parent) > 1:
            parent[-2].tail = lead
