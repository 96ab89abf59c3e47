"""One model on its way through the passes, and the event of each BatchNormalization while passes replace its node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from bnfold import ir, log
from bnfold.errors import Unsupported
from bnfold.report import totals
from bnfold.report.events import BatchNormEvent, Report
from bnfold.report.other_events import counted
from bnfold.semantics import Unreadable
from bnfold.semantics import batchnorm as batchnorm_semantics
from bnfold.settings import Options, Policy
from bnfold.settings.progress import Progress

if TYPE_CHECKING:
    from bnfold.converting.model import Converted
    from bnfold.folding import SizeBudget

NodeKey = tuple[str, str]
"""A node, by its graph and the value that it makes: `BatchNormEvent.key`."""


@dataclass(slots=True, eq=False)
class PassContext:
    """One model on its way through the passes."""

    model: ir.Model
    options: Options
    report: Report
    progress: Progress
    withheld: frozenset[NodeKey] = frozenset()
    """Folds that are left out: an earlier attempt has shown that their weights overflow."""
    runtime: str = "none"
    """What may be asked to run the model, as `VerifyOptions.runtime`."""
    freezes: bool = False
    """Whether initializers that callers may override are taken for constants."""
    before: ir.Model | None = None
    """The model as it came, if there is no file to read it from again."""
    converted: Converted | None = None
    """What the conversion to another opset did."""
    events: dict[NodeKey, BatchNormEvent] = field(default_factory=dict)
    budget: SizeBudget | None = None
    """What folding may still add, once it is done."""

    def trial(self, *, freezes: bool | None = None) -> PassContext:
        """Return a context of a copy, with a report of its own."""
        is_frozen = self.freezes if freezes is None else freezes
        model, silent = self.model.clone(), lambda *_: None
        return PassContext(model, self.options, Report(), silent, self.withheld, freezes=is_frozen)

    @contextmanager
    def folding(self) -> Iterator[int | None]:
        """Count what folding adds meanwhile, and yield what it may add; None if no limit was given."""
        before = totals.weights(self.model)
        yield self.report.growth.left()
        self.report.growth.folding += totals.weights(self.model) - before

    @contextmanager
    def simplifying(self) -> Iterator[int | None]:
        """Count what simplifying adds meanwhile, and yield what it may add; None if no limit was given."""
        before = totals.weights(self.model)
        yield self.report.growth.left()
        self.report.growth.simplifying += totals.weights(self.model) - before

    def live(self) -> dict[ir.Node, BatchNormEvent]:
        """Return the BatchNormalizations still there, with their events.

        Passes may have replaced the nodes themselves.
        """
        found: dict[ir.Node, BatchNormEvent] = {}
        for node in self.model.nodes():
            if node.is_op("BatchNormalization"):
                event = self.events.get(key_of(node))
                if event is None:
                    event = self.events[key_of(node)] = _event(node, self.options.policy)
                    self.report.batchnorms.append(event)
                found[node] = event
        return found

    def forget_inlined(self) -> None:
        """Drop the events of functions that are gone; what they held is in their callers, as other nodes."""
        paths = {graph.path for graph in self.model.graphs()}
        self.events = {key: event for key, event in self.events.items() if key[0] in paths}
        left = {*self.events.values()}
        self.report.batchnorms[:] = [
            event for event in self.report.batchnorms if event in left or event.verdict == "removed"
        ]

    def follow_replaced(self) -> None:
        """Let events follow BatchNormalizations that make another value (``spatial=0``) or are deeper down (Scan-8)."""
        nodes = [node for node in self.model.nodes() if node.is_op("BatchNormalization")]
        fresh = [node for node in nodes if key_of(node) not in self.events]
        if not fresh:
            return
        keys = {key_of(node) for node in nodes}
        lost = [event for event in self.report.batchnorms if event.key not in keys]
        for path in dict.fromkeys(event.graph for event in lost):
            events = [event for event in lost if event.graph == path]
            successors = [node for node in fresh if node.graph.path == path or node.graph.path.startswith(f"{path}/")]
            if len(events) == len(successors):
                for event, node in zip(events, successors, strict=True):
                    del self.events[event.key]
                    event.graph, event.value = key_of(node)
                    self.events[event.key] = event

    def follow_moved(self, live: Mapping[ir.Node, BatchNormEvent], moved: Sequence[Mapping[NodeKey, NodeKey]]) -> None:
        """Let events follow BatchNormalizations out of branches; those that are gone are noted as removed.

        The path of a body is another one if the node that holds it has lost its first result.
        """
        for node, event in live.items():
            if not node.removed:
                self.events[key_of(node)] = event
                continue
            key = event.key
            for step in moved:
                key = step.get(key, key)
            if key == event.key:
                event.fold("", (), (), ())
                continue
            self.events.pop(event.key, None)
            event.graph, event.value = key
            self.events[key] = event


def key_of(node: ir.Node) -> NodeKey:
    """Return the key of a node.

    Rewrites keep the names of what they make, so it finds a BatchNormalization again after an upgrade.
    """
    made = node.output(0)
    return node.graph.path, made.name if made is not None else node.name


def _event(node: ir.Node, policy: Policy) -> BatchNormEvent:
    path, value = key_of(node)
    try:
        form = batchnorm_semantics.read_batchnorm(node, policy)
    except (Unreadable, Unsupported):
        return BatchNormEvent(node.label, path, batchnorm_semantics.version_of(node), "unknown", value=value)
    return BatchNormEvent(node.label, path, form.version, form.mode, value=value)


def log_decisions(report: Report) -> None:
    """Log a line a decision."""
    rows = (", ".join(f"{name} {value}" for name, value in row.items() if value) for row in report.conversion)
    lines: Iterator[object] = chain(
        map("converted: {}".format, rows),
        report.batchnorms,
        (f"{row.rewrite.name}: {row.rewrite.title}, {row.count} times" for row in counted(report.folding)),
        report.simplified,
        (f"{repair.node or repair.kind}: {repair.text}" for repair in report.repairs),
        report.notes,
    )
    for line in lines:
        log.debug(__name__, "%s", line)
