"""The model as it came, on the way down: what is known of it is found when a step asks first, for most ask nothing."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import onnx

from bnfold import ir
from bnfold.ir.evaluators import INTEGERS
from bnfold.ir.shapes.arithmetic import Proven
from bnfold.ir.tensor import InMemory


class GivenModel:
    """A model before its nodes are rewritten: what follows sizes and integers reads the forms that it came in."""

    def __init__(self, model: ir.Model) -> None:
        self._model, self._snapshot = model, model.snapshot()

    def tell_types(self) -> None:
        """Let the graphs that are being converted know the types that inference finds."""
        given = self._snapshot()
        given.infer_shapes()
        self._model.learn_types(given)

    def integers(self, value: ir.Value) -> ir.Tensor | None:
        """Return the integers that ``value`` is made of, where they follow from sizes that inputs declare."""
        source = self._snapshot().graph.values.get(value.name) if value.graph is self._model.graph else None
        if source is None or source.tensor_proto is not None:
            return None
        held = self._proven.integers(source)
        if held is None or held.numbers is None or held.dtype not in INTEGERS:
            return None
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(held.dtype))
        return InMemory(held.dtype, held.array.astype(dtype))

    @cached_property
    def _proven(self) -> Proven:
        return Proven(self._snapshot())
