"""Carry out plans. All decisions were made when they were planned."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx

from bnfold import ir
from bnfold.edits.size_budget import SizeBudget, stored_bytes
from bnfold.ir.tensor import TP
from bnfold.report import totals
from bnfold.report.other_events import SimplifyEvent
from bnfold.report.rewrites import IF_DECIDED
from bnfold.simplifying.branches import Decide
from bnfold.simplifying.inlining import Moved, inline_branch
from bnfold.simplifying.plan import Deduplicate, Made, Operand, Replace, Simplification, SkipNode, StoreConstant


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
        self._stored: dict[tuple[ir.Graph, str, bytes], ir.Value] = {}

    def measure(self) -> None:
        """Count what is left of the bytes that the weights may grow by. What became free since counts as well."""
        if self._most is not None:
            self.budget.renew(self._most + self._before - totals.weights(self._model))

    def carry_out(self, plan: Simplification) -> None:
        """Edit the graph as planned, unless such a rewrite is disabled, or not wanted."""
        if plan.rewrite.name in self.disabled or not self._is_wanted(plan):
            return
        if isinstance(plan, Replace) and self._most is not None and not self.budget.spend(_growth(plan)):
            return
        node = plan.node
        ends = [*node.inputs, *node.outputs, *(plan.twin.outputs if isinstance(plan, Deduplicate) else ())]
        self.touched |= {(value.graph.path, value.name) for value in ends if value is not None}
        operator, label = node.op_type, node.label
        into = self._edited(plan)
        costs = (plan.growth, plan.saved) if isinstance(plan, StoreConstant) else ()
        self.events.append(SimplifyEvent(plan.rewrite, label, node.graph.path, operator, into, *costs))

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

    def _edited(self, plan: Simplification) -> str:
        """Edit, and return the name of the value or node that takes the place of the node."""
        if isinstance(plan, SkipNode):
            made = plan.node.outputs[0]
            assert made is not None, "its consumers were looked at"
            _replace(made, plan.source)
            plan.node.graph.remove(plan.node)
            return plan.source.name
        if isinstance(plan, StoreConstant):
            self.has_stored = True
            tensor = plan.tensor
            self.sizes += tensor.dtype == TP.INT64
            message = onnx.TensorProto(data_type=tensor.dtype, dims=tensor.dims, raw_data=b"")
            stored = plan.node.graph.store_output(plan.node, message)
            stored.tensor = tensor
            return stored.name
        if isinstance(plan, Deduplicate):
            for made, twin in zip(plan.node.outputs, plan.twin.outputs, strict=True):
                if made is not None and twin is not None:
                    _replace(made, twin)
            plan.node.graph.remove(plan.node)
            return plan.twin.label
        return self._replaced(plan)

    def _replaced(self, plan: Replace) -> str:
        node = plan.node
        inputs = [self._operand(node, operand) for operand in plan.inputs]
        if plan.attrs is not None:
            node.replace_attrs([onnx.helper.make_attribute(name, content) for name, content in plan.attrs.items()])
        node.set_inputs(inputs)
        node.set_op_type(plan.op_type)
        return node.label

    def _operand(self, node: ir.Node, operand: Operand) -> ir.Value | None:
        if isinstance(operand, Made):
            made = node.graph.insert(
                operand.op_type, operand.inputs, [f"{node.label}_made"], before=node, **operand.attrs
            )
            return made.outputs[0]
        if not isinstance(operand, np.ndarray):
            return operand
        key = node.graph, f"{operand.dtype}{operand.shape}", operand.tobytes()
        if key not in self._stored or self._stored[key].is_unread:  # unused values may be gone
            self.has_stored = True
            self.sizes += operand.dtype == np.int64
            self._stored[key] = node.graph.add_constant(f"{node.label}_{node.op_type.lower()}", operand)
        return self._stored[key]


def _growth(plan: Replace) -> int:
    """Return the bytes that a node is going to read of constants of its own, less those that it reads now."""
    added = sum(operand.nbytes for operand in plan.inputs if isinstance(operand, np.ndarray))
    kept = {operand for operand in plan.inputs if isinstance(operand, ir.Value)}
    own = {value for value in plan.node.inputs if value is not None and value.only_use is not None} - kept
    return added - sum(stored_bytes(value) for value in own)


def _replace(made: ir.Value, source: ir.Value) -> None:
    """Let all consumers of ``made`` read ``source``; if ``made`` is a graph output, ``source`` takes over its name."""
    if made.is_output:
        made.take_over(source)
    else:
        made.replace_uses(source)
