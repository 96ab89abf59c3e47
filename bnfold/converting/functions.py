"""Inline functions whose nodes take attributes from the call, if a version step has to know their values."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from itertools import count

import onnx

from bnfold import analysis, ir
from bnfold.converting import registry, steps
from bnfold.converting.imports import SPELLINGS, drop_unread_imports
from bnfold.converting.ir_version import FUNCTIONS_SINCE, Wanted
from bnfold.errors import ConversionBlocked, MalformedModel, Unsupported
from bnfold.ir.messages import FunctionKey, function_key, nested_nodes
from bnfold.ir.schemas import version_at
from bnfold.semantics import Repair

Convert = Callable[[ir.Model, int], object]
"""What brings a model to an opset, with all of its functions inlined."""


def inline_dependent(model: ir.Model, target: int, convert: Convert, ir_version: Wanted = "auto") -> list[Repair]:
    """Put the body of each such function in the place of its calls. Nodes of the model are other objects afterwards.

    Raises:
        ConversionBlocked: A function has no form in the opset of the model, or onnx cannot inline it.
    """
    text = "inlined: the nodes of this function take attributes from each call, and bnfold has to read their values"
    if model.opset("") > target:
        text = "inlined: the target has no functions, or its nodes are of other versions there"
    return inline(model, _dependent(model, target, ir_version), convert, text)


def inline_all(model: ir.Model, convert: Convert) -> list[Repair]:
    """Put the body of every function in the place of its calls: older IR versions have no functions."""
    keys = {function_key(function) for function in model.proto.functions}
    return inline(model, keys, convert, "inlined: the IR version has no functions")


def inline(model: ir.Model, keys: set[FunctionKey], convert: Convert, text: str) -> list[Repair]:
    """Put the bodies of functions in the place of their calls, and say why; imports of theirs become the model's.

    Raises:
        ConversionBlocked: A function has no form in the opset of the model, or onnx cannot inline it.
    """
    if not keys:
        return []
    model.sync()
    functions = _functions(model.proto)
    strange = {key for key, function in functions.items() if _is_strange(model, function)}
    # A caller of another opset cannot take in the nodes of what it calls; it is inlined as well.
    stated = {key for key in keys if any(entry.domain in SPELLINGS for entry in functions[key].opset_import)}
    callers = _calling(model.proto, keys & strange) | (_calling(model.proto, stated) & strange)
    keys = keys | callers
    _state_defaults(model.proto, keys)
    _replace_calls(model, keys - strange)
    if keys & strange:
        _specialise(model, keys & strange, convert)
    return [Repair("inlined-function", key[1], text) for key in sorted(keys)] + drop_unread_imports(model)


def _refused(name: str, why: str) -> ConversionBlocked:
    text = f"function {name!r} {why}"
    return ConversionBlocked(text, [text])


def named(model: ir.Model, paths: Container[str]) -> set[FunctionKey]:
    """Return the functions that hold a graph of these paths, and those that call them."""
    found = {
        function_key(graph.proto)
        for graph in model.functions
        if isinstance(graph.proto, onnx.FunctionProto) and any(body.path in paths for body in graph.subgraphs())
    }
    return found | _calling(model.proto, found)


def _functions(proto: onnx.ModelProto) -> dict[FunctionKey, onnx.FunctionProto]:
    return {function_key(function): function for function in proto.functions}


def _is_strange(model: ir.Model, function: onnx.FunctionProto) -> bool:
    """Whether a function is of another opset than the model."""
    return any(entry.domain in SPELLINGS and entry.version != model.opset("") for entry in function.opset_import)


def _calling(proto: onnx.ModelProto, called: set[FunctionKey]) -> set[FunctionKey]:
    """Return the functions that call one of these, or one that does."""
    found = set(called)
    while more := {
        key
        for key, function in _functions(proto).items()
        if key not in found and any(function_key(node) in found for node in nested_nodes(function.node))
    }:
        found |= more
    return found - called


def _replace_calls(model: ir.Model, keys: set[FunctionKey]) -> None:
    """Let onnx replace the calls of functions of the model's opset."""
    if not keys:
        return
    from onnx.inliner import inline_selected_functions

    functions = _functions(model.proto)
    _take_imports(model, [functions[key] for key in keys])
    with_callers = keys | _calling(model.proto, keys)
    others = [function for key, function in functions.items() if key not in with_callers]
    few = onnx.ModelProto()
    few.CopyFrom(model.proto)
    del few.functions[:]
    few.functions.extend(functions[key] for key in functions if key in with_callers)
    copies = [onnx.FunctionProto.FromString(function.SerializeToString()) for function in others]
    try:
        model.proto.CopyFrom(inline_selected_functions(few, [key[:2] for key in sorted(keys)]))
    except RuntimeError as error:
        raise _refused(min(keys)[1], f"cannot be inlined: {error}") from error
    except TypeError as error:  # protobuf gives bytes then
        raise MalformedModel("a damaged model: the name of a function is not UTF-8") from error
    model.proto.functions.extend(copies)
    model.reindex()


