"""Rank and dims of values. Shape inference runs once, and only when a question needs it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from bnfold import converting, ir
from bnfold.errors import BnfoldError
from bnfold.ir.elements import MAX_RANK
from bnfold.ir.shapes.disputed import may_be_unsure
from bnfold.ir.shapes.weights import contradicts_weights, dims_by_weights
from bnfold.ir.traits import KEEPS_CHANNELS, KEEPS_RANK, KEEPS_SHAPE
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
    """Do as `dims`; None where not even the rank is known.

    A size of 0 that a file declares is an unknown one to some.
    """
    if value.shape is None or None in value.shape:
        learn_types(value.graph.model)
    found = _alike(value).shape
    is_open = found is not None and 0 in found and ir.constant(value) is None
    return tuple(dim or None for dim in found) if found is not None and is_open else found


_FAR = 128
"""Values that one question looks at, before it is left to inference; a walk to the top for each node is quadratic."""
_ROWS = 8
"""Rows of such operators, with constant arithmetic between them."""


def _alike(value: ir.Value, keeping: frozenset[str] = KEEPS_SHAPE) -> ir.Value:
    """Return a value of the same dims further up, where they are not known here: not every operator can be inferred."""
    for _ in range(_FAR):
        node = value.producer
        if value.shape is not None or value.slot != 0 or node is None or not node.has_trait(keeping):
            break
        value = node.input(0) or value
    return value


def learn_types(model: ir.Model) -> None:
    """Infer what the file does not say, once."""
    if model.has_learned_types:
        return
    model.has_learned_types = True
    if model.opset() < _KNOWS_SHAPE_ARITHMETIC:
        with suppress(BnfoldError):
            twin = model.clone()
            converting.convert(twin)
            twin.infer_shapes()
            model.learn_types(twin)
            return
    model.infer_shapes()


_KNOWS_SHAPE_ARITHMETIC = 14
"""The first opset whose Concat, Unsqueeze, Slice, Mul, … onnx follows the sizes through that a Reshape is given."""


def learn_unsure(model: ir.Model) -> None:
    """Forget annotations where runtimes compute a size differently, or where weights say that a rank is wrong."""
    if any(may_be_unsure(node) for node in model.nodes()) or contradicts_weights(model):
        learn_types(model)


def rank(value: ir.Value) -> int:
    """Return the rank of a value. A convolution's follows from its weight, without any inference."""
    least = 0
    for _ in range(_ROWS):
        value = _alike(value, KEEPS_RANK)
        known = value.shape if value.shape is not None else _told(value)
        if known is not None and len(known) <= MAX_RANK:
            return max(least, len(known))
        if known is not None or (stretched := _stretched(value)) is None:
            break
        value, least = stretched[0], max(least, len(stretched[1]))
    if known_dims(value) is None and (told := _told(value)) is not None:  # by what has been learned of others
        return max(least, len(told))
    return max(least, len(dims(value)))


def _told(value: ir.Value) -> Sequence[Dim] | None:
    """Return the dims that a weight or a stored constant tells."""
    node = value.producer
    if node is None or value.slot != 0:
        return None
    held = ir.constant(value) if node.is_op("Constant") else None
    return held.dims if held is not None else dims_by_weights(node)


def _stretched(value: ir.Value) -> tuple[ir.Value, tuple[int, ...]] | None:
    """Return the value that is multiplied by or added to a constant to make ``value``, and the dims of the constant."""
    node = value.producer
    if node is None or not node.is_op("Mul", "Add") or len(node.inputs) != 2 or node.find("broadcast") is not None:
        return None
    for x, other in (node.inputs, node.inputs[::-1]):
        if x is not None and (held := ir.constant(other)) is not None:
            return x, held.dims
    return None


def size(value: ir.Value, axis: int) -> Dim:
    """Return the size of a value along an axis, None or a name where it is unknown. Raises Declined as `dims`.

    The channels of what networks are made of follow from weights, without any inference.
    """
    known = value.shape[axis] if value.shape is not None and axis < len(value.shape) else None
    if isinstance(known, int) and known:
        return known
    channels = None
    if axis == 1 and rank(value) > 1:
        evaluation = value.graph.model.evaluation
        channels = _known_channels(value, evaluation.channels if evaluation is not None else {})
    return dims(value)[axis] if channels is None else channels


def _known_channels(value: ir.Value, found: dict[ir.Value, int]) -> int | None:
    """Do as `_channels`; of a row of Concats, each would be added up from the first one again."""
    if value not in found:
        asked: dict[ir.Value, int | None] = {}
        with suppress(Declined):  # a rank further up that nothing tells
            _channels(value, asked)
        found.update((other, channels) for other, channels in asked.items() if channels is not None)
    return found.get(value)


def _channels(value: ir.Value, asked: dict[ir.Value, int | None]) -> int | None:
    """Return the size of axis 1 as weights tell it; None where they do not."""
    if value in asked or len(asked) > _FAR:
        return asked.get(value)
    asked[value] = None
    node = value.producer
    if value.shape is not None and len(value.shape) > 1 and isinstance(value.shape[1], int):
        asked[value] = value.shape[1]
    elif node is None or value.slot != 0:
        return None
    elif (told := _told(value)) is not None and len(told) > 1 and isinstance(told[1], int):
        asked[value] = told[1]
    elif node.is_op("BatchNormalization") and node.find("spatial") is None:
        scale = ir.constant(node.input(1))
        asked[value] = scale.size if scale is not None and len(scale.dims) == 1 else None
    elif node.is_op("Concat") and (axis := node.find("axis")) is not None and axis.i == 1 and not axis.ref_attr_name:
        parts = [_channels(part, asked) if part is not None else None for part in node.inputs]
        asked[value] = sum(part for part in parts if part is not None) if None not in parts else None
    elif (stretched := _stretched(value)) is not None:
        (operand, constant), channels = stretched, _channels(stretched[0], asked)
        if channels is not None and {1, channels}.issuperset(constant) and len(constant) <= rank(operand):
            asked[value] = channels
    elif node.has_trait(KEEPS_CHANNELS) and (x := node.input(0)) is not None:
        asked[value] = _channels(x, asked)
    return asked[value]
