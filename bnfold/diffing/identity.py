"""Numbers for nodes and values: two have the same number where they mean the same, whatever they are called.

Every number stands for a key that is made of other numbers, so equal numbers are a proof and no hash.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from itertools import count
from typing import TypeGuard

import numpy as np
import onnx

from bnfold import analysis, ir
from bnfold.analysis.traits import DRAWING
from bnfold.ir.elements import RAW_TYPES, dims_text, type_name
from bnfold.ir.node import attribute_value
from bnfold.ir.ordering import producers_first
from bnfold.reference.dispatch import definition
from bnfold.reference.legal import MEANINGLESS

_A = onnx.AttributeProto
_BODIES = (_A.GRAPH, _A.GRAPHS)
_MESSAGES = (_A.TENSORS, _A.SPARSE_TENSOR, _A.SPARSE_TENSORS, _A.TYPE_PROTO, _A.TYPE_PROTOS)
_NEWEST = onnx.defs.onnx_opset_version()
_IMPLIED = {"strides": "1", "dilations": "1", "pads": "0"}
"""What these attributes hold in every place where they change nothing."""
_OUTGROWN = {"is_test": ("1",), "broadcast": ("0", "1")}
"""What these attributes of old versions say where a node does what later versions do without them."""


class Identities:
    """The numbers of everything in some models.

    Attributes:
        nodes: By graph, the nodes that make more than constants, producers before consumers.
        operator: What operator a node is.
        similar: That, and the dims of the weights that it reads.
        shaped: That, its attributes, and the types and dims of the constants it reads.
        local: That, and the contents of those constants.
        attributes: Those of a node as text, without bodies, and without what the newest version does without them.
        node: All that makes the node's outputs, from the inputs of the graph and contents of constants on.
        below: All that is made of the node's outputs, and what each of those nodes is locally.
        value: A constant's content, or all that makes the value.
    """

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._attributes: dict[Hashable, Mapping[str, str]] = {}  # few nodes have any that no other has
        self._held: dict[ir.Value | None, ir.Tensor | None] = {}
        self._drawn = count()
        self.nodes: dict[ir.Graph, list[ir.Node]] = {}
        self.operator: dict[ir.Node, int] = {}
        self.similar: dict[ir.Node, int] = {}
        self.shaped: dict[ir.Node, int] = {}
        self.local: dict[ir.Node, int] = {}
        self.attributes: dict[ir.Node, Mapping[str, str]] = {}
        self.node: dict[ir.Node, int] = {}
        self.below: dict[ir.Node, int] = {}
        self.value: dict[ir.Value, int] = {}

    def add(self, model: ir.Model, common: Collection[str]) -> None:
        """Return number a model.

        Its inputs and outputs in ``common`` are attribute_text by their names, others by their places.
        """
        self._drawn = count()
        for graph in (*model.functions, model.graph):
            self._add(graph, common if graph is model.graph else ())

    def _number(self, *key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def constant(self, value: ir.Value | None) -> ir.Tensor | None:
        """Do as `analysis.constant`, asked once. A weight that callers may replace is what the file holds."""
        try:
            return self._held[value]
        except KeyError:
            tensor = analysis.constant(value)
            if tensor is None and value is not None and value.is_input:
                tensor = value.tensor
            return self._held.setdefault(value, tensor)

    def _attributes_of(self, node: ir.Node) -> Mapping[str, str]:
        """Return the attributes, alike for all versions of a node, and whether or not it spells a default out."""
        opset = node.graph.opset(node.domain)
        own = [each for each in node.proto.attribute if each.type not in _BODIES and each.name not in MEANINGLESS]
        key = (node.graph.model, node.domain, node.op_type, opset, *(each.SerializeToString() for each in own))
        if key not in self._attributes:
            usual, newest = (_defaults(node.domain, node.op_type, version) for version in (opset, _NEWEST))
            given = {each.name: self._text(node, each) for each in own}
            self._attributes[key] = {
                name: text
                for name, text in {**usual, **given}.items()
                if not _is_usual(name, text, usual, newest) and not (node.domain == "" and _is_implied(name, text))
            }
        return self._attributes[key]

    def attribute_text(self, node: ir.Node, name: str) -> str:
        """Return an attribute's value, or else its default, in words; empty if it has neither."""
        own = next((each for each in node.proto.attribute if each.name == name), None)
        if own is not None:
            return self._text(node, own)
        implied = f"all {_IMPLIED[name]}" if node.domain == "" and name in _IMPLIED else ""
        return _defaults(node.domain, node.op_type, node.graph.opset(node.domain)).get(name, implied)

    def _text(self, node: ir.Node, attribute: onnx.AttributeProto) -> str:
        if attribute.ref_attr_name:
            return f"the function's {attribute.ref_attr_name}"
        value = attribute_value(attribute)
        if isinstance(value, onnx.TensorProto):
            dtype, dims, digest = content(node.graph.model.tensor(value))
            return f"{type_name(dtype)}{dims_text(dims)} {digest.hex()}"
        if attribute.type in _MESSAGES:
            messages = value if isinstance(value, list) else [value]
            return blake2b(b"".join(each.SerializeToString(deterministic=True) for each in messages)).hexdigest()
        return _written(value)

    def _add(self, graph: ir.Graph, common: Collection[str]) -> None:
        for value, key in ends(graph.inputs, common):
            if (tensor := self.constant(value)) is None:
                self.value[value] = self._number("input", key)
            elif analysis.constant(value) is None:  # callers may feed another
                self.value[value] = self._number("default", key, *content(tensor))
        for sparse in getattr(graph.proto, "sparse_initializer", ()):
            parts = [content(graph.model.tensor(part)) for part in (sparse.values, sparse.indices)]
            self.value[graph.lookup(sparse.values.name)] = self._number("sparse", *parts, *sparse.dims)
        nodes = [
            node
            for node in producers_first(graph.nodes)
            if any(value is not None and self.constant(value) is None for value in node.outputs)
        ]
        self.nodes[graph] = nodes
        for node in nodes:
            self._add_node(node)
        listed: dict[ir.Value, list[Hashable]] = {}
        for value, key in ends(graph.outputs, common):
            listed.setdefault(value, []).append(key)
            self._number_of(value)
        for node in reversed(nodes):
            reads = [
                (
                    tuple(listed.get(value, ())),
                    *sorted((slot, self.local.get(by, -1), self.below.get(by, -1)) for by, slot in value.uses),
                )
                for value in node.outputs
                if value is not None
            ]
            self.below[node] = self._number("below", self.local[node], *reads)

    def _add_node(self, node: ir.Node) -> None:
        bodies: list[Hashable] = []
        for name, graphs in sorted(node.subgraphs.items()):
            for body in graphs:
                self._add(body, ())
                bodies += [name, len(body.inputs), *(self._number_of(value) for value in body.outputs)]
        read = list(node.inputs)
        while read and read[-1] is None:
            read.pop()
        inputs = [self._number_of(value) for value in read]
        held = [self.constant(value) for value in read]
        self.operator[node] = self._number("operator", node.domain, node.op_type, getattr(node.proto, "overload", ""))
        named = tuple(value is not None for value in node.outputs)
        self.attributes[node] = attributes = self._attributes_of(node)
        own = self._number("own", self.operator[node], named, *sorted(attributes.items()))
        weights = [tensor.dims for tensor in held if is_weight(tensor) and len(tensor.dims) > 1]
        self.similar[node] = self._number("similar", self.operator[node], *weights)
        dims = [(tensor.dtype, tensor.dims) if tensor is not None else None for tensor in held]
        self.shaped[node] = self._number("shaped", own, *dims)
        contents = [number if tensor is not None else None for number, tensor in zip(inputs, held, strict=True)]
        self.local[node] = self._number("local", own, *contents)
        drawn = next(self._drawn) if node.has_trait(DRAWING) else None
        self.node[node] = self._number("node", own, *inputs, drawn, *bodies)
        for slot, value in enumerate(node.outputs):
            if value is not None:
                tensor = self.constant(value)
                key = ("made", self.node[node], slot) if tensor is None else ("constant", *content(tensor))
                self.value[value] = self._number(*key)

    def _number_of(self, value: ir.Value | None) -> int:
        """Return the number of a value that a node reads; one without a producer is identified by its name."""
        if value is None:
            return -1
        if value not in self.value:
            tensor = self.constant(value)
            key = ("unknown", value.name) if tensor is None else ("constant", *content(tensor))
            self.value[value] = self._number(*key)
        return self.value[value]


