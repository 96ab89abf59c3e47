"""Parameters that only a run knows: the formula, with as few nodes and Casts as it takes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto

from tests.decomposing.cases import PARAMETERS, Case, decomposed, evaluated

FLOAT, DOUBLE, HALF = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16
ALL = frozenset(PARAMETERS)
CASE = Case(inputs=ALL)
ON_VECTORS = ["Add", "Sqrt", "Div", "Mul", "Sub"]


def test_only_two_operators_touch_the_activation() -> None:
    done = decomposed(CASE.proto())
    assert sorted(done.ops) == sorted([*ON_VECTORS, "Unsqueeze", "Unsqueeze", "Mul", "Add"])
    assert done.ops[-1] == "Add"
    assert done.model.graph.nodes[-1].name == "norm"


def test_centred_form() -> None:
    done = decomposed(CASE.proto(), "sub_mul_add")
    assert Counter(done.ops) == {"Add": 2, "Sqrt": 1, "Div": 1, "Unsqueeze": 3, "Sub": 1, "Mul": 1}


def test_a_convolution_needs_constants() -> None:
    assert decomposed(CASE.proto(), "depthwise_conv").ops == decomposed(CASE.proto()).ops


@pytest.mark.parametrize(("dims", "count"), [((4,), 0), ((4, 3), 0), ((4, 3, 5), 2), ((4, 3, 5, 2, 6), 2)])
def test_vectors_get_the_axes_they_lack(dims: tuple[int, ...], count: int) -> None:
    done = decomposed(replace(CASE, dims=dims, annotation=dims).proto())
    assert done.ops.count("Unsqueeze") == count


@pytest.mark.parametrize(("opset", "inputs"), [(12, 1), (13, 2)])
def test_axes_are_written_as_the_opset_has_them(opset: int, inputs: int) -> None:
    done = decomposed(replace(CASE, opset=opset).proto())
    nodes = [node for node in done.model.graph.nodes if node.is_op("Unsqueeze")]
    assert [len(node.inputs) for node in nodes] == [inputs] * 2
    if inputs == 2:
        assert nodes[0].inputs[1] is nodes[1].inputs[1]  # one constant for both


@pytest.mark.parametrize("opset", [7, 9, 10, 13, 15])
@pytest.mark.parametrize("inputs", [ALL, frozenset({"var"}), frozenset[str]()])
@pytest.mark.parametrize("dims", [(4, 3), (4, 3, 5), (0, 3, 5), (4, 0), (4, 3, 0, 2)])
def test_unknown_rank(opset: int, inputs: frozenset[str], dims: tuple[int, ...]) -> None:
    """One shape is computed, whichever opset, and every vector takes it; no size of the activation is divided by."""
    case = replace(CASE, opset=opset, dims=dims, annotation=None, inputs=inputs)
    done = decomposed(case.proto())
    if inputs or dims[1]:
        assert done.ops.count("Shape") == 1
        assert done.ops.count("Reshape") == 3  # one of them hides the rank
    expected, actual = evaluated(case.proto(), case.feeds())["y"], evaluated(done.model, case.feeds())["y"]
    assert actual.shape == expected.shape
    assert np.allclose(actual, expected, rtol=1e-5, atol=1e-5)


def test_one_channel_needs_no_shape_in_any_rank() -> None:
    case = replace(CASE, dims=(4, 1, 5), annotation=None, inputs=frozenset())
    assert decomposed(case.proto()).ops == ["Reshape", "Mul", "Add"]


@pytest.mark.parametrize(
    ("types", "casts"),
    [
        ((FLOAT, FLOAT, FLOAT), 0),
        ((DOUBLE, DOUBLE, DOUBLE), 0),
        ((HALF, FLOAT, FLOAT), 2),
        ((FLOAT, HALF, FLOAT), 2),
        ((HALF, HALF, HALF), 6),
        ((FLOAT, FLOAT, DOUBLE), 4),
    ],
)
def test_fewest_casts(types: tuple[int, int, int], casts: int) -> None:
    assert decomposed(replace(CASE, types=types).proto()).ops.count("Cast") == casts


def test_constants_among_dynamic_parameters_are_widened_where_they_are_stored() -> None:
    case = replace(CASE, types=(HALF, HALF, HALF), inputs=frozenset({"bias"}))
    done = decomposed(case.proto())
    assert done.ops.count("Cast") == 3  # x, bias and y
    assert {array.dtype for name, array in done.initializers.items() if "axes" not in name} == {np.dtype(np.float32)}


def test_an_overridable_initializer_is_no_constant() -> None:
    """From IR version 4 on an initializer that is an input too is a default: callers may feed another."""
    case = replace(CASE, inputs=frozenset())
    model = case.proto()
    model.graph.input.extend(replace(case, inputs=frozenset({"scale"})).proto().graph.input[1:])
    done = decomposed(model)
    feeds = case.feeds() | {"scale": np.array([3, -5, 7], np.float32)}
    expected, actual = evaluated(model, feeds)["y"], evaluated(done.model, feeds)["y"]
    assert np.allclose(actual, expected, rtol=1e-6, atol=1e-5)
