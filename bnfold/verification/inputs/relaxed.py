"""Other inputs for an original that does not run on those that it declares: as its operators take them."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from bnfold import ir
from bnfold.ir.types import forget_shapes

_MOST = 8
"""With more inputs than these, wrong declared shapes are not searched."""

_TYPES = ("int64", "int32", "uint8", "float", "bool", "string")
"""What an operator takes in the place of a type that none of its versions takes, best first."""


def loosened(model: ir.Model) -> Iterator[ir.Model]:
    """Yield copies of the model with inputs declared ever less strictly.

    Types are those that the consumers of an input accept. The shape of one input, or of all of them, is left for its
    consumers to determine.
    """
    copy = model.clone()
    values = {value.name: value for value in model.required_inputs()}
    for info in copy.proto.graph.input:
        if info.name in values and info.type.HasField("tensor_type"):
            info.type.tensor_type.elem_type = _type(values[info.name])
    copy.reindex()
    yield copy
    if len(values) <= _MOST:
        for names in (*({name} for name in values), {*values}):
            yield _without_shapes(copy, names)


def _type(value: ir.Value) -> int:
    """Return the declared element type, unless an operator that reads the value takes it in none of its versions."""
    for node, slot in value.uses:
        taken = _taken(node, slot)
        if taken and value.dtype and onnx.TensorProto.DataType.Name(value.dtype).lower() not in taken:
            return next((onnx.TensorProto.DataType.Value(name.upper()) for name in _TYPES if name in taken), 0)
    return value.dtype or 0


def _taken(node: ir.Node, slot: int) -> set[str]:
    """Return the element types that any version of the operator takes there; none for unknown operators."""
    found = set[str]()
    for opset in range(1, onnx.defs.onnx_opset_version() + 1):
        try:
            schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
        except onnx.defs.SchemaError:
            continue
        parameter = schema.inputs[min(slot, len(schema.inputs) - 1)] if schema.inputs else None
        for text in parameter.types if parameter is not None else ():
            found.add(text.removeprefix("tensor(").removesuffix(")"))
    return found


def _without_shapes(model: ir.Model, names: set[str]) -> ir.Model:
    copy = model.clone()
    forget_shapes(info for info in copy.proto.graph.input if info.name in names)
    copy.reindex()
    return copy