def content(tensor: ir.Tensor) -> tuple[int, tuple[int, ...], bytes]:
    """Return type, dims and a digest of the elements, which are read piece by piece."""
    raw = tensor.proto.raw_data if isinstance(tensor, ir.Inline) and tensor.dtype in RAW_TYPES else b""
    if raw and len(raw) == tensor.nbytes:  # most are small, and take no array
        return tensor.dtype, tensor.dims, blake2b(raw, digest_size=16).digest()
    digest = blake2b(digest_size=16)
    for block in tensor.blocks():
        digest.update(repr(block.tolist()).encode() if block.dtype == object else block.tobytes())
    return tensor.dtype, tensor.dims, digest.digest()


def is_weight(tensor: ir.Tensor | None) -> TypeGuard[ir.Tensor]:
    """Whether a constant is more than a few numbers that any other node may read too."""
    return tensor is not None and tensor.size > 8


def ends(values: Sequence[ir.Value], common: Collection[str]) -> list[tuple[ir.Value, Hashable]]:
    """Return inputs or outputs of a graph with their keys: a name in ``common``, or else the position."""
    places = count()
    return [(value, value.name if value.name in common else next(places)) for value in values]


@cache
def _defaults(domain: str, op_type: str, opset: int) -> dict[str, str]:
    known = definition(domain, op_type, opset)
    return {name: _written(value) for name, value in known.defaults.items()} if known is not None else {}


def _written(value: object) -> str:
    """Return an attribute's value as text; a float with as many digits as distinguish it among 32-bit floats."""
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    return str(np.float32(value)) if isinstance(value, float) else repr(value)


def _is_usual(name: str, text: str, usual: Mapping[str, str], newest: Mapping[str, str]) -> bool:
    """Whether the newest version does the same without the attribute; ``usual`` are a node's own defaults."""
    if name in _OUTGROWN and name in usual and name not in newest:
        return text in _OUTGROWN[name]
    return text == newest.get(name, usual.get(name))


def _is_implied(name: str, text: str) -> bool:
    return name in _IMPLIED and set(text.strip("[]").split(", ")) == {_IMPLIED[name]}
