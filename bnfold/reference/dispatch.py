"""From a node to the kernel of its exact version, and from the kernel's answer to the values of the node."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import onnx

from bnfold import ir
from bnfold.ir.elements import FLOATS, MAX_RANK, type_name
from bnfold.ir.forms import fits, fitting_versions
from bnfold.ir.node import attribute_value
from bnfold.ir.registered import registered_operator
from bnfold.ir.schemas import MACHINE_LEARNING, schema_of, version_at, versions_of
from bnfold.reference import fallback, kernels  # noqa: F401 - importing the kernels registers them
from bnfold.reference.control import handles, same_since
from bnfold.reference.legal import MEANINGLESS, LegalTypes, check_attributes, check_types, types
from bnfold.reference.precision import Datum, Precision, as_array, rounded, widen, workable
from bnfold.reference.registered import registered_kernel
from bnfold.reference.registry import (
    NO_SCHEMA,
    Attribute,
    Call,
    CannotEvaluate,
    EvaluateModel,
    Kernel,
    KernelDeclined,
    KernelResult,
    Misfit,
    Mismatch,
    Noise,
    Random,
    Randomness,
    Shortness,
    TooShort,
    defaults_without_schema,
    find_kernel,
    registered,
)
from bnfold.settings import Policy


class Definition(NamedTuple):
    """What onnx's schema says of an operator at some opset: its version, defaults, and the type variables it uses.

    Each input that is ``required`` is given, and each output that is ``named`` has a name.
    """

    version: int
    defaults: Mapping[str, Attribute]
    required: tuple[bool, ...]
    named: tuple[bool, ...]
    most: int
    input_types: tuple[str, ...]
    output_types: tuple[str, ...]
    allowed: LegalTypes
    needed: frozenset[str]


@cache
def definition(domain: str, op: str, opset: int) -> Definition | None:
    """Return the definition in force at ``opset``.

    None for operators without one, and for opsets newer than onnx knows.
    """
    if domain == "" and opset > onnx.defs.onnx_opset_version():
        return None
    try:
        schema = onnx.defs.get_schema(op, opset, domain)
        # Some exporters wrote a withdrawn operator all the same, and meant the last version that it had.
        while schema.deprecated and onnx.defs.has(op, schema.since_version - 1, domain):
            schema = onnx.defs.get_schema(op, schema.since_version - 1, domain)
    except onnx.defs.SchemaError:
        return Definition(NO_SCHEMA, defaults_without_schema(domain, op), (), (), sys.maxsize, (), (), {}, frozenset())
    defaults = {
        name: attribute_value(attribute.default_value)
        for name, attribute in schema.attributes.items()
        if attribute.default_value.name
    }
    names = [tuple(parameter.type_str for parameter in group) for group in (schema.inputs, schema.outputs)]
    single = onnx.defs.OpSchema.FormalParameterOption.Single
    required, named = (
        tuple(parameter.option == single for parameter in group) for group in (schema.inputs, schema.outputs)
    )
    needed = frozenset(name for name, attribute in schema.attributes.items() if attribute.required)
    return Definition(
        schema.since_version, defaults, required, named, schema.max_input, names[0], names[1], types(schema), needed
    )


_TAKE_NOTHING = frozenset({"Identity", "OptionalHasElement", "OptionalGetElement"})
"""Operators to which an empty optional, which is None here, is a value like any other."""


class Bound(NamedTuple):
    """What all runs of a node have in common: its definition, the inputs that it needs, its kernel and its call."""

    known: Definition
    needed: tuple[int, ...]
    function: Kernel
    call: Call


def apply_kernel(
    node: ir.Node,
    inputs: Sequence[Datum],
    bound: Callable[[int | None], Bound],
    *,
    later: bool = False,
    noise: Noise | None = None,
) -> Sequence[Datum]:
    """Return the node's outputs; with ``later`` those of the next version that it fits, where it does not fit its own.

    ``bound`` is `bind` for another opset, or (None) the node's own. Raises CannotEvaluate or Random as it documents.
    """
    try:
        return _run(node, bound(None), inputs, noise)
    except Misfit:
        for other in _other_versions(node) if later else ():
            with suppress(CannotEvaluate):
                return _run(node, bound(other), inputs, noise)
        raise


def _other_versions(node: ir.Node) -> Iterator[int]:
    """Yield other versions that the node may have been written for: first the later ones."""
    if node.domain:
        return
    opset = node.graph.opset("")
    for version in (version for version in versions_of(node.op_type) if version > opset):
        schema = schema_of(node.op_type, version)
        if not schema.deprecated and node.attrs.keys() - MEANINGLESS <= schema.attributes.keys():
            yield version
    yield from fitting_versions(node, opset, opset)


def bind(
    node: ir.Node,
    attrs: Mapping[str, Attribute],
    precision: Precision,
    policy: Policy,
    opset: int | None,
    evaluate: EvaluateModel,
) -> Bound:
    """Return the node as ``opset`` defines it; ``evaluate`` runs a whole model. Raises CannotEvaluate."""
    opset = node.graph.opset(node.domain) if opset is None else opset
    known = definition(node.domain, node.op_type, opset)
    if known is None:
        raise refused(node, opset, f"opset {opset} is newer than the definitions that onnx brings")
    own = registered_kernel(node) if node.domain else None
    found = (own, opset) if own else _kernel(node.domain, node.op_type, known.version, evaluate)
    if found is None:
        raise refused(node, known.version or opset, "")
    function, meant = found
    if len(node.inputs) > known.most:
        raise refused(node, known.version, f"{len(node.inputs)} inputs, where {known.most} are the most", Misfit)
    required = known.required if known.version != NO_SCHEMA else () if own else _without_default(function)
    if known.version != NO_SCHEMA and known.most > len(required):  # none of a list may be missing
        required = (*required[:-1], *[True] * (len(node.inputs) - len(required) + 1))
    if any(need and node.input(index) is None for index, need in enumerate(required)):
        raise refused(node, known.version, "a required input is missing", Misfit)
    needed = () if node.op_type in _TAKE_NOTHING else (index for index, need in enumerate(required) if need)
    named = tuple(value is not None for value in node.outputs)
    read = tuple(value is not None and (bool(value.uses) or value.is_output) for value in node.outputs)
    ties = node.is_op(*_TO_INTEGERS) or node.domain == MACHINE_LEARNING  # as numbers of the type of the file do
    kind = _stated_type(node) if ties else None
    call = Call(
        *(node.op_type, meant, attrs, known.defaults, named, read, policy, node.domain, opset, precision), kind=kind
    )
    try:
        check_attributes(call, known.version, known.needed)
    except Mismatch as reason:
        raise refused(node, known.version, str(reason), Misfit) from reason
    return Bound(known if own is None else known._replace(version=opset), tuple(needed), function, call)


def _stated_type(node: ir.Node) -> int | None:
    """Return the element type of the first input, by those of the values that have to be of the same."""
    value, seen = node.input(0), set[ir.Value]()
    while value is not None and value.dtype is None and (producer := value.producer) is not None and value not in seen:
        seen.add(value)
        version = None if producer.domain else version_at(producer.op_type, producer.graph.opset(""))
        if version is None:
            return None
        if producer.is_op("Cast"):
            to = producer.attr("to")
            return to if isinstance(to, int) else None
        schema = schema_of(producer.op_type, version)
        made = schema.outputs[min(value.slot, len(schema.outputs) - 1)]
        if made.type_str in _CONCRETE:
            return _CONCRETE[made.type_str]
        alike = (slot for slot, parameter in enumerate(schema.inputs) if parameter.type_str == made.type_str)
        slot = next(alike, None)
        value = None if slot is None else producer.input(slot)
    return None if value is None else value.dtype


_TO_INTEGERS = ("Cast", "CastLike", "Ceil", "Floor", "Round")
_CONCRETE = {f"tensor({type_name(dtype)})": dtype for dtype in FLOATS}
"""Types that a schema states, as the text of a type variable."""


def _run(node: ir.Node, bound: Bound, inputs: Sequence[Datum], noise: Noise | None) -> Sequence[Datum]:
    """Run the kernel; in a function, an input that is named may still be one that the call left out."""
    if any(inputs[index] is None for index in bound.needed):
        raise refused(node, bound.known.version, "a required input is missing")
    if bound.call.precision == "float64":
        return [widen(value) for value in _compute(bound, node, inputs, noise)]
    results = _compute(bound, node, [workable(value) for value in inputs], noise)
    return [rounded(value, _model_of(bound.known, inputs, index)) for index, value in enumerate(results)]


def _kernel(domain: str, op: str, version: int, evaluate: EvaluateModel) -> tuple[Kernel, int] | None:
    own = find_kernel(domain, op, version)
    other = fallback.find_fallback(domain, op, version, evaluate) if own is None else None
    return own if other is None else (other, version)


def _without_default(function: Kernel) -> tuple[bool, ...]:
    """Say which inputs a kernel cannot do without, where no schema says so."""
    _, *inputs = inspect.signature(function).parameters.values()
    return tuple(parameter.default is parameter.empty for parameter in inputs)


def unknown_operator(nodes: Iterable[ir.Node]) -> CannotEvaluate | None:
    """Return the error of the first node whose operator nothing can compute in any version; None if there is none."""
    for node in nodes:
        if node.is_call or (not node.domain and versions_of(node.op_type)):
            continue
        opset = node.graph.opset(node.domain)
        known = definition(node.domain, node.op_type, opset)
        version = opset if known is None else known.version
        operator = node.domain, node.op_type, version
        if find_kernel(*operator) is None and not fallback.is_listed(*operator) and registered_kernel(node) is None:
            return refused(node, version or opset, "")
    return None


def has_own_kernel(domain: str, op: str) -> bool:
    """Whether some version of an operator has a kernel of bnfold's own."""
    return any((domain, op) == operator[:2] for operator in registered())


