"""Inference of models with Slice, at which onnx ends the process where the input has a negative size.

So each is hidden until its input is known, or cannot be negative whatever is found out about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

import onnx

from bnfold.analysis.traits import BROADCASTING, CHOOSING, COUNTED, KEEPS_SHAPE, REARRANGING, REDUCING, WINDOWED
from bnfold.ir.messages import nested_graphs, nested_nodes

SLICE_ROUNDS = 32
"""Inferences of a model; each may make the inputs of further Slices known, and the rest stays unknown."""
_HIDDEN = "Slice of what is not known yet"
_POSITIVE = KEEPS_SHAPE | BROADCASTING | CHOOSING | COUNTED | REARRANGING | REDUCING | {"Concat", "Gemm", "MatMul"}
"""Operators that make no negative size if their inputs have none."""
_WINDOWED = WINDOWED - {"ConvTranspose"}
"""Operators that do so as well where their windows fit into the padding."""


def infer_with_slices(proto: onnx.ModelProto, run: Callable[[onnx.ModelProto], onnx.ModelProto]) -> onnx.ModelProto:
    """Infer by ``run``, again where that shows further Slices."""
    hidden = [node for node in nested_nodes(proto.graph.node) if _is_slice(node)]
    if not hidden:
        return run(proto)
    for node in hidden:
        node.op_type = _HIDDEN
    known = _Positive(proto.graph)
    inferred = proto
    for turn in range(SLICE_ROUNDS):
        positive = known.after(inferred.graph)
        shown = [node for node in hidden if node.input and node.input[0] in positive]
        for node in shown:
            node.op_type = "Slice"
        if not shown and turn:
            break
        hidden = [node for node in hidden if node.op_type == _HIDDEN]
        inferred = run(proto)
        if not hidden:
            break
    for node in hidden:
        node.op_type = "Slice"
    return inferred


def _is_slice(node: onnx.NodeProto) -> bool:
    return node.op_type == "Slice" and node.domain in ("", "ai.onnx")


class _Positive:
    """The values without a negative size: those of known rank, and what follows from such values.

    A name that another scope gives to an uncertain value does not count.
    """

    def __init__(self, graph: onnx.GraphProto) -> None:
        scopes = [*nested_graphs(graph)]
        self._is_flat = len(scopes) == 1
        self._stored = {tensor.name for scope in scopes for tensor in scope.initializer}
        self._inputs = {info.name for scope in scopes for info in scope.input}
        self._steps = [_step(node) for node in nested_nodes(graph.node)]

    def after(self, inferred: onnx.GraphProto) -> set[str]:
        """Return these values, by the types in the graph: after an inference, or before the first."""
        known, negative = set[str](), set[str]()
        for name, kind in self._typed(inferred):
            if kind.tensor_type.HasField("shape"):
                known.add(name)
                negative.update(name for dim in kind.tensor_type.shape.dim if dim.dim_value < 0)
        known = (known - negative) | self._stored
        uncertain = self._inputs - known
        for sources, made in self._steps:
            if sources is not None and known.issuperset(sources) and uncertain.isdisjoint(sources):
                known.update(made)
            else:
                uncertain.update(name for name in made if name not in known)
        return known - uncertain

    def _typed(self, graph: onnx.GraphProto) -> Iterator[tuple[str, onnx.TypeProto]]:
        for scope in (graph,) if self._is_flat else nested_graphs(graph):
            for info in chain(scope.input, scope.value_info, scope.output):
                yield info.name, info.type


def _step(node: onnx.NodeProto) -> tuple[list[str] | None, list[str]]:
    """Return the values that have to be positive for the outputs to be so, None if none suffice, and the outputs."""
    is_op, made = node.domain in ("", "ai.onnx"), [*node.output]
    if is_op and node.op_type in ("Constant", "Shape"):
        return [], made
    follows = is_op and (node.op_type in _POSITIVE or node.op_type == _HIDDEN or _is_padded(node))
    return [name for name in node.input if name] if follows else None, made


def _is_padded(node: onnx.NodeProto) -> bool:
    """Whether no window of a node is larger than what is padded around one element."""
    if node.op_type not in _WINDOWED:
        return False
    known = {attribute.name: attribute for attribute in node.attribute}
    taps, pads, steps = ([*known[name].ints] if name in known else [] for name in ("kernel_shape", "pads", "dilations"))
    if not taps or "auto_pad" in known or len(pads) not in (0, 2 * len(taps)) or len(steps) not in (0, len(taps)):
        return False
    beside = [sum(pads[axis :: len(taps)]) for axis in range(len(taps))]
    return all((tap - 1) * step <= pad for tap, step, pad in zip(taps, steps or [1] * len(taps), beside, strict=True))
