"""Numbers that decide about sizes, and that follow from other sizes in ways that onnx's inference does not follow."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property

import numpy as np
import onnx

from bnfold.analysis.constants import MAX_DEPTH, stored
from bnfold.analysis.evaluators import INTEGERS, evaluate
from bnfold.analysis.shapes.arithmetic import MOST, Proven
from bnfold.analysis.shapes.inference import infer_shapes
from bnfold.analysis.shapes.propagation import numbers_read
from bnfold.analysis.traits import ROUNDING_ONCE
from bnfold.errors import BnfoldError
from bnfold.ir.elements import RAW_TYPES
from bnfold.ir.model import Model
from bnfold.ir.node import Node
from bnfold.ir.tensor import FLOATS, InMemory, Tensor, numpy_type, round_once
from bnfold.ir.value import Value

_ROUNDS = 8
"""Inferences; each may find sizes that others follow from."""


def infer_what_is_computed(model: Model) -> None:
    """Give values types as `infer_shapes` does, and again where what they are computed from is known by then."""
    known: dict[Value, InMemory] = {}
    for _ in range(_ROUNDS):
        infer_shapes(model, known=known)
        more = _computed(model)
        if more.keys() <= known.keys():
            break
        known |= more


def _computed(model: Model) -> dict[Value, InMemory]:
    """Return the numbers that operators of the main graph read, where their result has a dynamic size."""
    numbers, found = KnownNumbers(_Inferred(model)), {}
    for node in model.graph.nodes:
        read, made = numbers_read(node), node.output(0)
        if not read or made is None or not made.is_dynamic:
            continue
        for value in read:
            told = numbers.of(value) if value.producer is not None else None
            if told is not None:
                found[value] = told
    return found


_INTEGERS_ONLY = frozenset({"ReduceProd", "ReduceSum"})
_FOLLOWED = _INTEGERS_ONLY | ROUNDING_ONCE
_FLOATS_EXACTLY = 1 << 24
"""Integers up to this are numbers of float32; of float16, they are rounded once."""


class KnownNumbers:
    """Small values that are the same in every run: constants, what follows from known sizes, and operators on both.

    Numbers are rounded after each operator, as the model rounds them.
    """

    def __init__(self, sizes: Proven) -> None:
        self._sizes, self._depth = sizes, 0
        self._known: dict[Value, InMemory | None] = {}

    def of(self, value: Value | None) -> InMemory | None:
        """Return the numbers of a value; None if they are not known, or more than shapes have."""
        if value is None or self._depth > MAX_DEPTH:
            return None
        if value not in self._known:
            self._known[value], self._depth = None, self._depth + 1  # a damaged graph has circles
            with suppress(ValueError, IndexError, TypeError, ZeroDivisionError, BnfoldError):  # of an ill-formed node
                self._known[value] = self._found(value)
            self._depth -= 1
        return self._known[value]

    def _found(self, value: Value) -> InMemory | None:
        held, node = stored(value), value.producer
        if held is not None:
            return _in_memory(held)
        told = self._sizes.integers(value)
        if told is not None and told.numbers is not None:
            return InMemory(told.dtype, np.array(told.numbers, numpy_type(told.dtype)).reshape(told.dims))
        if node is None or node.domain or node.op_type not in _FOLLOWED or node.has_references or node.is_call:
            return None
        operands: list[Tensor | None] = []
        for source in node.inputs:
            operands.append(self.of(source))
            if source is not None and operands[-1] is None:
                return None
        return _evaluated(node, operands, value.slot)


def _evaluated(node: Node, operands: list[Tensor | None], slot: int) -> InMemory | None:
    first = operands[0] if operands else None
    if first is None or (node.op_type in _INTEGERS_ONLY and first.dtype not in INTEGERS):
        return None
    if node.is_op("Cast") and first.dtype in INTEGERS and (to := node.attr("to")) in FLOATS:
        exact = first.float64()
        return InMemory(to, round_once(exact, to)) if (np.abs(exact) <= _FLOATS_EXACTLY).all() else None
    found = evaluate(node, operands, slot)
    return None if found is None else _in_memory(found)


def _in_memory(tensor: Tensor) -> InMemory | None:
    return InMemory(tensor.dtype, tensor.numpy()) if tensor.size <= MOST and tensor.dtype in RAW_TYPES else None


class _Inferred(Proven):
    """What follows from the types that inference has given."""

    @cached_property
    def _types(self) -> Mapping[Value, onnx.TypeProto]:
        values = (value for graph in self._model.graphs() for value in graph.values.values())
        return {value: value.type for value in values if value.type is not None}
