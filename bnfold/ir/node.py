"""A node: its protobuf message and the values it reads and makes, kept in step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import onnx

from bnfold.errors import MalformedModel, MistypedAttribute, ReferenceAttribute
from bnfold.ir.messages import function_key
from bnfold.ir.schemas import attribute_type, schema_of, versions_of

if TYPE_CHECKING:
    from bnfold.ir.graph import Graph
    from bnfold.ir.value import Value

AP = onnx.AttributeProto
OF_ONNXRUNTIME = frozenset({"DynamicQuantizeLSTM", "FusedConv", "FusedMatMul"})
"""The operators of com.microsoft that bnfold knows."""
_NONE: Mapping[str, list[Graph]] = MappingProxyType({})


class Node:
    """``op_type``, ``inputs`` and ``outputs`` are read-only from outside; None stands for an omitted optional one."""

    __slots__ = (*("domain", "graph", "inputs", "op_type", "outputs", "proto", "removed", "subgraphs", "_spelled"),)

    def __init__(self, graph: Graph, proto: onnx.NodeProto) -> None:
        self.graph = graph
        self.proto = proto
        self.op_type: str = proto.op_type
        domain = proto.domain
        if type(self.op_type) is not str or type(domain) is not str:  # protobuf gives bytes for what is no text
            raise MalformedModel(f"the operator {self.op_type!r} of domain {domain!r} is not UTF-8")
        self.domain: str = "" if domain == "ai.onnx" else domain
        self.inputs: list[Value | None] = []
        self.outputs: list[Value | None] = []
        self.subgraphs: Mapping[str, list[Graph]] = _NONE  # nearly no node has any
        self.removed = False
        self._spelled: tuple[bytes, ...] | None = None

    def __repr__(self) -> str:
        return f"Node({self.op_type}, {self.label!r})"

    @property
    def name(self) -> str:
        """The node's name, often empty."""
        name: str | bytes = self.proto.name
        return name if isinstance(name, str) else name.decode("utf-8", "replace")

    @property
    def label(self) -> str:
        """What to call the node in a message: its name, or else the first value it makes."""
        return self.name or next((value.name for value in self.outputs if value), "") or f"<{self.op_type}>"

    def is_op(self, *op_types: str) -> bool:
        """Whether this is one of the named operators of the default domain."""
        return self.op_type in op_types and not self.domain

    def has_trait(self, trait: frozenset[str]) -> bool:
        """Whether this is an operator of the default domain among those of a set."""
        return self.op_type in trait and not self.domain

    @property
    def called(self) -> Graph | None:
        """The function of the model that is called, which may have the name of an operator; None for an operator."""
        functions = self.graph.model.functions
        return next((each for each in functions if function_key(each.proto) == function_key(self.proto)), None)

    @property
    def is_call(self) -> bool:
        """Whether a function of the model is called."""
        return self.called is not None

    @property
    def is_known(self) -> bool:
        """Whether its operator is one of the default domain, or of the few of onnxruntime's own that bnfold knows."""
        return self.domain == ("com.microsoft" if self.op_type in OF_ONNXRUNTIME else "")

    def input(self, index: int) -> Value | None:
        """Return the input at ``index``; None when it is omitted in either way."""
        return self.inputs[index] if index < len(self.inputs) else None

    def output(self, index: int) -> Value | None:
        """Return the output at ``index``; None when it is omitted in either way."""
        return self.outputs[index] if index < len(self.outputs) else None

    @property
    def bodies(self) -> list[Graph]:
        """The graphs that the node holds."""
        return [graph for graphs in self.subgraphs.values() for graph in graphs]

    # -- attributes

    def find(self, name: str) -> onnx.AttributeProto | None:
        """Return the message of one attribute."""
        found: onnx.AttributeProto
        for found in self.proto.attribute:
            if found.name == name:
                return found
        return None

    @property
    def attrs(self) -> dict[str, onnx.AttributeProto]:
        """The attribute messages by name."""
        return {attribute.name: attribute for attribute in self.proto.attribute[:]}

    def attr(self, name: str, default: Any = None) -> Any:
        """Return the attribute's value as a Python object (strings decoded, graphs as messages), or ``default``.

        Of several of one name the last counts, as everywhere. Raises ReferenceAttribute for a reference to an attribute
        of the enclosing function: only a caller knows it.
        """
        for attribute in self.proto.attribute[::-1]:
            if attribute.name == name:
                if attribute.ref_attr_name:
                    raise ReferenceAttribute(
                        f"node {self.label!r} ({self.op_type}): attribute {name!r} is a reference to the function's "
                        f"attribute {attribute.ref_attr_name!r}, whose value depends on the caller"
                    )
                self._check_type(attribute)
                return attribute_value(attribute)
        return default

    def _check_type(self, attribute: onnx.AttributeProto) -> None:
        expected = None if self.domain else _attribute_types(self.op_type).get(attribute.name)
        if expected is None:
            return
        kind: int = attribute.type or kind_by_field(attribute) or AP.INT
        if _ALIKE.get(kind, kind) not in expected:
            found = AP.AttributeType.Name(kind) if kind in AP.AttributeType.values() else "unknown"
            raise MistypedAttribute(
                f"node {self.label!r} ({self.op_type}): attribute {attribute.name!r} is of type {found}"
            )

    def has_attr(self, name: str) -> bool:
        return any(attribute.name == name for attribute in self.proto.attribute[:])

    @property
    def spelled(self) -> tuple[bytes, ...]:
        """The attributes as bytes, in the order of the file; kept until one changes, for it takes long."""
        if self._spelled is None:
            self._spelled = tuple(each.SerializeToString(deterministic=True) for each in self.proto.attribute)
        return self._spelled

    @property
    def has_references(self) -> bool:
        """Whether some attribute refers to an attribute of the enclosing function."""
        return any(attribute.ref_attr_name for attribute in self.proto.attribute[:])

    def set_attr(self, name: str, value: Any) -> None:
        """Set or replace an attribute; its type follows from the Python value."""
        self.del_attr(name)
        self.proto.attribute.append(onnx.helper.make_attribute(name, value))

    def del_attr(self, name: str) -> None:
        """Drop an attribute if it is there, every time it is."""
        self._spelled = None
        found = [index for index, attribute in enumerate(self.proto.attribute) if attribute.name == name]
        for index in reversed(found):
            del self.proto.attribute[index]

    def replace_attrs(self, attributes: Sequence[onnx.AttributeProto]) -> None:
        """Take copies of these messages for attributes, and no others."""
        self._spelled = None
        del self.proto.attribute[:]
        self.proto.attribute.extend(attributes)

    def set_op_type(self, op_type: str) -> None:
        """Turn the node into another operator of its domain."""
        self.op_type = self.proto.op_type = op_type

    # -- edges

    def set_input(self, index: int, value: Value | None) -> None:
        """Read ``value`` at ``index``; the inputs grow as needed, omitted ones between are empty names."""
        while len(self.inputs) <= index:
            self.inputs.append(None)
            self.proto.input.append("")
        self._let_go(index)
        self.inputs[index] = value
        self.proto.input[index] = value.name if value else ""
        if value is not None:
            value.add_use(self, index)

    def _let_go(self, index: int) -> None:
        """Read the input no longer, and remember a value without consumers."""
        old = self.inputs[index]
        if old is not None:
            self.inputs[index] = None
            old.drop_use(self, index)
            if old.is_unread:
                self.graph.model.note_unread(old)

    def detach(self) -> None:
        """Read nothing any more, without telling the message: the node is being dropped."""
        for index in range(len(self.inputs)):
            self._let_go(index)

    def set_inputs(self, values: Sequence[Value | None]) -> None:
        """Replace all inputs."""
        for index in range(len(self.inputs)):
            self.set_input(index, None)
        del self.inputs[len(values) :]
        del self.proto.input[len(values) :]
        for index, value in enumerate(values):
            self.set_input(index, value)

    def set_output(self, index: int, value: Value | None) -> None:
        """Make ``value`` at ``index``; the value that stood there is left without a producer."""
        while len(self.outputs) <= index:
            self.outputs.append(None)
            self.proto.output.append("")
        old = self.outputs[index]
        if old is not None and old.producer is self:
            old.producer = None
            self.graph.orphan(old)
        self.outputs[index] = value
        self.proto.output[index] = value.name if value else ""
        if value is not None:
            self.graph.adopt(value)
            value.producer, value.slot = self, index

    def drop_output(self, index: int) -> None:
        """Make one value less, which nothing reads; those behind it move up."""
        self.set_output(index, None)
        del self.outputs[index]
        del self.proto.output[index]
        for slot, value in enumerate(self.outputs):
            if value is not None:
                value.slot = slot

    def trim_outputs(self, count: int) -> None:
        """Keep only the first ``count`` outputs; the others must be unused."""
        for index in range(count, len(self.outputs)):
            self.set_output(index, None)
        del self.outputs[count:]
        del self.proto.output[count:]


