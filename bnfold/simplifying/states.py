"""Initial states of zeros, from which recurrent operators start anyway."""

from __future__ import annotations

from bnfold import ir
from bnfold.analysis.shapes.arithmetic import Proven
from bnfold.analysis.traits import STATES
from bnfold.analysis.zeros import is_idle_state
from bnfold.report import rewrites
from bnfold.simplifying.plan import Simplification, replace


def find_states(node: ir.Node, known: Proven) -> Simplification | None:
    """Plan to leave out initial states that are zero in every run."""
    idle = [slot for slot in STATES[node.op_type] if is_idle_state(node, slot, known.dims)]
    if not idle:
        return None
    inputs = [None if slot in idle else value for slot, value in enumerate(node.inputs)]
    while inputs[-1] is None:
        inputs.pop()
    return replace(rewrites.ZERO_STATES.of(node.op_type), node, node.op_type, inputs)
