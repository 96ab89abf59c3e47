"""What is proven of values: dims, element types, and the integers of shape computations, some of them dynamic sizes.

An item is a number, or the name of a dynamic size, or None. Names are those of `proven_types`: equal names are equal
sizes in every run. Each answer is computed once; rewrites keep what values are.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import onnx

from bnfold.analysis.constants import stored
from bnfold.analysis.evaluators import INTEGERS, evaluate
from bnfold.analysis.shapes.items import (
    are_equal,
    chosen,
    comparison,
    conjunction,
    difference,
    disjunction,
    is_true,
    larger,
    quotient,
    remainder,
    smaller,
)
from bnfold.analysis.shapes.products import factors, is_product, multiplied, product, replaced
from bnfold.analysis.shapes.proven import proven_types
from bnfold.analysis.shapes.ties import tied_type
from bnfold.analysis.traits import MOVING
from bnfold.errors import BnfoldError
from bnfold.ir.elements import TP
from bnfold.ir.model import Model
from bnfold.ir.node import Node
from bnfold.ir.tensor import InMemory, Tensor
from bnfold.ir.value import Dim, Value, shape_of

MOST = 64
"""Elements of a value whose numbers are followed: shapes, axes, pads."""
_DEEP = 64
"""Steps that a chain may have; each starts from what is known of the steps before, if the file is in order."""
_ILL_FORMED = (ValueError, IndexError, TypeError, ZeroDivisionError, BnfoldError)
"""Operands do not fit together, or have a dynamic size in place of a number."""


class Integers(InMemory):
    """Items of a scalar or a vector, as Python has them, and their element type; a truth is 0 or 1."""

    __slots__ = ()

    @property
    def items(self) -> list[Dim]:
        items: list[Dim] = self.array.reshape(-1).tolist()
        return items

    @property
    def numbers(self) -> list[int] | None:
        """The numbers; None where one of them is not known."""
        found = [item for item in self.items if isinstance(item, int)]
        return found if len(found) == self.size else None


class Proven:
    """What is proven of one model's values; if it ``has_learned``, questions may have other answers than before."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._functions = {(graph.proto.domain, graph.proto.name) for graph in model.functions}
        self._dims: dict[Value, tuple[Dim, ...] | None] = {}
        self._integers: dict[Value, Integers | None] = {}
        self._learned: dict[str, int | str] = {}
        """What sizes are to which inference gave names of its own; the names of inputs' sizes have a colon."""
        self._depth, self.has_learned = 0, False

    @cached_property
    def _types(self) -> Mapping[Value, onnx.TypeProto]:
        return proven_types(self._model)

    @cached_property
    def positive(self) -> frozenset[str]:
        """The dynamic sizes that are zero in no run: beside a zero, no runtime infers the -1 of a Reshape."""
        found: set[str] = set()
        for node in self._model.graph.nodes:
            told = self.integers(node.input(1)) if node.is_op("Reshape") and not node.has_references else None
            if told is not None and -1 in told.items and not node.attr("allowzero", 0):
                dims = zip(told.items, self.dims(node.input(0)) or (), strict=False)
                found.update(dim for item, dim in dims if isinstance(dim, str) and item in (0, dim))
        return frozenset(found)

    def calls(self, node: Node) -> bool:
        """Whether a node calls a function of the model, which may have the name of an operator."""
        return (node.domain, node.op_type) in self._functions

    def dims(self, value: Value | None) -> tuple[Dim, ...] | None:
        """Return the dims of a value; None where not even the rank is proven."""
        if value is None:
            return None
        if value not in self._dims:
            held = stored(value)
            self._dims[value] = held.dims if held is not None else shape_of(self._types.get(value))
        dims = self._dims[value]
        if dims is None or not self._learned:
            return dims
        return tuple(replaced(dim, self._learned) for dim in dims)

    def learn(self, value: Value, dims: Sequence[Dim]) -> None:
        """Note dims that follow from what inference does not follow, unless they are known."""
        old = self.dims(value)
        if old is None:
            old = (None,) * len(dims)
        if len(old) != len(dims):
            return
        self.has_learned = True
        for known, new in zip(old, dims, strict=True):
            if isinstance(known, str) and ":" not in known and new not in (None, known):
                self._rename(known, new)
        self._dims[value] = tuple(new if known is None else known for known, new in zip(old, dims, strict=True))
        if self.dims(value) != old:
            known_whole = {value: found for value, found in self._integers.items() if found and None not in found.items}
            self._integers = {value: self._renamed(found) for value, found in known_whole.items()}

    def _renamed(self, found: Integers) -> Integers:
        """Return integers by the names that their sizes have now."""
        items = [replaced(item, self._learned) for item in found.items]
        return found if items == found.items else Integers(found.dtype, np.array(items, object).reshape(found.dims))

    def _rename(self, name: str, size: int | str) -> None:
        """Note what a size is to which inference gave a name of its own."""
        size = replaced(size, self._learned) or size
        if name in factors([size])[0]:  # of a factor that is 1, or in a graph that no run gets through
            return
        learned = {other: replaced(old, {name: size}) or old for other, old in self._learned.items()}
        self._learned = {**learned, name: size}

    def dtype(self, value: Value | None) -> int | None:
        """Return the element type of a value; None where it is not proven."""
        if value is None:
            return None
        kind = self._types.get(value) if value.tensor_proto is None else None
        return (kind.tensor_type.elem_type if kind is not None else 0) or tied_type(value)

    def integers(self, value: Value | None) -> Integers | None:
        """Return the integers of a small value as far as they are known."""
        if value is None:
            return None
        if value not in self._integers:
            if self._depth > _DEEP:
                return None
            self._integers[value], self._depth = None, self._depth + 1  # a damaged graph has circles
            self._integers[value], self._depth = self._found(value), self._depth - 1
        return self._integers[value]

    def numbers(self, value: Value | None) -> list[int] | None:
        """Return the integers of a small value, where each is a number."""
        found = self.integers(value)
        return None if found is None else found.numbers

    def operand(self, node: Node, slot: int) -> Integers:
        """Return the integers that a node reads. Raises ValueError where they are not known."""
        found = self.integers(node.input(slot))
        if found is None:
            raise ValueError("not known")
        return found

    def _found(self, value: Value) -> Integers | None:
        found, node = stored(value), value.producer
        if found is None:
            if node is None or node.domain or node.op_type not in _FOLLOWED or node.has_references or self.calls(node):
                return None
            try:
                rule = _RULES.get(node.op_type)
                found = _moved(node, self, value.slot) if rule is None else rule(node, self)
            except _ILL_FORMED:
                return None
        if found is None or found.size > MOST or len(found.dims) > 1 or found.dtype not in INTEGERS | {TP.BOOL}:
            return None
        item = _ITEM if found.dtype == TP.INT64 else _NARROW
        return Integers(found.dtype, np.array(item(found.numpy()), dtype=object))


