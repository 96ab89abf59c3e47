"""Element types and dims of values, also in function bodies: those say nothing about either, but their callers do.

A body is written for any type and rank; its calls settle both.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from bnfold import analysis, ir
from bnfold.analysis.shapes.stepwise import Types
from bnfold.converting.context import ConversionContext
from bnfold.decomposing.calls import Arguments, Calls, bound
from bnfold.folding import shapes
from bnfold.ir.value import Dim
from bnfold.semantics import Policy


class Facts:
    """What is known of the values of one model; answers are kept in the index, the file's annotations stay."""

    def __init__(self, model: ir.Model) -> None:
        self._types: dict[int, Types] = {}
        self.calls = Calls(model)
        if model.functions:
            self._learn_bodies(model)

    def dtype(self, *values: ir.Value | None) -> int | None:
        """Return the element type of the first of several values, all of one type, for which it is known."""
        for value in values:
            if value is None:
                continue
            if value.dtype is None:
                shapes.known_dims(value)
            known = value.dtype or self._of(value).dtype(value)
            if known is not None:
                return known
        return None

    def dims(self, value: ir.Value) -> tuple[Dim, ...] | None:
        """Return dims as far as known; None for an unknown rank."""
        if value.tensor is not None:
            return value.tensor.dims
        known = shapes.known_dims(value)
        return self._of(value).shape(value) if known is None else known

    def context(self, opset: int, policy: Policy) -> ConversionContext:
        """Return what builders in graphs of ``opset`` have in common: constants, above all."""
        return ConversionContext(opset, policy, self._types.setdefault(opset, Types(opset)))

    def _of(self, value: ir.Value) -> Types:
        opset = value.graph.opset("")
        return self._types.setdefault(opset, Types(opset))

    def _learn_bodies(self, model: ir.Model) -> None:
        analysis.infer_shapes(model)
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


OptionalType = onnx.TypeProto | None


class Bodies:
    """Walks function bodies once for every combination of input types and attributes that they are called with."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._results: dict[tuple[ir.Graph, tuple[bytes, ...]], list[OptionalType]] = {}
        self._seen: dict[ir.Value, list[OptionalType]] = {}

    def call(self, node: ir.Node, given: Sequence[OptionalType]) -> list[OptionalType]:
        """Return types of the outputs of a call, for these types of inputs."""
        function = self._calls.callee(node)
        if function is None or function not in self._calls.order:
            return [None] * len(node.outputs)
        arguments = self._calls.arguments(node)
        count = len(function.inputs)  # a damaged call may give more
        given = [*given[:count], *[None] * (count - len(given))]
        key = (
            function,
            tuple(b"" if part is None else part.SerializeToString() for part in (*given, *arguments.values())),
        )
        if key not in self._results:
            self._results[key] = self._walk(function, given, arguments)
        return self._results[key]

    def teach(self) -> None:
        """Note with every value of a body what holds for it in all walks."""
        for value, kinds in self._seen.items():
            common = _common(kinds)
            if common is not None:
                value.graph.types.setdefault(value.name, common)

    def _walk(self, function: ir.Graph, given: Sequence[OptionalType], arguments: Arguments) -> list[OptionalType]:
        scopes = list(function.subgraphs())
        declared = [dict(scope.types) for scope in scopes]
        for value, kind in zip(function.inputs, given, strict=True):
            _note(value, kind)
        types = Types(function.opset(""))
        with bound([node for scope in scopes for node in scope.nodes], arguments):
            for node in function.nodes:
                self._step(node, types)
        results = [value.type for value in function.outputs]
        for scope, known in zip(scopes, declared, strict=True):
            for value in scope.values.values():
                self._seen.setdefault(value, []).append(value.type)
            scope.types.clear()
            scope.types.update(known)
        return results

    def _step(self, node: ir.Node, types: Types) -> None:
        if self._calls.callee(node) is not None:
            kinds = self.call(node, [None if value is None else value.type for value in node.inputs])
            for value, kind in zip(node.outputs, kinds, strict=False):
                _note(value, kind)
            return
        for inner in (inner for graph in node.bodies for scope in graph.subgraphs() for inner in scope.nodes):
            if self._calls.callee(inner) is not None:
                self.call(inner, [])  # calls in branches and loops inside a body are not examined
        for output in node.outputs:
            if output is not None:
                types.shape(output)


def _note(value: ir.Value | None, kind: OptionalType) -> None:
    if value is not None and kind is not None:
        value.graph.types.setdefault(value.name, kind)


def _common(kinds: Sequence[OptionalType]) -> OptionalType:
    """Return what holds for all of several types; None where nothing does."""
    known = [kind.tensor_type for kind in kinds if kind is not None and kind.HasField("tensor_type")]
    if len(known) < len(kinds) or len({kind.elem_type for kind in known}) != 1:
        return None
    if not all(kind.HasField("shape") for kind in known) or len({len(kind.shape.dim) for kind in known}) != 1:
        return onnx.helper.make_tensor_type_proto(known[0].elem_type, None)
    axes = zip(*(kind.shape.dim for kind in known), strict=True)
    sizes = [{dim.dim_value if dim.HasField("dim_value") else None for dim in axis} for axis in axes]
    return onnx.helper.make_tensor_type_proto(
        known[0].elem_type, [size.pop() if len(size) == 1 else None for size in sizes]
    )
