"""Carry out a plan. Nothing here decides anything, and nothing can decline."""

from __future__ import annotations

from collections.abc import Callable

from bnfold import ir
from bnfold.fold.plan import Plan
from bnfold.fold.step import Become, Bypass, Edit, Residual, SetAttr, SetConstant
from bnfold.ir.tensor import Exact


def apply(plan: Plan) -> list[str]:
    """Edit the graph; the names of values that no longer mean what they did, or are gone."""
    gone = [value.name for value in plan.relabelled]
    bypassed = {edit.node for edit in plan.edits if isinstance(edit, Bypass)}
    for value in plan.relabelled:
        if value.producer not in bypassed:
            _relabel(value)
    source, target = plan.chain.source, plan.chain.target
    links = [link.node for link in plan.chain.links]
    gone += [value.name for node in links[:-1] for value in node.outputs if value is not None]
    if plan.direction == "up":
        gone.append(source.name)
        producer, slot = source.producer, source.slot
        assert producer is not None, "a chain that folds upward has a producer"
        # residuals first: they hang on the value that the producer still makes
        residuals = [edit for edit in plan.edits if isinstance(edit, Residual)]
        producer.set_output(slot, target)
        plan_edits: list[Edit] = [edit for edit in plan.edits if not isinstance(edit, Residual)]
        for edit in residuals:
            plan_edits.append(Residual(target if edit.value is source else edit.value, edit.op_type, edit.block, edit.dtype))
    else:
        gone.append(target.name)
        target.replace_uses(source)
        plan_edits = list(plan.edits)
    for node in reversed(links):
        node.graph.remove(node)
    for edit in plan_edits:
        _EDITORS[type(edit)](edit)
    return gone


def _relabel(value: ir.Value) -> None:
    """A fresh name for a value whose meaning changes; its type stays."""
    value.graph.rename(value, value.graph.model.fresh_name(f"{value.name}_folded"))


def _set_constant(edit: SetConstant) -> None:
    node, old = edit.node, edit.node.input(edit.slot)
    if old is not None and old.holds_constant and len(old.uses) == 1 and not old.is_output and old.graph is node.graph:
        old.tensor = edit.tensor  # no other reader: the name passes on
        return
    hint = edit.hint or (old.name if old is not None else f"{node.label}_constant")
    node.set_input(edit.slot, node.graph.add_constant(hint, edit.tensor))


def _set_attr(edit: SetAttr) -> None:
    edit.node.set_attr(edit.name, edit.value)


def _become(edit: Become) -> None:
    edit.node.op_type = edit.op_type


def _bypass(edit: Bypass) -> None:
    source, made = edit.node.inputs[edit.slot], edit.node.outputs[0]
    assert source is not None and made is not None, "an affine node has an input and an output"
    if made.is_output:
        raise AssertionError("a graph output is never bypassed")
    made.replace_uses(source)
    edit.node.graph.remove(edit.node)


def _residual(edit: Residual) -> None:
    """Put ``op_type`` with a constant on the edge: the value keeps its name, what the maker makes gets a fresh one."""
    value, maker, slot = edit.value, edit.value.producer, edit.value.slot
    assert maker is not None, "a residual stands behind a node"
    graph = maker.graph
    inner = graph.fresh(f"{value.name}_{edit.op_type.lower()}_input")
    if (kind := value.type) is not None:
        graph.types[inner.name] = kind
    maker.set_output(slot, inner)
    held = graph.add_constant(f"{value.name}_{edit.op_type.lower()}", Exact(edit.dtype, edit.block))
    graph.insert(edit.op_type, (inner, held), (value,), after=maker)


_EDITORS: dict[type, Callable[[object], None]] = {
    SetConstant: _set_constant,  # type: ignore[dict-item]
    SetAttr: _set_attr,  # type: ignore[dict-item]
    Become: _become,  # type: ignore[dict-item]
    Bypass: _bypass,  # type: ignore[dict-item]
    Residual: _residual,  # type: ignore[dict-item]
}
