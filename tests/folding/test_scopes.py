"""Subgraphs and functions: what may be folded there, and what is a border."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.folding.nets import Net, compare, fold_only


def branching(
    net: Net, then: list[onnx.NodeProto], other: list[onnx.NodeProto], result: str, weights: list[onnx.TensorProto]
) -> str:
    """An If over an input that is fed True; both branches make ``result``."""
    info = helper.make_tensor_value_info(result, TensorProto.DOUBLE, None)
    info.type.CopyFrom(helper.make_tensor_type_proto(TensorProto.DOUBLE, (None,) * 4))
    graphs = [helper.make_graph(nodes, name, [], [info], weights) for nodes, name in ((then, "then"), (other, "else"))]
    net.inputs.append(helper.make_tensor_value_info("flag", TensorProto.BOOL, ()))
    net.feeds["flag"] = np.array(True)
    return net.node("If", "flag", then_branch=graphs[0], else_branch=graphs[1])


@pytest.mark.parametrize("inner", [True, False])
def test_inside_a_branch(inner: bool) -> None:
    net = Net()
    x = net.input(2, 3, 5, 7)
    y = net.batchnorm(net.node("Conv", x, net.const(4, 3, 2, 2)), 4)
    body, net.nodes = net.nodes, []
    weights = []
    if inner:
        weights, net.weights = net.weights, []
    out = branching(net, body, body, y, weights)
    proto = net.model(out)
    result = fold_only(proto)
    compare(proto, result.proto, net.feeds)
    kinds = [node.op_type for graph in result.model.graphs() for node in graph.nodes]
    assert sorted(kinds) == ["Conv", "Conv", "If"]


def test_a_value_that_a_branch_reads_too() -> None:
    net = Net()
    y = net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2))
    body = [helper.make_node("Neg", [y], ["inner"])]
    bn = net.batchnorm(y, 4)
    proto = net.model(bn, branching(net, body, body, "inner", []))
    result = fold_only(proto)
    assert result.reasons == ["shared-value"]
    compare(proto, result.proto, net.feeds)


def test_an_affine_that_only_a_branch_reads() -> None:
    net = Net()
    bn = net.batchnorm(net.input(2, 3, 5, 7), 3)
    w = net.const(4, 3, 2, 2)
    body = [helper.make_node("Conv", [bn, w], ["inner"])]
    proto = net.model(branching(net, body, body, "inner", []))
    result = fold_only(proto)
    assert result.reasons == ["barrier"]


def test_a_norm_in_a_branch_over_a_value_from_outside() -> None:
    net = Net()
    y = net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2))
    outer, net.nodes = net.nodes, []
    bn = net.batchnorm(y, 4)
    body, net.nodes = net.nodes, outer
    result = fold_only(net.model(branching(net, body, body, bn, [])))
    assert set(result.reasons) == {"barrier"}


def function_model(*, weights_inside: bool) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    rng = np.random.default_rng(3)
    arrays = {"w": rng.standard_normal((4, 3, 2, 2)), **{name: rng.uniform(0.5, 2, 4) for name in ("s", "b", "m", "v")}}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["y"], epsilon=1e-3),
    ]
    imports = [helper.make_opsetid("", 17)]
    if weights_inside:
        nodes[:0] = [
            helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array, name))
            for name, array in arrays.items()
        ]
    inputs = ["x"] if weights_inside else ["x", *arrays]
    function = helper.make_function("local", "Block", inputs, ["y"], nodes, imports)
    call = helper.make_node("Block", inputs, ["out"], domain="local")
    kind = TensorProto.DOUBLE
    graph = helper.make_graph(
        [call],
        "main",
        [helper.make_tensor_value_info("x", kind, (2, 3, 5, 7))],
        [helper.make_tensor_value_info("out", kind, (2, 4, 4, 6))],
        [] if weights_inside else [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    imports = [*imports, helper.make_opsetid("local", 1)]
    proto = helper.make_model(graph, functions=[function], opset_imports=imports, ir_version=8)
    return proto, {"x": rng.standard_normal((2, 3, 5, 7))}


def test_inside_a_function_with_its_own_constants() -> None:
    proto, feeds = function_model(weights_inside=True)
    result = fold_only(proto)
    compare(proto, result.proto, feeds)
    kinds = [node.op_type for node in result.model.functions[0].nodes]
    assert sorted(set(kinds)) == ["Constant", "Conv"]


def test_inside_a_function_with_parameters_of_the_caller() -> None:
    proto, _ = function_model(weights_inside=False)
    assert fold_only(proto).reasons == ["dynamic-parameters"]