def meaning(node: ir.Node) -> tuple[str, str, int]:
    """Return a node's operator, with one number for all versions that are equivalent for the same attributes.

    A node that has not the form of its own version has a number of its own: of another version it may be one. An
    operator of onnx's own domain has one number in all opsets in which onnx does not define it: no version of it
    begins between them. In another domain, each opset may have its own version, unless one registered kernel computes
    several.
    """
    opset = node.graph.opset(node.domain)
    operator = registered_operator(node) if node.domain else None
    if operator is not None and operator.kernel is not None:
        return node.domain, node.op_type, operator.first_version
    known = definition(node.domain, node.op_type, opset)
    if known is None or (known.version == NO_SCHEMA and node.domain):
        version = opset
    elif known.version == NO_SCHEMA:
        version = NO_SCHEMA
    elif not node.domain and not fits(node, known.version, MEANINGLESS):
        return node.domain, node.op_type, -known.version
    elif handles(node):
        version = same_since(node.op_type, known.version)
    else:
        version = known.version
    return node.domain, node.op_type, (find_kernel(node.domain, node.op_type, version) or (None, version))[1]


def refused(node: ir.Node, version: int, reason: str, kind: type[CannotEvaluate] = CannotEvaluate) -> CannotEvaluate:
    """Return the error that names a node and says why it cannot be computed."""
    return kind(f"{node.domain}:{node.op_type}" if node.domain else node.op_type, version, node.label, reason)


