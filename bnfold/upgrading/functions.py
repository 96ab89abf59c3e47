"""Specialise functions whose nodes take attributes from the call, where a version step has to know their values."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from copy import deepcopy
from itertools import count

import onnx

from bnfold import ir
from bnfold.ir.messages import FunctionKey, function_key, nested_nodes
from bnfold.ir.schemas import version_at
from bnfold.semantics import Repair
from bnfold.upgrading import table


def specialise(model: ir.Model, target: int) -> list[Repair]:
    """Give each set of attribute values that a function is called with a function of its own, which holds the values.

    This concerns functions in which a node refers to an attribute of the call and is written otherwise at ``target``,
    and those that hand such attributes on. The first set keeps the function's name.
    """
    dependent = _dependent(model, target)
    if not dependent:
        return []
    model.sync()
    functions = {function_key(function): function for function in model.proto.functions}
    taken = set(functions)
    made: dict[FunctionKey, dict[bytes, onnx.FunctionProto]] = {key: {} for key in dependent}
    waiting = deque([model.proto.graph.node])
    waiting.extend(function.node for key, function in functions.items() if key not in dependent)
    while waiting:
        for node in nested_nodes(waiting.popleft()):
            key = function_key(node)
            if key not in dependent:
                continue
            given = _arguments(node, functions[key])
            variant = b"".join(given[name].SerializeToString(deterministic=True) for name in sorted(given))
            if variant not in made[key]:
                made[key][variant] = _bound(functions[key], given, taken, is_first=not made[key])
                waiting.append(made[key][variant].node)
            node.op_type = made[key][variant].name
            del node.attribute[:]
    kept = [function for key, function in functions.items() if key not in dependent]
    variants = [function for known in made.values() for function in known.values()]
    del model.proto.functions[:]
    model.proto.functions.extend([*kept, *variants])
    model.reindex()
    return [
        Repair("function-attributes", key[1], f"attributes of {len(known)} kinds of calls are written into its nodes")
        for key, known in made.items()
    ]


def _dependent(model: ir.Model, target: int) -> set[FunctionKey]:
    """Return the functions whose nodes cannot reach ``target`` without the attributes of a call."""
    graphs = {
        function_key(graph.proto): graph for graph in model.functions if isinstance(graph.proto, onnx.FunctionProto)
    }
    found = {
        key
        for key, function in graphs.items()
        for graph in function.subgraphs()
        for node in graph.nodes
        if node.has_references and _needs_values(node, graph.opset(""), target)
    }
    while True:
        more = {
            key
            for key, function in graphs.items()
            for graph in function.subgraphs()
            for node in graph.nodes
            if key not in found and node.has_references and function_key(node.proto) in found
        }
        if not more:
            return found
        found |= more


def _needs_values(node: ir.Node, opset: int, target: int) -> bool:
    if node.domain or node.is_call:
        return False
    version = version_at(node.op_type, opset)
    if node.op_type in table.BY_HAND:
        return True
    if version is None or opset > target:
        return version_at(node.op_type, target) != version
    return not table.is_compatible(node.op_type, version, target)


def _arguments(call: onnx.NodeProto, function: onnx.FunctionProto) -> dict[str, onnx.AttributeProto]:
    """Return what a call gives for the function's attributes, with the defaults of those that it leaves out."""
    given = {default.name: default for default in function.attribute_proto}
    given |= {entry.name: entry for entry in call.attribute}
    return {name: _named(entry, name) for name, entry in given.items()}


def _named(entry: onnx.AttributeProto, name: str) -> onnx.AttributeProto:
    copy = deepcopy(entry)
    copy.name = name
    copy.ClearField("doc_string")
    return copy


def _bound(
    function: onnx.FunctionProto,
    given: Mapping[str, onnx.AttributeProto],
    taken: set[FunctionKey],
    *,
    is_first: bool,
) -> onnx.FunctionProto:
    """Return a copy of a function, with the attributes of a call in the nodes that refer to them."""
    copy = deepcopy(function)
    del copy.attribute[:], copy.attribute_proto[:]
    numbers = count(1)
    while not is_first and function_key(copy) in taken:
        copy.name = f"{function.name}_{next(numbers)}"
    taken.add(function_key(copy))
    for node in nested_nodes(copy.node):
        entries = [entry for entry in node.attribute if not entry.ref_attr_name]
        entries += [
            _named(given[entry.ref_attr_name], entry.name) for entry in node.attribute if entry.ref_attr_name in given
        ]
        if any(entry.ref_attr_name for entry in node.attribute):
            del node.attribute[:]
            node.attribute.extend(entries)
    return copy