def _plain(item: Any) -> Dim:
    """Return an item as Python has it."""
    return item if item is None or isinstance(item, str) else int(item)


_ITEM = np.frompyfunc(_plain, 1, 1)
_NARROW = np.frompyfunc(lambda item: None if is_product(item) else _plain(item), 1, 1)
"""Of fewer bits than a product of sizes may have."""


def _shape(node: Node, known: Proven) -> Tensor | None:
    dims = known.dims(node.input(0))
    if dims is None:
        return None
    return InMemory(TP.INT64, np.array(dims[slice(node.attr("start", 0), node.attr("end"))], dtype=object))


def _size(node: Node, known: Proven) -> Tensor | None:
    dims = known.dims(node.input(0))
    return InMemory(TP.INT64, np.array(product(dims), dtype=object)) if dims is not None else None


def _range(node: Node, known: Proven) -> Tensor:
    bounds = [known.operand(node, slot) for slot in range(3)]
    start, limit, step = (number for bound in bounds for number in bound.numbers or ())
    if (found := range(start, limit, step))[MOST:]:
        raise ValueError("too many")
    return InMemory(bounds[0].dtype, np.array([*found], dtype=object))


def _moved(node: Node, known: Proven, slot: int = 0) -> Tensor | None:
    """Move the items as `bnfold.analysis.evaluators` moves elements, whatever they are."""
    operands = [known.operand(node, place) if value is not None else None for place, value in enumerate(node.inputs)]
    return evaluate(node, [*operands], slot)


def _reshaped(node: Node, known: Proven) -> Tensor | None:
    """Return the same items as a vector or a scalar, of the inferred rank or else of the operator's."""
    source, dims = known.operand(node, 0), known.dims(node.output(0))
    if dims is None:
        return _moved(node, known)
    return InMemory(source.dtype, source.array.reshape([-1] * len(dims)))


def _concat(node: Node, known: Proven) -> Tensor | None:
    return evaluate(node, [_operand_or_open(node, known, slot) for slot in range(len(node.inputs))])


def _operand_or_open(node: Node, known: Proven, slot: int) -> Tensor:
    """Return integers whose number at least is known: the other parts may be."""
    value = node.input(slot)
    found, dims, dtype = known.integers(value), known.dims(value), known.dtype(value)
    if found is not None:
        return found
    if dims is None or len(dims) != 1 or not isinstance(dims[0], int) or dims[0] > MOST or dtype not in INTEGERS:
        raise ValueError("not known")
    return InMemory(dtype, np.array([None] * dims[0], dtype=object))


def _cast(node: Node, known: Proven) -> Tensor:
    """Cast; sizes are small enough for 32 bits, or nothing of them could be held in memory."""
    source, to = known.operand(node, 0), known.dtype(node.input(1)) if node.is_op("CastLike") else node.attr("to")
    if to == TP.BOOL and source.dtype in _NUMBERS | {TP.BOOL}:
        truths = np.frompyfunc(is_true, 1, 1)(source.array)
        return InMemory(TP.BOOL, np.asarray(truths, dtype=object))
    if to not in (TP.INT32, TP.INT64) or source.dtype not in (TP.INT32, TP.INT64, TP.BOOL):
        raise ValueError("no integers")
    most = 1 << 31
    if to == TP.INT32 and any(isinstance(item, int) and not -most <= item < most for item in source.items):
        raise ValueError("cut off")
    return InMemory(to, source.array)


