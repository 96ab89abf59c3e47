"""The values that are the same in every run: stored bytes, and what the kernels make of stored bytes.

What nodes compute is computed by the evaluator's own kernels. Floats are computed twice, in the types that the file
stores and in float64, and have to agree but for rounding: then the numbers in float64 are the constant's, and are
rounded where they are read in the type of the file. So the order in which a chain rounds is no matter, and a chain
that overflows on its way is no constant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NoReturn, TypeVar

import numpy as np
import onnx

from bnfold import ir
from bnfold.errors import BnfoldError, Unsupported
from bnfold.ir.elements import FLOATS, LIMIT, Array, Float64, finfo, round_once
from bnfold.ir.memory import Keeping, Memory
from bnfold.ir.tensor import Exact, InMemory
from bnfold.ir.time_limit import look_at_clock
from bnfold.reference.attributes import resolve
from bnfold.reference.dispatch import Bound, apply_kernel, bind
from bnfold.reference.operators import CHOOSING, FOLLOWED, MOVING
from bnfold.reference.outlines import UnknownNumbers, has_outline, outline
from bnfold.reference.precision import Precision, computed_type
from bnfold.reference.registry import KernelDeclined
from bnfold.settings import Policy

_DEEPEST = 64
"""Steps that a chain may have. Longer ones occur in hostile files only, where they would take all day."""
_FEW = 1 << 14
"""Elements up to which a computed constant is kept; a larger one is computed again whenever it is read."""
_ROUNDING = 2.0**-10
"""Relative; numbers that differ by more in the two precisions are not the same but for rounding."""
_ROUNDINGS = 32
"""The same, in roundings, for types whose roundings are larger."""
_STATED = frozenset({"Cast", "QuantizeLinear"})
"""These round on purpose: what the model computes with is the rounded number."""
_ONE_ROUNDING = frozenset({"Abs", "Add", "DequantizeLinear", "Div", "Mul", "Neg", "Sub"})
"""Of stored operands, these make the same in both precisions, rounded once."""
_UNROUNDED = (MOVING | CHOOSING | {"Identity", "ScatterElements", "ScatterND", "Shape", "Size", "Trilu", "Where"}) - {
    "Pad"
}
"""Results are elements of operands, or sizes."""

Kept = TypeVar("Kept")


def constant(value: ir.Value | None) -> ir.Tensor | None:
    """Return the tensor that ``value`` is in every run of its model; None if that is not certain."""
    if value is None:
        return None
    if value.tensor_proto is not None or value.is_input:
        return _stored(value)
    if not _may_be_constant(value):
        return None
    running = CONSTANTS.of(value.graph.model)
    return (_Constants() if running is None else running).of(value)


def kept(model: ir.Model, make: Callable[[ir.Model], Kept]) -> Kept:
    """Return ``make(model)``, and the same object again inside of `keeping_constants`: what follows from constants."""
    running = CONSTANTS.of(model)
    if running is None:
        return make(model)
    if make not in running.conclusions:
        running.conclusions[make] = make(model)
    conclusion: Kept = running.conclusions[make]
    return conclusion


def made_of(node: ir.Node, operands: Sequence[ir.Tensor | None], slot: int = 0) -> ir.Tensor | None:
    """Return what a node makes of tensors; None if it is too large, or not the same in both precisions.

    None as well where a caller of a function decides what is made. Large operands are only read where the result is.
    Raises BnfoldError for a node that is ill-formed, or that has no kernel in its version.
    """
    if node.has_references or node.is_call:
        return None
    try:
        made = run_node(node, slot, [_in_outline(operand) for operand in operands], "stored")
    except UnknownNumbers:
        made = run_node(node, slot, [_stored_array(operand) for operand in operands], "stored")
    if made.size > LIMIT and 0 not in made.strides:  # a fill takes no memory
        return None
    code = onnx.helper.np_dtype_to_tensor_dtype(made.dtype)
    tensor = Evaluated(code, made.shape, node, slot, operands)
    is_large = has_outline(made) or (made.size > _FEW and 0 not in made.strides)
    if tensor.may_round and not tensor.rounds_once:
        made, exact = tensor.arrays()
        if not _agree(made, exact, code):
            return None
    if is_large:
        return tensor
    return Exact(code, tensor.widened()) if tensor.may_round and code in FLOATS else InMemory(code, made)


class Evaluated(ir.Tensor):
    """What a node makes of tensors, computed whenever it is read, and not kept."""

    __slots__ = ("_node", "_operands", "_slot", "may_round", "rounds_once")

    def __init__(
        self, dtype: int, dims: Sequence[int], node: ir.Node, slot: int, operands: Sequence[ir.Tensor | None]
    ) -> None:
        super().__init__(dtype, dims)
        self._node, self._slot, self._operands = node, slot, operands
        floats = [operand for operand in operands if operand is not None and operand.dtype in FLOATS]
        is_moved = node.op_type in _UNROUNDED and not any(map(_is_unrounded, floats))
        self.may_round = bool(floats) and not is_moved and node.op_type not in _STATED
        """Whether float64 is another precision for it than that of the file."""
        self.rounds_once = self.may_round and node.op_type in _ONE_ROUNDING and not any(map(_is_unrounded, floats))

    def numpy(self) -> Array:
        made = self.elements({})
        return round_once(made, self.dtype) if self.may_round and self.dtype in FLOATS else made

    def widened(self) -> Float64:
        return self.elements({}).astype(np.float64, copy=False)

    def arrays(self) -> tuple[Array, Array]:
        """Return the elements as they are computed in the types of the file, and in float64."""
        stored = run_node(self._node, self._slot, [_stored_array(operand) for operand in self._operands], "stored")
        return stored, self.elements({})

    def elements(self, known: dict[ir.Tensor, Array]) -> Array:
        """Return the elements, unrounded; what several operands are computed from is computed once."""
        if self not in known:
            read = [None if operand is None else self._read(operand, known) for operand in self._operands]
            known[self] = run_node(self._node, self._slot, read, "float64" if self.may_round else "stored")
        return known[self]

    def _read(self, operand: ir.Tensor, known: dict[ir.Tensor, Array]) -> Array:
        if not isinstance(operand, Evaluated):
            return operand.float64() if self.may_round and operand.dtype in FLOATS else operand.numpy()
        made = operand.elements(known)
        if operand.dtype not in FLOATS:
            return made
        if self.may_round:
            return made.astype(np.float64, copy=False)
        return round_once(made, operand.dtype) if operand.may_round else made


def _is_unrounded(tensor: ir.Tensor) -> bool:
    return isinstance(tensor, Exact) or (isinstance(tensor, Evaluated) and tensor.may_round)


def _agree(stored: Array, exact: Array, code: int) -> bool:
    """Whether the elements are the same in both precisions but for rounding, which only floats may be off by."""
    if code not in FLOATS:
        return np.array_equal(stored, exact)
    allowed = max(_ROUNDING, _ROUNDINGS * float(finfo(code).eps))
    return np.allclose(stored.astype(np.float64), exact, rtol=allowed, atol=0.0, equal_nan=True)


def _in_outline(operand: ir.Tensor | None) -> Array | None:
    """Return the elements of an operand, or if they are many an outline in their place."""
    if operand is None or operand.size <= _FEW or (isinstance(operand, InMemory) and 0 in operand.array.strides):
        return _stored_array(operand)
    return outline(operand.dims, computed_type(operand.dtype, "stored"))  # type: ignore[no-any-return]


def _stored_array(operand: ir.Tensor | None) -> Array | None:
    return None if operand is None else operand.numpy()


def run_node(node: ir.Node, slot: int, arrays: Sequence[Array | None], precision: Precision) -> Array:
    """Return one result of the node's kernel. Raises Unsupported if it is no tensor."""

    def bound(opset: int | None) -> Bound:
        return bind(node, resolve(node, {}, precision), precision, Policy(), opset, _refuse)

    with np.errstate(all="ignore"):
        made = apply_kernel(node, arrays, bound)[slot]
    if not isinstance(made, np.ndarray):
        raise Unsupported(f"node {node.label!r} makes no tensor")
    return made


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise KernelDeclined("it is a function of other operators")


