"""Which refusals still hold: those where nothing that their searches looked at was edited since."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from bnfold import ir
from bnfold.folding.ops import record
from bnfold.folding.plan import Plan
from bnfold.folding.step import SetAttr, SetConstant

_MANY = 64
"""Readers of a value beyond which an edit beside them counts as one of the whole graph."""


@dataclass(slots=True, eq=False)
class Refusals:
    """What was refused when, and what was edited when; time is the number of edits so far.

    A search sees the nodes that it asks, with the values around them and who else reads these; readers that may pick
    parts of a value it sees without asking them. So an edit is noted on the nodes that it changes, and on those that
    make or read a value whose readers or content it changes.
    """

    _now: int = 0
    _anywhere: int = 0
    _edited: dict[ir.Node, int] = field(default_factory=dict)
    _refused: dict[ir.Node, tuple[int, frozenset[ir.Node]]] = field(default_factory=dict)

    def remember(self, node: ir.Node, seen: Iterable[ir.Node]) -> None:
        """``node`` was declined, after ``seen`` were asked."""
        self._refused[node] = (self._now, frozenset((node, *seen)))

    def holds(self, node: ir.Node) -> bool:
        """Whether asking again would give the same refusal."""
        when, seen = self._refused.get(node, (-1, frozenset()))
        return when >= self._anywhere and all(self._edited.get(asked, 0) <= when for asked in seen)

    def edit_anywhere(self) -> None:
        """Before an edit that may help any of them."""
        self._now += 1
        self._anywhere = self._now

    def edit(self, plan: Plan) -> None:
        """Before a plan is applied: what it takes out or puts in changes all around, what it alters only itself."""
        self._now += 1
        if not self._refused:
            return
        if plan.direction == "stay":  # a new constant may make others far away
            self._anywhere = self._now
        for link in plan.chain.links:
            self._note(link.node, _values(link.node))
        for node in plan.nodes:
            self._note(node, _values(node) if record(node).picks else ())
        for edit in plan.edits:
            in_place = isinstance(edit, SetConstant | SetAttr)
            constant = edit.node.input(edit.slot) if isinstance(edit, SetConstant) else None
            self._note(edit.node, [constant] if in_place else _values(edit.node))

    def _note(self, node: ir.Node, values: Iterable[ir.Value | None]) -> None:
        """That a node changes, and for those who make or read ``values`` what these are or who else reads them."""
        self._edited[node] = self._now
        for value in values:
            if value is None:
                continue
            if len(value.uses) > _MANY:
                self._anywhere = self._now
                continue
            self._edited.update((reader, self._now) for reader, _ in value.uses)
            if value.producer is not None:
                self._edited[value.producer] = self._now


def _values(node: ir.Node) -> list[ir.Value | None]:
    return [*node.inputs, *node.outputs]
