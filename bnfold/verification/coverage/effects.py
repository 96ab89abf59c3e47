"""Which attributes and inputs of a node have no effect, and which settings mean the same."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import Any

from bnfold import ir
from bnfold.ir.bodies import states_of
from bnfold.ir.elements import Array
from bnfold.reference.operators import (
    BROADCASTING,
    CHOOSING,
    KEEPS_CHANNELS,
    MOVING,
    READS_VALUES,
    REDUCING,
    WEIGHTED,
    WINDOWED,
)
from bnfold.verification.changes.copies import handed_on
from bnfold.verification.changes.extract import Subgraph
from bnfold.verification.changes.from_constants import fixed, fixed_or_default
from bnfold.verification.changes.partly import known_of

OPEN_END = 2**31 - 1
"""From here on, all sizes and ends mean "to the end", and below its negative "to the beginning"."""
_SHORT = 64
"""Elements of the longest vector of sizes."""
_NO_EFFECT = {"strides": 1, "dilations": 1, "pads": 0, "output_padding": 0}
"""What a window has along each axis without the attribute."""

_MEASURING = ("Shape", "Size", "SequenceLength")
_SIZED_BY_SIZES = KEEPS_CHANNELS | BROADCASTING | MOVING | REDUCING | WEIGHTED | {"SequenceConstruct"}
"""Operators whose result has sizes that follow from those of the inputs, and from shapes and axes."""


def types(node: ir.Node) -> list[int | None]:
    """Return the element types of its outputs."""
    return [value.dtype for value in node.outputs if value is not None]


def is_unread(node: ir.Node, name: str) -> bool:
    """Whether an attribute has no effect: the ratio of a Dropout that drops nothing, and allowzero without a zero."""
    if node.is_op("Reshape") and name == "allowzero":
        shape, data, made = fixed_or_default(node.input(1)), node.input(0), node.output(0)
        known = None if data is None else data.shape
        is_never_empty = known is not None and all(isinstance(size, int) and size > 0 for size in known)
        is_never_zero = shape is not None and bool(shape.numpy().all())
        return (
            is_never_empty
            or is_never_zero
            or _infers(node.input(1))
            or (made is not None and _keeps_zeros(known, made.shape))
        )
    if (function := node.called) is not None:
        return _is_unread_inside(function, name)
    return node.is_op("Dropout") and name == "ratio"


def _is_unread_inside(function: ir.Graph, name: str) -> bool:
    """Whether an attribute of a function has no effect on any of its nodes."""
    reading = [
        (node, own.name)
        for graph in function.subgraphs()
        for node in graph.nodes
        for own in node.proto.attribute
        if own.ref_attr_name == name
    ]
    return all(is_unread(node, own) for node, own in reading)


def _infers(shape: ir.Value | None) -> bool:
    """Whether a shape that is put together has a -1, beside which allowzero allows no zero."""
    producer = None if shape is None else shape.producer
    parts = producer.inputs if producer is not None and producer.is_op("Concat") else ()
    tensors = [tensor for part in parts if (tensor := fixed_or_default(part)) is not None]
    return any(bool((tensor.numpy() == -1).any()) for tensor in tensors)


def _keeps_zeros(known: Sequence[int | str | None] | None, made: Sequence[int | str | None] | None) -> bool:
    """Whether no size that a Reshape makes is 0, unless the input's size at the same place is."""
    if known is None or made is None:
        return False
    there = [*known, *[None] * len(made)]
    pairs = zip(made, there, strict=False)
    return all((isinstance(size, int) and size > 0) or (size is not None and size == same) for size, same in pairs)


def normalised(node: ir.Node, name: str, setting: Any) -> Any:
    """Return the setting of an attribute: None for what a window does without it, axes counted from the front."""
    if node.has_trait(WINDOWED) and isinstance(setting, list) and set(setting) == {_NO_EFFECT.get(name)}:
        return None
    if name == "kernel_shape" and node.has_trait(WEIGHTED) and (weight := node.input(1)) is not None:
        dims = known_of(node.graph.model).dims(weight)
        return None if dims is not None and setting == [*dims[2:]] else setting
    value = node.output(0) if node.is_op("OneHot", "Unsqueeze") else node.input(0)
    shape = value.shape if value is not None else None
    if name not in ("axis", "axes") or shape is None or setting is None:
        return setting
    axes = setting if isinstance(setting, list) else [setting]
    return [axis + len(shape) if isinstance(axis, int) and axis < 0 else axis for axis in axes]


def read_for_sizes(part: Subgraph) -> set[ir.Node]:
    """Return the nodes whose results are read for their sizes alone: the numbers that they read have no effect.

    What a Where with a stored mask never chooses is read for its sizes as well. Of the numbers, shapes and axes have
    an effect: the operators read the values of such inputs.
    """
    if any(node.subgraphs for node in part.nodes):  # a body may read the numbers
        return set()
    if not any(node.is_op("Where", *_MEASURING) for node in part.nodes):  # as in most parts
        return set()
    inside, ends, found = set(part.nodes), set(part.outputs), set[ir.Node]()
    for node in reversed(part.nodes):
        made = [value for value in node.outputs if value is not None]
        uses = [use for value in made for use in value.uses if use[0] in inside]
        is_end = not uses or not ends.isdisjoint(made) or not node.has_trait(_SIZED_BY_SIZES)
        if not is_end and all(_reads_sizes(*use, found) for use in uses):
            found.add(node)
    return found


