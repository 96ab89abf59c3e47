"""Estimate the time and memory that evaluating a whole model will take, from shapes."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping
from typing import NamedTuple

from bnfold import ir
from bnfold.ir.value import Known
from bnfold.reference.work import ELEMENT_SECONDS, NODE_SECONDS, PRODUCTS_A_SECOND
from bnfold.verification.inputs.sized import MANY_NODES, sized

_SESSION_SECONDS = 1.6e-7
"""Building an onnxruntime session takes about this times the square of the number of nodes, optimisation off."""

MOST_BYTES = 1 << 30
"""Of weights, up to which a runtime is asked: it loads them whole."""

HELD = 6
"""Arrays of the size of the largest activation that may be alive at once, as float64."""


class Cost(NamedTuple):
    """Of one evaluation."""

    seconds: float
    memory: int


def estimate(model: ir.Model) -> Cost:
    """Return seconds and bytes for a model whose values have sizes (`sized`); values of unknown size count nothing."""
    seconds = least_seconds(model)
    if len(model.graph.nodes) > MANY_NODES:
        return Cost(seconds, 0)
    largest = 0
    for node in model.graph.nodes:
        made = max((_elements(value) for value in node.outputs), default=0)
        largest = max(largest, made)
        seconds += made * ELEMENT_SECONDS + _products(node, made) / PRODUCTS_A_SECOND
    return Cost(seconds, 8 * HELD * largest)


def least_seconds(model: ir.Model) -> float:
    """Return what one evaluation takes at least, whatever the sizes are."""
    return NODE_SECONDS * len(model.graph.nodes)


def estimate_pair(before: ir.Model, after: ir.Model, shapes: Mapping[str, Known]) -> Cost:
    """Return the same for a model that has sizes and its rewriting at these ``shapes`` of inputs: the larger.

    Inference does not know what some old operators make; of those that took their place it may.
    """
    own = estimate(before)
    if len(before.graph.nodes) > MANY_NODES or all(map(_is_inferred, before.graph.nodes)):
        return own
    return max(own, estimate(sized(after, shapes)), key=lambda cost: cost.seconds)


def _is_inferred(node: ir.Node) -> bool:
    return all(value is None or value.shape is not None for value in node.outputs)


def session_seconds(*models: ir.Model) -> float:
    """Return what a runtime takes to open the largest of the models."""
    return max(_SESSION_SECONDS * len(model.graph.nodes) ** 2 for model in models)


def memory_there_is() -> int:
    """Return bytes of main memory; more than any machine has if the system does not report it."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return sys.maxsize


def fits_memory(elements: int, cost: Cost | None = None) -> bool:
    """Whether main memory holds inputs of so many elements, and what a run on them is estimated to take."""
    return max(input_bytes(elements), cost.memory if cost is not None else 0) <= memory_there_is()


def input_bytes(elements: int) -> int:
    """Return the bytes of so many elements in float64."""
    return 8 * elements


def _products(node: ir.Node, made: int) -> int:
    """Return multiply-adds of a node with so many elements in its largest output."""
    if node.is_op("LSTM", "GRU", "RNN"):  # the weights of input and state take part in each step
        steps = math.prod(_dims(node.input(0))[:2])
        return steps * sum(math.prod(_dims(node.input(slot))) for slot in (1, 2))
    return made * _products_an_element(node)


def _products_an_element(node: ir.Node) -> int:
    """Return multiply-adds for each element of the output."""
    if node.is_op("Conv"):
        return math.prod(_dims(node.input(1))[1:])
    if node.is_op("ConvTranspose"):
        dims = _dims(node.input(1))
        strides = math.prod(node.attr("strides") or [1])
        group = int(node.attr("group", 1))
        return math.prod((dims[0], *dims[2:])) // max(group * strides, 1) if len(dims) > 2 else 0
    if node.is_op("MatMul", "Gemm"):
        return max(_dims(node.input(0))[-1:], default=0)
    return 0


def _dims(value: ir.Value | None) -> tuple[int, ...]:
    shape = value.shape if value is not None else None
    return tuple(dim if isinstance(dim, int) else 1 for dim in shape or ())


def _elements(value: ir.Value | None) -> int:
    shape = value.shape if value is not None else None
    if not shape or not all(isinstance(dim, int) for dim in shape):
        return 0
    return math.prod(dim for dim in shape if isinstance(dim, int))
