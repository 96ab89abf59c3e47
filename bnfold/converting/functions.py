"""Inline functions whose nodes take attributes from the call, if a version step has to know their values."""

from __future__ import annotations

import onnx

from bnfold import ir
from bnfold.converting import table
from bnfold.converting.ir_version import FUNCTIONS_SINCE, Wanted
from bnfold.ir.messages import FunctionKey, function_key, nested_nodes
from bnfold.ir.schemas import version_at
from bnfold.semantics import Repair


def inline_dependent(model: ir.Model, target: int, ir_version: Wanted = "auto") -> list[Repair]:
    """Put the body of each such function in the place of its calls. Nodes of the model are other objects afterwards.

    Where onnx cannot do that, the nodes that need it are refused later.
    """
    return _inline(model, _dependent(model, target, ir_version), target)


def inline_all(model: ir.Model) -> list[Repair]:
    """Put the body of every function in the place of its calls: older IR versions have no functions."""
    keys = {function_key(function) for function in model.proto.functions}
    return _inline(model, keys, model.opset(""), "the IR version has no functions")


def _inline(model: ir.Model, dependent: set[FunctionKey], target: int, why: str = "") -> list[Repair]:
    if not dependent:
        return []
    from onnx.inliner import inline_selected_functions

    model.sync()
    _state_defaults(model.proto, dependent)
    try:
        inlined = inline_selected_functions(model.proto, [key[:2] for key in sorted(dependent)])
    except RuntimeError:  # a function is of another opset than the model
        return []
    model.proto.CopyFrom(inlined)
    model.reindex()
    text = "inlined: the nodes of this function take attributes from each call, and bnfold has to read their values"
    if model.opset("") > target:
        text = "inlined: the target has no functions, or its nodes are of other versions there"
    text = f"inlined: {why}" if why else text
    return [Repair("inlined-function", key[1], text) for key in sorted(dependent)]


def _state_defaults(proto: onnx.ModelProto, functions: set[FunctionKey]) -> None:
    """Give calls the defaults of the attributes that they leave out, which onnx's inliner knows nothing of."""
    defaults = {function_key(function): function.attribute_proto for function in proto.functions}
    for nodes in (proto.graph.node, *(function.node for function in proto.functions)):
        for call in nested_nodes(nodes):
            if (key := function_key(call)) in functions:
                given = {entry.name for entry in call.attribute}
                call.attribute.extend(default for default in defaults[key] if default.name not in given)


def _dependent(model: ir.Model, target: int, ir_version: Wanted) -> set[FunctionKey]:
    """Return the functions whose nodes cannot reach ``target`` without the attributes of a call."""
    graphs = {
        function_key(graph.proto): graph for graph in model.functions if isinstance(graph.proto, onnx.FunctionProto)
    }
    is_lowered = model.opset("") > target
    if isinstance(ir_version, int) and ir_version < FUNCTIONS_SINCE:
        return set(graphs)
    # In a function types are not known, which a step down needs.
    referring = {
        key: [node for body in graph.subgraphs() for node in body.nodes if is_lowered or node.has_references]
        for key, graph in graphs.items()
    }
    found = {
        key
        for key, nodes in referring.items()
        if any(_needs_values(node, graphs[key].opset(""), target) for node in nodes)
    }
    while more := {
        key
        for key, nodes in referring.items()
        if key not in found and any(function_key(node.proto) in found for node in nodes)
    }:
        found |= more
    return found


_KEPT = ("epsilon", "momentum")
"""Attributes of normalizations that every version has, with the same meaning."""


def _needs_values(node: ir.Node, opset: int, target: int) -> bool:
    if node.domain or node.is_call:
        return False
    version = version_at(node.op_type, opset)
    if version is None or opset > target:
        return version_at(node.op_type, target) != version
    if node.op_type in table.BY_HAND:
        return any(entry.ref_attr_name and entry.name not in _KEPT for entry in node.proto.attribute)
    return not table.is_compatible(node.op_type, version, target)
