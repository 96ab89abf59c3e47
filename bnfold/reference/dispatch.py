"""From a node to the kernel of its exact version, and from the kernel's answer to the values of the node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import onnx

from bnfold import ir
from bnfold.reference import fallback, kernels  # noqa: F401 - importing the kernels registers them
from bnfold.reference.precision import Precision, as_array, rounded, widen, workable
from bnfold.reference.registry import NO_SCHEMA, Call, Declined, Policy, Random, Randomness, Unsupported, find


@dataclass(frozen=True, slots=True)
class Definition:
    """What onnx's schema says of an operator at some opset: its version, defaults, and the type variables it uses."""

    version: int
    defaults: Mapping[str, Any]
    input_types: tuple[str, ...]
    output_types: tuple[str, ...]


@lru_cache(maxsize=None)
def definition(domain: str, op: str, opset: int) -> Definition | None:
    """The definition in force at ``opset``; None for operators without one, and for opsets newer than onnx knows."""
    if domain == "" and opset > onnx.defs.onnx_opset_version():
        return None
    try:
        schema = onnx.defs.get_schema(op, opset, domain)
    except onnx.defs.SchemaError:
        return Definition(NO_SCHEMA, {}, (), ())
    defaults = {
        name: _python(attribute.default_value)
        for name, attribute in schema.attributes.items()
        if attribute.default_value.name
    }
    types = [tuple(parameter.type_str for parameter in group) for group in (schema.inputs, schema.outputs)]
    return Definition(schema.since_version, defaults, types[0], types[1])


def _python(attribute: onnx.AttributeProto) -> Any:
    value = onnx.helper.get_attribute_value(attribute)
    return value.decode() if isinstance(value, bytes) else value


def apply(
    node: ir.Node, inputs: Sequence[Any], attrs: Mapping[str, Any], precision: Precision, policy: Policy
) -> Sequence[Any]:
    """The node's outputs. Raises Unsupported or Random as `evaluate` documents."""
    opset = node.graph.opset(node.domain)
    name = f"{node.domain}:{node.op_type}" if node.domain else node.op_type
    known = definition(node.domain, node.op_type, opset)
    if known is None:
        raise Unsupported(name, opset, node.label, f"opset {opset} is newer than the definitions that onnx brings")
    function = find(node.domain, node.op_type, known.version)
    if function is None:
        function = fallback.find(node.domain, node.op_type, known.version)
    if function is None:
        raise Unsupported(name, known.version or opset, node.label, "no proven implementation of this version")
    named = tuple(value is not None for value in node.outputs)
    read = tuple(value is not None and (bool(value.uses) or value.is_output) for value in node.outputs)
    call = Call(
        node.op_type, known.version, attrs, known.defaults, named, read, policy, node.domain, opset, precision
    )
    operands = list(inputs) if precision == "float64" else [workable(value) for value in inputs]
    try:
        answer = function(call, *operands)
    except Randomness as reason:
        raise Random(name, known.version, node.label, str(reason)) from reason
    except Declined as reason:
        raise Unsupported(name, known.version, node.label, str(reason)) from reason
    except (ValueError, TypeError, IndexError, KeyError, ArithmeticError, MemoryError) as error:
        # What is left are nodes whose inputs or attributes do not fit together: the model's fault, said in numpy's words.
        reason = f"its inputs do not fit: {' '.join(str(error).split())}"
        raise Unsupported(name, known.version, node.label, reason) from error
    results = [as_array(value) for value in (answer if isinstance(answer, tuple) else (answer,))]
    if precision == "float64":
        return [widen(value) for value in results]
    return [rounded(value, _model_of(known, inputs, index)) for index, value in enumerate(results)]


def _model_of(known: Definition, inputs: Sequence[Any], output: int) -> Any:
    """The input whose type variable the output shares; the first input where there is no schema to ask."""
    arrays = [value if isinstance(value, np.ndarray) else None for value in inputs]
    if not known.output_types:
        return arrays[0] if arrays else None
    kind = known.output_types[min(output, len(known.output_types) - 1)]
    for index, array in enumerate(arrays):
        if array is not None and known.input_types[min(index, len(known.input_types) - 1)] == kind:
            return array
    return None
