"""An OpenVINO IR as it lies on disk: an XML tree of layers and edges, and a file of constants beside it.

Both are a stranger's. A document type declaration is refused, so nothing can be pulled in or expanded; every constant
is checked to lie inside the .bin and to have the size that its type and dims say, before anything is read from it.
Constants stay on disk (`ir.Stored`).
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from xml.etree import ElementTree as ET

from bnfold import ir
from bnfold.errors import BadInput, MalformedModel, Unsupported
from bnfold.ir.elements import TP, raw_length
from bnfold.ir.storage.source import BufferSource, FileSource, Source
from bnfold.ir.storage.stored import Span

VERSIONS = (10, 11)
"""IR versions that name an opset for every layer."""

LARGEST_XML = 1 << 28
"""Bytes. Real files have a few megabytes; a tree takes some thirty times the memory of its text."""

ELEMENT_TYPES = {
    "f32": TP.FLOAT, "f16": TP.FLOAT16, "bf16": TP.BFLOAT16, "f64": TP.DOUBLE, "i64": TP.INT64, "i32": TP.INT32,
    "i16": TP.INT16, "i8": TP.INT8, "u64": TP.UINT64, "u32": TP.UINT32, "u16": TP.UINT16, "u8": TP.UINT8,
    "boolean": TP.BOOL,
}  # fmt: skip
PRECISIONS = {
    "FP32": TP.FLOAT, "FP16": TP.FLOAT16, "BF16": TP.BFLOAT16, "FP64": TP.DOUBLE, "I64": TP.INT64, "I32": TP.INT32,
    "I16": TP.INT16, "I8": TP.INT8, "U64": TP.UINT64, "U32": TP.UINT32, "U16": TP.UINT16, "U8": TP.UINT8,
    "BOOL": TP.BOOL,
}  # fmt: skip

Port = tuple[str, str]
"""The ids of a layer and of one of its ports, as the file spells them."""


class Layer:
    """One <layer>: identity, attributes and ports."""

    __slots__ = ("element",)

    def __init__(self, element: ET.Element) -> None:
        self.element = element

    @property
    def id(self) -> str:
        return self.element.get("id", "")

    @property
    def name(self) -> str:
        return self.element.get("name", "")

    @property
    def type(self) -> str:
        return self.element.get("type", "")

    @property
    def opset(self) -> int:
        """The opset that the operator is taken from; 0 for an extension's."""
        found = re.fullmatch(r"opset(\d{1,4})", self.element.get("version", ""))
        return int(found[1]) if found else 0

    @property
    def data(self) -> dict[str, str]:
        """The operator's attributes."""
        found = self.element.find("data")
        return {} if found is None else dict(found.attrib)

    def ports(self, side: str) -> list[ET.Element]:
        """Return the ports of side ``input`` or ``output``, in order."""
        found = self.element.find(side)
        return [] if found is None else found.findall("port")

    def port_ids(self, side: str) -> list[str]:
        return [port.get("id", "") for port in self.ports(side)]

    @property
    def where(self) -> str:
        """How a message names the layer."""
        return f"layer {self.name or self.id!r} ({self.type})"


class Net:
    """One list of layers with its edges: the model itself, or the body of an If, a Loop or a TensorIterator."""

    def __init__(self, element: ET.Element, path: str) -> None:
        self.element = element
        self.path = path
        layers, edges = element.find("layers"), element.find("edges")
        if layers is None or edges is None:
            raise MalformedModel(f"{path or 'the network'} has no <layers> or no <edges>")
        self.layer_list, self.edge_list = layers, edges
        self.layers: dict[str, Layer] = {}
        for found in layers.findall("layer"):
            layer = Layer(found)
            if not layer.id or layer.id in self.layers:
                raise MalformedModel(f"the layer id {layer.id!r} is missing or given twice")
            self.layers[layer.id] = layer
        self.edges: dict[Port, ET.Element] = {}
        for edge in edges.findall("edge"):
            target = (edge.get("to-layer", ""), edge.get("to-port", ""))
            if target in self.edges or not {target[0], edge.get("from-layer")} <= self.layers.keys():
                raise MalformedModel(
                    f"the edge to port {target[1]} of layer {target[0]} is given twice, or leads nowhere"
                )
            self.edges[target] = edge
        self.read = {(edge.get("from-layer", ""), edge.get("from-port", "")) for edge in self.edges.values()}

    def source(self, target: Port) -> Port | None:
        """Return the output port that an input port reads."""
        edge = self.edges.get(target)
        return None if edge is None else (edge.get("from-layer", ""), edge.get("from-port", ""))


