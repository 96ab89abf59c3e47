"""One run over a model: what is known so far, and the one driver of all rewrites.

A rewrite is a finder: it yields each `Change` that it plans, and edits nothing. The driver carries a change out before
it asks for the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, ParamSpec, TypeVar

from bnfold import analysis, ir
from bnfold.analysis.traits import ARITHMETIC
from bnfold.edits.edit import Bypass, Edit, SetConstant
from bnfold.edits.size_budget import SizeBudget
from bnfold.folding import range_check
from bnfold.folding.apply import apply_merge, apply_plan
from bnfold.folding.facts import guarded
from bnfold.folding.limits import Limits
from bnfold.folding.plan import Plan
from bnfold.ir.tensor import Computed
from bnfold.report.events import BatchNormEvent, Report
from bnfold.report.reasons import Declined, SearchTrace, require_enabled
from bnfold.report.rewrites import ARITHMETIC_FOLD, FOLD, Rewrite
from bnfold.semantics import Policy

P = ParamSpec("P")
T = TypeVar("T")


class Change(NamedTuple):
    """An edit and its event; valid for the graph in the state in which it was planned.

    Attributes:
        cut: The boundary of what is edited.
        apply: Edits the graph, and cannot decline. Returns the names of values that are gone or mean something else,
            and the nodes that it added.
        tell: Notes the event, given those nodes.
        moved: Values that get another name, because they mean something else.
        cost: Bytes that it takes of what may be added.
    """

    rewrite: Rewrite
    cut: ir.Cut
    apply: Callable[[], tuple[list[str], list[ir.Node]]]
    tell: Callable[[list[ir.Node]], None]
    moved: tuple[ir.Value, ...] = ()
    cost: int = 0


@dataclass(slots=True, eq=False)
class Exchange:
    """What became an Add: the ``adds`` that are still there, and how many there may be without being counted."""

    event: BatchNormEvent
    adds: set[ir.Node]
    spared: int


@dataclass(slots=True, eq=False)
class FoldContext:
    """State of one run; the arguments are those of `bnfold.folding.fold`."""

    model: ir.Model
    events: dict[ir.Node, BatchNormEvent]
    report: Report
    policy: Policy
    limits: Limits
    budget: SizeBudget
    has_changed: bool = False
    patient: bool = True
    """Whether plans that leave an operator behind wait: it stops others from folding past."""
    postponed: bool = False
    """Whether one had to."""
    exchanged: list[Exchange] = field(default_factory=list)
    """Adds that stand for BatchNormalizations."""
    unmerged: dict[ir.Node, SearchTrace] = field(default_factory=dict)
    """Why branches that a BatchNormalization stands in are not merged."""
    unproven: dict[ir.Node, Declined] = field(default_factory=dict)
    """Why a BatchNormalization that may be an InstanceNormalization is left."""

    def rewrite(self, changes: Iterable[Change]) -> bool:
        """Apply what a finder yields, one after the other. Returns whether there was any."""
        changed = False
        for change in changes:
            before = {value: value.name for value in change.moved}
            self.budget.charge(change.cost)
            gone, added = change.apply()
            self.report.retire(gone, change.cut, change.rewrite)
            kept = [(name, value.name) for value, name in before.items() if value.name in value.graph.values]
            self.report.renamed.update([(old, new) for old, new in kept if old != new])
            change.tell(added)
            self.report.folding.append(change.rewrite)
            self.model.remove_unread_initializers()  # of a large model they are most of it
            changed = self.has_changed = True
        return changed

    def planned(
        self, rewrite: Rewrite, node: ir.Node, solve: Callable[P, T], *arguments: P.args, **keywords: P.kwargs
    ) -> T:
        """Return what a rewrite plans at ``node``. Raises Declined, also if the rewrite is disabled."""
        require_enabled(rewrite, self.limits.disabled)
        with analysis.evaluated_once(self.model):
            return guarded(node, solve, *arguments, **keywords)

    def fold_of(self, plan: Plan, origin: tuple[str, str], note: str = "") -> Change:
        """Return the change that takes a row of affines out; ``origin`` is what its new weights are called after."""
        links = [link.node for link in plan.chain.links]
        source, target = plan.chain.source, plan.chain.target
        bypassed = [edit.node for edit in plan.edits if isinstance(edit, Bypass)]
        # What changes or goes is no boundary to compare at.
        changed = [*plan.relabelled, *([target] if plan.direction == "down" else [])]
        consumers = [node for value in changed for node in value.consumers if node.graph is target.graph]
        absorbers = plan.absorbers or {edit.node: None for edit in plan.edits if isinstance(edit, SetConstant)}
        into, passed = tuple([node.label for node in absorbers]), tuple([node.label for node in plan.nodes])
        operators = tuple({node.op_type: None for node in absorbers})
        gets_other_consumers = plan.direction == "up" and source.only_use is None

        def tell(added: list[ir.Node]) -> None:
            if gets_other_consumers:  # which read something else in the file
                self.report.redefined.add(target.name)
            self.follow_exchanges(added, into, operators)
            for event in [self.events[node] for node in links if node in self.events]:
                event.fold(plan.direction, into, operators, passed, exchanged=plan.exchanges)
                if plan.exchanges:
                    self.exchanged.append(Exchange(event, set(added), plan.bypassed))
            self.report.notes.extend([note] if note else [])

        sign(plan.edits, origin)
        cut = self.cut_around([*plan.nodes, *links, *bypassed, *consumers], f"fold {links[-1].label}")
        return Change(
            self.kind_of_fold(links), cut, partial(apply_plan, plan, self.budget), tell, plan.relabelled, plan.cost
        )

    def kind_of_fold(self, links: Iterable[ir.Node]) -> Rewrite:
        """Return what folding a row is called: by whether a BatchNormalization stands in it."""
        return FOLD if any(node in self.events for node in links) else ARITHMETIC_FOLD

    def merge_of(
        self,
        rewrite: Rewrite,
        kept: ir.Node,
        nodes: Sequence[ir.Node],
        source: ir.Value,
        edits: Sequence[Edit],
        title: str,
        tell: Callable[[], None],
    ) -> Change:
        """Return the change after which ``kept``, one of ``nodes``, reads ``source`` and makes what the first makes.

        Raises Declined where the edits overflow, or cost too much.
        """

        def tell_all(added: list[ir.Node]) -> None:
            self.follow_exchanges(added, (kept.label,), (kept.op_type,))
            tell()

        range_check.check(edits)
        cost = self.budget.check(edits, removed=[node for node in nodes if node is not kept])
        sign(edits, key_of(nodes[0]))
        apply = partial(apply_merge, kept, nodes, source, edits, self.budget)
        return Change(rewrite, self.cut_around(nodes, title), apply, tell_all, cost=cost)

    def follow_exchanges(self, added: Sequence[ir.Node], into: tuple[str, ...], operators: tuple[str, ...]) -> None:
        """Note as folded what an Add stood for that the nodes ``into`` took; follow it into Adds that took it."""
        for exchange in self.exchanged:
            left = {node for node in exchange.adds if not node.removed}
            if len(left) == len(exchange.adds):
                continue
            exchange.adds = left.union(added)
            if len(exchange.adds) <= exchange.spared:
                exchange.event.absorb(into, operators)
        self.exchanged = [exchange for exchange in self.exchanged if exchange.event.verdict == "exchanged"]

    def cut_around(self, nodes: Iterable[ir.Node], rewrite: str) -> ir.Cut:
        """Return the values that go into and come out of some nodes of one graph, before they are edited.

        Where a boundary value was made by an earlier rewrite, the region grows until it has names of the file itself.
        """
        region = dict.fromkeys(nodes)
        graph = next(iter(region)).graph
        while True:
            with analysis.evaluated_once(self.model):
                inputs, outputs = _boundary(region)
            grown = [value.producer for value in inputs if not self.report.means_the_same(value.name)]
            grown += [
                node for value in outputs if not self.report.means_the_same(value.name) for node in value.consumers
            ]
            fresh = [node for node in grown if node is not None and node not in region and node.graph is graph]
            if not fresh:
                break
            region.update(dict.fromkeys(fresh))
        read, made = tuple([value.name for value in inputs]), tuple([value.name for value in outputs])
        return ir.Cut(graph.path, read, made, rewrite)


def _boundary(region: dict[ir.Node, None]) -> tuple[Iterable[ir.Value], Iterable[ir.Value]]:
    read = {value: None for node in region for value in node.inputs if value is not None}
    made = [value for node in region for value in node.outputs if value is not None]
    return (
        [value for value in read if value.producer not in region and analysis.constant(value) is None],
        [value for value in made if value.is_output or not region.keys() >= set(value.consumers)],
    )


def sign(edits: Iterable[Edit], origin: tuple[str, str]) -> None:
    """Record which fold each new weight comes from, in case it overflows when it is written."""
    for edit in edits:
        if isinstance(edit, SetConstant) and isinstance(edit.tensor, Computed):
            edit.tensor.origin = origin


def key_of(node: ir.Node) -> tuple[str, str]:
    """Return what a rewrite is called if a weight turns out to overflow: its graph and what it makes."""
    made = node.outputs[0]
    assert made is not None, "it was looked at"
    return node.graph.path, made.name


def is_live(node: ir.Node) -> bool:
    """Whether a BatchNormalization, decomposed or not, is still there."""
    return not node.removed and (node.is_op("BatchNormalization") or node.has_trait(ARITHMETIC))
