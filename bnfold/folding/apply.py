"""Apply a plan: its edits, and those that take out a row of affines or unite branches; values get fitting names."""

from __future__ import annotations

from collections.abc import Sequence

from bnfold import ir
from bnfold.edits.apply import apply_edits
from bnfold.edits.edit import Bypass, Edit, Remove, Replace, SetAttr
from bnfold.edits.size_budget import SizeBudget
from bnfold.folding.plan import Plan


def apply_plan(plan: Plan, budget: SizeBudget) -> tuple[list[str], list[ir.Node]]:
    """Edit the graph. Returns names of values that mean something else now, or are gone; and the Adds that stay."""
    links = [link.node for link in plan.chain.links]
    served = next((node for node in links if node.is_op("BatchNormalization")), links[0]).label
    rewritten = links[:-1] if plan.direction == "up" else links
    gone = [value.name for value in plan.relabelled]
    gone += [value.name for node in rewritten for value in node.outputs if value is not None]
    apply_edits([edit for edit in plan.edits if isinstance(edit, Bypass)], budget)
    # Only now are the ends of the row known: what stood there may be gone.
    source, target, last = plan.chain.source, plan.chain.target, links[-1]
    if plan.direction == "stay":
        gone.remove(target.name)
    row: list[Edit] = [Bypass(last, (source,), renames=plan.direction == "up")]
    if plan.direction == "stay" or (plan.direction == "up" and not target.can_take_over(source)):
        row = [Replace(last, "Identity", (source,), {})]
    apply_edits([*row, *map(Remove, reversed(links[:-1]))], budget)
    for value in plan.relabelled:
        if value is not source and value.producer is not None:
            value.graph.rename(value, value.graph.model.fresh_name(f"{value.name}_folded"))
    return gone, apply_edits([edit for edit in plan.edits if not isinstance(edit, Bypass)], budget, served)


def apply_merge(
    kept: ir.Node, nodes: Sequence[ir.Node], source: ir.Value, edits: Sequence[Edit], budget: SizeBudget
) -> tuple[list[str], list[ir.Node]]:
    """Let ``kept``, one of ``nodes``, read ``source`` and make what the first makes. Returns as `apply_plan`."""
    first, made = nodes[0], nodes[0].outputs[0]
    gone = [value.name for node in nodes for value in node.outputs if value not in (None, made)]
    row: list[Edit] = [Replace(kept, kept.op_type, (source, *kept.inputs[1:]))]
    row += [SetAttr(kept, name, None) for name in ("alpha", "beta")]  # they are in the constants
    row += [Bypass(first, kept.outputs, renames=True)] if kept is not first else []
    row += [Remove(node) for node in nodes if node not in (first, kept)]
    return gone, apply_edits([*row, *edits], budget)
