"""What a plan is worth that leaves an operator behind: whether an Add in place of a BatchNormalization pays.

Runtimes know BatchNormalization well: they fuse it with the Relu behind it, and keep the layout that convolutions like.
An Add in its place is one operator too, and often a slower one. So it has to leave fewer operators, or as many on
fewer elements, as behind a pooling or a stride.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from bnfold import ir
from bnfold.analysis.traits import KEEPS_CHANNELS, KEEPS_SHAPE, REARRANGING, RESHAPING, WINDOWED
from bnfold.edits.edit import Bypass, Edit, ExtraAdd, distinct_adds
from bnfold.folding import facts, shapes
from bnfold.folding.chains import AffineChain
from bnfold.folding.plan import Plan
from bnfold.report.reasons import Declined, Reason, SearchTrace

WORK = {"operator": 1.0, "image": 4.0}
"""Work for each element: of an operator that is there, or an Add of a number for each channel; of a border image.

A border image stands behind a Conv, out of the layout that runtimes like, and its constant is as large as the value.

Measured in onnxruntime 1.32, CPU, one thread, default optimisation: four blocks of Relu, the operator, Conv of 32
channels. Microseconds that the four operators take, beside the same network without them:

    image, and what is behind        BatchNormalization   Add of channels   border image
    96x96, Conv that pads                           391              1033
    96x96, MaxPool 2x1, Conv                        178               198
    128x128, MaxPool 2x2, Conv                      267               186
    96x96, Conv of stride 2x1                       194                              373
    128x128, Conv of stride 2x2                     307                              302
    8192, Conv that pads                            225               225
    8192, MaxPool 2, Conv                           143                90
    8192, Conv of stride 2                          158                              183
    32x32x32, MaxPool 2x2x2, Conv                   614               164
"""
OPEN = 64
"""The value assumed for a dynamic size: equal in all places, but for strides."""
_FAR = 128
"""Values that the question for one size looks at."""
_NAMED = 4
"""Places that a refusal names."""


def pays(plan: Plan) -> bool:
    """Whether a plan leaves fewer operators, or as many on fewer elements."""
    return cost(plan) < (0, _work_removed(plan))


def cost(plan: Plan) -> tuple[int, float]:
    """Return the operators that a plan adds, less those that it takes out, and the work of the former."""
    return plan.extra_adds - plan.removed - plan.set_free, sum(map(_work, distinct_adds(plan.edits)))


def set_free(chain: AffineChain, edits: Iterable[Edit]) -> int:
    """Return how many nodes simplification takes out, once those in front of a row and behind it meet.

    They are two Transposes, or two nodes that change the shape alone. The second has to undo the first.
    """
    first, second = chain.source.producer, chain.target.only_consumer
    if first is None or second is None or first.has_references or second.has_references:
        return 0
    if {chain.source, chain.target} & {edit.value for edit in distinct_adds(edits)}:
        return 0  # the Add stands between them
    source, made = first.input(0), second.output(0)
    if source is None or made is None or second.input(0) is not chain.target or not _undoes(first, second):
        return 0
    if made.is_output and not made.can_take_over(source):
        return 0
    return 1 if chain.source.only_use is None else 2


def _undoes(first: ir.Node, second: ir.Node) -> bool:
    """Whether the second node makes of the first one's result what that reads."""
    if first.is_op("Transpose") and second.is_op("Transpose"):
        orders = first.attr("perm"), second.attr("perm")
        if None in orders:  # all axes are turned round
            return orders == (None, None)
        return [orders[0][axis] for axis in orders[1]] == [*range(len(orders[0]))]
    if not (first.has_trait(RESHAPING) and second.has_trait(RESHAPING)):
        return False
    before, after = (shapes.known_dims(value) for value in (first.inputs[0], second.outputs[0]) if value is not None)
    return before is not None and before == after and all(isinstance(dim, int) for dim in before)


def _work(edit: ExtraAdd) -> float:
    kind = "image" if sum(size > 1 for size in edit.block.shape) > 1 else "operator"
    return WORK[kind] * (elements(edit.value) if edit.value is not None else math.inf)


def _work_removed(plan: Plan) -> float:
    """Return the work of the operators that a plan takes out; those of a row work on equally many elements."""
    values = [plan.chain.target] * len(plan.chain.links)
    values += [edit.node.outputs[0] for edit in plan.edits if isinstance(edit, Bypass) and edit.node.outputs[0]]
    return WORK["operator"] * sum(map(elements, values))


def elements(value: ir.Value) -> float:
    """Return how many elements a value has, with `OPEN` for a size that is open; infinity where even the rank is."""
    value = _rearranged(value)
    known = shapes.known_dims(value)
    if known is None:
        return math.inf
    return math.prod(_size(value, axis) for axis in range(len(known)))


def _rearranged(value: ir.Value) -> ir.Value:
    """Return the value whose elements are only elsewhere in this one, where those of this one cannot be counted."""
    for _ in range(_FAR):
        known, node = shapes.known_dims(value), value.producer
        if known is not None and all(isinstance(dim, int) for dim in known):
            break
        if node is None or not node.has_trait(REARRANGING) or (operand := node.input(0)) is None:
            break
        value = operand
    return value


def _size(value: ir.Value, axis: int) -> float:
    """Return the size along an axis; of an open one what strides leave of it."""
    strides = 1
    for _ in range(_FAR):
        known, node = shapes.known_dims(value), value.producer
        if known is None or axis >= len(known):
            break
        dim = known[axis]
        if isinstance(dim, int):
            return dim / strides
        operand = node.input(0) if node is not None and value.slot == 0 else None
        if node is None or operand is None:
            break
        if node.has_trait(WINDOWED) and not node.is_op("ConvTranspose") and axis > 1:
            strides *= _stride(node, axis - 2)
        elif not node.has_trait(KEEPS_SHAPE) and not (axis == 0 and node.has_trait(KEEPS_CHANNELS | WINDOWED)):
            break
        value = operand
    return OPEN / strides


def _stride(node: ir.Node, axis: int) -> int:
    """Return by how much a window moves along a spatial axis."""
    strides = node.attr("strides", [])
    return int(strides[axis]) if axis < len(strides) else 1


def without_gain(plan: Plan) -> Declined:
    """Return the refusal of a plan that does not pay: what would stay, where, and the option that takes it."""
    adds = distinct_adds(plan.edits)
    places = [f"{'in front of' if edit.side == 'before' else 'behind'} {facts.where(edit.node)}" for edit in adds]
    more = f" and {len(places) - _NAMED} more" if len(places) > _NAMED else ""
    what = "an Add" if len(places) == 1 else f"{len(places)} Adds"
    detail = f"{what} {', '.join(places[:_NAMED])}{more} would take its place; --exchange always does that"
    at = adds[0].node
    refusal = Declined(Reason.NO_GAIN, detail, at=at.label, operator=at.op_type)
    passed = tuple(node.label for node in plan.nodes)
    ended = SearchTrace(plan.direction, passed, at.label, Reason.NO_GAIN, detail, at.op_type)
    refusal.attempts = tuple(sorted((ended, *plan.refused), key=lambda attempt: attempt.direction, reverse=True))
    return refusal
