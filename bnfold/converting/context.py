"""What the nodes of one upgrade have in common: the target, the policy, and the constants that they read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

from bnfold import analysis, ir
from bnfold.analysis.shapes.stepwise import Types
from bnfold.converting.given import GivenModel
from bnfold.errors import Unsupported
from bnfold.semantics import Policy, Repair


class Inexpressible(Unsupported):
    """The node has no equivalent at the target opset, or what is needed to write it is not known."""


class Meaningless(Inexpressible):
    """The node has no meaning at its own opset: no composition of others has it either."""


class UnknownType(Inexpressible):
    """The type of a value that the node reads is not known."""

    def __init__(self, message: str, value: ir.Value) -> None:
        super().__init__(message)
        self.value = value


@dataclass(slots=True, eq=False)
class ConversionContext:
    """What the sites of one upgrade have in common."""

    target: int
    policy: Policy
    types: Types
    repairs: list[Repair] = field(default_factory=list)
    training: list[str] = field(default_factory=list)
    constants: dict[tuple[ir.Graph, str, tuple[int, ...], bytes], ir.Value] = field(default_factory=dict)
    reshaped: dict[tuple[ir.Graph, ir.Value, tuple[int, ...]], ir.Value] = field(default_factory=dict)
    given: GivenModel | None = None
    """The model before the way down."""
    disputed: frozenset[ir.Value] = frozenset()
    """Values whose sizes runtimes may infer otherwise than they compute them."""
    retyped: list[ir.Value] = field(default_factory=list)
    """Stored constants that have been stored in another type as well."""
    lower: Callable[[Any, ir.Node], None] | None = None
    """Brings a node that stands around a `NodeConversion`, in the form of `node_conversion.FORM`, to the target."""

    def known(self, value: ir.Value | None) -> ir.Tensor | None:
        """Return the tensor that a value is in every run: a constant, or a few numbers that follow from known sizes."""
        found = analysis.constant(value)
        if found is not None or value is None or self.given is None or value.is_input:
            return found
        return self.given.numbers(value)

    def constant(self, graph: ir.Graph, array: np.ndarray[Any, Any], name: str) -> ir.Value:
        """Return a constant of a graph; equal ones of one upgrade are stored once."""
        key = (graph, array.dtype.str, array.shape, array.tobytes())
        if key not in self.constants:
            self.constants[key] = graph.add_constant(name, array)
        return self.constants[key]

    def in_dims(self, graph: ir.Graph, value: ir.Value, tensor: ir.Tensor, dims: Sequence[int]) -> ir.Value:
        """Return a stored constant in other dims, under its own name if it has no other consumer."""
        key = (graph, value, tuple(dims))  # what one branch stores the other does not see
        if key not in self.reshaped:
            shaped = _with_dims(tensor, dims)
            if len(value.uses) == 1 and not value.is_output and value.graph is graph:
                value.replace_tensor(shaped)
                self.reshaped[key] = value
            else:
                self.reshaped[key] = graph.add_constant(value.name, shaped)
        return self.reshaped[key]

    def drop_replaced(self) -> None:
        """Drop the constants that were stored anew, in other dims or types, or for a step, and that nothing reads."""
        kept = [*self.retyped, *(value for _, value, _ in self.reshaped), *self.constants.values()]
        for value in dict.fromkeys(kept):
            if value.is_initializer and not (value.uses or value.is_output or value.is_input):
                value.graph.remove_initializers([value])


def numeric_type(dtype: int) -> np.dtype[Any]:
    """Return the numpy type of an ONNX element type. Raises Inexpressible where it is no type of numbers."""
    if (
        dtype in (onnx.TensorProto.UNDEFINED, onnx.TensorProto.STRING)
        or dtype not in onnx.TensorProto.DataType.values()
    ):
        raise Inexpressible(f"{dtype} is not an element type of numbers")
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(dtype))


def _with_dims(tensor: ir.Tensor, dims: Sequence[int]) -> ir.Tensor:
    if isinstance(tensor, ir.Stored):
        return ir.Stored(tensor.dtype, dims, tensor.span)
    if isinstance(tensor, ir.Exact):
        return ir.Exact(tensor.dtype, tensor.values.reshape(tuple(dims)))
    if isinstance(tensor, ir.Inline):
        if not tensor.is_reference:
            tensor.numpy()  # which raises where a damaged file's dims claim more than there is
        proto = deepcopy(tensor.proto)
        proto.dims[:] = dims
        return ir.Inline(proto)
    return ir.Inline(onnx.numpy_helper.from_array(tensor.numpy().reshape(tuple(dims))))
