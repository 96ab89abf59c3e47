"""Element types and dims of values, also in function bodies: those say nothing about either, but their callers do."""

from __future__ import annotations

import onnx

from bnfold import ir
from bnfold.decomposing.bodies import Bodies
from bnfold.decomposing.calls import Calls
from bnfold.folding import facts as inferred
from bnfold.ir.value import Dim
from bnfold.semantics import Policy
from bnfold.upgrading.site import Shared
from bnfold.upgrading.types import Types


class Facts:
    """What is known of the values of one model; answers are kept in the index, the file's annotations stay."""

    def __init__(self, model: ir.Model) -> None:
        self._types: dict[int, Types] = {}
        self.calls = Calls(model)
        if model.functions:
            self._learn_bodies(model)

    def dtype(self, *values: ir.Value | None) -> int | None:
        """The element type of the first of several values, all of one type, for which it is known."""
        for value in values:
            if value is None:
                continue
            if value.dtype is None:
                inferred.known_dims(value)
            known = value.dtype or self._of(value).dtype(value)
            if known is not None:
                return known
        return None

    def dims(self, value: ir.Value) -> tuple[Dim, ...] | None:
        """Dims as far as known; None for an unknown rank."""
        if value.tensor is not None:
            return value.tensor.dims
        known = inferred.known_dims(value)
        return self._of(value).shape(value) if known is None else known

    def shared(self, opset: int, policy: Policy) -> Shared:
        """What builders in graphs of ``opset`` have in common: constants, above all."""
        return Shared(opset, policy, self._types.setdefault(opset, Types(opset)))

    def _of(self, value: ir.Value) -> Types:
        opset = value.graph.opset("")
        return self._types.setdefault(opset, Types(opset))

    def _learn_bodies(self, model: ir.Model) -> None:
        model.infer_shapes()
        bodies = Bodies(self.calls)
        for graph in model.graph.subgraphs():
            for node in graph.nodes:
                if self.calls.callee(node) is not None:
                    bodies.call(node, [self._kind(value) for value in node.inputs])
        bodies.teach()

    def _kind(self, value: ir.Value | None) -> onnx.TypeProto | None:
        dtype = self.dtype(value)
        if value is None or dtype is None:
            return None
        return onnx.helper.make_tensor_type_proto(dtype, self.dims(value))
