"""Repair what no runtime takes, if that is exact and cheap: each is a line of the report."""

from __future__ import annotations

from copy import deepcopy
from functools import cache

import numpy as np
import onnx

from bnfold import analysis, ir
from bnfold.analysis.constants import stored
from bnfold.analysis.shapes.undeclared import contradicted_types
from bnfold.converting import imports
from bnfold.errors import BnfoldError
from bnfold.ir.elements import type_name
from bnfold.ir.forms import fits
from bnfold.ir.schemas import schema_of, version_at
from bnfold.ir.tensor import InMemory, numpy_type
from bnfold.semantics import Repair

TP = onnx.TensorProto
_FLOATS = frozenset({TP.FLOAT16, TP.BFLOAT16, TP.FLOAT, TP.DOUBLE})
_INTEGERS = frozenset({TP.INT8, TP.INT16, TP.INT32, TP.INT64, TP.UINT8, TP.UINT16, TP.UINT32, TP.UINT64})
_ALL_KINDS = 16
"""The first opset in which Identity passes whatever a value may be."""


def repair(model: ir.Model) -> list[Repair]:
    """Repair a model in place, and return what was done."""
    return [*_store_as_taken(model), *_return_own_values(model), *_declare_as_made(model)]


def _store_as_taken(model: ir.Model) -> list[Repair]:
    """Store constants in the one type that their operator takes, if that changes no number.

    Converters to float16 store the scales of a Resize so, which have to be float32.
    """
    repairs = []
    others: dict[tuple[ir.Value, int, ir.Graph], ir.Value] = {}
    for node in [*model.nodes()]:
        version = None if node.domain or node.is_call else version_at(node.op_type, node.graph.opset())
        wanted = _single_types(node.op_type, version) if version is not None else ()
        for slot, dtype in wanted:
            value = node.input(slot)
            if value is None or value.dtype == dtype or version is None or not fits(node, version):
                continue
            tensor = stored(value)
            if tensor is None or tensor.dtype == dtype:
                continue
            key = value, dtype, node.graph
            if key not in others:
                if (other := _retyped(tensor, dtype)) is None:
                    continue
                others[key] = node.graph.add_constant(value.name, other)
            text = f"{value.name!r} was {type_name(tensor.dtype)}, which {node.op_type} does not take there"
            repairs.append(Repair("operand-type", node.label, f"{text}: it is stored as {type_name(dtype)} now"))
            node.set_input(slot, others[key])
    if others:
        imports.leave_old_ir(model)
    return repairs


@cache
def _single_types(op_type: str, version: int) -> tuple[tuple[int, int], ...]:
    """Return the inputs that are of one type of numbers only, by their places, and that type."""
    kinds = {f"tensor({type_name(dtype)})": dtype for dtype in _FLOATS | _INTEGERS}
    places = enumerate(schema_of(op_type, version).inputs)
    single = ((slot, next(iter(place.types))) for slot, place in places if len(place.types) == 1)
    return tuple((slot, kinds[kind]) for slot, kind in single if kind in kinds)


def _retyped(tensor: ir.Tensor, dtype: int) -> InMemory | None:
    """Return a constant in another type of its kind; None if numbers would change, or cannot be read."""
    if not any({tensor.dtype, dtype} <= kind for kind in (_FLOATS, _INTEGERS)):
        return None
    try:
        numbers = tensor.numpy()
    except BnfoldError:
        return None
    with np.errstate(all="ignore"):
        other = numbers.astype(numpy_type(dtype))
    wide = np.float64 if dtype in _FLOATS else object  # in which all of them are different numbers
    is_same = np.array_equal(numbers.astype(wide), other.astype(wide), equal_nan=dtype in _FLOATS)
    return InMemory(dtype, other) if is_same else None


def _return_own_values(model: ir.Model) -> list[Repair]:
    """Put an Identity in bodies that return a value of an outer graph: onnx and runtimes want a node there."""
    repairs = []
    bodies = [graph for graph in model.graphs() if graph.parent is not None]
    outer = [(graph, slot) for graph in bodies for slot, value in enumerate(graph.outputs) if value.graph is not graph]
    if any(graph.outputs[slot].dtype is None for graph, slot in outer):
        analysis.infer_shapes(model)
    for graph, slot in outer:
        value = graph.outputs[slot]
        kind = value.type if value.type is not None else graph.types.get(value.name)  # as the branch declares it
        if value.dtype is not None or _is_tensor(kind) or graph.opset() >= _ALL_KINDS:
            node = graph.insert("Identity", [value], [value.name])
            own = node.outputs[0]
            assert own is not None, "it was just made"
            assert graph.parent is not None, "others were left out"
            if kind is not None:
                graph.types[own.name] = deepcopy(kind)
            graph.set_output(slot, own)
            text = f"a branch or body returned the outer value {value.name!r}: now an Identity, as runtimes demand"
            repairs.append(Repair("outer-output", graph.parent.label, text))
    return repairs


def _is_tensor(kind: onnx.TypeProto | None) -> bool:
    return kind is not None and bool(kind.tensor_type.elem_type)


def _declare_as_made(model: ir.Model) -> list[Repair]:
    """Declare values with the element type that they have, if another one is declared."""
    repairs = []
    for value, dtype in contradicted_types(model).items():
        graph, declared = value.graph, value.dtype
        if declared is None:
            continue
        kind = deepcopy(graph.types[value.name])
        kind.tensor_type.elem_type = dtype
        graph.types[value.name] = kind
        infos = (*getattr(graph.proto, "value_info", ()), *getattr(graph.proto, "output", ()))
        for info in infos:
            if isinstance(info, onnx.ValueInfoProto) and info.name == value.name:
                info.type.CopyFrom(kind)
        label = value.name if value.producer is None else value.producer.label
        text = f"{value.name!r} was declared as {type_name(declared)} and is {type_name(dtype)}: it is declared so now"
        repairs.append(Repair("false-type", label, text))
    return repairs
