"""Find the differences between two parts, as mutants: changes to which a comparison has to react.

A constant or attribute that both parts have under one name is changed back to its old content. One that only one part
has is moved a little. A float needs no mutant if only smooth operators are between it and a result: smooth functions
that agree at random points agree everywhere.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from bnfold import ir
from bnfold.errors import brief
from bnfold.ir.elements import Array
from bnfold.ir.schemas import MACHINE_LEARNING
from bnfold.ir.tensor import TP
from bnfold.reference.operators import CHOOSING, READS_VALUES
from bnfold.reference.schedule import read_by
from bnfold.verification.changes.copies import copied, handed_on
from bnfold.verification.changes.extract import Subgraph
from bnfold.verification.changes.from_constants import fixed_but_for_rounding, fixed_or_default
from bnfold.verification.changes.idle import Extent, idle, masked
from bnfold.verification.changes.partly import known_of
from bnfold.verification.changes.unchanged import defaults, identity
from bnfold.verification.coverage import effects
from bnfold.verification.coverage.effects import OPEN_END, is_unread, normalised, reaches_output, types
from bnfold.verification.coverage.learned import mutants_of_learned, without_equal
from bnfold.verification.coverage.moves import (
    FEW,
    SHARES,
    WITHOUT,
    another_setting,
    elsewhere,
    flat,
    nudge,
    replacing,
    replacing_slices,
    shares,
)
from bnfold.verification.coverage.record import STEP, Mutant
from bnfold.verification.coverage.smooth import is_smooth, settings
from bnfold.verification.inputs.bounds import follow_from_sizes
from bnfold.verification.tolerance.bits import same
from bnfold.verification.tolerance.floats import float_type, is_float

_MOST_SLICES = 256
_SMALL = 64
"""Constants of up to so many numbers are looked for in the other part under another name, or in an attribute."""

_NO_BOUND = float_type(TP.FLOAT).largest
"""Attributes are float32. One that is at least this large bounds nothing."""


class Mutants:
    """The mutants (``found``) to which a comparison of the outputs has to react, or of what depends on them."""

    def __init__(self, old: Subgraph, new: Subgraph, *, are_compared: bool) -> None:
        self._sides, self.found = _matched(old, new, are_compared, by_sizes=True)
        unmatched = (value for side in self._sides for value, _ in side.unmatched_constants)
        if any(fixed_or_default(value, by_sizes=False) is None for value in unmatched):
            computed = _matched(old, new, are_compared, by_sizes=False)
            self._sides, self.found = min((self._sides, self.found), computed, key=lambda one: len(one[1]))

    def follow_from_structure(self) -> bool:
        """Whether there are no mutants, and would be none with other numbers in the float constants."""
        if self.found:
            return False
        sides = self._sides
        return all(
            not is_float(tensor.dtype) or (name in side.observable and name not in side.nonsmooth)
            for side in sides
            for name, (_, tensor) in side.constants.items()
        ) and not any(True for _ in _between(sides[0], sides[1], ()))


def _between(before: _Side, after: _Side, moved: Collection[tuple[float, ...]]) -> Iterator[Mutant]:
    """Find mutants between two parts; ``moved`` are contents that both parts have somewhere."""
    yield from after.changed_back(before)
    for side, other in ((after, before), (before, after)):
        yield from side.moved_a_little(other, moved)
        yield from side.elements_of_sequences()
        yield from results_of_bodies(side.number, side.nodes.values(), other.nodes.values())


def _matched(old: Subgraph, new: Subgraph, are_compared: bool, *, by_sizes: bool) -> tuple[list[_Side], list[Mutant]]:
    """Return both parts and the mutants. What follows from sizes is computed, or, ``by_sizes``, a constant."""
    ends = ({value.name for value in side.outputs if are_compared} for side in (old, new))
    before, after = (_Side(place, side, next(ends), by_sizes) for place, side in enumerate((old, new)))
    before.match_against(after)
    after.match_against(before)
    found = [*_between(before, after, before.contents() & after.contents())]
    if before.has_bodies or after.has_bodies:  # which may return what nothing reads
        found = [mutant for mutant in found if reaches_output(mutant.value)]
    return [before, after], found


class _Side:
    """The nodes and constants of one part. A value that follows from constants alone counts as a constant.

    ``nonsmooth`` constants are read by operators that are not smooth. Nodes are ``reachable`` if smooth operators alone
    lie between them and a compared value; constants that they read are ``observable``. From values that depend on a
    ``selectable`` constant, an operator selects at computed places, and may leave out any of them; its nodes are
    ``selected``. If the part ``carries`` NaN, every result that depends on a NaN is NaN. ``unmatched_constants`` and
    ``unmatched_nodes`` have no counterpart in the other part, ``learned`` ones of ai.onnx.ml no equal.
    """

    def __init__(self, number: int, subgraph: Subgraph, compared: Collection[str], by_sizes: bool) -> None:
        self.number = number
        self._fixed = partial(fixed_but_for_rounding, by_sizes=by_sizes)
        self.nodes: dict[tuple[object, ...], ir.Node] = {}
        self.constants: dict[str, tuple[ir.Value, ir.Tensor]] = {}
        self.nonsmooth: set[str] = set()
        self.observable: set[str] = set()
        self.reachable: set[ir.Node] = set()
        self.selected: set[ir.Node] = set()
        self.selectable: set[str] = set()
        self.carries, self.has_bodies = True, False
        self.unmatched_constants: list[tuple[ir.Value, ir.Tensor]] = []
        self.unmatched_nodes: list[ir.Node] = []
        self.learned: list[ir.Node] = []
        measured = effects.read_for_sizes(subgraph)
        self._within, self._ends, needed = set(subgraph.nodes), set(subgraph.outputs), set(subgraph.outputs)
        for node in reversed(subgraph.nodes):
            made = {value for value in node.outputs if value is not None and not self._fixed(value)}
            if not made.isdisjoint(needed):  # what only constants are computed from has no effect
                needed.update(read_by(node))
                self._add(node, compared, is_measured=node in measured)
        self._own = set(self.nodes.values())

    def _add(self, node: ir.Node, compared: Collection[str], *, is_measured: bool) -> None:
        made = [value for value in node.outputs if value is not None]
        smooth = is_smooth(node)
        selects = node.has_trait(CHOOSING) and not all(value is None or self._fixed(value) for value in node.inputs[1:])
        self.carries &= (smooth or node.is_op("Relu", "LeakyRelu", "Sigmoid", "Tanh")) and not selects
        is_selected = any(not self.selected.isdisjoint(value.consumers) for value in made)
        if selects or is_selected:
            self.selected.add(node)
        is_reachable = smooth and any(
            value.name in compared or not self.reachable.isdisjoint(value.consumers) for value in made
        )
        if is_reachable and not selects:  # a value in front of the selection may never be selected
            self.reachable.add(node)
        for slot, value in enumerate(node.inputs):
            tensor = self._fixed(value)
            if value is None or tensor is None or effects.is_without_effect(node, slot):
                continue
            if not is_measured or (slot and node.has_trait(READS_VALUES)):
                self.constants[value.name] = value, tensor
                # The sizes and scales of a Resize decide which numbers it reads.
                if not smooth or (slot and node.is_op("Resize", "Upsample")):
                    self.nonsmooth.add(value.name)
                elif is_reachable:
                    self.observable.add(value.name)
                if is_selected:
                    self.selectable.add(value.name)
        self.has_bodies |= bool(node.subgraphs)
        self.nodes[identity(node)] = node

    def match_against(self, other: _Side) -> None:
        """Find constants and nodes without a counterpart in the other part, by name or by their consumers."""
        self.unmatched_constants = [
            found
            for name, found in self.constants.items()
            if not _are_alike(found, other.constants.get(name)) and not self._is_read_alike(found[0], other)
        ]
        self.unmatched_nodes = [it for key, it in self.nodes.items() if key not in other.nodes and not handed_on(it)]
        self.learned = without_equal(self.nodes.values(), other.nodes.values())

    def _is_read_alike(self, constant: ir.Value, other: _Side) -> bool:
        """Whether the same nodes read equal numbers at the same input slots of the other part.

        Tools that merge equal constants keep only one of their names.
        """
        tensor = self._fixed(constant)
        for node, slot in constant.uses:
            if self.nodes.get(identity(node)) is not node:
                if self.has_bodies:  # a body may read it
                    return False
                continue
            counterpart = other.nodes.get(identity(node))
            given = self._fixed(counterpart.input(slot)) if counterpart is not None else None
            if tensor is None or given is None or not same(tensor, given):
                return False
        return True

    def contents(self) -> set[tuple[float, ...]]:
        """Return the numbers of small unmatched constants and of attributes of unmatched nodes."""
        numbers = [tensor.numpy() for _, tensor in self.unmatched_constants if tensor.size <= _SMALL]
        numbers += [np.asarray(setting) for node in self.unmatched_nodes for setting in settings(node).values()]
        return {_numbers(array) for array in numbers if array.dtype.kind in "fiub"}

    def changed_back(self, old: _Side) -> Iterator[Mutant]:
        """Yield mutants that restore the content which ``old`` has under the same name."""
        for name, (value, tensor) in self.constants.items():
            counterpart = old.constants.get(name)
            is_taken = name in self.observable and name not in self.nonsmooth and is_float(tensor.dtype)
            if counterpart is None or is_taken or not _are_alike((value, tensor), counterpart):
                continue
            if not same(counterpart[1], tensor):  # equal weights are not even widened
                yield from self._of_constant(value, tensor, counterpart[1].numpy(), sizes=name not in self.nonsmooth)
        for key in self.nodes.keys() & old.nodes.keys():
            node, former = self.nodes[key], old.nodes[key]
            if node.domain == MACHINE_LEARNING:
                continue
            these, were = settings(node), settings(former)
            for name in (these.keys() & were.keys()) | node.attrs.keys() | former.attrs.keys():
                # A default that only one version has is the behaviour of the other.
                was, is_ = were.get(name, defaults(node).get(name)), these.get(name, defaults(former).get(name))
                repeats_type = name == "dtype" and types(node) == types(former)
                if repeats_type or any(is_unread(it, name) for it in (former, node)):
                    continue
                differs = was != is_ and normalised(former, name, was) != normalised(node, name, is_)
                if differs and not (node in self.reachable and isinstance(is_ or was, float)):
                    yield _of_attribute(self.number, node, name, was, sizes=is_smooth(node))

    def moved_a_little(self, other: _Side, moved: Collection[tuple[float, ...]]) -> Iterator[Mutant]:
        """Yield mutants of what ``other`` lacks, but for constants behind which all operators are smooth."""
        for value, tensor in self.unmatched_constants:
            ends = any(node.is_op("Slice") for node, slot in value.uses if slot and node in self._own)
            if value.name in self.nonsmooth or ends or value.name not in self.observable:
                array = tensor.numpy()
                if array.size > _SMALL or array.dtype.kind not in "fiub" or _numbers(array) not in moved:
                    yield from self._of_constant(value, tensor, None, sizes=ends and value.name not in self.nonsmooth)
        for node in self.learned:
            yield from mutants_of_learned(self.number, node)
        for node in self.unmatched_nodes:
            for name, setting in settings(node).items() if node.domain != MACHINE_LEARNING else ():
                is_rough = not (is_smooth(node) or is_unread(node, name))
                is_bound = isinstance(setting, float) and abs(setting) < _NO_BOUND
                if is_bound and is_rough and (setting,) not in moved:
                    yield _of_attribute(self.number, node, name, another_setting(node, name, setting))
            change = WITHOUT.get(node.op_type) if not node.domain else None
            if change is not None and node.op_type not in {found.op_type for found in other.nodes.values()}:
                what = f"what {node.op_type} {node.label!r} is for"
                yield from (Mutant(self.number, what, value, change) for value in node.outputs if value)

    def elements_of_sequences(self) -> Iterator[Mutant]:
        """Yield mutants of each element of the sequences that are read at computed positions: it has to be chosen."""
        readers = (node for node in self.nodes.values() if node.is_op("SequenceAt"))
        waiting = {reader.input(0) for reader in readers if not self._fixed(reader.input(1))}
        seen: set[ir.Value | None] = set()
        while waiting:
            seen.add(sequence := waiting.pop())
            node = sequence.producer if sequence is not None else None
            if sequence is None or node is None or node not in self._own:
                continue
            if node.is_op("SequenceErase", "SequenceInsert", "Identity") and node.input(0) not in seen:
                waiting.add(node.input(0))
            slots = {"SequenceConstruct": range(len(node.inputs)), "SequenceInsert": (1,)}.get(node.op_type, ())
            for slot, element in ((slot, node.input(slot)) for slot in slots):
                if element is not None:
                    what = f"element {slot} of {node.op_type} {node.label!r}"
                    yield Mutant(self.number, what, element, nudge, uses=((sequence, slot),), is_apart=True)

    def _of_constant(self, value: ir.Value, tensor: ir.Tensor, was: Array | None, *, sizes: bool) -> Iterator[Mutant]:
        """Change each number that differs from its old one, ``was``, or each number if that is None.

        Few numbers are changed one at a time, many in shares.
        """
        array = flat(tensor.numpy(), tensor.dtype)
        goal = elsewhere(value, array)
        if is_float(tensor.dtype):
            different = np.abs(array) < float_type(tensor.dtype).largest
            hidden = masked(value, tensor.dims, self._within, self._ends)
            different &= True if hidden is None else ~hidden.reshape(-1)
            if was is not None:
                old = flat(was, tensor.dtype)
                different = (array != old) & ~(np.isnan(array) & np.isnan(old))
                with np.errstate(invalid="ignore", over="ignore"):
                    goal = np.where(np.abs(old - array) > STEP * np.abs(array), old, goal)
        else:
            goal = goal if was is None else was.reshape(-1)
            different = array != goal
            if array.dtype.kind in "iu":
                different &= _is_bound(array) | _is_bound(goal)
            read = [use for use in value.uses if use[0] in self._within or use[0].graph is not value.graph]
            if was is None and read and all(effects.selects_the_same(*use, goal) for use in read):
                return
            if was is None and array.size <= _SMALL:
                part = Extent(self._within, self._own, self._ends)
                different &= ~idle(known_of(value.graph.model), value, array.size, part)
            if value.uses and all(node.is_op("AffineGrid") and slot for node, slot in value.uses):
                different[1:2] = False  # it says where each place is, for any number of channels
        if value.name in self.selectable and np.count_nonzero(different) > FEW:
            yield from self._of_slices(value, different.reshape(tensor.dims), goal.reshape(tensor.dims), sizes=sizes)
            return
        for places in shares(np.flatnonzero(different)):
            what = f"{places.size} elements" if places.size > 1 else f"element {places[0]}"
            change = replacing(places, goal[places])
            if not is_float(tensor.dtype):
                found = Mutant(self.number, f"{what} of {value.name!r}", value, change, sizes=sizes)
                uses = self._uses(value)
                yield found._replace(uses=uses, cancels=bool(uses))
            else:
                poison = replacing(places, np.full(places.size, np.nan)) if self.carries else None
                yield Mutant(self.number, f"{what} of {value.name!r}", value, change, poison=poison)

    def _uses(self, value: ir.Value) -> tuple[tuple[ir.Value, int], ...]:
        """Return the uses of a constant that other nodes of this part read, too; not those that make constants."""
        uses = [use for use in value.uses if use[0] in self._within]
        ends = [(node.output(0), slot) for node, slot in uses if self.nodes.get(identity(node)) is node]
        found = tuple((made, slot) for made, slot in ends if made is not None)
        return found if len(uses) > 1 and len(ends) == len(found) <= FEW and not self.has_bodies else ()

    def _of_slices(self, value: ir.Value, different: Array, goal: Array, *, sizes: bool) -> Iterator[Mutant]:
        """Change each slice along each axis, alone: a choice may leave out any of them. Of many, change shares."""
        for axis, length in enumerate(different.shape):
            for places in np.array_split(np.arange(length), length if length <= _MOST_SLICES else SHARES):
                if length > 1 and different.take(places, axis).any():
                    change = replacing_slices(axis, places, different, goal)
                    what = f"slices {places[0]} to {places[-1]} along axis {axis} of {value.name!r}"
                    yield Mutant(self.number, what, value, change, sizes=sizes)


def _is_bound(array: Array) -> Array:
    """Say which integers end something: beyond, an end is open, which no number beside it changes."""
    inside: Array = array < OPEN_END
    return inside & (array > -OPEN_END) if array.dtype.kind == "i" else inside


def _numbers(array: Array) -> tuple[float, ...]:
    return tuple(array.astype(np.float64).reshape(-1).tolist())


def _are_alike(one: tuple[ir.Value, ir.Tensor], other: tuple[ir.Value, ir.Tensor] | None) -> bool:
    return other is not None and (one[1].dtype, one[1].dims) == (other[1].dtype, other[1].dims)


def _of_attribute(side: int, node: ir.Node, name: str, setting: Any, *, sizes: bool = False) -> Mutant:
    value = next(value for value in node.outputs if value is not None)
    what = f"attribute {name!r} of {node.op_type} {node.label!r} (as {brief(str(setting), 60)})"
    return Mutant(side, what, value, attribute=name, setting=setting, sizes=sizes)


def nudged(side: int, value: ir.Value) -> Mutant:
    """Return a mutant that moves a computed value a little, in vain if nothing but its sizes is read."""
    is_idle = not value.is_output and all(node.is_op("Shape", "Size") for node, _ in value.uses)
    return Mutant(side, f"value {value.name!r}", value, nudge, is_idle=is_idle)


def all_taken_over(
    old: Subgraph, new: Subgraph, hidden: Collection[str], compared: Collection[str]
) -> Iterator[Mutant]:
    """Yield mutants that replace values of the rewritten part by those of the original with the same name.

    Only values that differ and are not ``compared`` are replaced. A comparison has to notice that.
    """
    made, others = (
        {value.name: value for node in side.nodes for value in node.outputs if value} for side in (new, old)
    )
    for name in hidden:
        if name in made and name in others and name not in compared:
            yield Mutant(1, f"value {name!r}", made[name])


def results_of_bodies(side: int, nodes: Iterable[ir.Node], others: Iterable[ir.Node]) -> Iterator[Mutant]:
    """Yield mutants of the results of bodies that only this part has, and not the one with the ``others``.

    A comparison proves nothing about a branch that was not taken. One that a size chooses may be for empty tensors
    alone: then its result has to show by its shape.
    """
    holding = [node for node in nodes if node.subgraphs]
    models = [node.graph.model for node in others] if holding else []
    known = {graph.path for model in models[:1] for graph in model.graphs()}
    for node in holding:
        condition = node.input(0) if node.is_op("If") else None
        is_by_size = condition is not None and follow_from_sizes([condition])
        for body in (body for bodies in node.subgraphs.values() for body in bodies if body.path not in known):
            made = (value for value in body.outputs if value.graph is body)
            mutants = (nudged(side, value) for value in made if not _is_condition_handed_on(node, body, value))
            yield from (it._replace(change=_nudged_or_filled) if is_by_size else it for it in mutants)


def _nudged_or_filled(array: Any) -> Any:
    """Return a moved array; in place of an empty one, one that is not empty."""
    is_empty = isinstance(array, np.ndarray) and not array.size
    return np.zeros([max(dim, 1) for dim in array.shape], array.dtype) if is_empty else nudge(array)


def _is_condition_handed_on(node: ir.Node, body: ir.Graph, value: ir.Value) -> bool:
    """Whether a value is the condition that a Loop's body only hands on, which decides nothing."""
    if not node.is_op("Loop") or value is not body.outputs[0]:
        return False
    return copied(value) in body.inputs[1:2]
