"""The loop over a model's nodes: what runs, what is returned, what is forgotten, and what is said when it cannot."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bnfold import ir, reference
from bnfold.errors import BadInput, MalformedModel
from tests.reference.models import Array, compute, floats, one_node, value_info

X = floats(1, 2, 3)
MAIN = """
    <ir_version: 8, opset_import: ["": 17]>
    g (float[2,3] x) => (float[2,3] y, float[2,3] z)
    <float[3] w = {1, 2, 3}>
    { a = Mul (x, w)  b = Neg (a)  y = Exp (b)  z = Abs (a) }
"""


def parse(text: str) -> ir.Model:
    return ir.load(onnx.parser.parse_model(text))


def test_graph_outputs_in_float64() -> None:
    results = reference.evaluate(parse(MAIN), {"x": X})
    assert list(results) == ["y", "z"]
    assert results["y"].dtype == np.float64
    np.testing.assert_allclose(results["y"], np.exp(-X.astype(float) * [1, 2, 3]), rtol=1e-15)


def test_any_value_can_be_asked_for_and_only_what_it_needs_is_run() -> None:
    seen: list[str] = []
    results = reference.evaluate(
        parse(MAIN), {"x": X}, ["b"], keep=["a", "w"], observer=lambda name, _: seen.append(name)
    )
    assert list(results) == ["b", "a", "w"]
    assert seen == ["a", "b"]
    assert results["w"].tolist() == [1, 2, 3]


def test_any_value_can_be_fed_in_place_of_what_makes_it() -> None:
    results = reference.evaluate(parse(MAIN), {"a": X}, ["z"])
    np.testing.assert_array_equal(results["z"], np.abs(X))
    overridden = reference.evaluate(parse(MAIN), {"x": X, "w": np.zeros(3, np.float32)}, ["z"])
    assert not overridden["z"].any()


def test_a_fed_value_stays_where_its_node_runs_for_another() -> None:
    model = parse("""
        <ir_version: 8, opset_import: ["": 17]>
        g (float[4] x) => (float[2] y) { a, b = Split (x)  y = Sub (a, b) }
    """)
    x, a = floats(1, 4), floats(2, 2)
    y = reference.evaluate(model, {"x": x, "a": a})["y"]
    np.testing.assert_array_equal(y, a.astype(float) - x[2:].astype(float))


def test_float64_feeds_keep_their_digits() -> None:
    third = np.full((2, 3), 1 / 3)
    assert reference.evaluate(parse(MAIN), {"a": third}, ["z"])["z"][0, 0] == 1 / 3


def test_names_that_do_not_exist_and_inputs_that_are_not_fed() -> None:
    with pytest.raises(BadInput, match="no value named 'q'"):
        reference.evaluate(parse(MAIN), {"q": X})
    with pytest.raises(BadInput, match="no value named 'r'"):
        reference.evaluate(parse(MAIN), {"x": X}, ["r"])
    with pytest.raises(BadInput, match="'x' is not fed"):
        reference.evaluate(parse(MAIN), {})


def test_stored_precision_rounds_feeds_to_what_is_declared() -> None:
    third = np.full((2, 3), 1 / 3)
    model, _ = one_node("Neg", 13, [third.astype(np.float32)])
    y = reference.evaluate(ir.load(model), {"x0": third}, precision="stored")["y"]
    assert [y.dtype, float(y[0, 0])] == [np.float32, -float(np.float32(1 / 3))]


@pytest.mark.parametrize("op", ["Neg", "MatMul", "BatchNormalization", "Softmax"])
def test_stored_precision_computes_in_the_files_own_type(op: str) -> None:
    inputs: list[Array | None] = [X.astype(np.float16)]
    if op == "MatMul":
        inputs.append(floats(2, 3, 4).astype(np.float16))
    if op == "BatchNormalization":
        inputs.extend(np.abs(floats(seed, 3)).astype(np.float16) for seed in range(4))
    model, feeds = one_node(op, 13 if op != "BatchNormalization" else 15, inputs)
    stored = reference.evaluate(ir.load(model), feeds, precision="stored")["y"]
    exact = reference.evaluate(ir.load(model), feeds)["y"]
    assert [stored.dtype, exact.dtype] == [np.float16, np.float64]
    np.testing.assert_allclose(stored, exact, rtol=2e-3)
    np.testing.assert_array_equal(stored, exact.astype(np.float32).astype(np.float16))


def test_a_version_nobody_proved_is_refused_by_name() -> None:
    model, feeds = one_node("ImageDecoder", 20, [np.zeros(3, np.uint8)])
    with pytest.raises(reference.CannotEvaluate, match=r"ImageDecoder-20 \(node 'node'\)") as error:
        reference.evaluate(ir.load(model), feeds)
    assert (error.value.op, error.value.version, error.value.node) == ("ImageDecoder", 20, "node")
    model, feeds = one_node("Gelu", 17, [X], domain="com.microsoft")
    with pytest.raises(reference.CannotEvaluate, match=r"com\.microsoft:Gelu-1"):
        reference.evaluate(ir.load(model), feeds)


def test_opsets_newer_than_the_known_definitions_are_refused() -> None:
    model, feeds = one_node("Neg", 17, [X])
    model.opset_import[0].version = onnx.defs.onnx_opset_version() + 1
    with pytest.raises(reference.CannotEvaluate, match="newer than"):
        reference.evaluate(ir.load(model), feeds)


def test_a_model_without_opsets_is_of_opset_1() -> None:
    model, feeds = one_node("Softmax", 1, [floats(1, 2, 3, 4)])
    del model.opset_import[:]
    y = reference.evaluate(ir.load(model), feeds)["y"]
    np.testing.assert_allclose(y.sum((1, 2)), [1, 1])


def test_inputs_that_do_not_fit_are_the_models_fault() -> None:
    model, feeds = one_node("Add", 14, [X, floats(2, 4)])
    with pytest.raises(reference.Misfit, match="do not fit"):
        reference.evaluate(ir.load(model), feeds)
    model, feeds = one_node("Relu", 14, [X, X])
    with pytest.raises(reference.CannotEvaluate, match="2 inputs, where 1"):
        reference.evaluate(ir.load(model), feeds)
    model, feeds = one_node("Add", 14, [X, None])
    with pytest.raises(reference.CannotEvaluate, match="a required input is missing"):
        reference.evaluate(ir.load(model), feeds)


def test_the_time_limit() -> None:
    with pytest.raises(reference.OutOfTime, match="did not end within"):
        reference.evaluate(parse(MAIN), {"x": X}, limit_seconds=-1.0)


def test_functions_with_their_own_opsets_defaults_and_references() -> None:
    model = parse("""
        <ir_version: 8, opset_import: ["": 17, "my": 1]>
        g (float[2,3,4] x) => (float[2,3,4] y, float[2,3,4] z)
        { y = my.f <slope: float = 0.25> (x)  z = my.f (x) }
        <opset_import: ["": 11, "other": 1], domain: "my">
        f <slope: float = 0.5> (p) => (q)
        { s = Softmax (p)  l = LeakyRelu <alpha: float = @slope> (p)  t = other.h (l)  q = Add (s, t) }
        <opset_import: ["": 17], domain: "other">
        h (p) => (q) { q = Neg (p) }
    """)
    x = floats(1, 2, 3, 4)
    results = reference.evaluate(model, {"x": x})
    flat = np.exp(x.reshape(2, 12).astype(float))
    softmax = (flat / flat.sum(1, keepdims=True)).reshape(x.shape)
    for name, slope in (("y", 0.25), ("z", 0.5)):
        np.testing.assert_allclose(results[name], softmax - np.where(x < 0, slope * x.astype(float), x), rtol=1e-14)


def test_a_function_without_its_optional_input_and_with_fewer_outputs() -> None:
    model = parse("""
        <ir_version: 8, opset_import: ["": 17, "my": 1]>
        g (float[2,3] x) => (float[2,3] y)
        { y = my.f (x) }
        <opset_import: ["": 17], domain: "my">
        f (p, low) => (q, r) { q = Clip (p, low)  r = Neg (low) }
    """)
    np.testing.assert_array_equal(reference.evaluate(model, {"x": X})["y"], X)


def test_a_required_input_that_the_call_leaves_out_is_refused() -> None:
    model = parse("""
        <ir_version: 8, opset_import: ["": 17, "my": 1]>
        g (float[2,3] x) => (float[2,3] y, bool there) { y, there = my.f (x) }
        <opset_import: ["": 17], domain: "my">
        f (p, slope) => (q, r) { q = PRelu (p, slope)  n = Identity (slope)  r = OptionalHasElement (n) }
    """)
    with pytest.raises(reference.CannotEvaluate, match=r"PRelu.*a required input is missing"):
        reference.evaluate(model, {"x": X}, ["y"])


def test_attributes_that_the_caller_leaves_out_fall_back_to_the_schema() -> None:
    text = """
        <ir_version: 8, opset_import: ["": 17, "my": 1]>
        g (float[2,3] x) => (float[2,3] y) { y = my.f (x) }
        <opset_import: ["": 17], domain: "my">
        f <slope> (p) => (q) { q = LeakyRelu <alpha: float = @slope> (p) }
    """
    y = reference.evaluate(parse(text), {"x": X})["y"]
    np.testing.assert_array_equal(y, np.where(X < 0, float(np.float32(0.01)) * X.astype(float), X))


def test_a_function_that_calls_itself() -> None:
    text = """
        <ir_version: 8, opset_import: ["": 17, "my": 1]>
        g (float[2,3] x) => (float[2,3] y) { y = my.f (x) }
        <opset_import: ["": 17, "my": 1], domain: "my">
        f (p) => (q) { q = my.f (p) }
    """
    with pytest.raises(MalformedModel, match="calls itself"):
        reference.evaluate(parse(text), {"x": X})


def test_nodes_in_any_order_and_in_a_circle() -> None:
    model = onnx.parser.parse_model(MAIN)
    nodes = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend(reversed(nodes))
    results = reference.evaluate(ir.load(model), {"x": X})
    np.testing.assert_array_equal(results["z"], np.abs(X.astype(float) * [1, 2, 3]))
    model.graph.node[-1].input[0] = "b"
    with pytest.raises(MalformedModel, match="depend on themselves"):
        reference.evaluate(ir.load(model), {"x": X})


def test_a_value_that_nothing_makes() -> None:
    model, feeds = one_node("Add", 14, [X, X])
    model.graph.node[0].input[1] = "nowhere"
    with pytest.raises(MalformedModel, match="nothing makes the value 'nowhere'"):
        reference.evaluate(ir.load(model), feeds)


def sparse(indices: Array, dims: list[int]) -> onnx.SparseTensorProto:
    values = numpy_helper.from_array(np.array([5, 7], np.float32), "w")
    return helper.make_sparse_tensor(values, numpy_helper.from_array(indices, "i"), dims)


@pytest.mark.parametrize("indices", [np.array([1, 5]), np.array([[0, 1], [1, 2]])])
def test_sparse_weights(indices: Array) -> None:
    model = one_node("Add", 14, [X, X])[0]
    graph = model.graph
    graph.node[0].input[1] = "w"
    del graph.input[1]
    graph.sparse_initializer.append(sparse(indices, [2, 3]))
    y = reference.evaluate(ir.load(model), {"x0": X})["y"]
    np.testing.assert_array_equal(y, X.astype(float) + np.array([[0, 5, 0], [0, 0, 7]]))
    constant, _ = one_node("Constant", 13, [], sparse_value=sparse(indices, [2, 3]))
    assert reference.evaluate(ir.load(constant), {})["y"].tolist() == [[0, 5, 0], [0, 0, 7]]


def chain(length: int) -> ir.Model:
    nodes = [helper.make_node("Neg", [f"v{i}"], [f"v{i + 1}"]) for i in range(length)]
    graph = helper.make_graph(nodes, "chain", [value_info("v0", X)], [onnx.ValueInfoProto(name=f"v{length}")])
    return ir.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))


def test_values_are_forgotten_after_their_last_reader() -> None:
    made: list[weakref.ref[Array]] = []
    alive: list[int] = []

    def watch(_: str, array: Array) -> None:
        made.append(weakref.ref(array))
        alive.append(sum(reference() is not None for reference in made))

    reference.evaluate(chain(50), {"v0": X}, observer=watch)
    assert len(made) == 50
    assert max(alive) == 2  # the node's input and its output


@pytest.mark.large
def test_forty_thousand_nodes() -> None:
    model = chain(40_000)
    np.testing.assert_array_equal(reference.evaluate(model, {"v0": X})["v40000"], X)


def test_weights_that_edits_changed_count_before_the_model_is_synced() -> None:
    model = parse(MAIN)
    weight = model.graph.values["w"]
    weight.tensor = ir.Exact(TensorProto.FLOAT, np.array([1 / 3, 0, 1]))
    y = reference.evaluate(model, {"x": X}, ["a"])["a"]
    np.testing.assert_array_equal(y, X.astype(float) * [float(np.float32(1 / 3)), 0, 1])


ONE = np.ones((1, 1), np.float32)
MANY = np.array([1 << 20, 1 << 20])


def test_more_axes_than_numpy_computes_with_are_refused() -> None:
    with pytest.raises(reference.CannotEvaluate, match="33 axes are too many"):
        compute("Expand", 13, [ONE, np.ones(33, np.int64)])
    with pytest.raises(reference.CannotEvaluate, match="more axes than can be evaluated"):
        compute("Reshape", 13, [ONE, np.ones(40, np.int64)])


@pytest.mark.parametrize(
    ("op", "opset", "inputs", "attrs"),
    [
        ("Expand", 13, [ONE, MANY], {}),
        ("Tile", 13, [ONE, MANY], {}),
        ("Tile", 1, [ONE, np.array(2.0**40, np.float32), np.array(1, np.float32)], {}),
        ("ConstantOfShape", 9, [MANY], {}),
        ("Pad", 13, [ONE, np.array([0, 0, 1 << 20, 1 << 20])], {}),
        ("OneHot", 11, [np.array([[1]]), np.array(1 << 40), floats(1, 2)], {}),
        ("Range", 11, [np.array(0), np.array(1 << 40), np.array(1)], {}),
        ("Resize", 13, [ONE, np.zeros(0, np.float32), np.full(2, 2.0**20, np.float32)], {"mode": "nearest"}),
    ],
)
def test_what_would_take_all_memory_is_refused_before_it_is_tried(
    op: str, opset: int, inputs: list[Array], attrs: dict[str, Any]
) -> None:
    with pytest.raises(reference.CannotEvaluate, match="too many to evaluate"):
        compute(op, opset, [*inputs], **attrs)


def test_what_follows_from_constants_is_rounded_where_it_becomes_wider() -> None:
    text = """
        <ir_version: 10, opset_import: ["": 19]>
        g (float[1] x) => (double[1] fixed, double[1] fed)
        <int8[1] q = {3}, float s = {0.1}>
        {
            a = DequantizeLinear (q, s)  fixed = Cast <to = 11> (a)
            b = Mul (x, s)  fed = Cast <to = 11> (b)
        }
    """
    results = reference.evaluate(parse(text), {"x": np.array([3.0], np.float32)})
    exact = 3 * np.float64(np.float32(0.1))
    assert results["fixed"] == np.float32(exact) != exact
    assert results["fed"] == exact


@pytest.mark.parametrize(("room", "kept"), [(0, 0), (2, 0), (3, 1), (6, 1)])
def test_a_weight_that_is_kept_is_read_once(room: int, kept: int) -> None:
    read = parse(MAIN)
    prepared = reference.Prepared(reference.KeptWeights(room))
    plain, again = (reference.evaluate(read, {"x": X}, keep=["w"], prepared=prepared) for _ in range(2))
    assert (plain["w"] is again["w"]) == bool(kept)
    np.testing.assert_array_equal(plain["y"], again["y"])
    assert prepared.weights.room == room - 3 * kept
    moved = {read.graph.values["w"]: lambda array: array * 2}
    altered = reference.evaluate(read, {"x": X}, ["w"], prepared=prepared, altered=moved)
    np.testing.assert_array_equal(altered["w"], [2, 4, 6])
