"""The ways through the messages of a model miss nothing that nests."""

from __future__ import annotations

import onnx
from onnx import helper

from bnfold.ir.messages import function_key, nested_graphs, nested_nodes, tensor_messages
from tests.ir.build import everywhere, weight


def test_every_tensor_is_met_once() -> None:
    proto = everywhere()
    found = [tensor for tensor in tensor_messages(proto) if tensor.dims]
    assert len({id(tensor) for tensor in found}) == len(found)
    for tensor in found:
        tensor.doc_string = "met"
    encoded = proto.SerializeToString()
    assert encoded.count(b"met") == len(found)


def test_nodes_of_branches_in_branches_are_met() -> None:
    inner = helper.make_graph([helper.make_node("Abs", ["x"], ["a"])], "inner", [], [])
    outer = helper.make_graph([helper.make_node("If", ["c"], ["b"], then_branch=inner, else_branch=inner)], "o", [], [])
    nodes = [helper.make_node("If", ["c"], ["y"], then_branch=outer, else_branch=inner)]
    assert sorted(node.op_type for node in nested_nodes(nodes)) == ["Abs", "Abs", "Abs", "If", "If"]


def test_sparse_tensors_are_tensors() -> None:
    values, indices = weight("w", 2), onnx.TensorProto(name="", data_type=7, dims=[2], int64_data=[0, 3])
    sparse = onnx.SparseTensorProto(values=values, indices=indices, dims=[5])
    node = helper.make_node("Constant", [], ["k"], sparse_value=sparse)
    graph = onnx.GraphProto(node=[node], sparse_initializer=[sparse])
    assert len(list(tensor_messages(onnx.ModelProto(graph=graph)))) == 4


def test_a_call_and_its_function_have_one_key() -> None:
    function = onnx.FunctionProto(domain="ai.onnx", name="Twice")
    assert function_key(function) == function_key(onnx.NodeProto(op_type="Twice")) == ("", "Twice", "")
    assert function_key(onnx.NodeProto(op_type="Twice", domain="my")) != function_key(function)


def test_graphs_are_met_where_an_operator_has_them() -> None:
    inner = helper.make_graph([helper.make_node("Abs", ["x"], ["a"])], "inner", [], [])
    outer = helper.make_graph([helper.make_node("If", ["c"], ["b"], then_branch=inner, else_branch=inner)], "o", [], [])
    odd = helper.make_node("Relu", ["x"], ["y"], body=inner)
    own = helper.make_node("Own", ["x"], ["z"], domain="own", body=outer)
    main = helper.make_graph([odd, own], "main", [], [])
    assert sorted(graph.name for graph in nested_graphs(main)) == ["inner", "inner", "main", "o"]
    assert sorted(node.op_type for node in nested_nodes(main.node)) == ["Abs", "Abs", "If", "Own", "Relu"]
