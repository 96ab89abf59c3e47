"""The graphs of two models with all that is known of their shapes, and which of it only the rewritten one tells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import onnx

from bnfold import ir
from bnfold.ir.shapes import filled
from bnfold.verification.feeding.dims import is_known, learn_shapes


class Told:
    """Two models by the paths of their graphs, the original first; shapes of both are learned when this is made.

    What inference leaves open in the original it may tell in the rewritten model: it says less of old broadcasting.
    What readers tell there, not inference, a fault in them may have told (``untold``).
    """

    def __init__(self, before: ir.Model, after: ir.Model) -> None:
        old, new = self.graphs = [{graph.path: graph for graph in model.graphs()} for model in (before, after)]
        for model in (before, after):
            model.infer_shapes()
        self._untold: dict[str, dict[str, onnx.TypeProto]] = {}
        values = [value for graph in old.values() for value in graph.values.values()]
        if all(is_known(value) and str not in map(type, value.shape or ()) for value in values):
            return  # there is nothing to learn
        learn_shapes(before)
        if all(map(is_known, values)):
            return  # the rewritten model has nothing to add
        inferred = {path: dict(graph.types) for path, graph in new.items()}
        learn_shapes(after)
        self._untold = {path: _tell(old[path], new[path], inferred[path]) for path in old if path in new}

    def untold(self, path: str) -> Mapping[str, onnx.TypeProto]:
        """Of a graph of the original, the values whose sizes the rewritten model may tell wrongly, as known before."""
        return self._untold.get(path, {})

    @contextmanager
    def without_untold(self, path: str) -> Iterator[None]:
        """Within this, these sizes are open again."""
        types = self.graphs[0][path].types
        told = {name: types[name] for name in self._untold[path]}
        types.update(self._untold[path])
        try:
            yield
        finally:
            types.update(told)


def _tell(old: ir.Graph, new: ir.Graph, inferred: Mapping[str, onnx.TypeProto]) -> dict[str, onnx.TypeProto]:
    untold = {}
    for name, kind in list(old.types.items()):
        told = filled(kind, new.types.get(name, kind), names=False)
        if told != kind:
            old.types[name] = told
            if new.types[name] != inferred.get(name):
                untold[name] = kind
    return untold
