"""Carry out what finders plan, and note what was done."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bnfold import ir
from bnfold.edits.apply import apply_edits
from bnfold.edits.edit import Bypass, Edit, Replace, StoreConstant
from bnfold.edits.size_budget import SizeBudget, stored_bytes
from bnfold.ir.tensor import Array
from bnfold.report import totals
from bnfold.report.other_events import SimplifyEvent
from bnfold.report.rewrites import IF_DECIDED
from bnfold.simplifying.branches import Decide
from bnfold.simplifying.inlining import Moved, inline_branch
from bnfold.simplifying.plan import Simplification


class Editor:
    """Edits one model, and notes what it did."""

    def __init__(
        self,
        model: ir.Model,
        disabled: frozenset[str] = frozenset(),
        is_wanted: Callable[[Simplification | Decide], bool] = lambda _: True,
        most: int | None = None,
    ) -> None:
        self.disabled, self._is_wanted = disabled, is_wanted
        self.budget = SizeBudget(most)
        self.can_grow = False
        """Whether the weights may grow already: equal nodes are to be united before bytes are spent on each of them."""
        self._model, self._most = model, most
        self._before = 0 if most is None else totals.weights(model)
        self.events: list[SimplifyEvent] = []
        self.touched: set[tuple[str, str]] = set()
        """Values, by graph and name, that nodes around an edit read or make: no boundaries to compare at any more."""
        self.sizes = 0
        """How often integers were stored that inference may read: sizes, or axes."""
        self.has_stored = False
        """Whether some node's output or operand, or a weight of a branch, became an initializer."""
        self.moved: list[Moved] = []
        """Where values of branches are now, one step after the other."""

    def measure(self) -> None:
        """Count what is left of the bytes that the weights may grow by. What became free since counts as well."""
        if self._most is not None:
            self.budget.renew(self._most + self._before - totals.weights(self._model))

    def carry_out(self, plan: Simplification) -> None:
        """Edit the graph as planned, unless such a rewrite is disabled, or not wanted."""
        edit = plan.edit
        if plan.rewrite.name in self.disabled or not self._is_wanted(plan):
            return
        if isinstance(edit, Replace) and self._most is not None and not self.budget.spend(_growth(edit)):
            return
        node = edit.node
        sources = edit.sources if isinstance(edit, Bypass) else ()
        self.touched |= {(value.graph.path, value.name) for value in (*node.inputs, *node.outputs, *sources) if value}
        stored = [edit.tensor.numpy()] if isinstance(edit, StoreConstant) else _arrays(edit)
        self.has_stored = self.has_stored or bool(stored)
        self.sizes += sum(array.dtype == np.int64 for array in stored)
        label, operator = node.label, node.op_type
        apply_edits([edit], self.budget)
        place = plan.rewrite, label, node.graph.path, operator
        self.events.append(SimplifyEvent(*place, _into(plan), plan.growth, plan.saved))

    def decide(self, plan: Decide) -> None:
        """Put the branch in the place of its If; the values of both branches are boundaries no more."""
        if IF_DECIDED.name in self.disabled or not self._is_wanted(plan):
            return
        node, label = plan.node, plan.node.label
        inner = [value for body in node.bodies for graph in body.subgraphs() for value in graph.values.values()]
        ends = [value for value in (*node.inputs, *node.outputs) if value is not None]
        self.touched |= {(value.graph.path, value.name) for value in (*inner, *ends)}
        self.has_stored = self.has_stored or any(value.is_initializer for value in plan.branch.values.values())
        self.moved.append(inline_branch(plan))
        into = next((value.name for value in node.outputs if value is not None), "")
        self.events.append(SimplifyEvent(IF_DECIDED, label, node.graph.path, "If", into))


def _into(plan: Simplification) -> str:
    """Return the name of the value or node that takes the place of a node."""
    edit = plan.edit
    if plan.counterpart is not None or isinstance(edit, Replace):
        return (plan.counterpart or edit.node).label
    values = edit.sources if isinstance(edit, Bypass) else edit.node.outputs
    return next((value.name for value in values if value is not None), "")


def _arrays(edit: Edit) -> list[Array]:
    """Return the constants that an edit stores as operands."""
    return [item for item in edit.inputs or () if isinstance(item, np.ndarray)] if isinstance(edit, Replace) else []


def _growth(edit: Replace) -> int:
    """Return the bytes that a node is going to read of constants of its own, less those that it reads now."""
    kept = {operand for operand in edit.inputs or () if isinstance(operand, ir.Value)}
    own = {value for value in edit.node.inputs if value is not None and value.only_use is not None} - kept
    return sum(array.nbytes for array in _arrays(edit)) - sum(map(stored_bytes, own))