class _Constants:
    """The chains of constants of a model that were evaluated; long chains do not recurse."""

    def __init__(self) -> None:
        self.conclusions: dict[Callable[[ir.Model], Any], Any] = {}
        self._known: dict[ir.Value, ir.Tensor | None] = {}

    def of(self, target: ir.Value) -> ir.Tensor | None:
        """Return the tensor of a value; None if it is none that is certain."""
        stack = [target]
        while stack:
            value = stack[-1]
            if value in self._known:
                stack.pop()
                continue
            look_at_clock()
            node = value.producer
            if node is None or value.tensor_proto is not None or value.is_input or node.is_op("Constant"):
                self._known[value] = _stored(value)
                continue
            sources = [source for source in node.inputs if source is not None]
            waiting = [source for source in sources if source not in self._known]
            is_hopeless = any(self._known.get(source, self) is None for source in sources)
            if is_hopeless or not all(map(_may_be_constant, waiting)) or (waiting and len(stack) > _DEEPEST):
                self._known[value] = None
            elif waiting:
                stack.append(waiting[0])  # if it is no constant, the others are not needed
            else:
                self._known[value] = self._evaluated(node, value.slot)
        return self._known[target]

    def _evaluated(self, node: ir.Node, slot: int) -> ir.Tensor | None:
        operands = [None if source is None else self._known[source] for source in node.inputs]
        if len(node.outputs) != 1 and not node.is_op("Split"):
            return None
        if any(operand is not None and operand.size > LIMIT for operand in operands):
            return None
        with suppress(*_ILL_FORMED):
            return made_of(node, operands, slot)
        return None  # running the model reports the error


_ILL_FORMED = (BnfoldError, ValueError, IndexError, TypeError)


def _may_be_constant(value: ir.Value) -> bool:
    """Whether a look at its producer leaves it open that a value is a constant; most values are none."""
    if value.tensor_proto is not None:
        return True
    node = value.producer
    return node is not None and not value.is_input and node.is_op(*_CONSTANT)


_CONSTANT = ("Constant", *FOLLOWED)


def _stored(value: ir.Value) -> ir.Tensor | None:
    """Return what an initializer that no caller can replace, or a Constant, stores."""
    if value.tensor_proto is not None:
        return value.tensor if value.graph.model.is_constant_initializer(value) else None
    node = value.producer
    if node is None or value.is_input or node.has_references or len(node.proto.attribute) != 1:  # several contradict
        return None
    if value.pending_tensor is not None:
        return value.pending_tensor
    with suppress(*_ILL_FORMED):
        attribute = node.proto.attribute[0]
        return node.graph.model.tensor(attribute.t) if attribute.name == "value" else made_of(node, [])
    return None


CONSTANTS = Memory(_Constants)
"""The constants of the models that are inside of `keeping_constants`."""


def keeping_constants(model: ir.Model) -> Keeping[_Constants]:
    """Evaluate no chain of constants of a model twice inside this context, in which nothing may edit the model."""
    return CONSTANTS.keeping(model)
