"""What differs between two regions, as changes that a comparison of them has to react to.

What both have under one name is changed back to what it was, what only one has is moved a little. A float is taken at
its word where nothing but smooth operators is between it and a result: such functions that are the same at random
places are the same everywhere.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from bnfold import ir
from bnfold.ir.elements import Array
from bnfold.ir.tensor import TP
from bnfold.verification.changes.extract import Subgraph
from bnfold.verification.changes.from_constants import held
from bnfold.verification.changes.unchanged import defaults, identity
from bnfold.verification.coverage.effects import is_ratio, is_unread, normalised, types
from bnfold.verification.coverage.moves import WITHOUT, flat, nudge, replacing, shares
from bnfold.verification.coverage.record import STEP, Mutant
from bnfold.verification.coverage.smooth import is_smooth, settings
from bnfold.verification.tolerance.bits import same
from bnfold.verification.tolerance.floats import float_type, is_float

_SMALL = 64
"""Numbers up to which a constant is looked for on the other side under another name, or in an attribute."""

_NO_BOUND = float_type(TP.FLOAT).largest
"""Attributes are float32: what is as large bounds nothing."""

_OPEN_END = 2**31 - 1
"""Sizes and ends from here on all mean as much as there is."""


class Mutants:
    """All that a comparison of the values ``compared`` has to tell apart: ``found``."""

    def __init__(self, old: Subgraph, new: Subgraph, compared: Collection[str]) -> None:
        self._sides = before, after = _Side(0, old, compared), _Side(1, new, compared)
        before.face(after)
        after.face(before)
        self.found = list(_between(before, after, before.contents() & after.contents()))

    def follow_from_structure(self) -> bool:
        """Whether there is nothing to tell apart, and would be nothing with other numbers in the float constants."""
        if self.found:
            return False
        sides = self._sides
        return all(
            not is_float(tensor.dtype) or (name in side.plain and name not in side.rough)
            for side in sides
            for name, (_, tensor) in side.constants.items()
        ) and not any(True for _ in _between(*sides, ()))


def _between(before: _Side, after: _Side, moved: Collection[tuple[float, ...]]) -> Iterator[Mutant]:
    """Find mutants between the two; ``moved`` are contents that both have somewhere."""
    yield from after.changed_back(before)
    for side, other in ((after, before), (before, after)):
        yield from side.moved_a_little(other, moved)
        yield from _results_of_bodies(side, other)


def nudged(side: int, value: ir.Value) -> Mutant:
    """Return a value that is computed, moved a little."""
    return Mutant(side, f"value {value.name!r}", value, nudge)


def all_taken_over(
    old: Subgraph, new: Subgraph, hidden: Collection[str], compared: Collection[str]
) -> Iterator[Mutant]:
    """Yield the values of the rewritten model that differ inside, replaced by what the original has under their name.

    What is not ``compared`` has to show.
    """
    made, others = (
        {value.name: value for node in side.nodes for value in node.outputs if value} for side in (new, old)
    )
    for name in hidden:
        if name in made and name in others and name not in compared:
            yield Mutant(1, f"value {name!r}", made[name])


class _Side:
    """What one region holds. What follows from constants alone is one of them, whatever nodes make it.

    ``rough`` constants are read by operators that are not smooth, ``plain`` ones show if something shows at all. Where
    it ``carries`` NaN, all results have it that depend on what is NaN. ``lone_constants`` and ``lone_nodes`` are what
    the other region has no counterpart of.
    """

    def __init__(self, number: int, subgraph: Subgraph, compared: Collection[str]) -> None:
        self.number = number
        self.nodes: dict[tuple[object, ...], ir.Node] = {}
        self.constants: dict[str, tuple[ir.Value, ir.Tensor]] = {}
        self.rough: set[str] = set()
        self.plain: set[str] = set()
        self.clear: set[ir.Node] = set()
        self.carries = True
        self.has_bodies = False
        self.lone_constants: list[tuple[ir.Value, ir.Tensor]] = []
        self.lone_nodes: list[ir.Node] = []
        for node in reversed(subgraph.nodes):
            if not all(value is None or held(value) for value in node.outputs):
                self._add(node, compared)

    def _add(self, node: ir.Node, compared: Collection[str]) -> None:
        made = [value for value in node.outputs if value is not None]
        smooth = is_smooth(node)
        chooses = node.is_op("Gather", "Slice") and not all(value is None or held(value) for value in node.inputs[1:])
        self.carries &= (smooth or node.is_op("Relu", "LeakyRelu", "Sigmoid", "Tanh")) and not chooses
        if smooth and any(value.name in compared or not self.clear.isdisjoint(value.consumers) for value in made):
            self.clear.add(node)
        for slot, value in enumerate(node.inputs):
            tensor = held(value)
            if value is not None and tensor is not None and not is_ratio(node, slot):
                self.constants[value.name] = value, tensor
                if not smooth or (slot and node.is_op("Resize", "Upsample")):  # which say where it takes numbers from
                    self.rough.add(value.name)
                elif node in self.clear:
                    self.plain.add(value.name)
        self.has_bodies |= bool(node.subgraphs)
        self.nodes[identity(node)] = node

    def face(self, other: _Side) -> None:
        """Find the constants and the nodes that have no counterpart there: by name, or by who reads them."""
        self.lone_constants = [
            found
            for name, found in self.constants.items()
            if not _are_alike(found, other.constants.get(name)) and not self._is_given_to_twins(found[0], other)
        ]
        self.lone_nodes = [node for key, node in self.nodes.items() if key not in other.nodes]

    def _is_given_to_twins(self, constant: ir.Value, other: _Side) -> bool:
        """Whether the same nodes read the same numbers in the same places: tools keep one of equal constants."""
        tensor = held(constant)
        for node, slot in constant.uses:
            if self.nodes.get(identity(node)) is not node:
                if self.has_bodies:  # which may read it
                    return False
                continue
            twin = other.nodes.get(identity(node))
            given = held(twin.input(slot)) if twin is not None else None
            if tensor is None or given is None or not same(tensor, given):
                return False
        return True

    def contents(self) -> set[tuple[float, ...]]:
        """Return what its small lone constants and the attributes of its lone nodes hold."""
        numbers = [tensor.numpy() for _, tensor in self.lone_constants if tensor.size <= _SMALL]
        numbers += [np.asarray(setting) for node in self.lone_nodes for setting in settings(node).values()]
        return {_numbers(array) for array in numbers if array.dtype.kind in "fiub"}

    def changed_back(self, old: _Side) -> Iterator[Mutant]:
        """Yield what ``old`` has under the same name and otherwise."""
        for name, (value, tensor) in self.constants.items():
            twin = old.constants.get(name)
            is_taken = name in self.plain and name not in self.rough and is_float(tensor.dtype)
            if twin is not None and _are_alike((value, tensor), twin) and not is_taken:
                yield from self._of_constant(value, tensor, twin[1].numpy(), sizes=name not in self.rough)
        for key in self.nodes.keys() & old.nodes.keys():
            node, former = self.nodes[key], old.nodes[key]
            these, were = settings(node), settings(former)
            for name in (these.keys() & were.keys()) | node.attrs.keys() | former.attrs.keys():
                # A default that only one version has is what the other one does.
                was, is_ = were.get(name, defaults(node).get(name)), these.get(name, defaults(former).get(name))
                if (name == "dtype" and types(node) == types(former)) or is_unread(former, name):
                    continue  # of nothing else is the type said
                differs = was != is_ and normalised(former, name, was) != normalised(node, name, is_)
                if differs and not (node in self.clear and isinstance(is_ or was, float)):
                    yield _of_attribute(self.number, node, name, was, sizes=is_smooth(node))

    def moved_a_little(self, other: _Side, moved: Collection[tuple[float, ...]]) -> Iterator[Mutant]:
        """Yield what ``other`` has not.

        Of the original only what may bound or switch: the rewritten model has the rest. Where that has no constant of
        its own, also what is read in front of a jump, which may hide it.
        """
        has_the_rest = self.number == 0 and other.lone_constants
        for value, tensor in self.lone_constants:
            ends = any(node.is_op("Slice") for node, slot in value.uses if slot)
            if value.name in self.rough or ends or not (has_the_rest or value.name in self.plain):
                array = tensor.numpy()
                if array.size > _SMALL or array.dtype.kind not in "fiub" or _numbers(array) not in moved:
                    yield from self._of_constant(value, tensor, None, sizes=ends and value.name not in self.rough)
        for node in self.lone_nodes:
            for name, setting in settings(node).items():
                is_rough = not (is_smooth(node) or is_unread(node, name))
                is_bound = isinstance(setting, float) and abs(setting) < _NO_BOUND
                if is_bound and is_rough and (setting,) not in moved:
                    yield _of_attribute(self.number, node, name, setting * (1 + STEP) or STEP)
            change = WITHOUT.get(node.op_type) if not node.domain else None
            if change is not None and node.op_type not in {found.op_type for found in other.nodes.values()}:
                what = f"what {node.op_type} {node.label!r} is for"
                yield from (Mutant(self.number, what, value, change) for value in node.outputs if value)

    def _of_constant(
        self, value: ir.Value, tensor: ir.Tensor, was: Array | None, *, sizes: bool = False
    ) -> Iterator[Mutant]:
        """Change each number that differs from what it ``was`` (None: all of them), alone; of many, shares of them."""
        array = flat(tensor.numpy(), tensor.dtype)
        goal = nudge(array)
        if is_float(tensor.dtype):
            different = np.abs(array) < float_type(tensor.dtype).largest
            if was is not None:
                old = flat(was, tensor.dtype)
                different = (array != old) & ~(np.isnan(array) & np.isnan(old))
                with np.errstate(invalid="ignore", over="ignore"):
                    goal = np.where(np.abs(old - array) > STEP * np.abs(array), old, goal)
        else:
            goal = goal if was is None else was.reshape(-1)
            different = array != goal
            if array.dtype.kind in "iu":
                different &= (array < _OPEN_END) | (goal < _OPEN_END)
            if was is None and value.uses and all(_chooses_the_same(*use, goal) for use in value.uses):
                return
        for places in shares(np.flatnonzero(different)):
            what = f"{places.size} elements" if places.size > 1 else f"element {places[0]}"
            change = replacing(places, goal[places])
            if not is_float(tensor.dtype):
                yield Mutant(self.number, f"{what} of {value.name!r}", value, change, sizes=sizes)
            else:
                poison = replacing(places, np.full(places.size, np.nan)) if self.carries else None
                yield Mutant(self.number, f"{what} of {value.name!r}", value, change, poison=poison)


def _chooses_the_same(node: ir.Node, slot: int, goal: Array) -> bool:
    """Whether a Slice takes the same of a row of known length if its start, end or step is ``goal``.

    One that takes all there is does so along any axis.
    """
    data, given = node.input(0), [held(value) for value in node.inputs[1:]]
    if not node.is_op("Slice") or not slot or data is None or None in given:
        return False
    old = [tensor.numpy().reshape(-1) for tensor in given if tensor is not None]
    if slot == 3:
        return _takes_all(*old)
    length = data.shape[0] if data.shape is not None and len(data.shape) == 1 else None
    if not isinstance(length, int) or any(array.size != 1 for array in (goal, *old)):
        return False
    if slot == 4 and not goal[0]:  # no step at all
        return False
    new = [goal if place == slot - 1 else array for place, array in enumerate(old)]
    first, second = (slice(*(int(array[0]) for array in (*row[:2], *row[3:]))) for row in (old, new))
    return range(length)[first] == range(length)[second]


def _takes_all(starts: Array, ends: Array, _: Array, *steps: Array) -> bool:
    return not starts.any() and bool((ends >= _OPEN_END).all()) and all((step == 1).all() for step in steps)


def _numbers(array: Array) -> tuple[float, ...]:
    return tuple(array.astype(np.float64).reshape(-1).tolist())


def _are_alike(one: tuple[ir.Value, ir.Tensor], other: tuple[ir.Value, ir.Tensor] | None) -> bool:
    return other is not None and (one[1].dtype, one[1].dims) == (other[1].dtype, other[1].dims)


def _of_attribute(side: int, node: ir.Node, name: str, setting: Any, *, sizes: bool = False) -> Mutant:
    value = next(value for value in node.outputs if value is not None)
    what = f"attribute {name!r} of {node.op_type} {node.label!r}"
    return Mutant(side, what, value, attribute=name, setting=setting, sizes=sizes)


def _results_of_bodies(side: _Side, other: _Side) -> Iterator[Mutant]:
    """Yield what bodies make that only this side has: a branch that was not taken proves nothing."""
    nodes = [node for node in side.nodes.values() if node.subgraphs]
    models = [node.graph.model for node in other.nodes.values()] if nodes else []
    known = {graph.path for model in models[:1] for graph in model.graphs()}
    for node in nodes:
        for body in (body for bodies in node.subgraphs.values() for body in bodies if body.path not in known):
            yield from (nudged(side.number, value) for value in body.outputs if value.graph is body)
