"""Initial states of RNN, GRU and LSTM that nodes fill with zeros: without one, they begin with zeros."""

from __future__ import annotations

import onnx

from bnfold import ir
from bnfold.ir.shapes.arithmetic import Proven
from bnfold.simplifying.plan import Plan, Respell

RECURRENT = ("RNN", "GRU", "LSTM")
_STATES = (5, 6)
"""Operands: the initial hidden state, and the initial cell state of an LSTM."""
_MOVING = frozenset({"Slice", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Expand", "Tile", "Identity"})
_FAR = 8
"""Nodes in a row that are looked at."""


def find_states(node: ir.Node, known: Proven) -> Plan | None:
    """Plan to leave out initial states that are zeros."""
    inputs = [None if slot in _STATES and _is_filled(value, known) else value for slot, value in enumerate(node.inputs)]
    if inputs == [*node.inputs]:
        return None
    while inputs[-1] is None:
        inputs.pop()
    return Respell(f"zero state of {node.op_type}", node, node.op_type, inputs, None)


def _is_filled(value: ir.Value | None, known: Proven) -> bool:
    """Whether nodes make a value of zeros alone."""
    for _ in range(_FAR):
        node = value.producer if value is not None else None
        if node is None or node.domain or node.has_references or known.calls(node):
            return False
        if node.is_op("ConstantOfShape"):
            number = node.attr("value")
            return number is None or not any(onnx.numpy_helper.to_array(number).tobytes())  # a -0 is none
        if node.op_type not in _MOVING:
            return False
        value = node.input(0)
    return False
