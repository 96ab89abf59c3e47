"""Attributes as kernels see them."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

from bnfold import ir
from bnfold.ir.sparse import dense
from bnfold.reference.attributes import function_bindings, resolve
from tests.reference.models import floats, one_node

FUNCTION = """
    <ir_version: 8, opset_import: ["": 17, "my": 1]>
    g (float[2] x) => (float[2] y) { y = my.f (x) }
    <opset_import: ["": 17], domain: "my">
    f <slope, other: float = 0.5> (p) => (q) { q = LeakyRelu <alpha: float = @slope> (p) }
"""


def test_tensors_become_arrays_in_the_precision_asked_for() -> None:
    big = floats(1, 3000)
    for array in (big[:2], big):
        model = ir.load(one_node("Constant", 13, [], value=numpy_helper.from_array(array))[0])
        wide = resolve(model.graph.nodes[0], {}, "float64")["value"]
        stored = resolve(model.graph.nodes[0], {}, "stored")["value"]
        assert [wide.dtype, stored.dtype] == [np.float64, np.float32]
        np.testing.assert_array_equal(wide, array)


def test_an_edited_constant_is_seen() -> None:
    model = ir.load(one_node("Constant", 13, [], value=numpy_helper.from_array(floats(1, 2)))[0])
    node = model.graph.nodes[0]
    output = node.output(0)
    assert output is not None
    output.tensor = ir.Exact(onnx.TensorProto.FLOAT, np.array([3.0, 4.0]))
    assert resolve(node, {}, "float64")["value"].tolist() == [3, 4]


def test_references_take_the_callers_value_or_vanish() -> None:
    function = ir.load(onnx.parser.parse_model(FUNCTION)).functions[0]
    node = function.nodes[0]
    assert resolve(node, {"slope": 0.25}, "float64") == {"alpha": 0.25}
    assert resolve(node, {}, "float64") == {}
    assert function_bindings(function, {"slope": 1.0}) == {"other": 0.5, "slope": 1.0}
    assert function_bindings(function, {"other": 1.0}) == {"other": 1.0}


def test_bodies_are_graphs() -> None:
    model = ir.load(
        onnx.parser.parse_model("""
            <ir_version: 8, opset_import: ["": 17]>
            g (bool c, float[2] x) => (float[2] y) {
                y = If (c) <then_branch = t () => (x) { a = Neg (x) }, else_branch = e () => (x) { b = Neg (x) }>
            }
        """)
    )
    assert resolve(model.graph.nodes[0], {}, "float64")["else_branch"].nodes[0].outputs[0].name == "b"


def test_sparse_tensors_get_their_zeros() -> None:
    graph = ir.load(one_node("Neg", 13, [floats(1, 2)])[0]).graph
    values = numpy_helper.from_array(np.array([5, 7], np.float32), "v")
    flat = helper.make_sparse_tensor(values, numpy_helper.from_array(np.array([1, 5]), "i"), [2, 3])
    pairs = helper.make_sparse_tensor(values, numpy_helper.from_array(np.array([[0, 1], [1, 2]]), "i"), [2, 3])
    for sparse in (flat, pairs):
        assert dense(graph.model, sparse).tolist() == [[0, 5, 0], [0, 0, 7]]
