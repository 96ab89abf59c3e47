"""Whether what was compared would show a fault in each thing that differs: mutation testing of the comparison.

This serves visibility. Equal results prove nothing about what they do not depend on: a row that no index chose, a bound
that nothing reached, sizes that happen to be the same. So each thing that differs (`mutants`) is changed in one of the
two models, alone, and some result has to change with it.

Only what depends on the changed value is computed anew. All else is computed once for all mutants of a comparison.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bnfold import ir, reference
from bnfold.errors import Unsupported
from bnfold.ir.elements import TP, Array
from bnfold.reference.schedule import read_by
from bnfold.verification.changes.extract import draws
from bnfold.verification.comparing.sides import ModelRun, SideResults
from bnfold.verification.tolerance.compare import compare_values

_FEWEST = 4
"""Mutants for which computing the values once is worth it."""

_MOST = 1 << 24
"""Elements that may be kept, as far as their number follows from what the part is fed."""

STEP = 2.0**-10
"""How far a float is moved, relative to its size, unless the other model says where to. A result has to move by this
share of its tolerance: then a number that is wrong altogether moves it beyond."""

SECONDS = 5.0
"""Of counted work, for all mutants of one comparison."""

_PART = 0.5
"""Of a run, which a mutant of a size or place takes."""

_OTHERS = (1, 2, 3, 5, 7, -3)
"""Other numbers for those that a mutant changes: sizes and places that occur, and one that is counted from the end."""

Find = Callable[[ir.Model, ir.Value], ir.Value]

Comparison = tuple[Sequence[ModelRun], Sequence[SideResults]]
"""Both models, and their equal results."""


class Nearby:
    """One model of a comparison, run with changes to single values. What few ``values`` need is not kept."""

    def __init__(self, side: ModelRun, values: Iterable[ir.Value]) -> None:
        self._side = side
        self._behind = {value: found for value in values if (found := _behind(value, side.model)) is not None}
        known = {read.name: None for nodes in self._behind.values() for read in _read(nodes)}
        size = sum(getattr(array, "size", 0) for array in side.feeds.values())
        if any(map(draws, side.model.nodes())) or len(self._behind) < _FEWEST or size * len(known) > _MOST:
            self._behind = {}
        self._known = side([*known], known={}) if self._behind and known else {}

    def __call__(self, changes: Mapping[ir.Value, Callable[[Any], Any]]) -> SideResults:
        """Return the results that the changes may have an effect on."""
        value = next(iter(changes), None)
        nodes = self._behind.get(value) if value is not None and len(changes) == 1 else None
        if nodes is None or value is None:
            return self._side(altered=changes)
        made = {result.name for node in nodes for result in node.outputs if result is not None}
        names = [name for name in self._side.names if name in made or name == value.name]
        if not names:
            return {}
        known = {read.name: self._known[read.name] for read in _read(nodes)}
        return self._side(names, altered=changes, known=known)


def _behind(value: ir.Value, model: ir.Model) -> Collection[ir.Node] | None:
    """Return the nodes of the main graph that compute a value, and that depend on it; None if it is of a body."""
    if value.graph is not model.graph:
        return None
    found = {value.producer: None} if value.producer is not None else {}
    waiting = [value]
    while waiting:
        for reader in waiting.pop().consumers:
            node = _in_main_graph(reader, model)
            if node is None:
                return None
            if node not in found:
                found[node] = None
                waiting += [made for made in node.outputs if made is not None]
    return found


def _in_main_graph(node: ir.Node | None, model: ir.Model) -> ir.Node | None:
    while node is not None and node.graph is not model.graph:
        node = node.graph.parent
    return node


def _read(nodes: Collection[ir.Node]) -> Iterator[ir.Value]:
    """Yield the computed values that these nodes read, and do not compute."""
    for node in nodes:
        for value in read_by(node):
            if value.producer is not None and value.producer not in nodes:
                yield value


class Mutant(NamedTuple):
    """One of the two models (``side``) with one change.

    It changes the array of ``value``, or an ``attribute`` of its producer (removed if ``setting`` is None), or takes
    the array that the other model has under this name. With ``sizes``, only other sizes may reveal it. It is settled
    once enough of the declared sizes were compared. If even ``poison`` shows in no result, the elements have no
    consumer; it is None once it may have shown, or if it proves nothing.

    Changes that several consumers read may cancel: times and by one number, or all before and all from one place on.
    So the mutant is settled as well if a change at each use alone has shown, and no change of all of them in any
    comparison (``cancels``, never true of what has one use). ``uses`` are those at which none has shown yet: the first
    output of the consumer, and the input slot.
    """

    side: int
    what: str
    value: ir.Value
    change: Callable[[Any], Any] | None = None
    attribute: str = ""
    setting: Any = None
    sizes: bool = False
    poison: Callable[[Any], Any] | None = None
    uses: tuple[tuple[ir.Value, int], ...] = ()
    is_apart: bool = False
    cancels: bool = False
    is_idle: bool = False
    """Whether no result can change."""

    def of(self, model: ir.Model, find: Find, theirs: Callable[[str], Any]) -> tuple[ir.Model, reference.Alterations]:
        """Return ``model`` (the part, or a copy of it) with the change, and the values to alter in a run.

        ``find`` returns the value of the model for one of the part, and ``theirs`` the other model's result of a name.
        """
        if self.is_apart:
            return self._at(self.uses[0], model.clone(), find)
        if not self.attribute:
            return model, {find(model, self.value): self.change or (lambda _: theirs(self.value.name))}
        copy = model.clone()
        node = find(copy, self.value).producer
        assert node is not None, "it has the attribute"
        if self.setting is None:
            node.del_attr(self.attribute)
        else:
            node.set_attr(self.attribute, self.setting)
        return copy, {}

    def _at(self, use: tuple[ir.Value, int], copy: ir.Model, find: Find) -> tuple[ir.Model, reference.Alterations]:
        """Let one consumer read a value of its own, and change that."""
        made, slot = use
        node = find(copy, made).producer
        assert node is not None, "it reads the constant"
        assert self.change is not None, "that is what it is for"
        own = node.graph.fresh(self.value.name)
        node.graph.insert("Identity", [node.input(slot)], [own], before=node)
        node.set_input(slot, own)
        return copy, {own: self.change}


@dataclass(slots=True)
class Table:
    """A constant of one model (``side``) that a node reads at computed indices; ``chosen`` is the node's result.

    ``marks`` stand for its numbers, and ``unread`` says of each whether it was never read. If the indices follow from
    ``sizes`` alone, the table is settled once all sizes that can occur were compared.
    """

    side: int
    value: ir.Value
    chosen: ir.Value
    marks: Array
    unread: Array
    sizes: bool = False

    def read(self, marks: Array) -> None:
        """Note the rows that were read."""
        self.unread[np.asarray(marks).astype(np.int64)] = False


@dataclass(slots=True)
class Coverage:
    """The mutants that no comparison has noticed yet, and tables with rows that no comparison has read.

    ``follows_from_structure`` says whether there would be no mutants with other weights either.
    """

    mutants: Sequence[Mutant]
    tables: Sequence[Table] = field(default=())
    work: reference.Work = field(default_factory=reference.Work)
    seconds: float = SECONDS
    follows_from_structure: Callable[[], bool] = field(default=lambda: False)
    known: int = field(init=False)
    """How many there were at first."""
    _until: float = field(default=math.inf)

    def __post_init__(self) -> None:
        self.known = self.uncovered

    @property
    def uncovered(self) -> int:
        """The number of mutants and rows in which a fault would not show."""
        return len(self.mutants) + sum(int(table.unread.sum()) for table in self.tables)

    @property
    def example(self) -> str:
        """A description of one of them."""
        rows = (f"row {table.unread.argmax()} of {table.value.name!r}" for table in self.tables if table.unread.any())
        return next((mutant.what for mutant in self.mutants), "") or next(rows, "")

    @property
    def is_over(self) -> bool:
        """Whether nothing is uncovered, or the time for looking is used up."""
        return not self.uncovered or self.is_cut_short

    @property
    def is_cut_short(self) -> bool:
        """Whether the time for looking is used up."""
        return self.work.seconds > self._until

    def needs(self, seconds: Sequence[float]) -> float:
        """Return what running all mutants takes if a run of each model takes so many ``seconds``.

        Many other sizes and places do not fit, so that such a run ends early.
        """
        return sum(seconds[it.side] * (_PART if it.value.dtype in (TP.INT32, TP.INT64) else 1.0) for it in self.mutants)

    def close(self, sizes: int, *, is_static: bool) -> None:
        """Note that enough sizes were compared: two that may be declared, or one if all sizes are static.

        Two sizes distinguish any two operators on sizes. They do not show how many rows of a table are read.
        """
        enough = sizes >= (1 if is_static else 2)
        left = (m for m in self.mutants if m.poison is None and not (m.cancels and not m.uses))
        self.mutants = [m for m in left if not (m.sizes and enough)]
        self.tables = [table for table in self.tables if not (table.sizes and enough and is_static)]

    def observe(self, sides: Sequence[ModelRun], find: Find, results: Sequence[SideResults]) -> None:
        """Compare mutants with the equal ``results`` of the two models, and note what was chosen from tables."""
        run = partial(_run, sides, find, nearby=[self._nearby(place, side, find) for place, side in enumerate(sides)])
        self._until = min(self._until, self.work.seconds + self.seconds)
        self.mutants = [left for mutant in self.mutants for left in self._unseen(mutant, run, results[mutant.side])]
        self._read(sides, find)

    def _nearby(self, place: int, side: ModelRun, find: Find) -> Nearby:
        """Return the runs of one model with the values changed that its mutants change."""
        own = (it for it in self.mutants if it.side == place and not (it.attribute or it.is_apart or it.is_idle))
        values: dict[ir.Value, None] = {}
        for mutant in own:
            with suppress(Unsupported):
                values[find(side.model, mutant.value)] = None
        return Nearby(side, values)

    def observe_until_unseen(self, compared: Callable[[], Iterable[Comparison]], find: Find) -> None:
        """Do as `observe` for all comparisons that there are, up to the first mutant that none of them shows.

        If one stays uncovered, it does not matter which others do.
        """
        self._until = min(self._until, self.work.seconds + self.seconds)
        for mutant in self.mutants:
            if mutant.is_idle or not any(
                not self.is_over and _shows(mutant, partial(_run, sides, find), results[mutant.side])
                for sides, results in compared()
            ):
                return
            self.mutants = self.mutants[1:]
        for sides, _ in compared() if self.uncovered else ():
            self._read(sides, find)

    def _read(self, sides: Sequence[ModelRun], find: Find) -> None:
        for table in self.tables:
            model = sides[table.side].model
            if table.unread.any() and find(model, table.chosen).graph is model.graph:  # in bodies it is not observed
                table.read(_chosen(table, sides[table.side], find))

    def _unseen(self, mutant: Mutant, run: Callable[[Mutant], SideResults], results: SideResults) -> Iterator[Mutant]:
        if self.is_over:
            yield mutant._replace(poison=None)
        elif not _shows(mutant, run, results):
            mutant = _apart(mutant, run, results)
            is_read = mutant.poison is None or _shows(mutant._replace(change=mutant.poison), run, results)
            yield mutant._replace(poison=None) if is_read else mutant


def same_place(model: ir.Model, value: ir.Value, within: str = "") -> ir.Value:
    """Return the value of this name in a copy of the model, or of its part ``within`` the graph at a path.

    A part has what it captures from outer graphs in its main graph. Raises Unsupported where there is no such value.
    """
    path = value.graph.path.removeprefix(within).lstrip("/")
    graph = next((graph for graph in model.graphs() if graph.path == path), model.graph if within else None)
    if graph is None or value.name not in graph.values:
        raise Unsupported(f"value {value.name!r} is not there as it was")
    return graph.values[value.name]


def _run(sides: Sequence[ModelRun], find: Find, mutant: Mutant, nearby: Sequence[Nearby] = ()) -> SideResults:
    """Return the results of a mutant; those that it cannot change may be missing."""
    side, other = sides[mutant.side], sides[1 - mutant.side]
    model, altered = mutant.of(side.model, find, lambda name: other([name])[name])
    if nearby and model is side.model:
        return nearby[mutant.side](altered)
    return side(model=model, altered=altered)


def _chosen(table: Table, side: ModelRun, find: Find) -> Array:
    """Return what is chosen of the marks that stand for the table's numbers."""
    name = table.chosen.name
    return side([name], altered={find(side.model, table.value): reference.Substitute(table.marks)})[name]


