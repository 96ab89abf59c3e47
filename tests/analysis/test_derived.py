"""Large constants that nodes compute: the same numbers whenever they are asked for, and kept by nobody."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from bnfold import analysis, ir
from bnfold.analysis.derived import Derived
from bnfold.ir.tensor import sources_of
from tests.ir.build import model, weight

DIMS = (64, 32, 3, 3)


def normed(kind: type[np.generic] = np.float32) -> onnx.ModelProto:
    nodes = [
        helper.make_node("ReduceL2", ["v"], ["n"], axes=[1, 2, 3]),
        helper.make_node("Div", ["v", "n"], ["d"]),
        helper.make_node("Mul", ["d", "g"], ["m"]),
        helper.make_node("Transpose", ["m"], ["y"], perm=[1, 0, 2, 3]),
    ]
    return model(nodes, [weight("v", *DIMS, dtype=kind), weight("g", 64, 1, 1, 1, dtype=kind)], inputs=[])


def found(nodes: Sequence[onnx.NodeProto], *weights: onnx.TensorProto) -> Derived:
    tensor = analysis.constant(ir.load(model(nodes, weights)).graph.values["y"])
    assert isinstance(tensor, Derived)
    assert tensor.kept is None
    return tensor


def is_kept(tensor: Derived) -> bool:
    return tensor.kept is not None


def test_it_is_made_again_and_the_same() -> None:
    loaded = ir.load(normed())
    with analysis.evaluated_once(loaded):
        first = analysis.constant(loaded.graph.values["y"])
        assert isinstance(first, Derived)
        values = first.float64()
        assert is_kept(first)
    np.testing.assert_array_equal(first.float64(), values)
    assert not is_kept(first)
    (expected,) = map(np.asarray, ReferenceEvaluator(normed()).run(None, {}))
    np.testing.assert_allclose(first.numpy(), expected, rtol=1e-6)
    np.testing.assert_array_equal(first.numpy(), values.astype(np.float32))


def test_it_stays_what_it_was_when_the_graph_is_edited() -> None:
    loaded = ir.load(normed())
    made = analysis.constant(loaded.graph.values["y"])
    assert made is not None
    before = made.float64()
    graph = loaded.graph
    graph.nodes[-1].set_attr("perm", [3, 2, 1, 0])
    graph.values["v"].tensor = ir.Exact(1, np.ones(DIMS))
    loaded.sync()
    np.testing.assert_array_equal(made.float64(), before)


def test_it_names_the_weights_that_it_is_made_of() -> None:
    loaded = ir.load(normed())
    made = analysis.constant(loaded.graph.values["y"])
    assert made is not None
    assert loaded.graph.values["v"].tensor in sources_of(made)
    assert not any(isinstance(source, Derived) for source in sources_of(made))


def test_small_weights_are_not_read_from_their_messages_again() -> None:
    nodes = [helper.make_node("Expand", ["v", "n"], ["e"]), helper.make_node("Add", ["e", "v"], ["y"])]
    loaded = ir.load(model(nodes, [weight("v", 7, 1), numpy_helper.from_array(np.array([7, 5000]), "n")]))
    made = analysis.constant(loaded.graph.values["y"])
    assert isinstance(made, Derived)
    before = made.numpy()
    loaded.graph.values["v"].tensor = ir.Exact(1, np.ones((7, 1)))
    loaded.sync()
    np.testing.assert_array_equal(made.numpy(), before)


def test_a_cast_rounds_what_was_never_rounded() -> None:
    nodes = [
        helper.make_node("Div", ["v", "g"], ["d"]),
        helper.make_node("Cast", ["d"], ["c"], to=onnx.TensorProto.DOUBLE),
        helper.make_node("Transpose", ["c"], ["y"]),
    ]
    v, g = weight("v", 200, 200), weight("g", 200)
    made = found(nodes, v, g)
    exact = numpy_helper.to_array(v).astype(np.float64) / numpy_helper.to_array(g)
    np.testing.assert_array_equal(made.numpy(), exact.astype(np.float32).astype(np.float64).T)
    assert made.numpy().dtype == np.float64


def test_stored_elements_keep_their_type() -> None:
    v = numpy_helper.from_array(np.arange(40_000, dtype=np.int32).reshape(200, 200), "v")
    nodes = [helper.make_node("Add", ["v", "v"], ["a"]), helper.make_node("Transpose", ["a"], ["y"])]
    made = found(nodes, v)
    np.testing.assert_array_equal(made.numpy(), 2 * numpy_helper.to_array(v).T)
    assert made.numpy().dtype == np.int32


def test_what_is_shared_many_times_is_made_once() -> None:
    """Twice as many paths with every step; a walk along paths would not come back."""
    names = ["v", *(f"v{index}" for index in range(50)), "y"]
    nodes = [helper.make_node("Max", [names[i], names[i]], [names[i + 1]]) for i in range(len(names) - 1)]
    v = weight("v", 200, 200)
    np.testing.assert_array_equal(found(nodes, v).numpy(), numpy_helper.to_array(v))