def _sum(one: Dim, other: Dim) -> Dim:
    """Return the sum of two items; a zero leaves a dynamic size as it is."""
    if isinstance(one, int) and isinstance(other, int):
        return one + other
    return one if other == 0 else other if one == 0 else None


def _of_numbers(item: Callable[[Dim, Dim], Dim]) -> ItemRule:
    """Return the rule of an operator of two operands that makes numbers."""

    def compute(node: Node, known: Proven) -> Tensor:
        one, other = known.operand(node, 0), known.operand(node, 1)
        if node.graph.opset() < 7 or one.dtype not in (TP.INT32, TP.INT64):
            raise ValueError("not followed")
        items = np.frompyfunc(lambda *both: _narrow(item(*both)), 2, 1)(one.array, other.array)
        return InMemory(one.dtype, np.asarray(items, dtype=object))

    return compute


def _narrow(item: Dim) -> Dim:
    """Return an item, or None for a number that may be beyond a type of 32 bits."""
    return None if isinstance(item, int) and abs(item) >= 1 << 31 else item


def _of_two(item: Callable[[Any, Any], int | None], dtypes: frozenset[int]) -> Callable[[Node, Proven], Tensor]:
    """Return the rule of an operator that makes truths of two operands of a type among ``dtypes``."""

    def compute(node: Node, known: Proven) -> Tensor:
        one, other = known.operand(node, 0), known.operand(node, 1)
        if node.graph.opset() < 7 or one.dtype not in dtypes:  # operands are broadcast since then
            raise ValueError("not followed")
        return InMemory(TP.BOOL, np.asarray(np.frompyfunc(item, 2, 1)(one.array, other.array), dtype=object))

    return compute


def _negated(node: Node, known: Proven) -> Tensor:
    """Return the truths that a Not makes."""
    source = known.operand(node, 0)
    if source.dtype != TP.BOOL:
        raise ValueError("no truths")
    turned = np.frompyfunc(lambda item: None if item is None else 1 - item, 1, 1)(source.array)
    return InMemory(TP.BOOL, np.asarray(turned, dtype=object))


def _where(node: Node, known: Proven) -> Tensor:
    """Return the items that a Where chooses."""
    truth, yes, no = (known.operand(node, slot) for slot in range(3))
    return InMemory(yes.dtype, np.asarray(np.frompyfunc(chosen, 3, 1)(truth.array, yes.array, no.array), dtype=object))


def _reduced(node: Node, known: Proven) -> InMemory:
    """Return the product of all items of a vector, as a ReduceProd makes it."""
    source, made = known.operand(node, 0), known.dims(node.output(0))
    axes = node.attr("axes") if node.graph.opset() < 18 else known.numbers(node.input(1)) if node.input(1) else None
    if source.dtype != TP.INT64 or len(source.dims) != 1 or axes not in (None, [], [0], [-1]) or made not in ((), (1,)):
        raise ValueError("not followed")
    if not axes and node.attr("noop_with_empty_axes", 0):
        raise ValueError("not reduced")
    return InMemory(TP.INT64, np.array(product(source.items), dtype=object).reshape(made))


ItemRule = Callable[[Node, Proven], Tensor | None]
_NUMBERS = frozenset({TP.INT32, TP.INT64})
_RULES: dict[str, ItemRule] = {
    **dict.fromkeys(("Reshape", "Squeeze", "Unsqueeze"), _reshaped),
    "Shape": _shape,
    "Size": _size,
    "Range": _range,
    **dict.fromkeys(("Cast", "CastLike"), _cast),
    "Concat": _concat,
    "Add": _of_numbers(_sum),
    "Sub": _of_numbers(difference),
    "Mul": _of_numbers(multiplied),
    "ReduceProd": _reduced,
    "Max": _of_numbers(larger),
    "Min": _of_numbers(smaller),
    "Div": _of_numbers(quotient),
    "Mod": _of_numbers(remainder),
    "Equal": _of_two(are_equal, _NUMBERS | {TP.BOOL}),
    "Where": _where,
    "Less": _of_two(comparison(operator.lt, below=True), _NUMBERS),
    "LessOrEqual": _of_two(comparison(operator.le, below=True), _NUMBERS),
    "Greater": _of_two(comparison(operator.gt, below=False), _NUMBERS),
    "GreaterOrEqual": _of_two(comparison(operator.ge, below=False), _NUMBERS),
    "And": _of_two(conjunction, frozenset({TP.BOOL})),
    "Or": _of_two(disjunction, frozenset({TP.BOOL})),
    "Not": _negated,
}
_FOLLOWED = _RULES.keys() | MOVING | {"Identity", "ConstantOfShape"}
"""Those without a rule of their own move items."""
