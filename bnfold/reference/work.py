"""How much an evaluation has computed: counted, so that it is the same on every machine and however busy that is."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bnfold import ir

PRODUCTS_A_SECOND = 2e9
"""Multiply-adds in float64 that modest machines reach."""

NODE_SECONDS = 2e-4
"""Of a node, its operator being looked up."""

ELEMENT_SECONDS = 1e-8
_RUN_SECONDS = 5e-5
"""Of a node that was looked up before."""

_STEP_SECONDS = 1e-4
"""Of one step of a recurrent node, in one direction, beside its products."""


@dataclass(slots=True)
class Work:
    """Seconds that modest machines take for the nodes that have run, and how many may be reached.

    ``tell`` is called with the seconds after each node.
    """

    seconds: float = 0.0
    limit: float = math.inf
    tell: Callable[[float], None] | None = None

    def add(self, node: ir.Node, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        """Count a node that has run."""
        made = sum(result.size for result in results if isinstance(result, np.ndarray))
        self.seconds += _RUN_SECONDS + made * ELEMENT_SECONDS + _products(node, inputs, made) / PRODUCTS_A_SECOND
        if node.is_op("LSTM", "GRU", "RNN"):
            data, weights, recurrence = inputs[:3]
            steps = data.shape[1 if node.attr("layout") else 0] * recurrence.shape[0]
            products = math.prod(data.shape[:2]) * (weights.size + recurrence.size)
            self.seconds += steps * _STEP_SECONDS + products / PRODUCTS_A_SECOND
        if self.tell is not None:
            self.tell(self.seconds)


def _products(node: ir.Node, inputs: Sequence[Any], made: int) -> float:
    """Return the multiply-adds of a node that makes so many elements."""
    if not node.is_op("Conv", "ConvTranspose", "MatMul", "Gemm"):
        return 0.0
    data, weight = inputs[:2]
    if node.is_op("Conv", "ConvTranspose"):  # each element that is made, or read, meets one window
        return float((made if node.is_op("Conv") else data.size) * weight.size / max(weight.shape[0], 1))
    return float(made * data.shape[-1]) if data.ndim else 0.0
