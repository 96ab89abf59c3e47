"""How large a model becomes when every call of a function is replaced by its body, as onnx's shape inference does it.

Forty functions that each call the next one twice are 4 kB in a file and 10¹² nodes expanded; three thousand in a row
overflow the stack of what follows them by recursion.
"""

from __future__ import annotations

from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter

import onnx

from bnfold.ir.messages import FunctionKey, function_key, nested_nodes

MAX_NODES = 1_000_000
MAX_DEPTH = 100


def is_bounded(proto: onnx.ModelProto) -> bool:
    """Whether the model stays within reason, and no function calls itself."""
    if not proto.functions:
        return True
    functions = {function_key(one): one for one in proto.functions}
    calls = {key: _called(function.node, functions) for key, function in functions.items()}
    sizes: dict[FunctionKey, tuple[int, int]] = {}
    try:
        for key in TopologicalSorter({key: called for key, (_, called) in calls.items()}).static_order():
            sizes[key] = _total(*calls[key], sizes)
            if sizes[key][0] > MAX_NODES or sizes[key][1] > MAX_DEPTH:
                return False
    except CycleError:
        return False
    own, called = _called(proto.graph.node, functions)
    return _total(own, called, sizes)[0] <= MAX_NODES


def _total(own: int, called: Iterable[FunctionKey], sizes: dict[FunctionKey, tuple[int, int]]) -> tuple[int, int]:
    inner = [sizes[key] for key in called]
    return own + sum(nodes for nodes, _ in inner), 1 + max((depth for _, depth in inner), default=0)


def _called(
    nodes: Iterable[onnx.NodeProto], functions: dict[FunctionKey, onnx.FunctionProto]
) -> tuple[int, list[FunctionKey]]:
    """Return how many nodes there are, at any depth, and which functions they call, as often as they do."""
    count, called = 0, []
    for node in nested_nodes(nodes):
        count += 1
        key = function_key(node)
        if key in functions:
            called.append(key)
    return count, called