def _apart(mutant: Mutant, run: Callable[[Mutant], SideResults], results: SideResults) -> Mutant:
    """Return the mutant with the uses at which no change alone has shown, and whether changes of all uses cancel."""
    apart = [mutant._replace(uses=(use,), is_apart=True) for use in mutant.uses]
    left = tuple(use for each, use in zip(apart, mutant.uses, strict=True) if not _shows(each, run, results))
    others = (mutant._replace(change=partial(_replaced, mutant, number)) for number in _OTHERS)
    cancels = mutant.cancels and not any(_shows(other, run, results) for other in others)
    return mutant._replace(uses=left, cancels=cancels)


def _replaced(mutant: Mutant, number: int, array: Array) -> Array:
    """Put another number in the places that a mutant changes; there is nothing beyond the other truth."""
    assert mutant.change is not None, "it is a constant's"
    moved = np.asarray(mutant.change(array))
    if moved.dtype.kind == "b":
        return moved
    return np.where(moved != array, np.asarray(number).astype(moved.dtype), moved)


def _shows(mutant: Mutant, run: Callable[[Mutant], SideResults], results: SideResults) -> bool:
    try:
        changed = run(mutant)
    except reference.Misfit:
        return True
    except Unsupported:
        return False
    return any(
        compare_values(results[name], changed[name], (), None, by_channel=True).excess > STEP for name in changed
    )
