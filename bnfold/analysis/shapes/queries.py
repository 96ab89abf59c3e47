"""Rank, dims and channels of a value, from annotations, weights and constants; nothing is inferred."""

from __future__ import annotations

from collections.abc import Sequence

from bnfold.analysis.constants import EVALUATIONS, constant, stored
from bnfold.analysis.shapes.weights import dims_by_weights
from bnfold.analysis.traits import KEEPS_CHANNELS, KEEPS_RANK, KEEPS_SHAPE
from bnfold.ir.elements import MAX_RANK
from bnfold.ir.value import Dim, Value

_FAR = 128
"""Values that one question looks at, before it is left to inference; a walk to the top for each node is quadratic."""
_ROWS = 8
"""Rows of operators that keep a rank, with constant arithmetic between them."""


def alike(value: Value, keeping: frozenset[str] = KEEPS_SHAPE) -> Value:
    """Return a value of the same dims further up, where they are not known here: not every operator can be inferred."""
    for _ in range(_FAR):
        node = value.producer
        if value.shape is not None or value.slot != 0 or node is None or not node.has_trait(keeping):
            break
        value = node.input(0) or value
    return value


def stated_dims(value: Value) -> Sequence[Dim] | None:
    """Return the dims that an annotation, a weight or a stored constant states, as far as it states them."""
    told = value.shape if value.shape is not None else _by_weights(value)
    return None if told is None or len(told) > MAX_RANK else told


def _by_weights(value: Value) -> Sequence[Dim] | None:
    node = value.producer
    if node is None or value.slot != 0:
        return None
    held = stored(value)
    return held.dims if held is not None else dims_by_weights(node)


def rank_from(value: Value) -> tuple[Value, Sequence[Dim] | None, int]:
    """Return a value further up, its stated dims, and a number: the rank is that of the value, or the larger number."""
    least = 0
    for _ in range(_ROWS):
        value = alike(value, KEEPS_RANK)
        told = stated_dims(value)
        if told is not None or (stretched := _stretched(value)) is None:
            return value, told, least
        value, least = stretched[0], max(least, len(stretched[1]))
    return value, stated_dims(value), least


def _stretched(value: Value) -> tuple[Value, tuple[int, ...]] | None:
    """Return the value that is multiplied by or added to a constant to make ``value``, and the dims of the constant."""
    node = value.producer
    if node is None or not node.is_op("Mul", "Add") or len(node.inputs) != 2 or node.find("broadcast") is not None:
        return None
    for x, other in (node.inputs, node.inputs[::-1]):
        if x is not None and (held := constant(other)) is not None:
            return x, held.dims
    return None


def channels(value: Value) -> int | None:
    """Return the size of axis 1; None if it is unknown.

    Results are kept as long as evaluated constants are: in a row of Concats, each would otherwise be added up from the
    first one again.
    """
    evaluation = EVALUATIONS.of(value.graph.model)
    found = evaluation.channels if evaluation is not None else {}
    if value not in found:
        asked: dict[Value, int | None] = {}
        _channels(value, asked)
        found.update((other, size) for other, size in asked.items() if size is not None)
    return found.get(value)


def _channels(value: Value, asked: dict[Value, int | None]) -> int | None:
    if value in asked or len(asked) > _FAR:
        return asked.get(value)
    node = value.producer
    told = (dims[1] for dims in (value.shape, _by_weights(value)) if dims is not None and len(dims) > 1)
    asked[value] = next((size for size in told if isinstance(size, int)), None)
    if asked[value] is not None or node is None or value.slot != 0:
        return asked[value]
    if node.is_op("BatchNormalization") and node.find("spatial") is None:
        scale = constant(node.input(1))
        asked[value] = scale.size if scale is not None and len(scale.dims) == 1 else None
    elif node.is_op("Concat") and (axis := node.find("axis")) is not None and axis.i == 1 and not axis.ref_attr_name:
        parts = [_channels(part, asked) if part is not None else None for part in node.inputs]
        asked[value] = sum(part for part in parts if part is not None) if None not in parts else None
    elif (stretched := _stretched(value)) is not None:
        (operand, constant_dims), size = stretched, _channels(stretched[0], asked)
        if size is not None and {1, size}.issuperset(constant_dims) and len(constant_dims) <= _rank(operand):
            asked[value] = size
    elif node.has_trait(KEEPS_CHANNELS) and (x := node.input(0)) is not None:
        asked[value] = _channels(x, asked)
    return asked[value]


def _rank(value: Value) -> int:
    """Return the rank as far as it is known, at least 0."""
    _, told, least = rank_from(value)
    return max(least, len(told or ()))
