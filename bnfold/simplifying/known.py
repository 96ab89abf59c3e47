"""What is known of values: dims, element types, and the integers of shape computations, some of them open sizes.

An element is a number, or the name of an open size, or None. Names are those of `ir.proven`: equal names are equal
sizes in every run. Each answer is computed once; rewrites keep what values are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import onnx

from bnfold import ir
from bnfold.errors import BnfoldError
from bnfold.ir.evaluators import INTEGERS
from bnfold.ir.proven import proven_types
from bnfold.ir.tensor import TP
from bnfold.ir.value import Dim, shape_of
from bnfold.simplifying.rules import MOST, RULES, Integers

_DEEP = 64
"""Steps that a chain may have; each starts from what is known of the steps before, if the file is in order."""
_ILL_FORMED = (ValueError, IndexError, TypeError, ZeroDivisionError, BnfoldError)
"""What an operator raises that does not fit together, or holds an open size where a number is needed."""


class Known:
    """What is known of one model's values."""

    def __init__(self, model: ir.Model) -> None:
        self._model = model
        self._functions = {(graph.proto.domain, graph.proto.name) for graph in model.functions}
        self._dims: dict[ir.Value, tuple[Dim, ...] | None] = {}
        self._integers: dict[ir.Value, Integers | None] = {}
        self._depth = 0

    @cached_property
    def _types(self) -> Mapping[ir.Value, onnx.TypeProto]:
        return proven_types(self._model)

    @cached_property
    def positive(self) -> frozenset[str]:
        """The open sizes that are zero in no run: beside a zero, no runtime infers the -1 of a Reshape."""
        found: set[str] = set()
        for node in self._model.graph.nodes:
            told = self.integers(node.input(1)) if node.is_op("Reshape") and not node.has_references else None
            if told is not None and -1 in told.items and not node.attr("allowzero", 0):
                dims = zip(told.items, self.dims(node.input(0)) or (), strict=False)
                found.update(dim for item, dim in dims if isinstance(dim, str) and item in (0, dim))
        return frozenset(found)

    def calls(self, node: ir.Node) -> bool:
        """Whether a node calls a function of the model, which may have the name of an operator."""
        return (node.domain, node.op_type) in self._functions

    def dims(self, value: ir.Value | None) -> tuple[Dim, ...] | None:
        """Return the dims of a value; None where not even the rank is proven."""
        if value is None:
            return None
        if value not in self._dims:
            held = _stored(value)
            self._dims[value] = held.dims if held is not None else shape_of(self._types.get(value))
        return self._dims[value]

    def learn(self, value: ir.Value, dims: Sequence[Dim]) -> None:
        """Note dims that follow from what inference does not follow, unless they are known."""
        old = self.dims(value)
        if old is None or len(old) != len(dims):
            self._dims[value] = tuple(dims) if old is None else old
        else:
            self._dims[value] = tuple(new if known is None else known for known, new in zip(old, dims, strict=True))

    def dtype(self, value: ir.Value | None) -> int | None:
        """Return the element type of a value; None where it is not proven."""
        if value is None:
            return None
        if value.tensor_proto is not None:
            return value.tensor_proto.data_type
        kind = self._types.get(value)
        return kind.tensor_type.elem_type or None if kind is not None else None

    def integers(self, value: ir.Value | None) -> Integers | None:
        """Return the integers of a small value as far as they are known."""
        if value is None:
            return None
        if value not in self._integers:
            if self._depth > _DEEP:
                return None
            self._integers[value], self._depth = None, self._depth + 1  # a damaged graph has circles
            self._integers[value], self._depth = self._found(value), self._depth - 1
        return self._integers[value]

    def numbers(self, value: ir.Value | None) -> list[int] | None:
        """Return the integers of a small value, where each is a number."""
        found = self.integers(value)
        return None if found is None else found.numbers

    def _found(self, value: ir.Value) -> Integers | None:
        held = _stored(value)
        if held is not None:
            if held.size > MOST or len(held.dims) > 1 or held.dtype not in INTEGERS | {TP.BOOL}:
                return None
            return Integers(tuple(int(item) for item in held.numpy().reshape(-1)), not held.dims, held.dtype)
        node = value.producer
        if node is None or node.domain or node.op_type not in RULES or node.has_references or self.calls(node):
            return None
        try:
            found = RULES[node.op_type](node, self)
        except _ILL_FORMED:
            return None
        return found if len(found.items) <= MOST else None


def _stored(value: ir.Value) -> ir.Tensor | None:
    """Return the tensor that a value is stored as, in an initializer or a Constant node; computes nothing."""
    if value.tensor_proto is not None or (value.producer is not None and value.producer.op_type == "Constant"):
        return ir.constant(value)
    return None
