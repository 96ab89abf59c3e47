"""Element types and dims of values, also in function bodies: those say nothing about either, but their callers do."""

from __future__ import annotations

import onnx

from bnfold import ir
from bnfold.decompose.calls import Calls
from bnfold.fold import facts as inferred
from bnfold.ir.value import Dim
from bnfold.semantics import Policy
from bnfold.upgrade.site import Shared
from bnfold.upgrade.types import Types


class Facts:
    """What is known of the values of one model; answers are kept in the index, the file's annotations stay."""

    def __init__(self, model: ir.Model) -> None:
        self._types: dict[int, Types] = {}
        self.calls = Calls(model)
        if model.functions:
            model.infer_shapes()
        for function in self.calls.order:
            self._teach(function)

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

    def _teach(self, function: ir.Graph) -> None:
        """Type the inputs of a function by what every call gives them."""
        calls = self.calls.of(function)
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
