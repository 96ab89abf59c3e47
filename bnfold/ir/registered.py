"""What a caller said of a node's operator."""

from __future__ import annotations

from bnfold.ir.node import Node
from bnfold.registered.table import RegisteredOperator, find_operator, registrations


def registered_operator(node: Node) -> RegisteredOperator | None:
    """Return what was said of the node's operator, in the version of its domain; None for calls of functions."""
    if not node.domain or not registrations(node.domain, node.op_type) or node.is_call:
        return None
    return find_operator(node.domain, node.op_type, node.graph.opset(node.domain))
