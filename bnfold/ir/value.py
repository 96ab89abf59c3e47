"""A value of a graph: its producer, its consumers and, for a weight, its tensor."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import onnx

from bnfold.errors import MalformedModel
from bnfold.ir.elements import MAX_RANK, raw_length
from bnfold.ir.storage.payloads import THRESHOLD
from bnfold.ir.tensor import Inline, Tensor

if TYPE_CHECKING:
    from bnfold.ir.graph import Graph
    from bnfold.ir.node import Node

Dim = int | str | None
"""A static size, the name of a symbolic one, or nothing known."""
Dims = tuple[Dim, ...]
Known = Sequence[Dim]
"""A shape as far as it is known."""

Use = tuple["Node", int]
_FAR = 256
"""Nodes on one way back; a damaged model has circles."""


class Value:
    """One edge of the graph. Identity is the object, not the name: two branches may both have a value named ``y``."""

    __slots__ = (
        *("_reader", "_reader_slot", "_tensor", "graph", "is_input", "name", "output_slots", "producer", "slot"),
        *("_described", "_dims", "tensor_proto"),
    )

    def __init__(self, graph: Graph, name: str) -> None:
        if type(name) is not str:
            raise MalformedModel(f"the name {name!r} of a value is not UTF-8")
        self.graph = graph
        self.name = name
        self.producer: Node | None = None
        self.slot = 0
        # Most values have one consumer; a dict for each would be a third of the index's memory.
        self._reader: Node | dict[Use, None] | None = None
        self._reader_slot = 0
        self.is_input = False
        self.output_slots = 0
        self.tensor_proto: onnx.TensorProto | None = None
        self._tensor: Tensor | None = None
        self._described: onnx.TypeProto | None = None  # the annotation that was read last, and what it says
        self._dims: tuple[Dim, ...] | None = None

    def __repr__(self) -> str:
        return f"Value({self.name!r})"

    @property
    def uses(self) -> dict[Use, None]:
        """The consumers of this value, each with its input slot, captures included. Edit them with `Node.set_input`."""
        consumer = self._reader
        if consumer is None:
            return {}
        return consumer if isinstance(consumer, dict) else {(consumer, self._reader_slot): None}

    def producers(self) -> Iterator[Node]:
        """Yield the node that makes this value, the one that makes its first input, and so on, at most `_FAR`."""
        value: Value | None = self
        for _ in range(_FAR):
            if value is None or value.producer is None:
                return
            yield value.producer
            value = value.producer.input(0)

    @property
    def only_use(self) -> Use | None:
        """The only consumer and its input slot; None if there are more, or the value is a graph output."""
        consumer = self._reader
        if self.output_slots or consumer is None:
            return None
        if not isinstance(consumer, dict):
            return consumer, self._reader_slot
        return next(iter(consumer)) if len(consumer) == 1 else None

    @property
    def only_consumer(self) -> Node | None:
        """The only consumer of a value that is no graph output; None if it is in another graph."""
        use = self.only_use
        return use[0] if use is not None and use[0].graph is self.graph else None

    def add_use(self, node: Node, slot: int) -> None:
        """Note a consumer; for `Node` and the index."""
        consumer = self._reader
        if consumer is None:
            self._reader, self._reader_slot = node, slot
        elif isinstance(consumer, dict):
            consumer[node, slot] = None
        else:
            self._reader = {(consumer, self._reader_slot): None, (node, slot): None}

    def drop_use(self, node: Node, slot: int) -> None:
        """Forget a consumer; for `Node`."""
        consumer = self._reader
        if isinstance(consumer, dict):
            del consumer[node, slot]
            self._reader = consumer or None
        elif consumer is node and self._reader_slot == slot:
            self._reader = None

    @property
    def is_output(self) -> bool:
        """Whether a graph (its own, or one nested in it) lists this value as an output."""
        return self.output_slots > 0

    @property
    def is_unread(self) -> bool:
        """Whether no node reads this value, and no graph lists it as an output."""
        return self._reader is None and not self.output_slots

    @property
    def is_initializer(self) -> bool:
        """Whether the graph stores a tensor under this name (it may be a graph input as well)."""
        return self.tensor_proto is not None

    @property
    def holds_constant(self) -> bool:
        """Whether a tensor is stored under this name, as an initializer that is no input or in a Constant node."""
        if self.tensor_proto is not None:
            return self.graph.model.is_constant_initializer(self)
        producer = self.producer
        return producer is not None and producer.is_op("Constant") and [*producer.attrs] == ["value"]

    @property
    def tensor(self) -> Tensor | None:
        """The stored tensor of an initializer; callers may replace one that is an input as well."""
        if self._tensor is None and self.tensor_proto is not None:
            self._tensor = self.graph.model.tensor(self.tensor_proto)
        return self._tensor

    @tensor.setter
    def tensor(self, tensor: Tensor) -> None:
        # A message of the skeleton may be written over while this value still needs what it says now.
        self._tensor = tensor.copy() if isinstance(tensor, Inline) else tensor
        self.graph.touched_tensors[self] = None

    def replace_tensor(self, tensor: Tensor) -> None:
        """Store another tensor under the same name; an annotation that says other dims goes."""
        if shape_of(self.type) != tensor.dims:
            self.graph.forget_type(self)
        self.tensor = tensor

    def release_sources(self) -> None:
        """Read a small tensor from its message again, which has to be in step with it."""
        if self.tensor_proto is not None and self._tensor is not None and self._tensor.nbytes < THRESHOLD:
            self._tensor = None

    def forget_tensor(self) -> None:
        """Forget the tensor: no longer an initializer."""
        self.tensor_proto = self._tensor = None

    @property
    def pending_tensor(self) -> Tensor | None:
        """A tensor given to this value since the file was read, whether an initializer or a Constant node holds it."""
        return self._tensor

    @property
    def stored_bytes(self) -> int:
        """Bytes of the stored tensor of an initializer; makes none of it that would have to be kept."""
        if self.tensor_proto is None:
            return 0
        if self._tensor is not None:
            return self._tensor.nbytes
        return raw_length(self.tensor_proto.data_type, math.prod(self.tensor_proto.dims[:])) or 0

    @property
    def type(self) -> onnx.TypeProto | None:
        """What the file or shape inference says about this value."""
        return self.graph.types.get(self.name)

    @property
    def dtype(self) -> int | None:
        """The ONNX element type, where it is known."""
        if self._tensor is not None:
            return self._tensor.dtype
        if self.tensor_proto is not None:
            return self.tensor_proto.data_type
        if (kind := self.type) is None or not kind.HasField("tensor_type"):
            return None
        return kind.tensor_type.elem_type or None

    @property
    def shape(self) -> tuple[Dim, ...] | None:
        """The dims as far as they are known; None for an unknown rank.

        A declared size of 0 is an unknown one: some exporters write it for a dynamic size.
        """
        if self.tensor_proto is not None:
            tensor = self.tensor
            return tensor.dims if tensor and len(tensor.dims) <= MAX_RANK else None
        kind = self.graph.types.get(self.name)
        if kind is not self._described:  # an annotation is replaced, never edited; reading it takes longer than a fold
            dims = shape_of(kind)
            self._described, self._dims = kind, None if dims is None else tuple(dim or None for dim in dims)
        return self._dims

    @property
    def is_dynamic(self) -> bool:
        """Whether the rank or a size is not known as a number."""
        return self.shape is None or not all(isinstance(dim, int) for dim in self.shape)

    def takes(self, shape: tuple[int, ...]) -> bool:
        """Whether the dims of an array are those that are declared, as far as they are."""
        dims = self.shape
        if dims is None or len(dims) != len(shape):
            return dims is None
        return all(not isinstance(dim, int) or dim == size for dim, size in zip(dims, shape, strict=True))

    @property
    def consumers(self) -> list[Node]:
        """The nodes that read this value, once a use, captured reads included."""
        return [node for node, _ in self.uses]

    def replace_uses(self, other: Value) -> None:
        """Let every consumer read ``other`` instead; graph outputs stay."""
        for node, slot in list(self.uses):
            node.set_input(slot, other)

    def can_take_over(self, source: Value) -> bool:
        """Whether ``source`` may get this name: a node of the same graph makes it, and it is no graph output."""
        return source.producer is not None and not source.is_output and source.graph is self.graph

    def take_over(self, source: Value) -> None:
        """Replace ``source`` under this name: its producer produces this value, and its consumers read this value."""
        producer = source.producer
        assert producer is not None, "only what a node makes can be made under another name"
        source.replace_uses(self)
        producer.set_output(source.slot, self)


def shape_of(kind: onnx.TypeProto | None) -> tuple[Dim, ...] | None:
    """Return the dims a type annotation gives; None where it gives no rank, or a size below zero, which means nothing.

    A rank that nothing can run is a damaged file's, and counts as unknown.
    """
    if kind is None or not kind.tensor_type.HasField("shape"):
        return None
    dims = kind.tensor_type.shape.dim
    return tuple(map(_dim, dims)) if len(dims) <= MAX_RANK else None


def _dim(message: onnx.TensorShapeProto.Dimension) -> Dim:
    size: int = message.dim_value
    is_size = size > 0 or (size == 0 and message.HasField("dim_value"))
    return size if is_size else message.dim_param or None


def moves_ones(order: Sequence[int], dims: Dims) -> bool:
    """Whether a Transpose to this order of axes moves only axes of one element, so that it is a Reshape."""
    moved = [axis for axis in order if axis < len(dims) and dims[axis] != 1]
    return len(order) == len(dims) and moved == sorted(moved)


def written(shape: Sequence[Dim] | None) -> str:
    """Return a shape as people type it; a dynamic size without a name is a question mark."""
    return ",".join("?" if dim is None else str(dim) for dim in shape) if shape is not None else "of any rank"
