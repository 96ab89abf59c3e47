"""One run over a model: what is known so far, and how what was found is carried out and reported."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from bnfold import ir
from bnfold.folding.apply import apply_plan, edit_all
from bnfold.folding.plan import Plan
from bnfold.folding.region import cut_around
from bnfold.folding.replacement import NodeMerge
from bnfold.folding.size_budget import Limits, SizeBudget
from bnfold.folding.step import Edit, SetConstant
from bnfold.ir.tensor import Computed
from bnfold.ir.traits import ARITHMETIC
from bnfold.report.events import BatchNormEvent, Report
from bnfold.report.reasons import SearchTrace
from bnfold.semantics import Policy


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
    original: set[str]
    budget: SizeBudget = field(init=False)
    patient: bool = True
    """Whether plans that leave an operator behind wait: it stops others from folding past."""
    postponed: bool = False
    """Whether one had to."""
    exchanged: list[Exchange] = field(default_factory=list)
    """Adds that stand for BatchNormalizations."""
    unmerged: dict[ir.Node, SearchTrace] = field(default_factory=dict)
    """Why branches that a BatchNormalization stands in are not merged."""

    def __post_init__(self) -> None:
        self.budget = SizeBudget(self.limits.growth)

    def carry_out(self, plan: Plan, cut: ir.Cut, origin: tuple[str, str]) -> None:
        """Edit the graph as planned, and tell the events of what is gone. ``origin`` is what the plan folds."""
        absorbers = plan.absorbers or {edit.node: None for edit in plan.edits if isinstance(edit, SetConstant)}
        into = tuple(absorber.label for absorber in absorbers)
        operators = tuple(dict.fromkeys(absorber.op_type for absorber in absorbers))
        gone = [link.node for link in plan.chain.links]
        passed = tuple(node.label for node in plan.nodes)
        self.budget.charge(plan.cost)
        before = {value: value.name for value in plan.relabelled}
        if plan.direction == "up" and plan.chain.source.only_use is None:
            self.original.discard(plan.chain.target.name)  # it gets readers that read something else in the file
        sign(plan.edits, origin)
        names, added = apply_plan(plan, self.budget)
        self.note_names(before, names, cut)
        self.follow_exchanges(added, into, operators)
        for removed in gone:
            if removed in self.events:
                self.events[removed].fold(plan.direction, into, operators, passed, exchanged=plan.exchanges)
                if plan.exchanges:
                    self.exchanged.append(Exchange(self.events[removed], set(added), plan.bypassed))

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

    def replace(self, found: NodeMerge, origin: tuple[str, str], title: str) -> None:
        """Let one node do the work of several."""
        cut = cut_around(found.nodes, title, self.original)
        self.budget.charge(found.cost)
        sign(found.edits, origin)
        self.note_names({}, found.carry_out(), cut)
        added = edit_all(found.edits, self.budget)
        self.follow_exchanges(added, (found.kept.label,), (found.kept.op_type,))

    def note_names(self, before: dict[ir.Value, str], gone: list[str], cut: ir.Cut) -> None:
        """Note after an edit which values have another name now, ``before`` has the old ones, and which are gone."""
        self.report.retire(gone, cut)
        renamed = {name: value.name for value, name in before.items() if value.name in value.graph.values}
        self.report.renamed.update((old, new) for old, new in renamed.items() if old != new)
        self.report.removed_names.extend(name for name in gone if name not in self.report.renamed)


def sign(edits: Iterable[Edit], origin: tuple[str, str]) -> None:
    """Record which fold each new weight comes from, in case it overflows when it is written."""
    for edit in edits:
        if isinstance(edit, SetConstant) and isinstance(edit.tensor, Computed):
            edit.tensor.origin = origin


def is_live(node: ir.Node) -> bool:
    """Whether a BatchNormalization, or what is one spelled out, is still there."""
    return not node.removed and (node.is_op("BatchNormalization") or node.has_trait(ARITHMETIC))
