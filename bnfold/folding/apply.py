"""Carry out a plan. Nothing here decides anything, and nothing can decline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from bnfold import ir
from bnfold.folding.affine import plainest
from bnfold.folding.plan import Plan
from bnfold.folding.size_budget import SizeBudget
from bnfold.folding.step import Become, Bypass, Edit, ExtraAdd, SetAttr, SetConstant
from bnfold.ir.tensor import Exact


def apply_plan(plan: Plan, budget: SizeBudget) -> tuple[list[str], list[ir.Node]]:
    """Edit the graph. Returns names of values that mean something else now, or are gone; and the Adds that stay."""
    links = [link.node for link in plan.chain.links]
    served = next((node for node in links if node.is_op("BatchNormalization")), links[0]).label
    made = links[:-1] if plan.direction == "up" else links
    gone = [value.name for value in plan.relabelled]
    gone += [value.name for node in made for value in node.outputs if value is not None]
    for edit in plan.edits:
        if isinstance(edit, Bypass):  # first: what stands at the ends of the chain may change by it
            bypass(edit.node, edit.slot)
    source, target = plan.chain.source, plan.chain.target
    if plan.direction == "stay":
        gone.remove(target.name)
    stays = plan.direction == "stay" or (plan.direction == "up" and not target.can_take_over(source))
    if stays:
        _keep_as_identity(links.pop(), source)
    elif plan.direction == "down":
        target.replace_uses(source)
    for node in reversed(links):
        node.graph.remove(node)
    if plan.direction == "up" and not stays:
        target.take_over(source)
    for value in plan.relabelled:
        if value is not source and value.producer is not None:
            value.graph.rename(value, value.graph.model.fresh_name(f"{value.name}_folded"))
    return gone, edit_all(plan.edits, budget, served)


def _keep_as_identity(node: ir.Node, source: ir.Value) -> None:
    for name in node.attrs:
        node.del_attr(name)
    node.set_inputs([source])
    node.trim_outputs(1)
    node.set_op_type("Identity")


def bypass(node: ir.Node, slot: int) -> None:
    """Let the consumers of a node's result read its input at ``slot``, and remove the node."""
    source, made = node.inputs[slot], node.outputs[0]
    assert source is not None, "what is bypassed has an input"
    assert made is not None, "what is bypassed has an output"
    assert not made.is_output, "a graph output is never bypassed"
    made.replace_uses(source)
    node.graph.remove(node)


def apply_merge(
    kept: ir.Node, nodes: Sequence[ir.Node], source: ir.Value, edits: Sequence[Edit], budget: SizeBudget
) -> tuple[list[str], list[ir.Node]]:
    """Let ``kept``, one of ``nodes``, read ``source`` and make what the first makes. Returns as `apply_plan`."""
    made = nodes[0].outputs[0]
    assert made is not None, "it was looked at"
    gone = [value.name for node in nodes for value in node.outputs if value not in (None, made)]
    if kept.input(0) is not source:
        kept.set_input(0, source)
    others = [node for node in nodes if node is not kept]
    for node in others:
        node.detach()
    for node in others:
        node.graph.remove(node)
    if kept.outputs[0] is not made:
        kept.set_output(0, made)
    for name in ("alpha", "beta"):  # they are in the constants
        kept.del_attr(name)
    return gone, edit_all(edits, budget)


def edit_all(edits: Sequence[Edit], budget: SizeBudget, served: str = "") -> list[ir.Node]:
    """Edit constants, attributes and operators first; what is put between two nodes hangs on their final edges.

    New nodes, which are returned, are named after the node that is ``served``, or the value that they change.
    """
    for edit in edits:
        if isinstance(edit, SetConstant):
            _set_constant(edit, budget)
        elif isinstance(edit, SetAttr):
            edit.node.set_attr(edit.name, edit.value)
        elif isinstance(edit, Become):
            edit.node.set_op_type(edit.op_type)
    placed: dict[object, ir.Node] = {}
    keys = [(edit, edit.edge) for edit in edits if isinstance(edit, ExtraAdd)]
    count = Counter(key for _, key in keys)
    for edit, key in keys:
        if edit.side == "before" and key in placed:
            edit.node.set_input(edit.slot, placed[key].outputs[0])
        else:
            placed[key] = _add_constant(edit, served, is_shared=count[key] > 1)
    return list(placed.values())


def _set_constant(edit: SetConstant, budget: SizeBudget) -> None:
    node, old = edit.node, edit.node.input(edit.slot)
    copy = budget.copy_of(old, edit.tensor, node.graph) if old is not None else None
    if copy is not None:
        node.set_input(edit.slot, copy)
    elif old is not None and old.holds_constant and old.only_consumer is node:
        old.replace_tensor(edit.tensor)  # no other consumer: the name passes on
    else:
        name = old.name if old is not None and not edit.hint else f"{node.label}_{edit.hint or 'constant'}"
        fresh = node.graph.add_constant(name, edit.tensor)
        if old is not None:
            budget.remember(old, edit.tensor, fresh)
        node.set_input(edit.slot, fresh)
    made = node.output(0)
    if node.is_op("Mul") and made is not None and not made.is_output:  # it may have other dims now
        node.graph.forget_type(made)


def _add_constant(edit: ExtraAdd, served: str, *, is_shared: bool) -> ir.Node:
    """Insert and return the Add. The value keeps its name; behind a node, it also keeps its consumers.

    One that several consumers share is in front of them all.
    """
    node, slot, value = edit.node, edit.slot, edit.value
    assert value is not None, "an extra add stands beside a value that is there"
    graph, first, producer = node.graph, node, None
    if is_shared:
        graph, producer = value.graph, value.producer
        first = graph.nodes[0]
    fresh = graph.fresh(f"{value.name}_{'unshifted' if edit.side == 'behind' else 'shifted'}")
    if (kind := value.type) is not None:
        graph.types[fresh.name] = kind
    if edit.side == "behind":
        node.set_output(slot, fresh)
    held = graph.add_constant(f"{value.name}_shift", Exact(edit.dtype, plainest(edit.block)))
    name = graph.model.fresh_node_name(f"{served or value.name}_shift")
    if edit.side == "behind":
        return graph.insert("Add", (fresh, held), (value,), after=node, name=name)
    before = first if producer is None else None
    added = graph.insert("Add", (value, held), (fresh,), before=before, after=producer, name=name)
    node.set_input(slot, fresh)
    return added
