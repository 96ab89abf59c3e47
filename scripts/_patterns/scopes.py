"""Patterns inside a branch of an If, or inside a function."""

from __future__ import annotations

import onnx
from onnx import TensorProto, helper

from _patterns.parts import Pattern, conv, image, norm

DOMAIN = "local"


def _branches(model: onnx.ModelProto) -> None:
    """Put all nodes into both branches of an If, whose condition is an input; weights stay outside."""
    graph, bodies = model.graph, []
    for way in ("then", "else"):
        nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in graph.node]
        outputs = [onnx.ValueInfoProto.FromString(info.SerializeToString()) for info in graph.output]
        made = {name for node in nodes for name in node.output}
        for names in (field for node in nodes for field in (node.input, node.output)):
            names[:] = [f"{way}_{name}" if name in made else name for name in names]
        for info in outputs:
            info.name = f"{way}_{info.name}"
        bodies.append(helper.make_graph(nodes, way, [], outputs))
    names = [info.name for info in graph.output]
    del graph.node[:]
    graph.node.append(helper.make_node("If", ["chosen"], names, then_branch=bodies[0], else_branch=bodies[1]))
    graph.input.append(helper.make_tensor_value_info("chosen", TensorProto.BOOL, []))


def _behind(model: onnx.ModelProto) -> None:
    """Put the last node alone into both branches."""
    last = model.graph.node.pop()
    output = model.graph.output[0]
    body = onnx.ModelProto(graph=onnx.GraphProto(node=[last], output=[output]))
    _branches(body)
    model.graph.node.extend(body.graph.node)
    model.graph.input.extend(body.graph.input)


def _function(model: onnx.ModelProto, *, fed: bool = False) -> None:
    """Put all nodes into a function with the weights as constants, or as inputs that two calls set differently."""
    graph = model.graph
    inputs, outputs = ([info.name for info in values] for values in (graph.input, graph.output))
    stored = list(graph.initializer)
    constants = [] if fed else [helper.make_node("Constant", [], [tensor.name], value=tensor) for tensor in stored]
    formal = [*inputs, *(tensor.name for tensor in stored if fed)]
    body = helper.make_function(DOMAIN, "Block", formal, outputs, [*constants, *graph.node], model.opset_import)
    calls = [helper.make_node("Block", formal, outputs, domain=DOMAIN)]
    if fed:
        changed = [onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(t) * 2, f"{t.name}_2") for t in stored]
        others = [*inputs, *(tensor.name for tensor in changed)]
        calls.append(helper.make_node("Block", others, [f"{name}_2" for name in outputs], domain=DOMAIN))
        graph.initializer.extend(changed)
        for info in list(graph.output):
            graph.output.append(info)
            graph.output[-1].name += "_2"
    else:
        del graph.initializer[:]
    del graph.node[:]
    graph.node.extend(calls)
    model.functions.append(body)
    model.opset_import.append(helper.make_opsetid(DOMAIN, 1))


EXACT = [
    Pattern("Conv → BN in both branches of an If", lambda b: norm(b, conv(b, image(b))), change=_branches),
    Pattern("Conv → BN in a function", lambda b: norm(b, conv(b, image(b))), change=_function),
]
TRAPS = [
    Pattern("Conv → If, BN in its branches", lambda b: norm(b, conv(b, image(b))), change=_behind),
    Pattern(
        "Conv → BN in a function, called twice with different weights",
        lambda b: norm(b, conv(b, image(b))),
        change=lambda model: _function(model, fed=True),
    ),
]
