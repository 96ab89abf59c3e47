"""A graph, a subgraph or a function body: its values and nodes, and the edits rewrites make.

Edits are cheap and local. `Model.sync` writes them into the protobuf message once, at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from bnfold.errors import MalformedModel
from bnfold.ir.node import Node
from bnfold.ir.tensor import Tensor
from bnfold.ir.value import Value, shape_of

if TYPE_CHECKING:
    from bnfold.ir.model import Model

_DEFAULT_DOMAIN = ("", "ai.onnx")


class Graph:
    """``values`` holds this scope only; `lookup` also finds what a subgraph captures from outside."""

    def __init__(
        self, model: Model, proto: onnx.GraphProto | onnx.FunctionProto, parent: Node | None, path: str
    ) -> None:
        self.model = model
        self.proto = proto
        self.parent = parent
        self.path = path
        self.values: dict[str, Value] = {}
        self.inputs: list[Value] = []
        self.outputs: list[Value] = []
        self.types: dict[str, onnx.TypeProto] = {}
        # What `Model.sync` has to write: values with a new tensor, initializers that are gone, names of values that
        # are gone, and of renamed values the names that the messages still have.
        self.touched_tensors: dict[Value, None] = {}
        self.dropped_tensors: list[onnx.TensorProto] = []
        self.dropped_names: set[str] = set()
        self.renamed: dict[Value, str] = {}
        self.order_changed = False
        self._nodes: list[Node] = []
        self._before: dict[Node | None, list[Node]] = {}
        self._behind: dict[Node, list[Node]] = {}
        self._stale = False

    def opset(self, domain: str = "") -> int:
        """Return the version of ``domain`` that the nodes here are written in; a function has its own imports."""
        if isinstance(self.proto, onnx.FunctionProto):
            return opset_of(self.proto.opset_import, domain)
        return self.parent.graph.opset(domain) if self.parent else opset_of(self.model.proto.opset_import, domain)

    @property
    def nodes(self) -> list[Node]:
        """The nodes in order. Editing while iterating is safe: an edit makes the next access build a new list."""
        if self._stale:
            self._rebuild()
        return self._nodes

    def _rebuild(self) -> None:
        nodes = [node for old in [*self._nodes, None] for node in self._around(old)]
        if self._before or self._behind:
            raise ValueError("a node was inserted beside one that is not in this graph")
        self._nodes, self._stale = nodes, False

    def _around(self, node: Node | None) -> Iterator[Node]:
        """Yield a node, if it is still there, and those inserted beside it; None is the end of the graph."""
        for new in self._before.pop(node, ()):
            yield from self._around(new)
        if node is not None:
            if not node.removed:
                yield node
            for new in self._behind.pop(node, ()):
                yield from self._around(new)

    def lookup(self, name: str) -> Value:
        """Return the value that ``name`` means in this graph; an unknown name becomes a value without a producer."""
        graph: Graph | None = self
        while graph is not None:
            if name in graph.values:
                return graph.values[name]
            graph = graph.parent.graph if graph.parent else None
        return self.define(name)

    def define(self, name: str) -> Value:
        """Return a new value of this scope."""
        value = self.values[name] = Value(self, name)
        self.model.note_name(name)
        return value

    def fresh(self, hint: str) -> Value:
        """Return a new value with a name that nothing in the model has."""
        return self.define(self.model.fresh_name(hint))

    # -- edits

    def insert(
        self,
        op_type: str,
        inputs: Sequence[Value | None],
        outputs: Sequence[Value | str | None],
        *,
        before: Node | None = None,
        after: Node | None = None,
        name: str = "",
        domain: str = "",
        **attrs: Any,
    ) -> Node:
        """Insert a node in front of ``before`` or right behind ``after``; at the end without both.

        An output given as a string is a hint for a fresh value. Without a name the node gets that of its first output,
        made unique: profilers and viewers identify nodes by name.
        """
        proto = self.proto.node.add()
        proto.op_type, proto.domain = op_type, domain
        node = Node(self, proto)
        for index, value in enumerate(inputs):
            node.set_input(index, value)
        for index, output in enumerate(outputs):
            node.set_output(index, self.fresh(output) if isinstance(output, str) else output)
        for key, attribute in attrs.items():
            node.set_attr(key, attribute)
        proto.name = name or self.model.fresh_node_name(node.label)
        if before is None and after is not None:
            self._behind.setdefault(after, []).insert(0, node)
        else:
            self._before.setdefault(before, []).append(node)
        self._stale = self.order_changed = True
        return node

    def set_output(self, slot: int, value: Value) -> None:
        """Let the graph hand out another value at ``slot``, of the type that is declared there."""
        assert isinstance(self.proto, onnx.GraphProto), "of a function, callers know the names"
        self.outputs[slot].output_slots -= 1
        value.output_slots += 1
        self.outputs[slot] = value
        self.proto.output[slot].name = value.name

    def drop_output(self, slot: int) -> None:
        """Return one value less; what the file says of its type stays, if the value is read here."""
        value = self.outputs.pop(slot)
        value.output_slots -= 1
        is_inner = value.uses and not value.is_output and value.producer is not None
        if is_inner and isinstance(self.proto, onnx.GraphProto):
            self.proto.value_info.add().CopyFrom(self.proto.output[slot])
        del self.proto.output[slot]
        if value.is_unread:
            self.model.note_unread(value)

    def drop_input(self, slot: int) -> None:
        """Take one value less, which nothing reads."""
        value = self.inputs.pop(slot)
        value.is_input = False
        self.orphan(value)
        del self.proto.input[slot]

    def reorder(self, nodes: list[Node]) -> None:
        """Put the nodes of this graph in the given order."""
        self._nodes, self.order_changed = nodes, True

    def remove(self, node: Node) -> None:
        """Drop a node. Its outputs must have no consumers, unless another node produces them already."""
        node.detach()
        for body in node.bodies if node.subgraphs else ():
            body.dissolve()
        for value in node.outputs:
            if value is not None and value.producer is node:
                value.producer = None
                self.orphan(value)
        node.removed = True
        self._stale = self.order_changed = True

    def dissolve(self) -> None:
        """Remove this subgraph's uses of outer values, when the node that holds it is dropped."""
        for value in self.outputs:
            value.output_slots -= 1
            if not value.uses:
                self.model.note_unread(value)
        self.outputs = []
        for inner in reversed(self.nodes):
            self.remove(inner)

    def rename(self, value: Value, name: str) -> None:
        """Rename a value, for all its consumers; its type annotation follows.

        Raises ValueError unless a node produces the value and it is no graph output: callers use the other names.
        """
        if value.producer is None or value.is_output:
            raise ValueError(f"{value.name!r} cannot be renamed: it is not an inner value of the graph")
        self.model.note_name(value.name)
        self.model.note_name(name)
        self.renamed.setdefault(value, value.name)
        if value.name in self.types:
            self.types[name] = self.types.pop(value.name)
        del self.values[value.name]
        value.name = name
        self.values[name] = value
        value.producer.proto.output[value.slot] = name
        for node, slot in value.uses:
            node.proto.input[slot] = name

    def orphan(self, value: Value) -> None:
        """Take a value without a producer out of this scope. `sync` drops its annotation; its name is not reused."""
        self.model.note_name(value.name)
        self.dropped_names.add(self.renamed.get(value, value.name))
        if self.values.get(value.name) is value:
            del self.values[value.name]

    def forget_type(self, value: Value) -> None:
        """Drop the type annotation of a value whose shape may have changed."""
        self.types.pop(value.name, None)
        self.dropped_names.add(self.renamed.get(value, value.name))

    def adopt(self, value: Value) -> None:
        """Put a value into this scope, also after `orphan`."""
        self.dropped_names.discard(self.renamed.get(value, value.name))
        self.values[value.name] = value

    def add_constant(self, hint: str, content: Tensor | np.ndarray[Any, Any]) -> Value:
        """Add an initializer under a fresh name, or a Constant node at the head of a function body."""
        tensor = content if isinstance(content, Tensor) else self.model.tensor(onnx.numpy_helper.from_array(content))
        value = self.fresh(hint)
        if isinstance(self.proto, onnx.FunctionProto):
            nodes = self.nodes
            node = self.insert("Constant", (), (value,), before=nodes[0] if nodes else None)
            node.set_attr("value", onnx.TensorProto(data_type=tensor.dtype, dims=tensor.dims))
            value.tensor = tensor
            return value
        message = self.proto.initializer.add(name=value.name, data_type=tensor.dtype, dims=tensor.dims, raw_data=b"")
        value.tensor_proto = message
        value.tensor = tensor
        return value

    def store_output(self, node: Node, message: onnx.TensorProto) -> Value:
        """Replace a node with one output by an initializer of the output's name."""
        assert isinstance(self.proto, onnx.GraphProto), "a function has no initializers"
        (value,) = node.outputs
        assert value is not None, "what is stored is an output"
        self.remove(node)
        self.adopt(value)
        value.tensor_proto = self.proto.initializer.add()
        value.tensor_proto.CopyFrom(message)
        value.tensor_proto.name = value.name
        if shape_of(value.type) != tuple(message.dims):
            self.forget_type(value)
        return value

    def remove_initializers(self, values: list[Value]) -> list[str]:
        """Drop initializers without consumers; one that is an input as well stays an input, without a default.

        Returns the names that are gone.
        """
        self.dropped_tensors += [value.tensor_proto for value in values if value.tensor_proto is not None]
        gone = [value for value in values if not value.is_input]
        for value in values:
            value.forget_tensor()
            self.touched_tensors.pop(value, None)
        for value in gone:
            self.orphan(value)
        return [value.name for value in gone]

    def subgraphs(self) -> Iterator[Graph]:
        """Yield this graph and every graph nested in it."""
        stack = [self]
        while stack:
            graph = stack.pop()
            yield graph
            stack += [body for node in graph.nodes if node.subgraphs for body in node.bodies]


def opset_of(imports: Sequence[onnx.OperatorSetIdProto], domain: str) -> int:
    """Return the highest version imported for ``domain``.

    Without an import that is 1 for the default domain, and 0 for any other.
    """
    wanted = _DEFAULT_DOMAIN if domain in _DEFAULT_DOMAIN else (domain,)
    version = None
    for entry in imports:  # asked for every node: no list is made
        if entry.domain in wanted and (version is None or entry.version > version):
            version = entry.version
    if version is not None:
        return version
    return 1 if wanted is _DEFAULT_DOMAIN else 0


def state_opset(proto: onnx.ModelProto) -> None:
    """State opset 1 in a model that does not import the default domain."""
    if not any(entry.domain in _DEFAULT_DOMAIN for entry in proto.opset_import):
        proto.opset_import.add(domain="", version=1)


def define_once(graph: Graph, name: str) -> Value:
    """Return the value of this name for a node to produce. Raises MalformedModel if it has a producer already."""
    value = graph.values.get(name)
    if value is None:
        return graph.define(name)
    if value.producer is not None or value.is_input or value.is_initializer:
        raise MalformedModel(f"the value {name!r} is made twice in graph {graph.path or graph.proto.name!r}")
    return value
