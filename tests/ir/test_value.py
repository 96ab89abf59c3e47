"""Values: who reads them, what is known of them, and which tensor they hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, TypeProto, helper, numpy_helper

from bnfold import ir
from bnfold.ir.value import shape_of
from tests.ir.build import info, model, weight


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3))))
def test_readers_are_kept_like_a_dict(steps: list[tuple[bool, int]]) -> None:
    """However few or many there are; a dict is what `uses` promises."""
    graph = ir.load(model([helper.make_node("Abs", ["x"], ["y"])])).graph
    value, node = graph.fresh("v"), graph.nodes[0]
    expected: dict[tuple[ir.Node, int], None] = {}
    for add, slot in steps:
        if add and (node, slot) not in expected:
            value.add_use(node, slot)
            expected[node, slot] = None
        elif not add and (node, slot) in expected:
            value.drop_use(node, slot)
            del expected[node, slot]
        assert value.uses == expected
        assert value.consumers == [node] * len(expected)


def test_replacing_leaves_outputs_alone() -> None:
    nodes = [helper.make_node("Abs", ["x"], ["v"]), helper.make_node("Add", ["v", "v"], ["y"])]
    graph = ir.load(model(nodes, outputs=["y", "v"])).graph
    old, new = graph.values["v"], graph.values["x"]
    old.replace_uses(new)
    assert old.uses == {}
    assert old.is_output
    assert new.consumers == [graph.nodes[0], graph.nodes[1], graph.nodes[1]]


@pytest.mark.parametrize(
    ("dims", "expected"),
    [((2, "N", None), (2, "N", None)), ((), ()), ((0, -1, 5), (0, None, 5))],
)
def test_shapes_of_annotations(dims: tuple[int | str | None, ...], expected: tuple[object, ...]) -> None:
    kind = helper.make_tensor_type_proto(1, dims)
    assert shape_of(kind) == expected


@pytest.mark.parametrize(
    ("dims", "shape", "takes"),
    [
        ((2, "n", None), (2, 7, 9), True),
        ((2, "n"), (3, 7), False),
        ((2, "n"), (2, 7, 1), False),
        ((), (), True),
        ((), (3,), False),
        (None, (3,), True),
    ],
)
def test_arrays_that_fit_what_is_declared(
    dims: tuple[int | str | None, ...] | None, shape: tuple[int, ...], takes: bool
) -> None:
    graph = ir.load(model([helper.make_node("Abs", ["x"], ["y"])])).graph
    graph.types["x"] = helper.make_tensor_type_proto(TensorProto.FLOAT, dims)
    assert graph.values["x"].takes(shape) == takes


def test_no_rank_no_shape() -> None:
    assert shape_of(None) is None
    assert shape_of(helper.make_tensor_type_proto(1, None)) is None
    assert shape_of(helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, [3]))) is None
    assert shape_of(TypeProto()) is None


def test_types_come_from_wherever_they_are_written() -> None:
    nodes = [helper.make_node("Abs", ["x"], ["v"]), helper.make_node("Add", ["v", "w"], ["y"])]
    proto = model(nodes, [weight("w", 3, dtype=np.float16)], value_info=[info("v", 7, dtype=TensorProto.DOUBLE)])
    values = ir.load(proto).graph.values
    assert [(values[name].dtype, values[name].shape) for name in "xvwy"] == [
        (TensorProto.FLOAT, ("N",)),
        (TensorProto.DOUBLE, (7,)),
        (TensorProto.FLOAT16, (3,)),
        (TensorProto.FLOAT, ("N",)),
    ]


def test_a_new_tensor_is_known_at_once() -> None:
    value = ir.load(model([], [weight("w", 3)], outputs=["w"])).graph.values["w"]
    assert value.is_initializer
    assert value.pending_tensor is None
    value.tensor = ir.Exact(TensorProto.DOUBLE, np.zeros((2, 5)))
    assert (value.dtype, value.shape, value.pending_tensor) == (TensorProto.DOUBLE, (2, 5), value.tensor)


def test_a_tensor_given_to_a_second_value_is_that_values_own() -> None:
    """Swapped, and one of them changed later: messages are written over, what was given must not be."""
    loaded = ir.load(model([], [weight("a", 3), weight("b", 3, seed=1)], outputs=["a", "b"]))
    a, b = loaded.graph.values["a"], loaded.graph.values["b"]
    first, second = a.tensor, b.tensor
    assert first is not None
    assert second is not None
    numbers = first.numpy().copy(), second.numpy().copy()
    a.tensor, b.tensor = second, first
    for _ in range(2):
        loaded.sync()
        back = [numpy_helper.to_array(tensor) for tensor in loaded.proto.graph.initializer]
        np.testing.assert_array_equal(back, numbers[::-1])
        np.testing.assert_array_equal([_numbers(a), _numbers(b)], numbers[::-1])
    a.tensor = ir.Exact(1, np.zeros(3))
    loaded.sync()
    np.testing.assert_array_equal(_numbers(b), numbers[0])


def _numbers(value: ir.Value) -> np.ndarray:
    assert value.tensor is not None
    return value.tensor.numpy()


def test_what_holds_a_constant() -> None:
    nodes = [
        helper.make_node("Constant", [], ["k"], value=weight("", 2)),
        helper.make_node("Constant", [], ["f"], value_float=1.0),
        helper.make_node("Sum", ["x", "k", "f", "w", "d"], ["y"]),
    ]
    graph = ir.load(model(nodes, [weight("w", 3), weight("d", 3)], inputs=["x", "d"])).graph
    assert {name for name, value in graph.values.items() if value.holds_constant} == {"k", "w"}
    assert repr(graph.values["k"]) == "Value('k')"