def _reads_sizes(node: ir.Node, slot: int, found: Container[ir.Node]) -> bool:
    if node.is_op("Where") and slot:
        mask = fixed(node.input(0))  # which no caller overrides
        return mask is not None and bool((mask.numpy() == (slot == 2)).all())
    return node.is_op(*_MEASURING) or (node in found and not (slot and node.has_trait(READS_VALUES | CHOOSING)))


def is_without_effect(node: ir.Node, slot: int) -> bool:
    """Whether the numbers of an input have no effect.

    It is the ratio of a Dropout outside training, says that it does not train, is read for its type, or chooses between
    two values that are the same; or another input is handed on as it is.
    """
    source = handed_on(node)
    if source is not None:
        return node.input(slot) is not source
    if (slot == 1 and node.is_op("CastLike")) or (slot == 0 and node.is_op("Where") and len({*node.inputs[1:]}) == 1):
        return True
    if not node.is_op("Dropout") or not slot:
        return False
    mode = fixed_or_default(node.input(2))
    return node.input(2) is None or (mode is not None and not mode.numpy().any())


def selects_the_same(node: ir.Node, slot: int, goal: Array) -> bool:
    """Whether a Slice along one axis of known size selects the same elements if its start, end or step is ``goal``.

    A Slice that takes all of an axis has no effect along any axis.
    """
    data, given = node.input(0), [fixed_or_default(value) for value in node.inputs[1:]]
    if not node.is_op("Slice") or not slot or data is None or None in given:
        return False
    old = [tensor.numpy().reshape(-1) for tensor in given if tensor is not None]
    if slot == 3:
        return _takes_all(*old)
    if any(array.size != 1 for array in (goal, *old)):
        return False
    new = [goal if place == slot - 1 else array for place, array in enumerate(old)]
    if not all(step[0] for row in (old, new) for step in row[3:]):  # no step at all
        return False
    first, second = (slice(*(int(array[0]) for array in (*row[:2], *row[3:]))) for row in (old, new))
    axis = int(old[2][0]) if len(old) > 2 else 0
    lengths = _lengths(data, axis, first, second)
    return bool(lengths) and all(range(length)[first] == range(length)[second] for length in lengths)


def _lengths(data: ir.Value, axis: int, *slices: slice) -> Sequence[int]:
    """Return the length of an axis, or, if that is unknown, lengths at which slices differ if they do at any.

    Beyond starts and ends that are counted from the front, they select as they do there.
    """
    rank = len(data.shape or ())
    length = data.shape[axis] if data.shape is not None and -rank <= axis < rank else None
    if isinstance(length, int) and length > 0:
        return [length]
    bounds = [bound for each in slices for bound in (each.start, each.stop)]
    return range(max(bounds) + 2) if min(bounds) >= 0 and max(bounds) <= _SHORT else []


def _takes_all(starts: Array, ends: Array, _: Array, *steps: Array) -> bool:
    return not starts.any() and bool((ends >= OPEN_END).all()) and all((step == 1).all() for step in steps)


def reaches_output(value: ir.Value) -> bool:
    """Follow a value through its consumers, and out of bodies; a function's results may all be read."""
    reached: set[ir.Value] = set()
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if value in reached:
            continue
        reached.add(value)
        if value.is_output and value.graph.parent is None:
            return True
        for node, slot in value.uses:
            waiting += _behind_input(node, slot)
        if value.is_output:
            waiting += _behind_result(value)
    return False


def _behind_input(node: ir.Node, slot: int) -> Iterator[ir.Value]:
    """Yield what a node makes of an input: a Loop or Scan hands a state, or what it scans, to its body."""
    states = states_of(node) if node.is_op("Loop", "Scan") and len(node.bodies) == 1 else None
    first = 2 * node.is_op("Loop")
    if states is None or slot < first:
        yield from _made(node)
        return
    yield from node.bodies[0].inputs[slot : slot + 1]
    last = node.output(slot - first) if slot - first < states else None
    yield from [last] if last is not None else ()  # after no step


def _behind_result(value: ir.Value) -> Iterator[ir.Value]:
    """Yield what a result of bodies is handed on to: outputs of the nodes around them, and the next step's state."""
    for body in value.graph.subgraphs():
        for slot, made in enumerate(body.outputs):
            if made is value and body.parent is not None:
                yield from _behind_slot(body, body.parent, slot)


def _behind_slot(body: ir.Graph, node: ir.Node, slot: int) -> Iterator[ir.Value]:
    states = states_of(node) if node.is_op("Loop", "Scan") and len(node.bodies) == 1 else None
    own = int(node.is_op("Loop"))  # a Loop's condition
    if slot < own or (states is None and not node.is_op("If")):
        yield from _made(node)
        return
    made = node.output(slot - own)
    yield from [made] if made is not None else ()
    if states is not None and slot - own < states:
        yield from body.inputs[slot + own : slot + own + 1]


def _made(node: ir.Node) -> Iterator[ir.Value]:
    yield from (value for value in node.outputs if value is not None)
