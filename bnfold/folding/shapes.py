"""Rank and dims of values. Shape inference runs once, and only when a question needs it."""

from __future__ import annotations

from contextlib import suppress
from weakref import WeakSet

from bnfold import analysis, converting, ir
from bnfold.analysis.shapes import queries
from bnfold.analysis.shapes.disputed import may_be_unsure
from bnfold.analysis.shapes.weights import contradicts_weights
from bnfold.errors import BnfoldError
from bnfold.ir.elements import MAX_RANK
from bnfold.ir.value import Dim
from bnfold.report.reasons import Declined, Reason


def dims(value: ir.Value) -> tuple[Dim, ...]:
    """Return the dims of a value, unknown ones as None or by name. Raises Declined where not even the rank is known."""
    known = known_dims(value)
    if known is None:
        raise Declined(Reason.RANK_UNKNOWN, f"value {value.name!r}")
    if len(known) > MAX_RANK:
        raise Declined(Reason.RANK_UNKNOWN, f"value {value.name!r} has {len(known)} dims, more than numpy can hold")
    return known


def known_dims(value: ir.Value) -> tuple[Dim, ...] | None:
    """Do as `dims`; None where not even the rank is known."""
    if value.shape is None or None in value.shape:
        learn_types(value.graph.model)
    return queries.alike(value).shape


def learn_types(model: ir.Model) -> None:
    """Infer what the file does not say, once."""
    if model.graph in _LEARNED:
        return
    _LEARNED.add(model.graph)
    if model.opset() < _KNOWS_SHAPE_ARITHMETIC:
        with suppress(BnfoldError):
            twin = model.clone()
            converting.convert(twin)
            analysis.infer_shapes(twin)
            model.learn_types(twin)
            return
    analysis.infer_shapes(model)


def learn_again(model: ir.Model) -> None:
    """Let types be inferred once more, for an edit that could not carry them on."""
    _LEARNED.discard(model.graph)


_LEARNED = WeakSet[ir.Graph]()
"""The graphs whose types are inferred already: edits carry them on."""
_KNOWS_SHAPE_ARITHMETIC = 14
"""The first opset whose Concat, Unsqueeze, Slice, Mul, … onnx follows the sizes through that a Reshape is given."""


def learn_unsure(model: ir.Model) -> None:
    """Forget annotations where runtimes compute a size differently, or where weights say that a rank is wrong."""
    if any(may_be_unsure(node) for node in model.nodes()) or contradicts_weights(model):
        learn_types(model)


def rank(value: ir.Value) -> int:
    """Return the rank of a value. A convolution's follows from its weight, without any inference."""
    source, told, least = queries.rank_from(value)
    if told is None and known_dims(source) is None:
        told = queries.stated_dims(source)  # by what has been learned of others
    return max(least, len(dims(source) if told is None else told))


def size(value: ir.Value, axis: int) -> Dim:
    """Return the size of a value along an axis, None or a name where it is unknown. Raises Declined as `dims`.

    The channels of what networks are made of follow from weights, without any inference.
    """
    known = value.shape[axis] if value.shape is not None and axis < len(value.shape) else None
    if isinstance(known, int) and known:
        return known
    channels = queries.channels(value) if axis == 1 and rank(value) > 1 else None
    return dims(value)[axis] if channels is None else channels
