"""Move the nodes of a graph into the graph around it, in front of the node that holds it."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from bnfold import ir
from bnfold.edits.edit import can_take_place
from bnfold.ir.index import graphs_of
from bnfold.simplifying.branches import Decide

Moved = dict[tuple[str, str], tuple[str, str]]
"""Values by graph and name: where they were, and where they are now."""


def inline_branch(plan: Decide) -> Moved:
    """Put copies of the branch's nodes in the place of its If; return which value is now which one.

    Values keep their names if no other graph has them. A result takes the name of the If's output.
    """
    node, branch = plan
    graph = node.graph
    branch.model.sync()  # its message is copied
    ends = _ends(plan)
    taken = _names_outside(node)
    values = {name: ends.get(name) or _new_value(graph, name, taken) for name in _own_names(branch)}
    proto = onnx.GraphProto()
    proto.CopyFrom(branch.proto)
    rename(proto, {name: value.name for name, value in values.items()})
    for tensor in proto.initializer:
        _store(graph, tensor)
    _carry_types(graph, proto, {value.name for value in values.values()} - {value.name for value in ends.values()})
    labels = {other.name for other in graph.nodes}
    copies = [_copied(plan, message, labels) for message in proto.node]
    moved: Moved = {}
    for old, new in zip(branch.nodes, copies, strict=True):
        moved |= _moved(old, new)
    _connect(plan, values)
    graph.remove(node)
    return moved


def _own_names(branch: ir.Graph) -> list[str]:
    return [name for name, value in branch.values.items() if value.producer is not None or value.is_initializer]


def _ends(plan: Decide) -> dict[str, ir.Value]:
    """Return, for each result that a node of the branch makes, the output of the If that takes its place."""
    found: dict[str, ir.Value] = {}
    for made, end in zip(plan.node.outputs, plan.branch.outputs, strict=False):
        if made is not None and end.graph is plan.branch and end.producer is not None:
            found.setdefault(end.name, made)
    return found


def _names_outside(node: ir.Node) -> set[str]:
    """Return the names that values of other graphs have: none of them is free for a value that moves out."""
    dropped = {graph for body in node.bodies for graph in body.subgraphs()}
    return {name for graph in node.graph.model.graphs() if graph not in dropped for name in graph.values}


def _new_value(graph: ir.Graph, name: str, taken: set[str]) -> ir.Value:
    return graph.fresh(name) if name in taken else graph.define(name)


def rename(proto: onnx.GraphProto, names: Mapping[str, str]) -> None:
    """Rename values in a graph's message, and where graphs nested in it read or return them."""
    for holder in (*proto.initializer, *proto.value_info, *proto.output):
        holder.name = names.get(holder.name, holder.name)
    for node in proto.node:
        for field in (node.input, node.output):
            field[:] = [names.get(name, name) for name in field]
        for inner in (graph for graphs in graphs_of(node).values() for graph in graphs):
            own = {entry.name for entry in (*inner.input, *inner.initializer)}
            own.update(entry.values.name for entry in inner.sparse_initializer)
            own.update(name for each in inner.node for name in each.output)
            rename(inner, {name: new for name, new in names.items() if name not in own})


def _store(graph: ir.Graph, tensor: onnx.TensorProto) -> None:
    assert isinstance(graph.proto, onnx.GraphProto), "a function has no initializers"
    message = graph.proto.initializer.add()
    message.CopyFrom(tensor)
    graph.values[tensor.name].tensor_proto = message


def _carry_types(graph: ir.Graph, proto: onnx.GraphProto, names: set[str]) -> None:
    """Take over what the branch says of its values; the results have the types of the If's outputs."""
    infos = getattr(graph.proto, "value_info", None)
    for info in proto.value_info:
        if info.name in names and infos is not None:
            infos.add().CopyFrom(info)
            graph.types[info.name] = info.type


def _copied(plan: Decide, message: onnx.NodeProto, labels: set[str]) -> ir.Node:
    """Insert a copy of a node, with all that its message says."""
    graph, model = plan.node.graph, plan.node.graph.model
    inputs, outputs = (
        [graph.lookup(name) if name else None for name in names] for names in (message.input, message.output)
    )
    label = message.name or next((value.name for value in outputs if value is not None), message.op_type)
    name = model.fresh_node_name(label) if not message.name or message.name in labels else message.name
    node = graph.insert(message.op_type, inputs, outputs, before=plan.node, domain=message.domain, name=name)
    rest = onnx.NodeProto()
    rest.CopyFrom(message)
    for field in ("input", "output", "name", "op_type", "domain"):
        rest.ClearField(field)
    node.proto.MergeFrom(rest)
    if graphs_of(node.proto):
        ir.index_subgraphs(node)
    return node


def _moved(old: ir.Node, new: ir.Node) -> Moved:
    """Return which value of a node, and of the graphs in it, is now which one."""
    pairs = zip(old.outputs, new.outputs, strict=True)
    moved = {_key(one): _key(other) for one, other in pairs if one is not None and other is not None}
    for one, other in zip(old.bodies, new.bodies, strict=True):
        for inner, copy in zip(one.nodes, other.nodes, strict=True):
            moved |= _moved(inner, copy)
    return moved


def _key(value: ir.Value) -> tuple[str, str]:
    return value.graph.path, value.name


def _connect(plan: Decide, values: Mapping[str, ir.Value]) -> None:
    """Let consumers of the If read what a branch returns without making it: an outer value, a weight, one twice."""
    for made, end in zip(plan.node.outputs, plan.branch.outputs, strict=False):
        source = values.get(end.name, end) if end.graph is plan.branch else end
        if made is None or source is made:
            continue
        if not made.is_output and can_take_place(made, source, plan.node):
            made.replace_uses(source)
        else:
            plan.node.graph.insert("Identity", [source], [made], before=plan.node)
