"""Shape functions that callers registered for operators, shown to onnx's inference as schemas, only while it runs.

It then asks them in bodies and functions as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from itertools import chain
from typing import Any

import onnx
from onnx import defs

from bnfold.ir.messages import function_key, nested_nodes
from bnfold.ir.node import attribute_value
from bnfold.ir.value import shape_of
from bnfold.registered import faults, table
from bnfold.registered.table import RegisteredOperator
from bnfold.registered.types import DoesNotApply, ValueType, returned

_INTEGERS = (onnx.TensorProto.INT32, onnx.TensorProto.INT64)
_VARIADIC = defs.OpSchema.FormalParameterOption.Variadic


@contextmanager
def shown_to_onnx(proto: onnx.ModelProto) -> Iterator[None]:
    """Let onnx's inference of ``proto`` ask the shape functions of its operators."""
    operators = [
        operator
        for operator in table.all_operators()
        if operator.shape is not None and not faults.is_distrusted(operator)
    ]
    if not operators:
        yield
        return
    attributes: dict[tuple[str, str], set[str]] = {}
    functions = {function_key(function) for function in proto.functions}
    for node in nested_nodes(chain(proto.graph.node, *(function.node for function in proto.functions))):
        if node.domain and function_key(node) not in functions:
            attributes.setdefault((node.domain, node.op_type), set()).update(each.name for each in node.attribute)
    shown = []
    for key in {(operator.domain, operator.op_type) for operator in operators} & attributes.keys():
        operator = _only_one(proto, *key)
        is_said = operator is not None and operator.shape is not None
        if operator is not None and is_said and not defs.has(operator.op_type, domain=operator.domain):
            shown.append(_schema(operator, attributes[key]))
    for schema in shown:
        defs.register_schema(schema)
    try:
        yield
    finally:
        for schema in shown:
            defs.deregister_schema(schema.name, schema.since_version, schema.domain)


def _only_one(proto: onnx.ModelProto, domain: str, op_type: str) -> RegisteredOperator | None:
    """Return what was said of an operator, if it is the same for the model and all of its functions."""
    imports = chain(proto.opset_import, *(function.opset_import for function in proto.functions))
    versions = {entry.version for entry in imports if entry.domain == domain}
    found = {table.find_operator(domain, op_type, version) for version in versions}
    return found.pop() if len(found) == 1 else None


def _schema(operator: RegisteredOperator, attributes: set[str]) -> defs.OpSchema:
    any_values = [
        defs.OpSchema.FormalParameter(name, kind, param_option=_VARIADIC, is_homogeneous=False, min_arity=0)
        for name, kind in (("inputs", "I"), ("outputs", "O"))
    ]
    schema = defs.OpSchema(
        operator.op_type,
        operator.domain,
        1,
        inputs=any_values[:1],
        outputs=any_values[1:],
        type_constraints=[(kind, _all_types(), "any type") for kind in "IO"],
    )
    schema.set_type_and_shape_inference_function(_inference(operator, attributes))
    return schema


@cache
def _all_types() -> list[str]:
    return [
        text for constraint in defs.get_schema("Identity").type_constraints for text in constraint.allowed_type_strs
    ]


def _inference(operator: RegisteredOperator, names: set[str]) -> Callable[[Any], None]:
    def infer(context: Any) -> None:
        kinds: list[ValueType | None] = []
        for slot in range(context.get_num_inputs()):
            kind = context.get_input_type(slot) if context.has_input(slot) else None
            typed = None if kind is None else value_type(kind)
            if typed is None and context.has_input(slot):
                return
            if typed is not None:
                typed.numbers = _numbers(context.get_input_data(slot))
            kinds.append(typed)
        given = ((name, context.get_attribute(name)) for name in sorted(names))
        attributes = {name: _plain(attribute) for name, attribute in given if attribute is not None}
        for slot, kind in enumerate(asked(operator, kinds, attributes)[: context.get_num_outputs()]):
            if kind is not None:
                context.set_output_type(slot, kind)

    return infer


def _plain(attribute: onnx.AttributeProto) -> Any:
    value = attribute_value(attribute)
    if not isinstance(value, onnx.TensorProto):
        return value
    array = _numbers(value)
    return value if array is None else array


def _numbers(tensor: onnx.TensorProto | None) -> Any:
    """Return the integers of a small constant; None for any other one, whose bytes need not be there."""
    if tensor is None or tensor.data_type not in _INTEGERS:
        return None
    with suppress(ValueError, TypeError):
        return onnx.numpy_helper.to_array(tensor)
    return None


def value_type(kind: onnx.TypeProto) -> ValueType | None:
    """Return a tensor's type; None if its rank or its element type is unknown."""
    dims, dtype = shape_of(kind), kind.tensor_type.elem_type
    if dims is None or not kind.HasField("tensor_type") or not dtype:
        return None
    return ValueType(dims, onnx.helper.tensor_dtype_to_np_dtype(dtype))


def asked(
    operator: RegisteredOperator, kinds: Sequence[ValueType | None], attributes: Mapping[str, Any]
) -> list[onnx.TypeProto | None]:
    """Return what the shape function says; nothing if it raises, which is logged unless it does so on purpose."""
    assert operator.shape is not None, "it was looked for"
    while kinds and kinds[-1] is None:
        kinds = kinds[:-1]
    try:
        return [_proto(kind) for kind in operator.shape(*kinds, **attributes)]
    except DoesNotApply:
        return []
    except Exception as error:  # noqa: BLE001 - it is a caller's function
        fault = faults.described(error)
        faults.tell_fault(f"the shape function of {operator.name} {fault}; so the shapes of its results are unknown")
        return []


def _proto(answer: object) -> onnx.TypeProto:
    kind = returned(answer, ValueType)
    return onnx.helper.make_tensor_type_proto(onnx.helper.np_dtype_to_tensor_dtype(kind.dtype), kind.dims)
