"""Element types that follow from operators alone, whatever the file declares of inner values and outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

import onnx

from bnfold.analysis.shapes.inference import infer_shapes
from bnfold.ir.elements import type_name
from bnfold.ir.graph import Graph
from bnfold.ir.messages import nested_graphs
from bnfold.ir.model import Model
from bnfold.ir.node import Node
from bnfold.ir.schemas import schema_of, version_at
from bnfold.ir.value import Value


def contradicted_types(model: Model) -> dict[Value, int]:
    """Return the values that are declared with another element type than they have, each with that type.

    Only values of graphs count, because functions declare no types.
    """
    if not _has_contradiction(model):
        return {}
    copy = model.clone(_forget_declared)
    infer_shapes(copy)
    inferred = {graph.path: graph.types for graph in copy.graphs()}
    wrong: dict[Value, int] = {}
    for graph in model.graphs():
        for name, kind in graph.types.items():
            value, told = graph.values.get(name), inferred.get(graph.path, {}).get(name)
            if value is None or value.producer is None or told is None:
                continue
            declared, made = kind.tensor_type.elem_type, told.tensor_type.elem_type
            if declared and made and declared != made:
                wrong[value] = made
    return wrong


def _forget_declared(proto: onnx.ModelProto) -> None:
    for graph in nested_graphs(proto.graph):
        made = {name for node in graph.node for name in node.output}
        del graph.value_info[:]
        for info in graph.output:
            if info.name in made:
                info.ClearField("type")


def _has_contradiction(model: Model) -> bool:
    """Whether an output is declared with a type that its operator cannot make of the types of its inputs.

    Values that are not declared have the type that their operator makes.
    """
    made: dict[Value, int] = {}
    for node in _bodies_first(model.graph):
        for results in _results(node, made):
            for value, dtype in zip(node.outputs, results, strict=False):
                if value is None or dtype is None:
                    continue
                if value.dtype not in (None, dtype):
                    return True
                made[value] = dtype
    return False


def _bodies_first(graph: Graph) -> Iterator[Node]:
    """Yield the nodes of a graph, and those of its bodies before the node that has them."""
    for node in graph.nodes:
        for body in node.bodies:
            yield from _bodies_first(body)
        yield node


def _results(node: Node, made: Mapping[Value, int]) -> Iterator[list[int | None]]:
    """Yield the element types of a node's outputs as they follow from its inputs, or from each of its bodies.

    The first output of a Loop's body says whether to go on.
    """
    if node.subgraphs:
        for body in node.bodies:
            yield [_dtype(value, made) for value in body.outputs[node.is_op("Loop") :]]
        return
    version = version_at(node.op_type, node.graph.opset()) if not node.domain else None
    if version is None:
        return
    if node.op_type in ("Cast", "Constant", "ConstantOfShape"):
        yield [_stated(node)]
        return
    inputs, outputs, types = _type_names(node.op_type, version)
    types = dict(types)
    for slot, value in enumerate(node.inputs):
        if value is not None and inputs and (dtype := _dtype(value, made)) is not None:
            types.setdefault(inputs[min(slot, len(inputs) - 1)], dtype)
    yield [types.get(outputs[min(slot, len(outputs) - 1)]) for slot in range(len(node.outputs)) if outputs]


def _dtype(value: Value, made: Mapping[Value, int]) -> int | None:
    return made.get(value, value.dtype)


def _stated(node: Node) -> int | None:
    """Return the element type that an attribute states."""
    attribute = node.find("to" if node.is_op("Cast") else "value")
    if attribute is None or attribute.ref_attr_name:
        return None
    return (attribute.i if node.is_op("Cast") else attribute.t.data_type) or None


_DTYPES = {f"tensor({type_name(dtype)})": dtype for dtype in onnx.TensorProto.DataType.values() if dtype}


@cache
def _type_names(op_type: str, version: int) -> tuple[list[str], list[str], dict[str, int]]:
    """Return the type names of inputs and outputs, and the element types of names that stand for one type.

    A place that may hold several types at once has a name of its own.
    """
    schema, single = schema_of(op_type, version), dict[str, int]()
    names: tuple[list[str], list[str]] = ([], [])
    for own, places in zip(names, (schema.inputs, schema.outputs), strict=True):
        for slot, place in enumerate(places):
            name = place.type_str if place.is_homogeneous else f"{place.type_str} {slot}"
            if name == "S" and "Sequence" in op_type:  # of the elements, which have one type
                name = "T"
            own.append(name)
            kinds = [_DTYPES.get(kind) for kind in place.types]
            if len(kinds) == 1 and kinds[0] is not None:
                single[name] = kinds[0]
    return names[0], names[1], single
