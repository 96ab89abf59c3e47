"""The model as it came, on the way down: what is known of it is found when a step asks first, for most ask nothing."""

from __future__ import annotations

from functools import cached_property

from bnfold import ir
from bnfold.analysis.shapes.arithmetic import Proven
from bnfold.analysis.shapes.computed import KnownNumbers, infer_what_is_computed


class GivenModel:
    """A model before its nodes are rewritten: what follows sizes and integers reads the forms that it came in."""

    def __init__(self, model: ir.Model) -> None:
        self._model, self._snapshot = model, model.snapshot()

    def tell_types(self) -> None:
        """Let the graphs that are being converted know the types that inference finds."""
        given = self._snapshot()
        infer_what_is_computed(given)
        self._model.learn_types(given)

    def numbers(self, value: ir.Value) -> ir.Tensor | None:
        """Return the numbers of a value that nothing stores, where they follow from sizes that inputs declare."""
        graph = self._graphs.get(value.graph.path)
        source = None if graph is None else graph.values.get(value.name)
        return None if source is None or source.tensor_proto is not None else self._numbers.of(source)

    @cached_property
    def _graphs(self) -> dict[str, ir.Graph]:
        return {graph.path: graph for graph in self._snapshot().graphs()}

    @cached_property
    def _numbers(self) -> KnownNumbers:
        return KnownNumbers(Proven(self._snapshot()))
