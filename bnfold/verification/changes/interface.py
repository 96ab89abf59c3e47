"""Compare what two models state: inputs and outputs by name, order, type and shape, and what onnx has against each."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import NamedTuple

import onnx

from bnfold import ir
from bnfold.errors import MalformedModel
from bnfold.ir.checking import checker_error, inference_errors
from bnfold.ir.elements import FLOATS, type_name
from bnfold.ir.schemas import schema_of, version_at
from bnfold.ir.value import Dim, shape_of
from bnfold.reference.attributes import sparse_of
from bnfold.reference.dispatch import definition
from bnfold.reference.precision import computed_type
from bnfold.reference.schedule import schedule
from bnfold.reference.shapes import ShapeWalk
from bnfold.verification.changes.from_constants import bodies_run
from bnfold.verification.inputs.sized import sized
from bnfold.verification.sentences import listed

DeclaredShape = Sequence[Dim] | None

_FLOAT_NAMES = frozenset(map(type_name, FLOATS))

_OPSET = re.compile(r"domain_version of \d+")


def interface_fault(before: ir.Model, after: ir.Model, *, any_float: bool = False) -> str:
    """Return one sentence that says why no feeds and results can be compared; empty where they can.

    With ``any_float``, a float may have become one of another width.
    """
    inputs, outputs = before.required_inputs(), before.graph.outputs
    offered, made = [*after.required_inputs(), *after.overridable_inputs()], after.graph.outputs
    known = [*inputs, *before.overridable_inputs()]
    return (
        _missing("input", _without(inputs, offered), _without(after.required_inputs(), known))
        or _missing("output", _without(outputs, made), _without(made, outputs))
        or _order("inputs", inputs, [value for value in offered if value.name in {known.name for known in inputs}])
        or _order("outputs", outputs, made)
        or next((fault for value in inputs if (fault := _input_fault(value, after, any_float))), "")
        or next((fault for value in outputs if (fault := _output_fault(value.name, before, after, any_float))), "")
    )


def narrowed(before: ir.Model, after: ir.Model) -> str:
    """Return a sentence about feeds that ``after`` rejects although ``before`` accepts them; else empty."""
    free = before.overridable_inputs()
    takes, took = (declared_shapes(model.graph.proto.input) for model in (after, before))
    unneeded = idle_inputs(before, after)
    gone = [name for name in _without(free, after.overridable_inputs()) if name not in unneeded]
    if gone:
        return f"callers can no longer feed {listed([*map(repr, gone)])}, which had a default"
    for old in (value for value in (*before.required_inputs(), *free) if value.name not in unneeded):
        if not _admits(took[old.name], takes[old.name]):
            return (
                f"input {old.name!r} took the shape {_written(took[old.name])} "
                f"and takes only {_written(takes[old.name])}"
            )
    return ""


def idle_inputs(before: ir.Model, after: ir.Model) -> list[str]:
    """Return names of inputs with a default that no node of ``before`` reads, and that ``after`` does not take."""
    free = before.overridable_inputs()
    unread = {value.name for value in free if value.is_unread}
    return [name for name in _without(free, after.overridable_inputs()) if name in unread]


def declared_shapes(infos: Iterable[onnx.ValueInfoProto]) -> dict[str, DeclaredShape]:
    """Return shapes of inputs or outputs as the file declares them, without what was learnt since."""
    return {info.name: shape_of(info.type) for info in infos}


def flaw(model: ir.Model) -> str:
    """Return what makes a model invalid for any runtime: a missing value, operand or result, or a circle."""
    for graph in model.graph.subgraphs():
        try:
            schedule(graph, [value for value in graph.outputs if value.graph is graph], ())
        except MalformedModel as circle:
            return str(circle)
    for graph in model.graphs():
        for value in graph.values.values():
            is_there = value.producer is not None or value.is_input or value.is_initializer
            if not (is_there or value.is_unread or sparse_of(value) is not None):
                return f"nothing makes the value {value.name!r}"
        for node in graph.nodes:
            known = definition(node.domain, node.op_type, graph.opset(node.domain))
            if known is not None and any(need and not node.input(index) for index, need in enumerate(known.required)):
                return f"node {node.label!r} ({node.op_type}) lacks a required input"
            outputs = zip(node.outputs, known.named if known is not None else (), strict=False)
            if any(is_named and value is None for value, is_named in outputs):
                return f"node {node.label!r} ({node.op_type}) has no name for a required output"
    return ""


def ill_typed(model: ir.Model) -> str:
    """Return an operand of a type or form that its operator does not take, which runtimes refuse.

    Types must be inferred.
    """
    for node in (node for graph in model.graphs() for node in graph.nodes if not node.subgraphs):
        if _is_flattened(node):
            return f"node {node.label!r} ({node.op_type}) has spatial=0 and parameters for channels"
        known = definition(node.domain, node.op_type, node.graph.opset(node.domain))
        if known is None or not known.input_types:
            continue
        bound: dict[str, int] = {}
        for index, value in enumerate(node.inputs):
            if value is None or value.dtype is None or value.dtype == onnx.TensorProto.STRING:
                continue
            name = known.input_types[min(index, len(known.input_types) - 1)]
            takes = known.allowed.get(name)
            same = bound.setdefault(name, value.dtype) == value.dtype
            is_type = value.dtype in onnx.helper.get_all_tensor_dtypes()
            if takes and not (same and is_type and computed_type(value.dtype, "float64") in takes):
                return f"input {index} of node {node.label!r} ({node.op_type}) is of type {type_name(value.dtype)}"
    return ""


def _is_flattened(node: ir.Node) -> bool:
    """Return what MXNet wrote and we read as ``spatial=1`` (onnx/models#156)."""
    if not node.is_op("BatchNormalization") or node.attr("spatial", 1) or len(node.inputs) < 2:
        return False
    x, scale = (value.shape if value is not None else None for value in node.inputs[:2])
    return x is not None and scale is not None and len(x) > 2 and len(scale) == 1


def unlisted(before: ir.Model, after: ir.Model) -> list[str]:
    """Return names of constants that only ``before`` lists as inputs, as IR version 3 demands."""
    kept = {value.name for value in after.graph.inputs}
    return [value.name for value in before.graph.inputs if value.is_initializer and value.name not in kept]


def unread(before: ir.Model, after: ir.Model, fed: Collection[str]) -> list[str]:
    """Return names of inputs with a default, not ``fed``, that only results of ``before`` depend on."""
    free = {value.name for value in before.overridable_inputs()} - {*fed}
    had, has = (_names_needed(model) if free else set() for model in (before, after))
    return sorted(name for name in free & had - has if name in after.graph.values)


def _names_needed(model: ir.Model) -> set[str]:
    """Return names of inputs that outputs depend on."""
    waiting = list(model.graph.outputs)
    seen = {*waiting}
    while waiting:
        producer = waiting.pop().producer
        fresh = {*_read_by(producer)} - seen if producer is not None else set()
        seen |= fresh
        waiting += fresh
    return {value.name for value in seen if value.is_input}


def _read_by(node: ir.Node) -> Iterator[ir.Value]:
    """Yield the values that a node reads, and what its bodies hand out. A branch that is never taken hands out none."""
    yield from (value for value in node.inputs if value is not None)
    for body in bodies_run(node):
        yield from body.outputs


def broken_promise(before: ir.Model, after: ir.Model, outputs: Mapping[str, Sequence[int]]) -> str:
    """Return a sentence about an output that only ``after`` declares with a wrong size; else empty.

    The computed size is the right one. If ``after`` accepts fewer input sizes, its declarations hold for those.
    """
    if narrowed(before, after):
        return ""
    had, has = (declared_shapes(model.graph.proto.output) for model in (before, after))
    for name, shape in outputs.items():
        if _excludes(has[name], shape) and not _excludes(had[name], shape):
            promise = _written(has[name])
            return f"output {name!r} is declared with the shape {promise}, and has the shape {_written(shape)}"
    return ""


def contradicted(before: ir.Model, after: ir.Model, outputs: Mapping[str, Sequence[int]]) -> str:
    """Return a sentence about an output shape that even the declaration of ``before`` excludes; else empty.

    Only outputs count for which ``after`` declares more than ``before``. If an input has an unknown rank, a wrong rank
    may have been assumed.
    """
    changed = newly_declared(before, after)
    return declared_otherwise(before, {name: shape for name, shape in outputs.items() if name in changed})


def declared_otherwise(model: ir.Model, outputs: Mapping[str, Sequence[int]]) -> str:
    """Return one sentence about an output that the model declares with another shape than it has; else empty."""
    declared = declared_shapes(model.graph.proto.output)
    for name, shape in outputs.items():
        if _excludes(declared[name], shape):
            promise = _written(declared[name])
            return f"output {name!r} was declared with the shape {promise}, and has the shape {_written(shape)}"
    return ""


def unproven_promise(before: ir.Model, after: ir.Model, *, has_run: bool = False) -> str:
    """Return a sentence about an output size that is declared, but confirmed by neither the original nor inference.

    If the model ``has_run``, other sizes than 0 are confirmed by that.
    """
    had, has = (declared_shapes(model.graph.proto.output) for model in (before, after))
    changed = newly_declared(before, after)
    if not changed:
        return ""
    copy = sized(after, {})  # which has learnt nothing from what is declared
    walk = ShapeWalk(copy)  # which knows of 0, too
    for name in changed:
        value = copy.graph.values[name]
        promise = [dim if dim == 0 or not has_run else None for dim in has[name] or ()]
        if not any(_confirms(known, promise) for known in (had[name], value.shape, walk.dims(value))):
            return f"output {name!r} had the shape {_written(had[name])} and is declared with {_written(has[name])}"
    return ""


def newly_declared(before: ir.Model, after: ir.Model) -> list[str]:
    """Return the names of outputs with sizes that only ``after`` declares."""
    had, has = (declared_shapes(model.graph.proto.output) for model in (before, after))
    return [name for name, shape in has.items() if not _confirms(had[name], shape)]


def _confirms(known: DeclaredShape, declared: DeclaredShape) -> bool:
    """Whether each declared size is the known one.

    Exporters write 0 for an unknown size, but a runtime may take it at its word, so no rewrite may add one.
    """
    sizes = {axis: dim for axis, dim in enumerate(declared or ()) if isinstance(dim, int)}
    return sizes.items() <= dict(enumerate(known or ())).items()


def _without(values: Sequence[ir.Value], others: Sequence[ir.Value]) -> list[str]:
    names = {value.name for value in others}
    return [value.name for value in values if value.name not in names]


def _missing(kind: str, gone: Sequence[str], added: Sequence[str]) -> str:
    sides = {"first": gone, "second": added}
    parts = [f"only the {which} has {', '.join(map(repr, names))}" for which, names in sides.items() if names]
    return f"the two models have different {kind}s: {'; '.join(parts)}" if parts else ""


def _order(what: str, before: Sequence[ir.Value], after: Sequence[ir.Value]) -> str:
    old, new = ([value.name for value in values] for values in (before, after))
    return f"the {what} are in another order: {old} became {new}" if old != new else ""


def _input_fault(old: ir.Value, after: ir.Model, any_float: bool) -> str:
    return _type_fault(f"input {old.name!r}", old.type, after.graph.values[old.name].type, any_float)


def _output_fault(name: str, before: ir.Model, after: ir.Model, any_float: bool) -> str:
    """Return how the declarations of an output differ; one that no operator can keep may be corrected."""
    old, new = (_type_of_output(name, model) for model in (before, after))
    fault = _type_fault(f"output {name!r}", old, new, any_float)
    value = before.graph.values[name]
    made = ShapeWalk(before).dtype(value) if fault and old is not None else None
    if old is None or made is None:
        return fault
    kept = deepcopy(old)
    kept.tensor_type.elem_type = made
    return _type_fault(f"output {name!r}", kept, new, any_float)


def _type_of_output(name: str, model: ir.Model) -> onnx.TypeProto | None:
    """Return the type that is declared of an output, also where it is an input or a constant as well."""
    value = model.graph.values[name]
    if value.producer is not None:
        return value.type
    return next((info.type for info in model.graph.proto.output if info.name == name), value.type)


def _type_fault(what: str, old: onnx.TypeProto | None, new: onnx.TypeProto | None, any_float: bool) -> str:
    was, becomes = _spelled(old), _spelled(new)
    is_cast = any_float and {was, becomes} <= _FLOAT_NAMES
    if was and becomes and was != becomes and not is_cast:
        return f"{what} was of type {was} and is of type {becomes}"
    had, has = shape_of(old), shape_of(new)
    return f"{what} had the shape {_written(had)} and has the shape {_written(has)}" if _clash(had, has) else ""


def _spelled(kind: onnx.TypeProto | None) -> str:
    """Return the declared type in words, without dims; empty where nothing is declared."""
    words = ""
    while kind is not None and (which := kind.WhichOneof("value")) in ("sequence_type", "optional_type"):
        kind, words = getattr(kind, which).elem_type, f"{words}{which.removesuffix('_type')} of "
    which = None if kind is None else kind.WhichOneof("value")
    if which != "tensor_type":
        return words + which.removesuffix("_type").replace("_", " ") if which else ""
    assert kind is not None, "it was told which"
    return words + type_name(kind.tensor_type.elem_type) if kind.tensor_type.elem_type else ""


def _clash(one: DeclaredShape, other: DeclaredShape) -> bool:
    """Whether no value has both shapes. Sizes of 0 count as unknown, exporters write them so."""
    if one is None or other is None:
        return False
    return len(one) != len(other) or any(
        isinstance(a, int) and isinstance(b, int) and a > 0 and b > 0 and a != b
        for a, b in zip(one, other, strict=True)
    )


def _excludes(declared: DeclaredShape, made: Sequence[int]) -> bool:
    """Whether a value that was made has another shape than is declared; it may well have a size of 0."""
    if declared is None:
        return False
    return len(declared) != len(made) or any(
        isinstance(size, int) and size > 0 and size != real for size, real in zip(declared, made, strict=True)
    )


def _admits(old: DeclaredShape, new: DeclaredShape) -> bool:
    """Whether every dim that was dynamic still is."""
    if old is None or new is None:
        return new is None
    return not any(isinstance(b, int) and not isinstance(a, int) for a, b in zip(old, new, strict=True))


def _written(shape: DeclaredShape) -> str:
    return str(list(shape)) if shape is not None else "of any rank"


class NewError(NamedTuple):
    """What onnx says of the rewritten model only.

    ``is_certain``: it would have said it of the original. It says nothing about operators for which it has no rules.
    """

    text: str
    is_certain: bool


def new_error(before: ir.Model, after: ir.Model) -> NewError | None:
    """Return what onnx's rules for types, its checker or its strict inference say of ``after`` only.

    Types must be inferred.
    """
    if (error := ill_typed(after)) and not ill_typed(before):
        return NewError(error, is_certain=_is_inferred(before))
    if error := checker_error(after):
        own = checker_error(before, after.proto.ir_version)
        return NewError(error, is_certain=not own) if _outline(error) != _outline(own) else None
    errors = inference_errors(after)
    if not errors:
        return None
    known = inference_errors(before)
    fresh = [error for error in errors if _text(error) not in map(_text, known)]
    return NewError(fresh[0], is_certain=not known and _is_inferred(before)) if fresh else None


def _outline(error: str) -> str:
    """Return an error without the opset, which a rewrite changes."""
    return _OPSET.sub("", error)


def _text(error: str) -> str:
    """Return an error without the operator and its name, which a rewrite changes."""
    return error.rpartition("): ")[2]


def _is_inferred(model: ir.Model) -> bool:
    """Whether onnx has inference for all operators: a model's faults behind one that it has none for do not show."""
    return all(map(_has_inference, model.nodes()))


def _has_inference(node: ir.Node) -> bool:
    version = None if node.domain else version_at(node.op_type, node.graph.opset())
    return version is not None and bool(schema_of(node.op_type, version).has_type_and_shape_inference_function)
