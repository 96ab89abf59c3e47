from __future__ import annotations

import numpy as np
import pytest

from bnfold import ir, reference
from bnfold.errors import Unsupported
from bnfold.verification.changes.extract import Subgraph, walk
from tests.verification.graphs import model, numbers

CHAIN = "(float[N,3] x) => (float[N,4] y) { a = Relu (x)  b = MatMul (a, W)  c = Neg (b)  y = Add (c, k)  z = Exp (y) }"


def chain() -> ir.Model:
    return ir.load(model(CHAIN, {"W": numbers(0).normal(size=(3, 4)), "k": numbers(1).normal(size=4)}))


def test_a_region_ends_at_the_stops_and_at_weights() -> None:
    loaded = chain()
    values = loaded.graph.values
    subgraph = Subgraph([values["c"]], [values["a"]])
    assert [node.op_type for node in subgraph.nodes] == ["MatMul", "Neg"]
    assert list(subgraph.inputs) == ["a"]
    assert [tensor.name for tensor in subgraph.model.proto.graph.initializer] == ["W"]


def test_a_region_computes_what_the_model_does() -> None:
    loaded = chain()
    feed = {"x": numbers(2).normal(size=(5, 3)).astype(np.float32)}
    whole = reference.evaluate(loaded, feed, ["a", "y"])
    subgraph = Subgraph([loaded.graph.values["y"]], [loaded.graph.values["a"]])
    assert np.array_equal(reference.evaluate(subgraph.model, {"a": whole["a"]})["y"], whole["y"])


def test_without_stops_the_region_reaches_the_inputs_of_the_graph() -> None:
    loaded = chain()
    subgraph = Subgraph([loaded.graph.values["b"]], [])
    assert list(subgraph.inputs) == ["x"]


def test_the_walk_goes_through_its_own_outputs() -> None:
    values = chain().graph.values
    nodes, leaves = walk([values["c"]], {values["c"], values["b"]})
    assert [node.op_type for node in nodes] == ["Neg"]
    assert leaves == [values["b"]]


def test_old_weights_listed_as_inputs_come_along_as_weights() -> None:
    body = "(float[N,3] x, float[3,4] W) => (float[N,4] y) { y = MatMul (x, W) }"
    loaded = ir.load(model(body, {"W": numbers(0).normal(size=(3, 4))}, opset=7, ir_version=3))
    subgraph = Subgraph([loaded.graph.values["y"]], [loaded.graph.values["x"]])
    assert list(subgraph.inputs) == ["x"]
    assert subgraph.model.proto.ir_version == 4


CONDITIONAL = (
    "(bool c, float[N,3] x) => (float[N,3] y) { s = Sigmoid (x)"
    "  y = If (c) <then_branch = t () => (float[N,3] u) { m = Mul (s, k)  u = Neg (m) },"
    " else_branch = e () => (float[N,3] v) { v = Identity (x) }> }"
)


def conditional() -> ir.Model:
    return ir.load(model(CONDITIONAL, {"k": np.array([0.3, -0.7, 0.9])}))


def test_the_region_of_a_body_is_flat_and_follows_what_it_captures() -> None:
    loaded = conditional()
    body = next(graph for graph in loaded.graphs() if "u" in graph.values)
    subgraph = Subgraph([body.values["u"]], [])
    assert [node.op_type for node in subgraph.nodes] == ["Sigmoid", "Mul", "Neg"]
    feed = {"x": numbers(3).normal(size=(2, 3)).astype(np.float32)}
    whole = reference.evaluate(loaded, {**feed, "c": np.array(True)})
    assert np.array_equal(reference.evaluate(subgraph.model, feed)["u"], whole["y"])


def test_what_bodies_capture_belongs_to_the_region() -> None:
    loaded = conditional()
    subgraph = Subgraph([loaded.graph.values["y"]], [])
    assert set(subgraph.inputs) == {"c", "x"}
    assert [tensor.name for tensor in subgraph.model.proto.graph.initializer] == ["k"]


def test_functions_come_along() -> None:
    import onnx

    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 15, "own" : 1]> g (float[N,3] x) => (float[N,3] y)'
        " { a = Relu (x)  y = own.twice (a) }"
        '<domain: "own", opset_import: ["" : 15]> twice (p) => (q) { q = Add (p, p) }'
    )
    loaded = ir.load(proto)
    subgraph = Subgraph([loaded.graph.values["y"]], [loaded.graph.values["a"]])
    ones = np.ones((2, 3), np.float32)
    assert np.array_equal(reference.evaluate(subgraph.model, {"a": ones})["y"], 2.0 * ones)


def test_two_values_of_one_name_cannot_share_a_region() -> None:
    body = (
        "(bool c, float[N] x) => (float[N] y) { h = Relu (x)"
        "  y = If (c) <then_branch = t () => (float[N] u) { u = Neg (h) },"
        " else_branch = e () => (float[N] v) { v = Abs (h) }> }"
    )
    loaded = ir.load(model(body, {}))
    inner = next(graph for graph in loaded.graphs() if "u" in graph.values)
    inner.values["u"].name = "h"
    with pytest.raises(Unsupported, match="two values named 'h'"):
        Subgraph([inner.values["u"]], [])
