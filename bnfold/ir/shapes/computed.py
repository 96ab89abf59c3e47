"""Numbers that decide about sizes, and that follow from other sizes in ways that onnx's inference does not follow."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np
import onnx

from bnfold.ir.model import Model
from bnfold.ir.shapes.arithmetic import Proven
from bnfold.ir.shapes.propagation import numbers_read
from bnfold.ir.tensor import InMemory, numpy_type
from bnfold.ir.value import Value

_ROUNDS = 8
"""Inferences; each may find sizes that others follow from."""


def infer_what_is_computed(model: Model, *, strict: bool = False) -> None:
    """Give values types as `Model.infer_shapes` does, and again where what they are computed from is known by then."""
    known: dict[Value, InMemory] = {}
    for _ in range(_ROUNDS):
        model.infer_shapes(strict=strict, known=known)
        more = _computed(model)
        if more.keys() <= known.keys():
            break
        known |= more


def _computed(model: Model) -> dict[Value, InMemory]:
    """Return the numbers that operators of the main graph read, where their result has a dynamic size."""
    sizes, found = _Inferred(model), {}
    for node in model.graph.nodes:
        read, made = numbers_read(node), node.output(0)
        if not read or made is None or not made.is_dynamic:
            continue
        for value in read:
            told = sizes.integers(value) if value.producer is not None else None
            if told is not None and told.numbers is not None:
                array = np.array(told.numbers, numpy_type(told.dtype)).reshape(told.dims)
                found[value] = InMemory(told.dtype, array)
    return found


class _Inferred(Proven):
    """What follows from the types that inference has given."""

    @cached_property
    def _types(self) -> Mapping[Value, onnx.TypeProto]:
        values = (value for graph in self._model.graphs() for value in graph.values.values())
        return {value: value.type for value in values if value.type is not None}
