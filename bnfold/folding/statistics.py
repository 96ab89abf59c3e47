"""``s`` and ``t`` of all BatchNormalizations of a model in one vectorised step; one by one they cost five times it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from bnfold import ir
from bnfold.ir.tensor import Float64
from bnfold.semantics import BatchNorm
from bnfold.semantics.batchnorm import DEFAULT_EPSILON


@dataclass(frozen=True, slots=True)
class Known:
    """The result for one node, and the tensors that it was computed from: a fold may have replaced them since."""

    tensors: tuple[ir.Tensor, ...]
    epsilon: float
    s: Float64
    t: Float64

    def holds_for(self, norm: BatchNorm) -> bool:
        """Whether the node still is what it was."""
        values = (norm.scale, norm.bias, norm.mean, norm.var)
        return self.epsilon == norm.epsilon and all(
            value.pending_tensor is tensor for value, tensor in zip(values, self.tensors, strict=True)
        )


def prefetch(nodes: Iterable[ir.Node]) -> dict[ir.Node, Known]:
    """What can be told at once: nodes with four initializers of one length and finite results. No opinion on others."""
    candidates: list[tuple[ir.Node, tuple[ir.Tensor, ...], float]] = []
    for node in nodes:
        tensors = _parameters(node)
        epsilon = node.find("epsilon")
        if tensors is not None and (epsilon is None or not epsilon.ref_attr_name):
            candidates.append((node, tensors, DEFAULT_EPSILON if epsilon is None else epsilon.f))
    if not candidates:
        return {}
    scale, bias, mean, var = (
        np.concatenate([tensors[index].float64().reshape(-1) for _, tensors, _ in candidates]) for index in range(4)
    )
    sizes = [tensors[0].size for _, tensors, _ in candidates]
    with np.errstate(all="ignore"):
        spread = var + np.repeat([epsilon for _, _, epsilon in candidates], sizes)
        s = scale / np.sqrt(spread)
        t = bias - mean * s
    sound = (spread > 0) & np.isfinite(s) & np.isfinite(t)
    ends = np.cumsum(sizes)
    starts = ends - np.array(sizes)
    good = np.logical_and.reduceat(sound, starts)
    return {
        node: Known(tensors, epsilon, s[start:end], t[start:end])
        for (node, tensors, epsilon), start, end, fine in zip(candidates, starts, ends, good, strict=True)
        if fine
    }


def _parameters(node: ir.Node) -> tuple[ir.Tensor, ...] | None:
    """The four tensors, where all are constant initializers of one length, at least one element each."""
    found: list[ir.Tensor] = []
    for value in node.inputs[1:5]:
        if value is None or not value.is_initializer or not value.graph.model.is_constant_initializer(value):
            return None
        if value.tensor is None or value.tensor.size == 0 or (found and value.tensor.size != found[0].size):
            return None
        found.append(value.tensor)
    return tuple(found) if len(found) == 4 else None
