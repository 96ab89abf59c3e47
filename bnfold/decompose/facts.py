"""Element types and dims of values, also in function bodies: those say nothing about either, but their callers do."""

from __future__ import annotations

import onnx

from bnfold import ir
from bnfold.fold import facts as inferred
from bnfold.ir.value import Dim
from bnfold.semantics import Policy
from bnfold.upgrade.site import Shared
from bnfold.upgrade.types import Types


class Facts:
    """What is known of the values of one model; answers are kept in the index, the file's annotations stay."""

    def __init__(self, model: ir.Model) -> None:
        self._types: dict[int, Types] = {}
        self._calls: dict[ir.Graph, list[ir.Node]] = {}
        if model.functions:
            model.infer_shapes()
            self._teach_functions(model)

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

    def is_given(self, graph: ir.Graph, attribute: str) -> bool:
        """Whether every call of the function around ``graph`` says ``attribute``, or the function has a default."""
        function = _root(graph)
        if any(default.name == attribute for default in getattr(function.proto, "attribute_proto", ())):
            return True
        calls = self._calls.get(function, [])
        return bool(calls) and all(node.has_attr(attribute) for node in calls)

    def _of(self, value: ir.Value) -> Types:
        opset = value.graph.opset("")
        return self._types.setdefault(opset, Types(opset))

    def _teach_functions(self, model: ir.Model) -> None:
        """Type the inputs of functions, callers first, by what every call gives them."""
        calls = self._calls = {function: [] for function in model.functions}
        by_name = {_key(function.proto): function for function in model.functions}
        for node in model.nodes():
            called = by_name.get((node.domain, node.op_type, getattr(node.proto, "overload", "")))
            if called is not None:
                calls[called].append(node)
        settled = {model.graph}
        while len(settled) <= len(calls):
            ready = [
                f for f, nodes in calls.items() if f not in settled and all(_root(n.graph) in settled for n in nodes)
            ]
            if not ready:
                return  # functions that call each other are illegal, and nothing is known in them
            for function in ready:
                self._teach(function, calls[function])
            settled.update(ready)

    def _teach(self, function: ir.Graph, calls: list[ir.Node]) -> None:
        for index, value in enumerate(function.inputs):
            given = [argument for node in calls if (argument := node.input(index)) is not None]
            dtypes = {self.dtype(argument) for argument in given}
            dtype = dtypes.pop() if len(dtypes) == 1 else None
            if dtype is None or len(given) < len(calls) or value.name in function.types:
                continue
            dims = _common([self.dims(argument) for argument in given])
            function.types[value.name] = onnx.helper.make_tensor_type_proto(dtype, dims)


def _common(dims: list[tuple[Dim, ...] | None]) -> list[Dim] | None:
    """What holds for all of several shapes."""
    ranks = {None if shape is None else len(shape) for shape in dims}
    if len(ranks) != 1 or None in ranks:
        return None
    known = [shape for shape in dims if shape is not None]
    return [axis[0] if isinstance(axis[0], int) and len(set(axis)) == 1 else None for axis in zip(*known, strict=True)]


def _key(proto: onnx.GraphProto | onnx.FunctionProto) -> tuple[str, str, str]:
    domain = getattr(proto, "domain", "")
    return ("" if domain == "ai.onnx" else domain), proto.name, getattr(proto, "overload", "")


def _root(graph: ir.Graph) -> ir.Graph:
    while graph.parent is not None:
        graph = graph.parent.graph
    return graph
