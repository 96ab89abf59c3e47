"""Values that are the same in every run: integers that follow from known sizes, and small results of constants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import onnx

from bnfold import analysis, ir
from bnfold.analysis.shapes.arithmetic import Proven
from bnfold.edits.edit import StoreConstant
from bnfold.edits.size_budget import SizeBudget
from bnfold.errors import BnfoldError
from bnfold.ir.tensor import InMemory, numpy_type
from bnfold.report import rewrites
from bnfold.report.rewrites import Rewrite
from bnfold.simplifying.plan import Simplification
from bnfold.simplifying.worth import ResultGroup, worth_storing

QUANTIZING = frozenset({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"})
"""What marks weights and values as quantized, for runtimes that know what to do with them."""


def find_computed(
    graph: ir.Graph,
    known: Proven,
    budget: SizeBudget,
    disabled: frozenset[str] = frozenset(),
    *,
    can_grow: bool,
) -> tuple[list[Simplification], bool]:
    """Plan to store values of a graph that are computed from constants or known sizes, each where a chain ends.

    If the end of a chain costs too much, or its rewrite is ``disabled``, what is before it may be stored. Also returns
    whether nothing costs too much.
    """
    if not isinstance(graph.proto, onnx.GraphProto):
        return [], True
    found: dict[ir.Node, tuple[Rewrite, ir.Tensor]] = {}
    quantized: set[ir.Value] = set()
    # An operator of another domain cannot be evaluated, so a constant among its inputs could not be verified.
    followed = () if any(node.domain for node in graph.model.nodes()) else ("Shape", "Size")
    with analysis.evaluated_once(graph.model):
        for node in graph.nodes:
            if node.op_type in QUANTIZING or (
                not node.is_op(*followed) and any(value in quantized for value in node.inputs)
            ):
                quantized.update(value for value in node.outputs if value is not None)
                continue
            result = _computed(node, known)
            if result is not None and result[0].name not in disabled:
                found[node] = result
        fits = True
        while found:
            ends = {node: made[1] for node, made in found.items() if any(use not in found for use in _consumers(node))}
            stored, all_fit = worth_storing(ends, budget, can_grow=can_grow)
            fits &= all_fit
            if stored or not ends:
                return [plan for results in stored for plan in _plans(results, found)], fits
            found = {node: result for node, result in found.items() if node not in ends}
    return [], fits


def _plans(results: ResultGroup, found: Mapping[ir.Node, tuple[Rewrite, ir.Tensor]]) -> Iterator[Simplification]:
    """Yield what stores results; the first one has what all of them cost."""
    costs = (results.growth, results.saved)
    for node in results.nodes:
        rewrite, tensor = found[node]
        yield Simplification(rewrite, StoreConstant(node, InMemory(tensor.dtype, tensor.numpy())), *costs)
        costs = (0, 0)


def _consumers(node: ir.Node) -> list[ir.Node]:
    return [consumer for value in node.outputs if value is not None for consumer in value.consumers]


def _computed(node: ir.Node, known: Proven) -> tuple[Rewrite, ir.Tensor] | None:
    value = node.outputs[0] if len(node.outputs) == 1 else None
    if (
        value is None
        or value.is_output
        or node.op_type == "Constant"
        or node.domain
        or node.subgraphs
        or known.calls(node)
    ):
        return None
    try:
        return _result(value, known)
    except BnfoldError:  # damaged, or beyond the range of its type: running the model reports it
        return None


def _result(value: ir.Value, known: Proven) -> tuple[Rewrite, ir.Tensor] | None:
    told = known.integers(value)
    if told is not None and (numbers := told.numbers) is not None:
        array = np.array(numbers, numpy_type(told.dtype)).reshape(told.dims)
        return rewrites.SHAPE_STORED, InMemory(told.dtype, array)
    held = analysis.constant(value)
    return (rewrites.RESULT_STORED, held) if held is not None else None