class Document:
    """The parsed file; ``source`` holds its constants."""

    def __init__(self, root: ET.Element, source: Source, path: Path) -> None:
        self.root, self.source, self.path = root, source, path
        self.net = Net(root, "")

    @property
    def version(self) -> int:
        """The IR version."""
        return int(self.root.get("version", "0"))

    @property
    def opset(self) -> int:
        """The highest opset that a layer names."""
        return max((Layer(found).opset for found in self.root.iter("layer")), default=0)

    def constants(self) -> list[Layer]:
        """Return every Const layer, those in bodies included."""
        return [Layer(found) for found in self.root.iterfind(".//layer[@type='Const']")]

    def span(self, layer: Layer) -> tuple[int, int]:
        """Return offset and length of a Const layer's bytes. Raises MalformedModel unless they lie inside the .bin."""
        texts = [layer.data.get(name, "") for name in ("offset", "size")]
        if not all(text.isdecimal() and len(text) < 20 for text in texts):
            raise MalformedModel(f"{layer.where}: its offset or size is missing or no number")
        offset, size = map(int, texts)
        if offset + size > self.source.size:
            raise MalformedModel(
                f"{layer.where}: bytes {offset} to {offset + size} lie outside the constants' file, which has "
                f"{self.source.size} bytes"
            )
        return offset, size

    def tensor(self, layer: Layer) -> ir.Stored | None:
        """Return the tensor of a Const layer; None for an element type that ONNX lacks. Raises MalformedModel."""
        offset, size = self.span(layer)
        dtype = ELEMENT_TYPES.get(layer.data.get("element_type", ""))
        if dtype is None:
            return None
        dims = numbers(layer, "shape")
        if 0 in dims:
            size = 0  # OpenVINO writes a byte all the same
        if raw_length(dtype, math.prod(dims)) != size or any(dim < 0 for dim in dims):
            raise MalformedModel(f"{layer.where}: {size} bytes do not fit its shape {list(dims)}")
        return ir.Stored(dtype, dims, Span(self.source, offset, size), layer.name)


def numbers(layer: Layer, name: str) -> tuple[int, ...]:
    """Return a list of integers among the attributes; empty where there is none. Raises MalformedModel."""
    try:
        return tuple(int(part) for part in layer.data.get(name, "").split(",") if part.strip())
    except ValueError as error:
        raise MalformedModel(f"{layer.where}: {name}={layer.data[name]!r} is no list of numbers") from error


def fresh(hint: str, taken: set[str]) -> str:
    """Return the hint, or the hint with the first number that makes it a name not taken; it is then."""
    name, count = hint, 0
    while name in taken:
        count += 1
        name = f"{hint}_{count}"
    taken.add(name)
    return name


def weights_path(path: Path) -> Path:
    """Return where the constants of the model at ``path`` lie."""
    return path.with_suffix(".bin")


def read_document(path: Path) -> Document:
    """Return the document at ``path``, its constants checked and left on disk.

    Raises:
        BadInput: A file is not there or cannot be read.
        MalformedModel: It is no IR, or speaks of bytes that are not there.
        Unsupported: An IR of a version from before opsets.
    """
    root = _parse(path)
    version = root.get("version", "")
    if root.tag != "net" or not version.isdecimal():
        raise MalformedModel(f"{path}: not an OpenVINO IR (no <net version=…>)")
    if int(version) not in VERSIONS:
        raise Unsupported(f"{path}: IR version {version}; versions 10 and 11 are known, convert the model anew")
    try:
        document = Document(root, _constants(path, root), path)
        _check_constants(document)
    except MalformedModel as error:
        raise MalformedModel(f"{path}: {error}") from error
    return document


class _NoDoctype(ET.TreeBuilder):
    """A tree builder that ends the reading at a document type declaration, before any entity of it is known."""

    def doctype(self, name: str, _pubid: str | None, _system: str | None) -> None:
        raise MalformedModel(f"a document type declaration ({name!r}) has no place in an IR")


def _parse(path: Path) -> ET.Element:
    source = FileSource(path)
    if source.size > LARGEST_XML:
        raise BadInput(f"{path}: {source.size >> 20} MB of XML are more than an IR has")
    parser = ET.XMLParser(target=_NoDoctype(insert_comments=True, insert_pis=True))
    try:
        return ET.fromstring(source.read(0, source.size), parser)
    except MalformedModel as error:
        raise MalformedModel(f"{path}: {error}") from error
    except (ET.ParseError, ValueError, LookupError) as error:
        raise MalformedModel(f"{path}: not XML, or damaged ({error})") from error


def _constants(path: Path, root: ET.Element) -> Source:
    if not any(layer.get("type") == "Const" for layer in root.iter("layer")):
        return BufferSource(b"")
    beside = weights_path(path)
    if not beside.exists():
        raise BadInput(f"{path}: its constants are not there ({beside.name} belongs beside it)")
    return FileSource(beside)


def _check_constants(document: Document) -> None:
    for found in document.root.iter("layer"):
        layer = Layer(found)
        if layer.type == "Const":
            document.tensor(layer)
        elif {"offset", "size"} <= layer.data.keys():
            raise Unsupported(f"{layer.where} keeps bytes in the constants' file, and only Const is known to")
