"""The boundary of a plan, in names that mean the same before and after it."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from bnfold import ir
from bnfold.folding.plan import Plan
from bnfold.folding.step import Bypass


def cut_of(plan: Plan, original: Collection[str]) -> ir.Cut:
    """Return the values that go into and come out of what the plan touches, taken before it is applied."""
    links = [link.node for link in plan.chain.links]
    bypassed = [edit.node for edit in plan.edits if isinstance(edit, Bypass)]
    target = plan.chain.target
    changed = [*plan.relabelled, *([target] if plan.direction == "down" else [])]  # or gone: no boundary to compare at
    consumers = [node for value in changed for node in value.consumers if node.graph is target.graph]
    return cut_around([*plan.nodes, *links, *bypassed, *consumers], f"fold {links[-1].label}", original)


def cut_around(nodes: Iterable[ir.Node], rewrite: str, original: Collection[str]) -> ir.Cut:
    """Return the values that go into and come out of some nodes of one graph.

    Where a boundary value was made by an earlier rewrite, the region grows until it has names of the file itself.
    """
    region = dict.fromkeys(nodes)
    graph = next(iter(region)).graph
    while True:
        inputs, outputs = _boundary(region)
        grown = [value.producer for value in inputs if value.name not in original and value.producer is not None]
        grown += [consumer for value in outputs if value.name not in original for consumer in value.consumers]
        fresh = [node for node in grown if node not in region and node.graph is graph]
        if not fresh:
            break
        region.update(dict.fromkeys(fresh))
    return ir.Cut(
        graph.path,
        tuple(value.name for value in inputs),
        tuple(value.name for value in outputs),
        rewrite,
    )


def _boundary(region: dict[ir.Node, None]) -> tuple[list[ir.Value], list[ir.Value]]:
    inputs: dict[ir.Value, None] = {}
    outputs: dict[ir.Value, None] = {}
    for node in region:
        for value in node.inputs:
            if value is not None and value.producer not in region and ir.constant(value) is None:
                inputs[value] = None
        for made in node.outputs:
            if made is not None and (made.is_output or any(consumer not in region for consumer, _ in made.uses)):
                outputs[made] = None
    return list(inputs), list(outputs)
