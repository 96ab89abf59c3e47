"""Sequences of tensors that a graph makes, changes and reads, and wrong places or orders in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from fuzz.builder import Builder, Drawn
from fuzz.parts import nodes, pick, reads

PLACES = (("SequenceAt", 1), ("SequenceInsert", 2), ("SequenceErase", 1))
"""Operators and their inputs that are a place in a sequence."""
FEWEST, MOST = 2, 3


def sequenced(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append a sequence of a value and others of its shape, one change of it, and what reads it."""
    if b.opset < 11 or not x.rank or 0 in x.shape:
        return None
    if b.chance(0.3):
        rows = [1] * x.shape[0]
        name = _append(b, "SplitToSequence", [x.name], axis=0)
    else:
        rows = [x.shape[0]] * int(b.rng.integers(FEWEST, MOST + 1))
        name = _append(b, "SequenceConstruct", [x.name, *(_like(b, x) for _ in rows[1:])])
    if b.chance(0.4):
        slot, place = _place(b, len(rows), none=True)
        is_small = b.chance(0.3)
        rows.insert(len(rows) if place is None else place, 1 if is_small else x.shape[0])
        name = _append(b, "SequenceInsert", [name, _first(b, x) if is_small else _like(b, x), *slot])
    elif len(rows) > FEWEST and b.chance(0.4):
        slot, place = _place(b, len(rows), none=True)
        del rows[-1 if place is None else place]
        name = _append(b, "SequenceErase", [name, *slot])
    if b.chance(0.2):
        length = b.derive("SequenceLength", [name], TensorProto.INT64, ())
        return b.node("Mul", [x.name, b.derive("Cast", [length], x.dtype, (), to=x.dtype)])
    if b.chance(0.6):
        slot, place = _place(b, len(rows))
        shape = (rows[place or 0], *x.shape[1:])
        return _kept(b, b.derive("SequenceAt", [name, *slot], x.dtype, shape), x, shape)
    shape = (sum(rows), *x.shape[1:])
    return _kept(b, b.derive("ConcatFromSequence", [name], x.dtype, shape, axis=0), x, shape)


def _append(b: Builder, op_type: str, inputs: list[str], **attributes: Any) -> str:
    """Append a node that makes a sequence."""
    name = b.fresh("q")
    b.nodes.append(helper.make_node(op_type, inputs, [name], name=b.fresh(op_type.lower()), **attributes))
    return name


def _like(b: Builder, x: Drawn) -> str:
    """Append another value of the same shape."""
    factor = b.weight(b.numbers([1] * x.rank, 0.5, 2.0))
    return b.derive(b.pick(["Add", "Mul", "Sub"]), [x.name, factor], x.dtype, x.shape)


def _first(b: Builder, x: Drawn) -> str:
    """Append the first row."""
    slot = [b.integers([number]) for number in (0, 1, 0)]
    return b.derive("Slice", [x.name, *slot], x.dtype, (1, *x.shape[1:]))


def _place(b: Builder, many: int, *, none: bool = False) -> tuple[list[str], int | None]:
    """Return the input that is a place in the sequence, stored or fed, and the place; often ``none``, for the end."""
    if none and b.chance(0.3):
        return [], None
    place = int(b.rng.integers(-many, many))
    array = np.array(place, np.int64)
    return [b.weight(array, "i") if b.chance(0.7) else b.feed(array).name], place


def _kept(b: Builder, name: str, x: Drawn, shape: tuple[int, ...]) -> list[Drawn]:
    made = Drawn(name, x.dtype, shape)
    b.values.append(made)
    return [made]


def change_sequence(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Change a place in a sequence, or the order of what it is made of."""
    built = [node for node in nodes(model) if node.op_type == "SequenceConstruct" and len(set(node.input)) > 1]
    read = {node.input[slot] for node in nodes(model) for op, slot in PLACES if reads(node, op, slot)}
    places = [tensor for tensor in model.graph.initializer if tensor.name in read]
    if built and (not places or rng.random() < 0.5):
        node = pick(rng, built)
        node.input[:] = [*node.input[1:], node.input[0]]
    elif places:
        tensor = pick(rng, places)
        place = int(numpy_helper.to_array(tensor)) + int(pick(rng, (1, -1)))
        tensor.CopyFrom(numpy_helper.from_array(np.array(place, np.int64), tensor.name))
