"""Initial states that were left out, and that were zero in every run: the operator starts from zeros either way."""

from __future__ import annotations

from bnfold import ir
from bnfold.analysis.zeros import is_idle_state
from bnfold.ir.value import Dim
from bnfold.verification.changes.partly import known_of


def is_left_out(old: ir.Node, new: ir.Node, slot: int) -> bool:
    """Whether ``new`` has no input at ``slot``, and ``old`` has a state of zeros there.

    A state that only ``new`` has is compared by running it: its sizes may be wrong.
    """
    if new.input(slot) is not None:
        return False
    known = known_of(old.graph.model)

    def dims(value: ir.Value | None) -> tuple[Dim, ...] | None:
        return None if value is None else known.dims(value)

    return is_idle_state(old, slot, dims)