def _compute(bound: Bound, node: ir.Node, inputs: Sequence[Datum], noise: Noise | None) -> list[Datum]:
    """Run the kernel on what is legal.

    Errors that it does not raise on purpose come of inputs and attributes that do not fit together: the model's fault,
    said in numpy's words.
    """
    known = bound.known
    try:
        check_types(known.allowed, known.input_types, inputs)
        answer = _answer(bound, node, inputs, noise)
    except Randomness as reason:
        raise refused(node, known.version, str(reason), Random) from reason
    except Shortness as reason:
        raise refused(node, known.version, str(reason), TooShort) from reason
    except Mismatch as reason:
        raise refused(node, known.version, str(reason), Misfit) from reason
    except KernelDeclined as reason:
        raise refused(node, known.version, str(reason)) from reason
    except (ValueError, TypeError, IndexError, KeyError, ArithmeticError) as error:
        raise refused(node, known.version, f"its inputs do not fit: {' '.join(str(error).split())}", Misfit) from error
    except RuntimeError as error:  # numpy's, of more axes than some of its functions take
        raise refused(node, known.version, str(error)) from error
    made = [as_array(value) for value in (answer if isinstance(answer, tuple) else (answer,))]
    if any(isinstance(value, np.ndarray) and value.ndim > MAX_RANK for value in made):
        raise refused(node, known.version, "it makes more axes than can be evaluated")  # numpy itself is of two minds
    return made


def _answer(bound: Bound, node: ir.Node, inputs: Sequence[Datum], noise: Noise | None) -> KernelResult:
    """Return the kernel's result; a random operator also gets the ``noise`` of this run."""
    try:
        return bound.function(bound.call, *inputs)
    except Randomness:
        if noise is None:
            raise
    name = node.outputs[0].name if node.outputs[0] else ""
    drawing = partial(noise.of, name, bound.call.attrs.get("seed"))
    return bound.function(replace(bound.call, noise=drawing), *inputs)


def _model_of(known: Definition, inputs: Sequence[Datum], output: int) -> Datum:
    """Return the input whose type variable the output shares; the first input where there is no schema to ask."""
    arrays = [value if isinstance(value, np.ndarray) else None for value in inputs]
    if not known.output_types:
        return arrays[0] if arrays else None
    kind = known.output_types[min(output, len(known.output_types) - 1)]
    for index, array in enumerate(arrays):
        if array is not None and known.input_types[min(index, len(known.input_types) - 1)] == kind:
            return array
    return None
