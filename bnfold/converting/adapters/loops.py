"""Loop: up to opset 10, it hands on one value at least from step to step."""

from __future__ import annotations

import numpy as np
import onnx

from bnfold import ir
from bnfold.converting.context import Inexpressible
from bnfold.converting.node_conversion import NodeConversion
from bnfold.converting.registry import down


@down("Loop", 11, by_form=True)
def with_state(conversion: NodeConversion) -> None:
    """Convert Loop 11 → 1: one that hands on nothing is given a constant to hand on."""
    node, graph = conversion.node, conversion.graph
    if len(node.inputs) > 2:
        return
    if len(node.inputs) < 2:
        node.set_inputs([*node.inputs, *[None] * (2 - len(node.inputs))])
    body = node.subgraphs.get("body")
    if body is None:
        raise Inexpressible("has no body")
    graph.model.sync()
    before, after = (graph.model.fresh_name(f"{conversion.label}_{hint}") for hint in ("state", "next_state"))
    proto = onnx.GraphProto()
    proto.CopyFrom(body[0].proto)
    kind = onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, ())
    proto.input.add(name=before).type.CopyFrom(kind)
    results = [onnx.ValueInfoProto.FromString(info.SerializeToString()) for info in proto.output]
    results.insert(1, onnx.ValueInfoProto(name=after, type=kind))
    del proto.output[:]
    proto.output.extend(results)
    proto.node.add(op_type="Identity", input=[before], output=[after], name=conversion.node_name("next_state"))
    node.set_attr("body", proto)
    node.set_inputs([*node.inputs, conversion.constant(np.zeros((), np.float32), "state")])
    outputs = list(node.outputs)
    node.trim_outputs(0)
    for slot, value in enumerate([graph.fresh(f"{conversion.label}_last_state"), *outputs]):
        node.set_output(slot, value)
    ir.index_subgraphs(node)
    conversion.touched = True
