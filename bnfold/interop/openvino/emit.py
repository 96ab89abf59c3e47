"""New layers: how the nodes that a rewrite adds are spelled, and how OpenVINO writes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from xml.etree import ElementTree as ET

from bnfold import analysis, ir
from bnfold.interop.openvino.document import ELEMENT_TYPES, PRECISIONS, Layer, Net, Port

ELEMENT_NAMES: dict[int, str] = {dtype: name for name, dtype in ELEMENT_TYPES.items()}
_PRECISION_NAMES: dict[int, str] = {dtype: name for name, dtype in PRECISIONS.items()}


@dataclass(frozen=True, slots=True)
class Kind:
    """Element type and dims of a value; dims None for an unknown rank, -1 for an unknown size."""

    dtype: int
    dims: tuple[int, ...] | None


@dataclass(slots=True, eq=False)
class Emitter:
    """Puts new layers into one net.

    The file's lists are written by `finish`, at once; names are given last (`wanted`): some become free only then.
    """

    net: Net
    payloads: dict[ET.Element, ir.Tensor] = field(default_factory=dict)
    wanted: list[tuple[ET.Element, str]] = field(default_factory=list)
    _before: dict[ET.Element, list[ET.Element]] = field(default_factory=dict)
    _behind: dict[ET.Element, list[ET.Element]] = field(default_factory=dict)
    _gone: set[ET.Element] = field(default_factory=set)
    _edges: list[ET.Element] = field(default_factory=list)
    _last: int = -1

    def layer(
        self,
        kind: str,
        attributes: dict[str, str],
        inputs: Sequence[Kind],
        output: Kind,
        hint: str,
        *,
        before: Layer | None = None,
        behind: Layer | None = None,
    ) -> Layer:
        """Return a layer with one output, beside another one; ``hint`` is the name it would like."""
        opset = "opset5" if kind == "BatchNormInference" else "opset1"
        element = ET.Element("layer", {"id": self._fresh_id(), "name": "", "type": kind, "version": opset})
        if attributes:
            ET.SubElement(element, "data", attributes)
        if inputs:
            side = ET.SubElement(element, "input")
            for index, read in enumerate(inputs):
                _port(side, index, read)
        _port(ET.SubElement(element, "output"), len(inputs), output)
        if before is not None:
            self._before.setdefault(before.element, []).append(element)
        elif behind is not None:
            self._behind.setdefault(behind.element, []).append(element)
        made = Layer(element)
        self.net.layers[made.id] = made
        self.wanted.append((element, hint))
        return made

    def constant(self, tensor: ir.Tensor, dims: Sequence[int], hint: str, *, before: Layer, as_type: int) -> Port:
        """Return a Const, and behind it a Convert where it is to be read as another type than it is stored in."""
        dtype = tensor.dtype
        kind = Kind(dtype, tuple(dims))
        name = hint if dtype == as_type else f"{hint}_compressed"
        text = {"element_type": ELEMENT_NAMES[dtype], "shape": ", ".join(map(str, dims)), "offset": "0", "size": "0"}
        made = self.layer("Const", text, (), kind, name, before=before)
        self.payloads[made.element] = tensor
        if dtype == as_type:
            return made.id, "0"
        target = {"destination_type": ELEMENT_NAMES[as_type]}
        widened = self.layer("Convert", target, (kind,), Kind(as_type, kind.dims), hint, before=before)
        info = ET.Element("rt_info")
        ET.SubElement(info, "attribute", {"name": "decompression", "version": "0"})
        widened.element.insert(1, info)
        self.connect((made.id, "0"), (widened.id, "0"))
        return widened.id, "1"

    def connect(self, source: Port, target: Port) -> None:
        """Let the input port ``target`` read the output port ``source``."""
        edge = self.net.edges.get(target)
        if edge is None:
            names = {"from-layer": "", "from-port": "", "to-layer": target[0], "to-port": target[1]}
            edge = self.net.edges[target] = ET.Element("edge", names)
            self._edges.append(edge)
        edge.set("from-layer", source[0])
        edge.set("from-port", source[1])

    def remove(self, layer: Layer) -> None:
        """Take a layer out, with the edges that lead to it."""
        for port in layer.port_ids("input"):
            edge = self.net.edges.pop((layer.id, port), None)
            if edge is not None:
                self._gone.add(edge)
        self._gone.add(layer.element)
        del self.net.layers[layer.id]

    def finish(self) -> None:
        """Write the lists of layers and edges."""
        layers = [new for old in self.net.layer_list for new in self._around(old)]
        _rewrite(self.net.layer_list, [layer for layer in layers if layer not in self._gone])
        edges = [*self.net.edge_list, *self._edges]
        _rewrite(self.net.edge_list, [edge for edge in edges if edge not in self._gone])

    def _around(self, element: ET.Element) -> Iterator[ET.Element]:
        """Yield an element, and the new ones before and behind it."""
        for new in self._before.get(element, ()):
            yield from self._around(new)
        yield element
        for new in self._behind.get(element, ()):
            yield from self._around(new)

    def _fresh_id(self) -> str:
        if self._last < 0:
            self._last = max((int(key) for key in self.net.layers if key.isdecimal()), default=-1)
        self._last += 1
        return str(self._last)


def _port(side: ET.Element, index: int, kind: Kind) -> None:
    port = ET.SubElement(side, "port", {"id": str(index), "precision": _PRECISION_NAMES[kind.dtype]})
    for dim in kind.dims or ():
        ET.SubElement(port, "dim").text = str(dim)


def _rewrite(parent: ET.Element, children: list[ET.Element]) -> None:
    """Give an element these children, in white space as the file has it: one tab a level where OpenVINO wrote it."""
    old = list(parent)
    if old == children:
        return
    lead, last = parent.text or "", old[-1].tail if old else parent.tail
    known = set(old)
    for child in children:
        if child not in known and "\n" in lead:
            ET.indent(child, "\t", level=lead.count("\t"))
        child.tail = lead
    if children:
        children[-1].tail = last
    parent[:] = children


_BROADCAST = {"Add": "Add", "Mul": "Multiply", "Sub": "Subtract", "Div": "Divide"}


def spelled(node: ir.Node, inputs: Sequence[Kind]) -> tuple[str, dict[str, str], Kind] | None:
    """Return type, attributes and output of the layer for a new node that reads ``inputs``.

    None where there is none.
    """
    first = inputs[0]
    if node.is_op(*_BROADCAST):
        dims = _broadcast(first.dims, inputs[1].dims)
        return _BROADCAST[node.op_type], {"auto_broadcast": "numpy"}, Kind(first.dtype, dims)
    if node.is_op("Cast"):
        target = int(node.attr("to"))
        return "Convert", {"destination_type": ELEMENT_NAMES[target]}, Kind(target, first.dims)
    if node.is_op("Unsqueeze"):
        return _unsqueeze(node, first)
    if node.is_op("BatchNormalization"):
        return "BatchNormInference", {"epsilon": repr(float(node.attr("epsilon")))}, first
    if node.is_op("Conv"):
        return "GroupConvolution", _pointwise(len(node.attr("kernel_shape"))), first
    return ("Sqrt", {}, first) if node.is_op("Sqrt") else None


def _unsqueeze(node: ir.Node, kind: Kind) -> tuple[str, dict[str, str], Kind] | None:
    axes = analysis.constant(node.input(1))
    if kind.dims is None or axes is None:
        return None
    dims = list(kind.dims)
    for axis in sorted(int(axis) for axis in axes.numpy().reshape(-1)):
        dims.insert(axis, 1)
    return "Unsqueeze", {}, Kind(kind.dtype, tuple(dims))


def _pointwise(spatial: int) -> dict[str, str]:
    """Return the attributes of a convolution without stride, padding or dilation."""
    ones, zeros = ", ".join(["1"] * spatial), ", ".join(["0"] * spatial)
    return {"strides": ones, "pads_begin": zeros, "pads_end": zeros, "dilations": ones, "auto_pad": "explicit"}


def _broadcast(a: tuple[int, ...] | None, b: tuple[int, ...] | None) -> tuple[int, ...] | None:
    if a is None or b is None:
        return None
    rank = max(len(a), len(b))
    pairs = zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True)
    return tuple(y if x == 1 else x if y == 1 else max(x, y) for x, y in pairs)
