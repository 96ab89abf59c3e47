"""Types that callers' shape functions give the results of registered operators, of single nodes."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from bnfold.analysis.described import described
from bnfold.ir.node import Node
from bnfold.ir.registered import registered_operator
from bnfold.ir.shown import asked, value_type
from bnfold.registered import faults
from bnfold.registered.types import ValueType


def registered_types(node: Node, read: Sequence[onnx.TypeProto | None]) -> list[onnx.TypeProto | None]:
    """Return the types of a node's results, from those that it reads; nothing if no shape function says them."""
    operator = registered_operator(node)
    if operator is None or operator.shape is None or node.has_references or faults.is_distrusted(operator):
        return []
    seen = described(node)
    kinds: list[ValueType | None] = []
    for slot, (value, kind) in enumerate(zip(node.inputs, read, strict=True)):
        typed = None if kind is None else value_type(kind)
        if typed is not None and typed.dtype.kind == "i" and (held := seen.read(slot)) is not None:
            typed.numbers = held
        if typed is None and value is not None:
            return []
        kinds.append(typed)
    return asked(operator, kinds, seen.attributes)
