"""Apply edits. Nothing here decides anything, and nothing can decline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import onnx

from bnfold.edits.edit import (
    Bypass,
    Edit,
    ExtraAdd,
    NewNode,
    Operand,
    Remove,
    Replace,
    SetAttr,
    SetConstant,
    StoreConstant,
    plainest,
)
from bnfold.edits.size_budget import SizeBudget
from bnfold.ir import Node, Value
from bnfold.ir.tensor import Exact


def apply_edits(edits: Iterable[Edit], budget: SizeBudget, served: str = "") -> list[Node]:
    """Edit the graph, in the order that is given; Adds between two nodes come last, on the edges that there are then.

    Returns the Adds, which are named after the node that is ``served``, or the value that they change.
    """
    adds: list[ExtraAdd] = []
    bypassed: dict[Value, Value] = {}
    for edit in edits:
        match edit:
            case Bypass():
                _bypass(edit, bypassed)
            case Remove():
                edit.node.graph.remove(edit.node)
            case Replace():
                _replace(edit, budget)
            case StoreConstant():
                _store(edit)
            case SetConstant():
                _set_constant(edit, budget)
            case SetAttr():
                _set_attr(edit)
            case ExtraAdd():
                adds.append(edit)
    return _add_constants(adds, served)


def _add_constants(adds: Sequence[ExtraAdd], served: str) -> list[Node]:
    """Insert the Adds, each once: consumers of one value share those in front of them."""
    placed: dict[object, Node] = {}
    keys = [(edit, edit.edge) for edit in adds]
    count = Counter(key for _, key in keys)
    for edit, key in keys:
        if edit.side == "before" and key in placed:
            edit.node.set_input(edit.slot, placed[key].outputs[0])
        else:
            placed[key] = _add_constant(edit, served, is_shared=count[key] > 1)
    return list(placed.values())


def _bypass(edit: Bypass, bypassed: dict[Value, Value]) -> None:
    for made, source in zip(edit.node.outputs, edit.sources, strict=False):
        if made is None or source is None:
            continue
        while source in bypassed:
            source = bypassed[source]  # noqa: PLW2901 - what it was planned to read has gone since
        if edit.renames or made.is_output:
            made.take_over(source)
            bypassed[source] = made
        else:
            made.replace_uses(source)
            bypassed[made] = source
    edit.node.graph.remove(edit.node)


def _replace(edit: Replace, budget: SizeBudget) -> None:
    node = edit.node
    inputs = [_operand(node, operand, budget) for operand in edit.inputs] if edit.inputs is not None else None
    if edit.attrs is not None:
        node.replace_attrs([onnx.helper.make_attribute(name, content) for name, content in edit.attrs.items()])
    if inputs is not None:
        node.set_inputs(inputs)
    if node.op_type != edit.op_type:
        node.set_op_type(edit.op_type)
        node.trim_outputs(1)


def _operand(node: Node, operand: Operand, budget: SizeBudget) -> Value | None:
    if isinstance(operand, NewNode):
        hint = f"{node.label}_made"
        return node.graph.insert(operand.op_type, operand.inputs, [hint], before=node, **operand.attrs).outputs[0]
    if not isinstance(operand, np.ndarray):
        return operand
    tensor = node.graph.model.tensor(onnx.numpy_helper.from_array(operand))
    if (copy := budget.copy_of(None, tensor, node.graph)) is not None:
        return copy
    stored = node.graph.add_constant(f"{node.label}_{node.op_type.lower()}", tensor)
    budget.remember(None, tensor, stored)
    return stored


def _store(edit: StoreConstant) -> None:
    message = onnx.TensorProto(data_type=edit.tensor.dtype, dims=edit.tensor.dims, raw_data=b"")
    edit.node.graph.store_output(edit.node, message).tensor = edit.tensor


def _set_attr(edit: SetAttr) -> None:
    if edit.value is None:
        edit.node.del_attr(edit.name)
    else:
        edit.node.set_attr(edit.name, edit.value)


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


def _add_constant(edit: ExtraAdd, served: str, *, is_shared: bool) -> Node:
    """Insert and return the Add. The value keeps its name; behind a node, it also keeps its consumers.

    One that several consumers share is in front of them all.
    """
    node, slot, value = edit.node, edit.slot, edit.value
    assert value is not None, "an extra add stands beside a value that is there"
    graph = value.graph if is_shared else node.graph
    fresh = graph.fresh(f"{value.name}_{'unshifted' if edit.side == 'behind' else 'shifted'}")
    if (kind := value.type) is not None:
        graph.types[fresh.name] = kind
    if edit.side == "behind":
        node.set_output(slot, fresh)
    held = graph.add_constant(f"{value.name}_shift", Exact(edit.dtype, plainest(edit.block)))
    name = graph.model.fresh_node_name(f"{served or value.name}_shift")
    if edit.side == "behind":
        return graph.insert("Add", (fresh, held), (value,), after=node, name=name)
    if is_shared and value.producer is not None:
        added = graph.insert("Add", (value, held), (fresh,), after=value.producer, name=name)
    else:
        first = graph.nodes[0] if is_shared else node
        added = graph.insert("Add", (value, held), (fresh,), before=first, name=name)
    node.set_input(slot, fresh)
    return added
