"""BatchNormalization where a flat list of nodes ends: in branches, loops and model-local functions."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper

from _models.net import Net

_DIMS: list[int | str] = ["N", 5, 7, 9]


def in_if() -> onnx.ModelProto:
    """BatchNormalization in both branches of an If at opset 13: one captures its weights, the other has its own."""
    net = Net("in_if", 13)
    stem = net.bn(net.conv(net.input(["N", 3, 7, 9]), 5))
    mean = net.op("ReduceMean", stem, keepdims=0)
    positive = net.op("Greater", mean, net.constant("threshold", np.zeros((), np.float32)))
    branches = {}
    for name, capture in (("then", True), ("else", False)):
        branch = Net(name, 13, outer=net, capture=capture)
        branch.channels[stem] = 5
        branch.output(branch.relu(branch.bn(branch.conv(stem, 5, bias=not capture))), _DIMS)
        branches[f"{name}_branch"] = branch.graph()
    net.output(net.op("If", positive, outputs=["y"], **branches), _DIMS)
    return net.model()


def in_loop() -> onnx.ModelProto:
    """BatchNormalization in the body of a Loop at opset 15: a convolution applied three times with captured weights."""
    net = Net("in_loop", 15)
    state = net.bn(net.conv(net.input(["N", 3, 7, 9]), 5))
    body = Net("body", 15, outer=net, capture=True)
    graph_inputs = [
        helper.make_tensor_value_info("iteration", TensorProto.INT64, []),
        helper.make_tensor_value_info("going_in", TensorProto.BOOL, []),
    ]
    y = body.input(_DIMS, "state")
    y = body.relu(body.bn(body.conv(y, 5)))
    body.op("Identity", "going_in", outputs=["going_out"])
    body.output(y, _DIMS)
    graph = body.graph()
    inputs = [*graph_inputs, *graph.input]
    del graph.input[:]
    graph.input.extend(inputs)
    graph.output.insert(0, helper.make_tensor_value_info("going_out", TensorProto.BOOL, []))
    trips = net.constant("trips", np.array(3, np.int64))
    going = net.constant("going", np.array(True))
    net.output(net.op("Loop", trips, going, state, outputs=["y"], body=graph), _DIMS)
    return net.model()


def in_function() -> onnx.ModelProto:
    """Two model-local functions at opset 17: one holds its weights as Constant nodes, the other takes arguments."""
    net = Net("in_function", 17)
    x = net.input(["N", 3, 7, 9])
    stem = Net("stem", 17, outer=net)
    stem.channels["x"] = 3
    y = stem.relu(stem.bn(stem.conv("x", 5, bias=True)))
    stem.freeze()
    opsets = [helper.make_opsetid("", 17)]
    functions = [helper.make_function("blocks", "Stem", ["x"], [y], stem.nodes, opsets)]

    block = Net("block", 17, outer=net)
    block.channels["x"] = 5
    y = block.relu(block.bn(block.conv("x", 5)))
    arguments = {tensor.name: tensor for tensor in block.initializers()}
    net.given |= arguments
    functions.append(helper.make_function("blocks", "Block", ["x", *arguments], [y], block.nodes, opsets))

    y = net.op("Block", net.op("Stem", x, domain="blocks"), *arguments, outputs=["y"], domain="blocks")
    net.output(y, _DIMS)
    model = net.model()
    model.functions.extend(functions)
    model.opset_import.append(helper.make_opsetid("blocks", 1))
    return model


MODELS = [in_if, in_loop, in_function]
