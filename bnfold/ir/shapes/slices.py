"""Inference of models with Slice, at which onnx ends the process where the input has a negative size.

So each is hidden until its input is known, or cannot be negative whatever is found out about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from itertools import chain

import onnx

from bnfold.ir.messages import nested_graphs, nested_nodes
from bnfold.ir.traits import BROADCASTING, CHOOSING, KEEPS_SHAPE, REARRANGING, REDUCING

SLICE_ROUNDS = 32
"""Inferences of a model; each may make the inputs of further Slices known, and the rest stays unknown."""
_HIDDEN = "Slice of what is not known yet"
_POSITIVE = KEEPS_SHAPE | BROADCASTING | CHOOSING | REARRANGING | REDUCING | {"Concat", "Gemm", "MatMul", _HIDDEN}
"""Operators that make no negative size if their inputs have none."""


def infer_with_slices(proto: onnx.ModelProto, run: Callable[[onnx.ModelProto], onnx.ModelProto]) -> onnx.ModelProto:
    """Infer by ``run``, again where that shows further Slices."""
    if not any(map(_is_slice, nested_nodes(proto.graph.node))):
        return run(proto)
    copy = deepcopy(proto)
    hidden = [node for node in nested_nodes(copy.graph.node) if _is_slice(node)]
    for node in hidden:
        node.op_type = _HIDDEN
    inferred = copy
    for _ in range(SLICE_ROUNDS):
        positive = _positive(copy.graph, inferred.graph)
        shown = [node for node in hidden if node.input and node.input[0] in positive]
        for node in shown:
            node.op_type = "Slice"
        if not shown and inferred is not copy:
            break
        hidden = [node for node in hidden if node.op_type == _HIDDEN]
        inferred = run(copy)
        if not hidden:
            break
    return inferred


def _is_slice(node: onnx.NodeProto) -> bool:
    return node.op_type == "Slice" and node.domain in ("", "ai.onnx")


def _positive(graph: onnx.GraphProto, inferred: onnx.GraphProto) -> set[str]:
    """Return the values without a negative size: those of known rank, and what follows from such values.

    A name that another scope gives to an uncertain value does not count.
    """
    known, negative = set[str](), set[str]()
    for name, kind in _typed(inferred):
        if kind.tensor_type.HasField("shape"):
            known.add(name)
            negative.update(name for dim in kind.tensor_type.shape.dim if dim.dim_value < 0)
    known -= negative
    known |= {tensor.name for scope in nested_graphs(graph) for tensor in scope.initializer}
    uncertain = {info.name for scope in nested_graphs(graph) for info in scope.input} - known
    for node in nested_nodes(graph.node):
        is_op = node.domain in ("", "ai.onnx")
        follows = node.op_type in ("Constant", "Shape") or (
            node.op_type in _POSITIVE and all(name in known and name not in uncertain for name in node.input if name)
        )
        if is_op and follows:
            known.update(node.output)
        else:
            uncertain.update(name for name in node.output if name not in known)
    return known - uncertain


def _typed(graph: onnx.GraphProto) -> Iterator[tuple[str, onnx.TypeProto]]:
    for scope in nested_graphs(graph):
        for info in chain(scope.input, scope.value_info, scope.output):
            yield info.name, info.type
