"""Values that are zero in every run, at whatever size, and initial states that an operator would start from anyway."""

from __future__ import annotations

from collections.abc import Callable

import onnx

from bnfold.analysis.constants import constant
from bnfold.analysis.traits import MOVING, STATES
from bnfold.ir.node import Node
from bnfold.ir.tensor import FLOATS
from bnfold.ir.value import Dim, Value

_FEW = 32
"""Nodes that are visited to find out what a value is made of."""
_MOST_BYTES = 1 << 20
"""Bytes of a stored tensor that is read: weights are not loaded."""
_RANK = 3
"""Of a state: directions, batch, hidden units."""
_MOVING = MOVING - {"Pad"} | {"Cast", "Identity"}
"""Operators that make zeros of zeros."""

OptionalDims = tuple[Dim, ...] | None


def is_zero(value: Value) -> bool:
    """Whether every element of a value is 0 in every run. A number of the other sign, -0, is none."""
    waiting, seen = [value], {value}
    while waiting:
        made = waiting.pop()
        if made.tensor_proto is not None or made.holds_constant:
            if not _is_stored_zero(made):
                return False
            continue
        node = made.producer
        if node is None or node.domain or node.has_references or node.is_call or len(seen) > _FEW:
            return False
        if node.is_op("ConstantOfShape"):
            fill = node.attr("value")
            if fill is not None and any(onnx.numpy_helper.to_array(fill).tobytes()):
                return False
            continue
        if not node.has_trait(_MOVING):
            return False
        sources = [source for source in node.inputs[: None if node.is_op("Concat") else 1] if source is not None]
        waiting += [source for source in sources if source not in seen]
        seen.update(sources)
    return True


def _is_stored_zero(value: Value) -> bool:
    held = constant(value) if value.stored_bytes <= _MOST_BYTES else None
    return held is not None and held.dtype in FLOATS and not any(held.numpy().tobytes())


def is_idle_state(node: Node, slot: int, dims_of: Callable[[Value | None], OptionalDims]) -> bool:
    """Whether a recurrent operator makes the same without its initial state at ``slot``: it is zero.

    A state of other sizes than the operator's makes every run fail. It is not idle if its sizes are known to differ.
    """
    state = node.input(slot)
    if state is None or not node.is_known or node.has_references or node.is_call or not is_zero(state):
        return False
    if slot not in STATES.get(node.op_type, ()) or node.attr("layout", 0):
        return False
    steps, recurrence, dims = dims_of(node.input(0)), dims_of(node.input(2)), dims_of(state)
    if dims is None or recurrence is None or len(dims) != len(recurrence) or len(dims) != _RANK:
        return False
    hidden = node.attr("hidden_size", None if node.domain else recurrence[2])
    batch = steps[1] if steps is not None and len(steps) == _RANK else None
    return all(map(_may_be_equal, dims, (recurrence[0], batch, hidden)))


def _may_be_equal(one: Dim, other: Dim) -> bool:
    """Whether two sizes may be equal in each run.

    The name of an input's size has a colon. Of a size that inference names, nothing is known.
    """
    return one == other or any(size is None or (isinstance(size, str) and ":" not in size) for size in (one, other))
