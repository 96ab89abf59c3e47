"""Inferred sizes, written into the file."""

from __future__ import annotations

from copy import deepcopy

from bnfold.analysis.shapes.inference import infer_shapes
from bnfold.ir.model import Model
from bnfold.ir.types import filled
from bnfold.ir.value import written


def state_shapes(model: Model) -> list[str]:
    """Write inferred sizes into the main graph; return the outputs that keep a dynamic one.

    Viewers and compilers read sizes there. Inside bodies, each run may have others.
    """
    model.sync()
    infer_shapes(model)
    graph, proto = model.graph, model.graph.proto
    stated = {info.name: info for info in (*proto.value_info, *proto.output)}
    for name, value in graph.values.items():
        kind = graph.types.get(name)
        if kind is None or value.is_input or value.is_initializer or value.producer is None:
            continue
        if name in stated:
            stated[name].type.CopyFrom(filled(stated[name].type, kind))
        elif not value.is_dynamic:
            proto.value_info.add(name=name).type.CopyFrom(deepcopy(kind))
    return [f"{value.name} ({written(value.shape)})" for value in graph.outputs if value.is_dynamic]
