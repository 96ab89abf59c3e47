"""Every version of BatchNormalization, both modes, both layouts, against the referee."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import bnfold
from bnfold import errors, ir, reference
from bnfold.semantics import Policy

Converted = Callable[..., Any]
FIVE = ("y", "rm", "rv", "sm", "sv")
FLOAT, FLOAT16, BFLOAT16, DOUBLE = 1, 10, 16, 11


def model(
    opset: int,
    *,
    outputs: Sequence[str] = ("y",),
    shape: Sequence[int | str] = ("n", 3, 4, 6),
    params: Sequence[int] = (3,),
    ir_version: int = 8,
    dtype: int = FLOAT,
    dynamic: bool = False,
    **attrs: Any,
) -> onnx.ModelProto:
    generator = np.random.default_rng(3)
    names = ["scale", "bias", "mean", "var"]
    arrays = [generator.normal(size=params) for _ in range(3)] + [generator.uniform(0.5, 2, size=params)]
    infos = [helper.make_tensor_value_info(name, dtype, params) for name in names]
    node = helper.make_node("BatchNormalization", ["x", *names], list(outputs), name="bn", **attrs)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", dtype, shape), *(infos if dynamic or ir_version < 4 else [])],
        [helper.make_tensor_value_info(name, dtype, None) for name in outputs if name],
        []
        if dynamic
        else [
            numpy_helper.from_array(array.astype(helper.tensor_dtype_to_np_dtype(dtype)), name)
            for array, name in zip(arrays, names, strict=True)
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)


@pytest.mark.parametrize("target", [15, 22, 28])
@pytest.mark.parametrize(("opset", "attrs"), [(1, {"is_test": 1}), (6, {"is_test": 1}), (7, {}), (9, {}), (14, {})])
def test_inference(upgraded: Converted, opset: int, attrs: dict[str, Any], target: int) -> None:
    outcome = upgraded(model(opset, epsilon=0.125, **attrs), target)
    assert outcome.ops == ["BatchNormalization"]
    assert set(outcome.model.graph.nodes[0].attrs) == {"epsilon"}
    assert not outcome.repairs


@pytest.mark.parametrize("shape", [("n",), (4, 3), (4, 3, 5), ("n", 3, "h", "w"), (2, 3, 4, 5, 6)])
@pytest.mark.parametrize("opset", [6, 9])
def test_inference_of_any_rank(upgraded: Converted, opset: int, shape: tuple[int | str, ...]) -> None:
    attrs: dict[str, Any] = {"is_test": 1} if opset == 6 else {}
    upgraded(model(opset, shape=shape, params=(1 if len(shape) == 1 else 3,), **attrs))


@pytest.mark.parametrize(
    ("opset", "named"),
    [
        (opset, named)
        for opset in (1, 6, 7, 9)
        for named in ((), (1,), (2,), (3,), (4,), (1, 2), (3, 4), (1, 2, 3, 4))
        if named or opset < 7  # from version 7 on one output is inference
    ],
)
def test_training_makes_exactly_the_outputs_that_are_read(
    upgraded: Converted, opset: int, named: tuple[int, ...]
) -> None:
    attrs: dict[str, Any] = {"is_test": 0} if opset < 7 else {}
    outputs = [FIVE[index] if index in (0, *named) else "" for index in range(5)]
    outcome = upgraded(model(opset, outputs=outputs, momentum=0.25, **attrs))
    expected = ["ReduceMean"] * ((3 in named) + 2 * (4 in named)) + ["Sub", "Mul"] * (4 in named)
    assert sorted(outcome.ops) == sorted([*expected, "BatchNormalization"])
    node = next(node for node in outcome.model.graph.nodes if node.op_type == "BatchNormalization")
    assert node.attr("training_mode") == 1
    assert len(node.outputs) == 3
    assert None not in node.outputs


@pytest.mark.parametrize("target", [14, 15, 18, 28])
def test_training_with_one_output(upgraded: Converted, target: int) -> None:
    outcome = upgraded(model(6, is_test=0), target)
    assert outcome.model.graph.nodes[0].attr("training_mode") == 1
    assert len(outcome.model.graph.nodes[0].outputs) == 3


@pytest.mark.parametrize("shape", [("n",), (4, 3), (2, 3, 4, 5, 6)])
@pytest.mark.parametrize("target", [15, 18])
def test_statistics_of_any_rank(upgraded: Converted, shape: tuple[int | str, ...], target: int) -> None:
    upgraded(model(9, outputs=FIVE, shape=shape, params=(1 if len(shape) == 1 else 3,)), target)


def test_the_fifth_output_as_onnxruntime_has_it(upgraded: Converted) -> None:
    referee = reference.Policy(saved_var="inv-std")
    outcome = upgraded(model(9, outputs=FIVE, epsilon=0.5), policy=Policy(saved_var="inv-std"), referee=referee)
    assert "Reciprocal" in outcome.ops
    assert outcome.repairs == ["saved-var"]


@pytest.mark.parametrize("dtype", [FLOAT16, BFLOAT16])
def test_half_types_average_in_float32(upgraded: Converted, dtype: int) -> None:
    outcome = upgraded(model(9, outputs=FIVE, dtype=dtype), compare=False)
    casts = [node.attr("to") for node in outcome.model.graph.nodes if node.op_type == "Cast"]
    assert casts == [FLOAT, dtype, dtype]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    ("shape", "params", "ops"),
    [
        ((2, 3, 4, 6), (3, 4, 6), ["Flatten", "BatchNormalization", "Reshape"]),
        (("n", 3, 4, 6), (3, 4, 6), ["Flatten", "BatchNormalization", "Reshape"]),
        (("n", 3, 4, 6), (72,), ["Flatten", "BatchNormalization", "Reshape"]),
        (("n", 3, 4), (12,), ["Flatten", "BatchNormalization", "Reshape"]),
        (("n", 3, 1, 1), (3, 1, 1), ["BatchNormalization"]),
        (("n", 3), (3,), ["BatchNormalization"]),
    ],
)
def test_spatial_0_per_activation(
    upgraded: Converted, shape: tuple[int | str, ...], params: tuple[int, ...], ops: list[str], dynamic: bool
) -> None:
    outcome = upgraded(model(7, shape=shape, params=params, spatial=0, dynamic=dynamic), 15)
    assert [op for op in outcome.ops if not dynamic or op != "Reshape"] == [
        op for op in ops if not dynamic or op != "Reshape"
    ]
    assert not outcome.repairs


def test_a_declared_size_of_zero_may_be_an_unknown_one(upgraded: Converted) -> None:
    source = model(7, shape=("n", 3, 4, 6), params=(3, 4, 6), spatial=0)
    source.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 0
    feeds = {"x": np.random.default_rng(0).normal(size=(2, 3, 4, 6))}
    expected = reference.evaluate(ir.load(source), feeds)
    found = reference.evaluate(upgraded(source, 15, compare=False).model, feeds)
    np.testing.assert_allclose(found["y"], expected["y"])


@pytest.mark.parametrize("params", [(3, 4, 6), (72,)])
@pytest.mark.parametrize("opset", [6, 7])
@pytest.mark.parametrize("outputs", [FIVE, ("y", "rm", "", "", "sv")])
def test_spatial_0_in_training(
    upgraded: Converted, opset: int, params: tuple[int, ...], outputs: tuple[str, ...]
) -> None:
    upgraded(model(opset, params=params, outputs=outputs, spatial=0))


def test_spatial_0_over_channels_is_the_exporters_bug(upgraded: Converted) -> None:
    outcome = upgraded(model(7, spatial=0), compare=False)
    same = upgraded(model(7, spatial=1))
    assert outcome.repairs == ["nonspatial-channel-parameters"]
    assert outcome.ops == same.ops == ["BatchNormalization"]


def test_a_shape_node_only_where_several_dims_are_unknown(upgraded: Converted) -> None:
    static = upgraded(model(7, shape=("n", 3, 4, 6), params=(3, 4, 6), spatial=0))
    symbolic = upgraded(model(7, shape=("n", 3, "h", 7), params=(3, 7, 7), spatial=0))
    assert "Shape" not in static.ops
    assert "Shape" in symbolic.ops


@pytest.mark.parametrize(
    ("opset", "attrs", "kinds"),
    [
        (9, {"spatial": 1, "is_test": 1, "consumed_inputs": [0]}, ["misplaced-attribute"] * 3),
        (15, {"is_test": 1}, ["misplaced-attribute"]),
        (6, {}, ["absent-is-test"]),
    ],
)
def test_what_was_decided_is_reported(upgraded: Converted, opset: int, attrs: dict[str, Any], kinds: list[str]) -> None:
    outcome = upgraded(model(opset, **attrs))
    assert outcome.repairs == kinds
    assert not outcome.model.graph.nodes[0].attrs


def test_misplaced_training_is_training(upgraded: Converted) -> None:
    outcome = upgraded(model(15, is_test=0), compare=False)
    assert outcome.model.graph.nodes[0].attr("training_mode") == 1


def test_force_inference(upgraded: Converted) -> None:
    referee = reference.Policy(force_inference=True)
    policy = Policy(force_inference=True)
    outcome = upgraded(model(14, training_mode=1), policy=policy, referee=referee)
    assert outcome.repairs == ["forced-inference"]
    assert not outcome.model.graph.nodes[0].attr("training_mode")
    assert not outcome.report.training


def test_training_is_reported_by_name(upgraded: Converted) -> None:
    report = upgraded(model(9, outputs=FIVE)).report
    assert report.training == ("bn",)
    assert "bn. If that was not meant, call model.eval()" in report.advice
    assert upgraded(model(9)).report.training == ()
    assert upgraded(model(9)).report.advice == ""


@pytest.mark.parametrize("mode", ["inference", "training"])
def test_legacy_mode(upgraded: Converted, mode: Any) -> None:
    referee = reference.Policy(legacy_mode=mode)
    outcome = upgraded(model(6), policy=Policy(legacy_mode=mode), referee=referee)
    assert outcome.repairs == ["absent-is-test"]
    assert len(outcome.model.graph.nodes[0].outputs) == (3 if mode == "training" else 1)


def test_illegal_forms_are_one_clear_error(upgraded: Converted) -> None:
    with pytest.raises(errors.ConversionBlocked, match=r"BatchNormalization \('bn'\): declares 3 outputs"):
        upgraded(model(9, outputs=("y", "rm", "rv")))
    with pytest.raises(errors.ConversionBlocked, match="no is_test"):
        upgraded(model(6), policy=Policy(legacy_mode="error"))


@pytest.mark.parametrize(("opset", "target"), list(itertools.permutations([1, 6, 7, 9, 14, 15], 2)))
@pytest.mark.parametrize("training", [False, True])
def test_any_version_to_any_other(upgraded: Converted, opset: int, target: int, training: bool) -> None:
    outputs = (("y", "rm", "rv") if opset >= 14 else ("y", "rm", "rv", "", "")) if training else ("y",)
    attrs: dict[str, Any] = {}
    if opset < 7:
        attrs = {"is_test": int(not training)}
    elif opset >= 14 and training:
        attrs = {"training_mode": 1}
    outcome = upgraded(model(opset, outputs=outputs, **attrs), target)
    assert outcome.model.opset("") == target
    assert outcome.model.graph.nodes[-1].has_attr("consumed_inputs") == (target < 6)


def test_types_that_an_older_version_does_not_take_block_the_way_down(upgraded: Converted) -> None:
    with pytest.raises(errors.ConversionBlocked, match=r"does not take tensor\(bfloat16\)"):
        upgraded(model(15, dtype=BFLOAT16), 13)
    mixed = model(15, dynamic=True)
    for index in (1, 2):
        mixed.graph.input[index].type.tensor_type.elem_type = DOUBLE
    with pytest.raises(errors.ConversionBlocked, match="takes one type"):
        upgraded(mixed, 14)


def test_parameters_that_others_read_keep_their_dims(upgraded: Converted) -> None:
    proto = model(7, params=(3, 1, 1), shape=("n", 3, 1, 1), spatial=0)
    proto.graph.node.append(helper.make_node("Identity", ["scale"], ["copy"]))
    proto.graph.output.append(helper.make_tensor_value_info("copy", FLOAT, (3, 1, 1)))
    outcome = upgraded(proto)
    assert outcome.model.graph.values["scale"].shape == (3, 1, 1)
    assert outcome.results["copy"].shape == (3, 1, 1)


def test_parameters_of_more_elements_than_can_be_counted_are_flattened_without_a_count() -> None:
    source = model(6, dynamic=True, params=(3, 4), is_test=1)
    source.graph.input[4].type.tensor_type.shape.dim[1].dim_value = 2**62
    upgraded = bnfold.upgrade(source).to_proto()
    shapes = [numpy_helper.to_array(tensor).tolist() for tensor in upgraded.graph.initializer]
    assert [12] in shapes
    assert [-1] in shapes


@pytest.mark.parametrize("saved_var", ["variance", "inv-std"])
def test_saved_statistics_below_the_broadcasting_of_opset_7(upgraded: Converted, saved_var: Any) -> None:
    policy = Policy(saved_var=saved_var)
    outcome = upgraded(model(1, outputs=FIVE, is_test=0), 6, policy=policy, compare=saved_var == "variance")
    assert outcome.model.graph.nodes[0].op_type == "ReduceMean"
    subtractions = [node for node in outcome.model.graph.nodes if node.is_op("Sub", "Add")]
    assert all(node.attr("broadcast") == 1 for node in subtractions)
