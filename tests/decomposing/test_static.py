"""Constant parameters: which operators come out, dims and names of their constants, the type they compute in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bnfold.decomposing import Form
from tests.decomposing.cases import Case, Done, decomposed, evaluated, unit

FLOAT, DOUBLE, HALF, BRAIN = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16
CASE = Case()


def with_values(case: Case, **values: Any) -> onnx.ModelProto:
    """The case's model with some parameters' values replaced."""
    model = case.proto()
    for tensor in model.graph.initializer:
        if tensor.name in values:
            dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
            tensor.CopyFrom(numpy_helper.from_array(np.asarray(values[tensor.name]).astype(dtype), tensor.name))
    return model


def spread(done: Done) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in done.initializers.items()}


@pytest.mark.parametrize(
    ("form", "ops", "constants"),
    [
        ("mul_add", ["Mul", "Add"], {"scale": (3, 1), "bias": (3, 1)}),
        ("sub_mul_add", ["Sub", "Mul", "Add"], {"mean": (3, 1), "scale": (3, 1), "bias": (3, 1)}),
        ("depthwise_conv", ["Conv"], {"scale": (3, 1, 1), "bias": (3,)}),
    ],
)
def test_forms(form: Form, ops: list[str], constants: dict[str, tuple[int, ...]]) -> None:
    done = decomposed(CASE.proto(), form)
    assert done.ops == ops
    assert spread(done) == constants  # under the names of the parameters whose places they take; the others are gone
    last = done.model.graph.nodes[-1]
    assert last.name == "norm"
    assert last.outputs[0] is done.model.graph.outputs[0]


def test_the_affine_is_rounded_once() -> None:
    values = {name: array.astype(np.float64) for name, array in CASE.values().items()}
    s = values["scale"] / np.sqrt(values["var"] + float(np.float32(1e-5)))
    found = decomposed(CASE.proto()).initializers
    assert np.array_equal(found["scale"].reshape(-1), s.astype(np.float32))
    assert np.array_equal(found["bias"].reshape(-1), (values["bias"] - values["mean"] * s).astype(np.float32))


@pytest.mark.parametrize(
    ("dims", "shape"), [((4,), ()), ((4, 3), (3,)), ((4, 3, 5), (3, 1)), ((4, 3, 5, 2, 6), (3, 1, 1, 1))]
)
def test_constants_have_the_rank_of_the_activation(dims: tuple[int, ...], shape: tuple[int, ...]) -> None:
    done = decomposed(replace(CASE, dims=dims, annotation=dims).proto())
    assert done.ops == ["Mul", "Add"]
    assert spread(done) == {"scale": shape, "bias": shape}


def test_parameters_of_single_activations_need_no_reshape() -> None:
    case = replace(CASE, opset=7, dims=(4, 3, 5), shape=(15,), attributes={"spatial": 0})
    done = decomposed(case.proto())
    assert done.ops == ["Mul", "Add"]
    assert spread(done) == {"scale": (3, 5), "bias": (3, 5)}


@pytest.mark.parametrize(
    "case",
    [
        replace(CASE, dims=(4, 3), annotation=(4, 3)),
        replace(CASE, annotation=None),
        replace(CASE, types=(DOUBLE,) * 3),
        replace(CASE, types=(BRAIN,) * 3),
        replace(CASE, dims=(4, 0, 5), annotation=(4, 0, 5)),
        replace(CASE, dims=(4, 3, 0), annotation=(4, 3, 0)),
        replace(CASE, opset=7, shape=(15,), attributes={"spatial": 0}),
    ],
    ids=["rank 2", "unknown rank", "float64", "bfloat16 before opset 22", "no channels", "no pixels", "per activation"],
)
def test_where_no_convolution_can_say_it_the_affine_is_spelled_out(case: Case) -> None:
    assert "Conv" not in decomposed(case.proto(), "depthwise_conv").ops


def test_a_convolution_in_bfloat16_from_opset_22() -> None:
    assert decomposed(replace(CASE, opset=22, types=(BRAIN,) * 3).proto(), "depthwise_conv").ops == ["Conv"]


def test_what_changes_nothing_is_left_out() -> None:
    case = replace(CASE, attributes={"epsilon": 0.0})
    one, zero = np.ones(3), np.zeros(3)
    assert decomposed(with_values(case, scale=one, var=one)).ops == ["Add"]
    assert decomposed(with_values(case, bias=zero, mean=zero)).ops == ["Mul"]
    assert decomposed(with_values(case, scale=one, var=one, bias=zero, mean=zero)).ops == ["Identity"]


def test_parameters_with_another_reader_stay_as_they_are() -> None:
    model = CASE.proto()
    model.graph.node.append(helper.make_node("BatchNormalization", ["y", "scale", "bias", "mean", "var"], ["z"]))
    model.graph.node.append(helper.make_node("Identity", ["var"], ["same"]))
    model.graph.output[0].name = "z"
    model.graph.output.append(helper.make_tensor_value_info("same", FLOAT, [3]))
    done = decomposed(model)
    assert done.ops == ["Mul", "Add", "Mul", "Add", "Identity"]
    # The second to be written out is the last reader of what both share, so the names go to its constants.
    assert spread(done)["var"] == (3,)
    expected, actual = evaluated(model, CASE.feeds()), evaluated(done.model, CASE.feeds())
    assert np.array_equal(actual["same"], expected["same"])
    assert np.allclose(actual["z"], expected["z"], rtol=0, atol=1e-5)


def test_annotations_of_replaced_parameters_go() -> None:
    model = CASE.proto()
    model.graph.value_info.extend(helper.make_tensor_value_info(name, FLOAT, [3]) for name in ("scale", "bias", "mean"))
    done = decomposed(model)
    assert not done.model.proto.graph.value_info
    onnx.shape_inference.infer_shapes(done.model.proto, strict_mode=True)


# -- types


def test_constants_of_another_type_need_no_cast() -> None:
    done = decomposed(replace(CASE, types=(HALF, FLOAT, DOUBLE)).proto())
    assert done.ops == ["Mul", "Add"]
    assert {array.dtype for array in done.initializers.values()} == {np.dtype(np.float16)}
    assert done.initializers.keys() == {"norm_mul_by", "norm_add_by"}  # a name keeps its type


@pytest.mark.parametrize("form", ["mul_add", "sub_mul_add", "depthwise_conv"])
@pytest.mark.parametrize("dtype", [HALF, BRAIN])
def test_where_sixteen_bits_would_cancel_it_computes_in_float32(dtype: int, form: Form) -> None:
    """mean/deviation = 1000: rounding ``mean·s`` to 16 bits would err by as many roundings of y."""
    case = replace(CASE, types=(dtype, FLOAT, FLOAT))
    model = with_values(case, mean=np.full(3, 30.2), var=np.full(3, 0.0009))
    done = decomposed(model, form)
    assert done.ops[0] == "Cast"
    assert done.ops[-1] == "Cast"
    feeds = {"x": (case.values()["x"].astype(np.float64) * 0.05 + 30.2).astype(case.values()["x"].dtype)}
    expected, actual = evaluated(model, feeds)["y"], evaluated(done.model, feeds, precision="stored")["y"]
    # y is rounded to 16 bits once; float32 on the way errs by its own roundings of mean·s
    allowed = unit(dtype) * np.abs(expected) + 8 * unit(FLOAT) * 30.2 * 2 / 0.03
    assert (np.abs(actual.astype(np.float64) - expected) <= allowed).all()


@pytest.mark.parametrize(
    "values",
    [
        {"scale": [1e-3, 1, 1], "var": [1e4, 1, 1]},
        {"scale": [6e4, 1, 1], "var": [1e-4, 1, 1]},
        {"bias": [4e4, 1, 1]},
    ],
    ids=["s is subnormal", "s overflows", "t is near the end of the range"],
)
def test_the_range_of_float16_is_kept(values: dict[str, list[float]]) -> None:
    model = with_values(replace(CASE, types=(HALF,) * 3), **values)
    assert decomposed(model).ops == ["Cast", "Mul", "Add", "Cast"]


@pytest.mark.parametrize(
    "values",
    [
        {"var": [1, np.nan, 2]},
        {"var": [1, -1, 2]},
        {"scale": [1, np.inf, -np.inf]},
        {"mean": [np.inf, 0, np.nan]},
        {"var": [np.inf, 1, 2]},
        {"var": [0, 0, 1], "scale": [0, 1, 2]},
        {"scale": [3e38, 1, 1], "var": [1e-30, 1, 1]},
    ],
)
@pytest.mark.parametrize("inputs", [frozenset[str](), frozenset({"bias"})])
def test_what_is_not_finite_stays_where_it_is(values: dict[str, list[float]], inputs: frozenset[str]) -> None:
    """No constant can say it; the operator's own formula makes NaN and infinity where the operator does."""
    case = replace(CASE, attributes={"epsilon": 0.0}, inputs=inputs)
    model = with_values(case, **values)
    feeds = case.feeds()
    feeds["x"][0, :, 0] = 0  # the mean, where that is 0
    done = decomposed(model)
    assert done.event is not None
    assert done.event.verdict == "decomposed"
    expected, actual = evaluated(model, feeds)["y"], evaluated(done.model, feeds)["y"]
    assert np.array_equal(np.isnan(actual), np.isnan(expected))
    assert np.array_equal(np.isposinf(actual), np.isposinf(expected))
    assert np.array_equal(np.isneginf(actual), np.isneginf(expected))
    finite = np.isfinite(expected)
    assert np.allclose(actual[finite], expected[finite], rtol=1e-6)


@pytest.mark.parametrize("dims", [(0, 3, 5), (4, 0, 5), (4, 3, 0), (0, 3), (0,)])
@pytest.mark.parametrize("form", ["mul_add", "sub_mul_add"])
def test_empty_activations(dims: tuple[int, ...], form: Form) -> None:
    for annotation in (dims, None):
        case = replace(CASE, dims=dims, annotation=annotation)
        done = decomposed(case.proto(), form)
        assert evaluated(done.model, case.feeds())["y"].shape == dims