_ALIKE: dict[int, int] = {AP.INT: AP.FLOAT, AP.INTS: AP.FLOATS}
"""Exporters write one for the other, and nothing is lost by it."""


@cache
def _attribute_types(op_type: str) -> Mapping[str, frozenset[int]]:
    """Return the types that an operator's attributes have in any of its versions, numbers of both kinds as one."""
    found: dict[str, frozenset[int]] = {}
    for version in versions_of(op_type):
        for name, attribute in schema_of(op_type, version).attributes.items():
            kind = attribute_type(attribute)
            found[name] = found.get(name, frozenset()) | {_ALIKE.get(kind, kind)}
    return found


def attribute_value(attribute: onnx.AttributeProto) -> Any:
    """Return the Python value of an attribute message.

    Files of IR version 1 do not state the type; it follows from the field that is set.
    """
    kind = attribute.type or kind_by_field(attribute) or AP.INT
    if kind == AP.STRING:
        return attribute.s.decode("utf-8", "replace")
    if kind == AP.STRINGS:
        return [text.decode("utf-8", "replace") for text in attribute.strings]
    if kind in _SCALARS:
        return getattr(attribute, _SCALARS[kind])
    if kind in _LISTS:
        return list(getattr(attribute, _LISTS[kind]))
    return None


_SCALARS: dict[AP.AttributeType, str] = {
    AP.FLOAT: "f",
    AP.INT: "i",
    AP.TENSOR: "t",
    AP.GRAPH: "g",
    AP.SPARSE_TENSOR: "sparse_tensor",
    AP.TYPE_PROTO: "tp",
}
_LISTS: dict[AP.AttributeType, str] = {
    AP.FLOATS: "floats",
    AP.INTS: "ints",
    AP.TENSORS: "tensors",
    AP.GRAPHS: "graphs",
    AP.SPARSE_TENSORS: "sparse_tensors",
    AP.TYPE_PROTOS: "type_protos",
}
_BY_FIELD = {
    **{field: kind for kind, field in _SCALARS.items()},
    "s": AP.STRING,
    "strings": AP.STRINGS,
    **{field: kind for kind, field in _LISTS.items()},
}


def kind_by_field(attribute: onnx.AttributeProto) -> onnx.AttributeProto.AttributeType:
    """Return the type that the field which is set stands for; UNDEFINED where none is."""
    present = {descriptor.name for descriptor, _ in attribute.ListFields()}
    return next((kind for field, kind in _BY_FIELD.items() if field in present), AP.UNDEFINED)
