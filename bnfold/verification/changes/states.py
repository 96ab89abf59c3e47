"""Initial states that were left out, and that were zero in every run: the operator starts from zeros either way."""

from __future__ import annotations

from bnfold import ir, reference
from bnfold.ir.elements import FLOATS
from bnfold.ir.value import Dim
from bnfold.reference.operators import MOVING
from bnfold.verification.changes.from_constants import filled
from bnfold.verification.changes.partly import known_of

_STATES = {"RNN": (5,), "GRU": (5,), "LSTM": (5, 6), "DynamicQuantizeLSTM": (5, 6)}
"""The inputs that hold a state: initial_h, and of an LSTM initial_c."""
_RANK = 3
"""Of a state: directions, batch, hidden units."""
_FEW = 32
"""Nodes that are visited to find out what a state is made of."""
_MOST_BYTES = 1 << 20
"""Bytes of a stored state that is read."""
_KEEPS_ZEROS = MOVING - {"Pad"} | {"Cast", "Identity"}
"""Operators that make zeros of zeros."""


def is_left_out(old: ir.Node, new: ir.Node, slot: int) -> bool:
    """Whether ``new`` has no input at ``slot``, and ``old`` has a state of zeros there.

    A state that only ``new`` has is compared by running it: its sizes may be wrong. A state of other sizes than the
    operator's makes every run fail. So it is none, if its sizes are known to differ.
    """
    state = old.input(slot)
    is_state = slot in _STATES.get(old.op_type, ()) and old.is_known and not (old.has_references or old.is_call)
    if state is None or new.input(slot) is not None or not is_state or old.attr("layout", 0) or not _is_zero(state):
        return False
    known = known_of(old.graph.model)
    steps, recurrence, dims = (
        None if value is None else known.dims(value) for value in (old.input(0), old.input(2), state)
    )
    if dims is None or recurrence is None or len(dims) != _RANK or len(recurrence) != _RANK:
        return False
    hidden = old.attr("hidden_size", None if old.domain else recurrence[2])
    batch = steps[1] if steps is not None and len(steps) == _RANK else None
    return all(map(_may_be_equal, dims, (recurrence[0], batch, hidden)))


def _is_zero(state: ir.Value) -> bool:
    """Whether every element is 0 in every run, at whatever size. A number of the other sign, -0, is none."""
    waiting, seen = [state], {state}
    while waiting:
        value = waiting.pop()
        node = value.producer
        if value.stored_bytes > _MOST_BYTES:
            return False
        if (held := reference.constant(value)) is not None:
            if held.dtype not in FLOATS or any(held.numpy().tobytes()):
                return False
        elif node is None or node.domain or node.has_references or node.is_call or len(seen) > _FEW:
            return False
        elif node.is_op("ConstantOfShape"):
            fill = filled(node, ())
            if fill is None or any(fill.numpy().tobytes()):
                return False
        elif node.has_trait(_KEEPS_ZEROS):
            sources = [source for source in node.inputs[: None if node.is_op("Concat") else 1] if source is not None]
            waiting += [source for source in sources if source not in seen]
            seen.update(sources)
        else:
            return False
    return True


def _may_be_equal(one: Dim, other: Dim) -> bool:
    """Whether two sizes may be equal in each run.

    The name of an input's size has a colon. Of a size that inference names, nothing is known.
    """
    return one == other or any(size is None or (isinstance(size, str) and ":" not in size) for size in (one, other))
