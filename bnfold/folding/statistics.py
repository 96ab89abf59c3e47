"""``s`` and ``t`` of all BatchNormalizations of a model in one vectorised step; one by one they cost five times it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from onnx import AttributeProto

from bnfold import ir
from bnfold.classes import frozen
from bnfold.ir.elements import Array, Bools, Float64
from bnfold.semantics import BatchNorm
from bnfold.semantics.batchnorm import DEFAULT_EPSILON


@frozen
class Known:
    """The result for one node, and the tensors that it was computed from: a fold may have replaced them since."""

    tensors: tuple[ir.Tensor | None, ...]
    epsilon: float
    s: Float64
    t: Float64

    def holds_for(self, norm: BatchNorm) -> bool:
        """Whether the node still is what it was."""
        values = (norm.scale, norm.bias, norm.mean, norm.var)
        return self.epsilon == norm.epsilon and all(
            value.pending_tensor is tensor for value, tensor in zip(values, self.tensors, strict=True)
        )


@frozen(eq=False)
class Table:
    """``s`` and ``t`` of many nodes, one after the other.

    Attributes:
        nodes: Those that have an opinion at all: four constant initializers of one length, at least one element each.
        starts: Where the vectors of each begin.
        sizes: How many elements each has.
        sound: Whether all of a node's results are finite, and its variances positive.
    """

    nodes: tuple[ir.Node, ...]
    epsilons: tuple[float, ...]
    starts: Array
    sizes: tuple[int, ...]
    s: Float64
    t: Float64
    sound: Bools

    def every(self, elements: Bools) -> Bools:
        """For each node whether all of its elements are true."""
        return np.logical_and.reduceat(elements, self.starts)

    def vectors(self, flat: Float64) -> list[Float64]:
        """A flat array cut into the vectors of the nodes."""
        return [flat[start : start + size] for start, size in zip(self.starts.tolist(), self.sizes, strict=True)]


def tabulate(nodes: Iterable[ir.Node]) -> Table | None:
    """The statistics of those ``nodes`` that have such parameters; None where there are none."""
    candidates = [(node, parameters) for node in nodes if (parameters := _parameters(node)) is not None]
    columns = [ir.flat_floats([parameters[index] for _, parameters in candidates]) for index in range(4)]
    if any(sizes != columns[0][1] for _, sizes in columns) or 0 in columns[0][1]:
        lengths = list(zip(*(sizes for _, sizes in columns), strict=True))
        even = [node for (node, _), each in zip(candidates, lengths, strict=True) if each[0] and len(set(each)) == 1]
        return tabulate(even)
    if not candidates:
        return None
    (scale, sizes), (bias, _), (mean, _), (var, _) = columns
    epsilons = tuple(_epsilon(node) for node, _ in candidates)
    with np.errstate(all="ignore"):
        spread = var + np.repeat(epsilons, sizes)
        s = scale / np.sqrt(spread)
        t = bias - mean * s
    starts = np.cumsum(sizes) - np.array(sizes)
    sound = np.logical_and.reduceat((spread > 0) & np.isfinite(s) & np.isfinite(t), starts)
    return Table(tuple(node for node, _ in candidates), epsilons, starts, tuple(sizes), s, t, sound)


def prefetch(nodes: Iterable[ir.Node]) -> dict[ir.Node, Known]:
    """What can be told at once; no opinion on the nodes that are missing."""
    table = tabulate(nodes)
    if table is None:
        return {}
    rows = zip(table.nodes, table.epsilons, table.vectors(table.s), table.vectors(table.t), table.sound, strict=True)
    found = {}
    for node, epsilon, s, t, sound in rows:
        if sound:
            tensors = tuple(value.tensor for value in node.inputs[1:5] if value is not None)
            found[node] = Known(tensors, epsilon, s, t)
    return found


def _parameters(node: ir.Node) -> list[ir.Value] | None:
    """The four parameters, where all are constant initializers and epsilon is a float as it should be."""
    found = []
    for value in node.inputs[1:5]:
        if value is None or not value.graph.model.is_constant_initializer(value):
            return None
        found.append(value)
    epsilon = node.find("epsilon")
    is_plain = epsilon is None or (epsilon.type == AttributeProto.FLOAT and not epsilon.ref_attr_name)
    return found if len(found) == 4 and is_plain else None


def _epsilon(node: ir.Node) -> float:
    attribute = node.find("epsilon")
    return DEFAULT_EPSILON if attribute is None else attribute.f