def _take_imports(model: ir.Model, functions: Sequence[onnx.FunctionProto]) -> None:
    """Import what functions import. Raises ConversionBlocked where the model imports another version."""
    known = {entry.domain: entry.version for entry in model.proto.opset_import}
    for function in functions:
        for entry in function.opset_import:
            if entry.domain in SPELLINGS:
                continue
            if known.setdefault(entry.domain, entry.version) != entry.version:
                versions = f"version {entry.version} of {entry.domain}, and the model version {known[entry.domain]}"
                raise _refused(function.name, f"cannot be inlined: it imports {versions}")
    stated = {entry.domain for entry in model.proto.opset_import}
    model.proto.opset_import.extend(
        onnx.helper.make_opsetid(domain, version) for domain, version in known.items() if domain not in stated
    )


def _specialise(model: ir.Model, keys: set[FunctionKey], convert: Convert) -> None:
    """Inline functions of other opsets: the body of each call is converted to the opset of the model first."""
    functions = _functions(model.proto)
    analysis.infer_shapes(model)
    made: dict[tuple[FunctionKey, bytes], onnx.FunctionProto] = {}
    for graph in model.graph.subgraphs():
        for node in (node for node in graph.nodes if function_key(node.proto) in keys):
            key = function_key(node.proto)
            alone = _alone(model, functions[key], node)
            same = key, alone.SerializeToString(deterministic=True)
            if same not in made:
                made[same] = _converted(model, functions[key], alone, convert)
                made[same].name = _unused_name(
                    key, {other[1] for other in functions} | {one.name for one in made.values()}
                )
            node.set_op_type(made[same].name)
            node.proto.ClearField("overload")
            node.replace_attrs([])
    model.sync()
    rest = [function for key, function in functions.items() if key not in keys]
    copies = [onnx.FunctionProto.FromString(function.SerializeToString()) for function in rest]
    del model.proto.functions[:]
    model.proto.functions.extend([*copies, *made.values()])
    _replace_calls(model, {function_key(function) for function in made.values()})


def _unused_name(key: FunctionKey, taken: set[str]) -> str:
    return next(name for number in count() if (name := f"{key[1]}_{number}") not in taken)


def _alone(model: ir.Model, function: onnx.FunctionProto, call: ir.Node) -> onnx.ModelProto:
    """Return the body of a function as a model of its own, for one call."""
    alone = onnx.ModelProto(ir_version=model.proto.ir_version, opset_import=function.opset_import)
    alone.functions.extend(each for key, each in _functions(model.proto).items() if key != function_key(function))
    graph = alone.graph
    graph.name = function.name
    graph.node.extend(function.node)
    given = {entry.name: entry for entry in call.proto.attribute}
    for node in nested_nodes(graph.node):
        resolved = [_resolved(entry, given) for entry in node.attribute]
        del node.attribute[:]
        node.attribute.extend(entry for entry in resolved if entry is not None)
    for slot, name in enumerate(function.input):
        if (value := call.input(slot)) is None:
            _leave_out(graph, name)
        else:
            graph.input.add(name=name).type.CopyFrom(value.type or onnx.TypeProto())
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in function.output)
    return alone


def _resolved(entry: onnx.AttributeProto, given: Mapping[str, onnx.AttributeProto]) -> onnx.AttributeProto | None:
    """Return an attribute as it is in a call; None if the call leaves it out."""
    source = given.get(entry.ref_attr_name) if entry.ref_attr_name else entry
    if source is None:
        return None
    copy = onnx.AttributeProto()
    copy.CopyFrom(source)
    copy.name = entry.name
    return copy


def _leave_out(graph: onnx.GraphProto, name: str) -> None:
    for node in nested_nodes(graph.node):
        node.input[:] = ["" if each == name else each for each in node.input]


def _converted(
    model: ir.Model, function: onnx.FunctionProto, alone: onnx.ModelProto, convert: Convert
) -> onnx.FunctionProto:
    """Return the function of one call at the opset of the model. Raises ConversionBlocked if it has none there."""
    body = model.with_proto(alone)
    try:
        convert(body, model.opset(""))
    except Unsupported as error:
        raise _refused(function.name, f"is of another opset than the model, and {error}") from error
    body.sync()
    made = onnx.FunctionProto(domain=function.domain, input=function.input)
    made.output.extend(function.output)
    made.opset_import.extend(body.proto.opset_import)
    for tensor in body.proto.graph.initializer:
        node = onnx.helper.make_node("Constant", [], [tensor.name])
        node.attribute.append(onnx.helper.make_attribute("value", tensor))
        made.node.append(node)
    made.node.extend(body.proto.graph.node)
    return made


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
    if isinstance(ir_version, int) and ir_version < FUNCTIONS_SINCE:
        return set(graphs)
    # In a function types are not known, which a step down needs.
    is_lowered = {key: max(model.opset(""), graph.opset("")) > target for key, graph in graphs.items()}
    referring = {
        key: [node for body in graph.subgraphs() for node in body.nodes if is_lowered[key] or node.has_references]
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
    if node.op_type in registry.BY_MEANING:
        return any(entry.ref_attr_name and entry.name not in _KEPT for entry in node.proto.attribute)
    return not steps.is_compatible(node.op_type, version, target)
