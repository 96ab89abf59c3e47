"""The frame around the nodes: opset imports, and what IR versions before 4 did otherwise."""

from __future__ import annotations

import onnx

from bnfold import ir
from bnfold.errors import MalformedModel, Unsupported
from bnfold.ir.node import kind_by_field
from bnfold.ir.schemas import attribute_type, newest_opset, schema_of, version_at, versions_of
from bnfold.semantics import Repair

DEFAULT_TARGET = 15
SPELLINGS = ("", "ai.onnx")


def resolve_target(current: int, target: int | None) -> int:
    """Return the opset to reach: the one asked for, or 15 unless the model is newer."""
    return max(current, DEFAULT_TARGET) if target is None else target


def check_known(model: ir.Model, goal: int) -> None:
    """Raise Unsupported for what would be reinterpreted unseen.

    Raises:
        Unsupported: An opset newer than the installed onnx, or training graphs, whose nodes share the model's opset.
    """
    for graph in (model.graph, *model.functions):
        if graph.opset("") > newest_opset():
            known = f"than the installed onnx {onnx.__version__} knows: pip install --upgrade onnx"
            raise Unsupported(f"opset {graph.opset('')} is newer {known}")
    if model.proto.training_info and model.opset("") != goal:
        what = "the model holds training graphs (training_info), which share its opset: not supported"
        raise Unsupported(f"{what}; export it without them")


def check_complete(model: ir.Model) -> None:
    """Raise MalformedModel for a value that nothing makes, or an operator without inputs: no runtime computes it.

    Functions without a call are not computed at all.
    """
    calls = {(node.domain, node.op_type) for node in model.nodes()}
    unused = {graph for graph in model.functions if (graph.proto.domain, graph.proto.name) not in calls}
    sparse = {
        tensor.values.name for graph in model.graphs() for tensor in getattr(graph.proto, "sparse_initializer", ())
    }
    for graph in (graph for graph in model.graphs() if graph not in unused):
        for node in graph.nodes:
            for value in node.inputs:
                if value is not None and _is_unmade(value) and value.name not in sparse:
                    raise MalformedModel(f"{node.op_type} {node.label!r} reads {value.name!r}, which nothing makes")
            version = None if node.domain or any(node.inputs) else version_at(node.op_type, graph.opset(""))
            if version is not None and schema_of(node.op_type, version).min_input > 0:
                raise MalformedModel(f"{node.op_type} {node.label!r} has no inputs")
        for value in graph.outputs:
            if _is_unmade(value) and value.name not in sparse:
                raise MalformedModel(f"nothing makes the output {value.name!r}")


def _is_unmade(value: ir.Value) -> bool:
    return value.producer is None and not value.is_input and value.tensor_proto is None


def merge_opset_imports(model: ir.Model) -> bool:
    """Keep one import of the default domain, if there are several: the version in which the nodes are read.

    Returns whether there were several. Raises MalformedModel if the version is newer than the installed onnx knows,
    because the meaning of such a file is uncertain.
    """
    found = False
    for graph in (model.graph, *model.functions):
        holder = graph.proto if isinstance(graph.proto, onnx.FunctionProto) else model.proto
        versions = {entry.version for entry in holder.opset_import if entry.domain in SPELLINGS}
        if len(versions) < 2:
            continue
        if max(versions) > newest_opset():
            raise MalformedModel(f"it imports the operators of onnx at opsets {sorted(versions)}, all at once")
        found = _import(holder, max(versions))
    return found


def write_opset(model: ir.Model, target: int) -> None:
    """Import ``target`` once, in the model and in every function that uses the default domain."""
    if not _import(model.proto, target):
        model.proto.opset_import.add(domain="", version=target)
    for function in model.proto.functions:
        _import(function, target)


def unread_imports(model: ir.Model) -> set[str]:
    """Return the domains that are imported although no node is of them, and no function."""
    if model.proto.training_info:
        return set()
    read = {node.domain for node in model.nodes()} | {function.domain for function in model.proto.functions}
    return {entry.domain for entry in model.proto.opset_import} - read - {*SPELLINGS}


def drop_unread_imports(model: ir.Model) -> list[Repair]:
    """Import no domain without a node: a program that does not know its version refuses the file."""
    unread = unread_imports(model)
    entries = model.proto.opset_import
    for index in reversed(range(len(entries))):
        if entries[index].domain in unread:
            del entries[index]
    names = ", ".join(sorted(unread))
    return [Repair("opset-imports", "", f"imports that no node needs are gone: {names}")] if unread else []


def _import(holder: onnx.ModelProto | onnx.FunctionProto, target: int) -> bool:
    """Set the imports of the default domain to ``target``, each name once; return whether there are any."""
    entries, seen = holder.opset_import, set[str]()
    for index in reversed(range(len(entries))):
        domain = entries[index].domain
        if domain not in SPELLINGS:
            continue
        if domain in seen:
            del entries[index]
        else:
            entries[index].version = target
        seen.add(domain)
    return bool(seen)


def strip_initializer_inputs(model: ir.Model, *, frozen: bool = False) -> int:
    """Remove initializers from the inputs, and return how many there were.

    Before IR version 4, each had to be listed there. Since then, an initializer that is also an input may be
    overridden, unless it is ``frozen``.
    """
    if model.proto.ir_version >= 4 and not frozen:
        return 0
    count = 0
    for graph in model.graph.subgraphs():
        stripped = {value.name for value in graph.inputs if value.is_initializer}
        if not stripped or not isinstance(graph.proto, onnx.GraphProto):
            continue
        count += len(stripped)
        kept = [info for info in graph.proto.input if info.name not in stripped]
        copies = [onnx.ValueInfoProto.FromString(info.SerializeToString()) for info in kept]
        del graph.proto.input[:]
        graph.proto.input.extend(copies)
        for value in graph.inputs:
            value.is_input = value.name not in stripped
        graph.inputs = [value for value in graph.inputs if value.is_input]
    return count


def leave_old_ir(model: ir.Model) -> None:
    """Raise IR versions before 4, in which initializers are inputs, to 4, and say what the older ones left unsaid."""
    if model.proto.ir_version < 2:
        state_attribute_types(model)
    if model.proto.ir_version < 3 and not model.proto.opset_import:
        model.proto.opset_import.add(domain="", version=model.opset(""))
    model.proto.ir_version = max(model.proto.ir_version, 4)


def state_attribute_types(model: ir.Model) -> None:
    """State the types of attributes, which IR version 1 left to be guessed from the field that is set."""
    for node in model.nodes():
        for attribute in node.proto.attribute:
            if attribute.type == onnx.AttributeProto.UNDEFINED and not attribute.ref_attr_name:
                attribute.type = kind_by_field(attribute) or _type_by_schema(node, attribute.name)


def _type_by_schema(node: ir.Node, name: str) -> onnx.AttributeProto.AttributeType:
    """Return the type of an attribute with no field set (an empty list or a zero), from the schema."""
    for version in () if node.domain else versions_of(node.op_type):
        found = schema_of(node.op_type, version).attributes.get(name)
        if found is not None:
            return attribute_type(found)
    return onnx.AttributeProto.INTS
