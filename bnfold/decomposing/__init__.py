"""Write BatchNormalization and InstanceNormalization out as primitive operators, for hardware that has neither."""

from __future__ import annotations

from typing import Literal

from bnfold import analysis, ir
from bnfold.converting.context import ConversionContext
from bnfold.decomposing.builder import Builder
from bnfold.decomposing.choose import OPERATORS, recipe
from bnfold.decomposing.facts import Facts
from bnfold.report.events import BatchNormEvent, Report
from bnfold.report.reasons import Declined, require_enabled
from bnfold.report.rewrites import DECOMPOSE
from bnfold.semantics import Policy

__all__ = ["OPERATORS", "Form", "decompose", "left"]

Form = Literal["mul_add", "sub_mul_add", "depthwise_conv"]
# How an inference BatchNormalization with constant parameters is written: s·x + t, the form that others fuse;
# s·(x − mean) + bias, which rounds less if the mean is many deviations off zero; a depthwise convolution, from rank 3.


def decompose(
    model: ir.Model,
    events: dict[ir.Node, BatchNormEvent],
    report: Report,
    *,
    policy: Policy,
    form: Form = "mul_add",
    operators: frozenset[str] = frozenset({"BatchNormalization"}),
    disabled: frozenset[str] = frozenset(),
) -> None:
    """Write out every node of ``operators`` that can be, in place; the others stay, and their event says why.

    ``events`` has an event for each BatchNormalization; an InstanceNormalization that stays is noted in the report.
    Nothing is written out if ``disabled`` names the rewrite.
    """
    facts = Facts(model)
    context: dict[int, ConversionContext] = {}
    for node in _nodes(model, operators):
        event = events.get(node)
        try:
            require_enabled(DECOMPOSE, disabled)
            chosen = recipe(node, facts, policy, form)
        except Declined as refusal:
            if event is not None:
                event.decline(refusal)
            else:
                report.notes.append(f"{node.op_type} {node.label!r} left as it was: {refusal}")
            continue
        opset = node.graph.opset("")
        builder = Builder(node, context.setdefault(opset, facts.context(opset, policy)))
        cut = _cut(node)
        if cut.outputs:
            builder.deliver(chosen.emit(builder))
            report.retire((), cut, DECOMPOSE)
            report.folding.append(DECOMPOSE.of(node.op_type))
            report.repairs.extend(repair for repair in chosen.spec.repairs if repair not in report.repairs)
        else:
            node.graph.remove(node)
        if event is not None:
            event.verdict = "decomposed" if builder.made else "removed"
            event.into, event.reason, event.detail = tuple(made.label for made in builder.made), None, ""
    for common in context.values():
        report.repairs.extend(common.repairs)


def left(model: ir.Model, operators: frozenset[str], policy: Policy | None = None) -> list[tuple[str, str, str]]:
    """Return the nodes of ``operators`` that the model still holds.

    What each is called, its graph, and why it is there.
    """
    facts = Facts(model)
    return [(node.label, node.graph.path, _why(node, facts, policy or Policy())) for node in _nodes(model, operators)]


def _why(node: ir.Node, facts: Facts, policy: Policy) -> str:
    if node.op_type not in OPERATORS:
        return "no decomposition of this operator is known"
    try:
        recipe(node, facts, policy, "mul_add")
    except Declined as refusal:
        return str(refusal)
    return "decomposing it was not asked for (--decompose remaining)"


def _nodes(model: ir.Model, operators: frozenset[str]) -> list[ir.Node]:
    return [node for node in model.nodes() if node.is_op(*operators)]


def _cut(node: ir.Node) -> ir.Cut:
    """Return what goes into the node and is not constant, and what is used of what comes out."""
    inputs = (value for value in node.inputs if value is not None and analysis.constant(value) is None)
    outputs = (value for value in node.outputs if value is not None and not value.is_unread)
    names = tuple(dict.fromkeys(value.name for value in inputs))
    return ir.Cut(node.graph.path, names, tuple(value.name for value in outputs), f"decompose {node.label}")
