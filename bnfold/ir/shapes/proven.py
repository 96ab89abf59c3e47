"""Types that follow from the inputs of a graph and its weights alone, whatever annotations say.

People open the batch of an input and leave the annotations as they were; a rewrite that believes these fixes a size
that is open. Each dynamic size of an input has a name of its own here: two sizes of one name are equal in every run.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy

import onnx

from bnfold.ir.model import Model
from bnfold.ir.shapes.types import forget_shapes
from bnfold.ir.value import Value

_OPAQUE = "bnfold.opaque"


def proven_types(model: Model) -> Mapping[Value, onnx.TypeProto]:
    """Return the types of values of the main graph, as inferred.

    Results of If, Loop and Scan have an unknown type: sizes may differ between branches and iterations.
    """
    model.sync()
    proto = deepcopy(model.proto)
    graph = proto.graph
    _drop_defaults(model, graph)
    for place, info in enumerate(graph.input):
        for axis, dim in enumerate(info.type.tensor_type.shape.dim):
            if dim.dim_value <= 0:  # some exporters write 0 for a size that they do not know
                dim.dim_param = f"{place}:{axis}"
    del graph.value_info[:]
    forget_shapes(graph.output)
    for node, message in zip(model.graph.nodes, graph.node, strict=True):
        if node.subgraphs:
            message.domain = _OPAQUE
            del message.attribute[:]
    twin = Model(proto, model.payloads, model.path)
    twin.has_external_data = model.has_external_data
    twin.infer_shapes()
    values = model.graph.values
    return {values[name]: kind for name, kind in twin.graph.types.items() if name in values}


def _drop_defaults(model: Model, graph: onnx.GraphProto) -> None:
    """Drop stored tensors that callers or a training graph may replace: inference would believe their numbers."""
    values = model.graph.values
    if all(model.is_constant_initializer(values[tensor.name]) for tensor in graph.initializer):
        return
    kept = [tensor for tensor in graph.initializer if model.is_constant_initializer(values[tensor.name])]
    copies = [deepcopy(tensor) for tensor in kept]
    del graph.initializer[:]
    graph.initializer.extend(copies)
