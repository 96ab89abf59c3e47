"""Inside model-local functions: types, ranks and attributes are what the calls make them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bnfold.decomposing import Form, left
from bnfold.errors import MalformedModel
from bnfold.ir import load
from bnfold.report.reasons import Reason
from tests.decomposing.cases import OPERATORS, PARAMETERS, Done, decomposed, evaluated

FLOAT, DOUBLE, HALF = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16
NORM = ["x", *PARAMETERS]
VALUES = {
    "scale": np.array([1.5, -0.5, 2.0], np.float32),
    "bias": np.array([0.1, 0.2, -0.3], np.float32),
    "mean": np.array([0.4, -0.2, 0.9], np.float32),
    "var": np.array([0.5, 1.5, 2.5], np.float32),
}


def node(inputs: Sequence[str] = NORM, output: str = "y", **references: str) -> onnx.NodeProto:
    """A BatchNormalization some of whose attributes are those of the function around it."""
    made = helper.make_node("BatchNormalization", inputs, [output], name="norm")
    for name, reference in references.items():
        kind = onnx.AttributeProto.INT if name == "training_mode" else onnx.AttributeProto.FLOAT
        made.attribute.append(onnx.AttributeProto(name=name, ref_attr_name=reference, type=kind))
    return made


def held() -> list[onnx.NodeProto]:
    """The parameters as Constant nodes, as function bodies hold them."""
    return [
        helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array, name))
        for name, array in VALUES.items()
    ]


def function(
    nodes: Sequence[onnx.NodeProto], attributes: Sequence[str] = (), *, name: str = "block", opset: int = 18
) -> onnx.FunctionProto:
    return helper.make_function(
        "local",
        name,
        ["x"],
        ["y"],
        nodes,
        [helper.make_opsetid("", opset), helper.make_opsetid("local", 1)],
        attributes,
    )


def model(
    functions: Sequence[onnx.FunctionProto],
    calls: Sequence[Mapping[str, Any]],
    inputs: Sequence[tuple[int, Sequence[int | str]]],
    *,
    opset: int = 18,
) -> onnx.ModelProto:
    """One call of the first function for each input, with these attributes."""
    nodes = [
        helper.make_node(functions[0].name, [f"x{i}"], [f"y{i}"], domain="local", **call)
        for i, call in enumerate(calls)
    ]
    return helper.make_model(
        helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info(f"x{i}", dtype, dims) for i, (dtype, dims) in enumerate(inputs)],
            [helper.make_tensor_value_info(f"y{i}", dtype, dims) for i, (dtype, dims) in enumerate(inputs)],
        ),
        opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("local", 1)],
        functions=functions,
        ir_version=10,
    )


def body(done: Done, name: str = "block") -> list[str]:
    return [n.op_type for n in next(f for f in done.model.functions if f.proto.name == name).nodes]


def same(source: onnx.ModelProto, done: Done, atol: float = 1e-6) -> None:
    generator, feeds = np.random.default_rng(0), {}
    for value in source.graph.input:
        dims = [dim.dim_value or 4 for dim in value.type.tensor_type.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        feeds[value.name] = generator.normal(size=dims).astype(dtype)
    expected, actual = evaluated(source, feeds), evaluated(done.model, feeds)
    for name, value in expected.items():
        assert np.allclose(actual[name], value, rtol=1e-6, atol=atol)


IMAGE = (FLOAT, ("n", 3, 5))
CONSTANTS = ["Constant"] * 2


def test_constants_in_a_body() -> None:
    source = model([function([*held(), node()])], [{}], [IMAGE])
    done = decomposed(source)
    assert body(done) == [*CONSTANTS, "Mul", "Add"]
    same(source, done)


def test_a_call_with_more_inputs_than_the_function_has_says_nothing_with_them() -> None:
    source = model([function([*held(), node()])], [{}], [IMAGE])
    source.graph.node[0].input.append(source.graph.node[0].input[0])
    assert body(decomposed(source)) == [*CONSTANTS, "Mul", "Add"]


def test_ranks_that_differ_between_calls_are_found_out_at_run_time() -> None:
    source = model([function([*held(), node()])], [{}, {}], [IMAGE, (FLOAT, (4, 3))])
    done = decomposed(source)
    assert "Reshape" in body(done)
    same(source, done)


@pytest.mark.parametrize("form", ["mul_add", "sub_mul_add"])
def test_attributes_on_which_all_calls_agree_are_what_the_calls_say(form: Form) -> None:
    block = function(
        [*held(), node(epsilon="eps", training_mode="training")],
        ["eps", "training"],
    )
    source = model([block], [{"eps": 0.25, "training": 0}] * 2, [IMAGE, IMAGE])
    done = decomposed(source, form)
    assert body(done)[-2:] == ["Mul", "Add"]
    same(source, done)


def test_an_epsilon_of_every_call_s_own_stays_a_reference() -> None:
    block = function([*held(), node(epsilon="eps")], ["eps"])
    source = model([block], [{"eps": 0.25}, {"eps": 2.0}], [IMAGE, IMAGE])
    done = decomposed(source)
    (reference,) = [a for f in done.model.functions for n in f.nodes for a in n.attrs.values() if a.ref_attr_name]
    assert (reference.name, reference.ref_attr_name) == ("value_float", "eps")
    same(source, done)


def test_a_momentum_of_every_call_s_own() -> None:
    norm = node(momentum="momentum")
    norm.output.extend(["running_mean", "running_var"])
    norm.attribute.append(helper.make_attribute("training_mode", 1))
    block = function([*held(), norm], ["momentum"])
    block.output[0] = "running_var"
    source = model([block], [{"momentum": 0.25}, {"momentum": 0.75}], [IMAGE, IMAGE])
    for output in source.graph.output:
        output.type.tensor_type.shape.Clear()
        output.type.tensor_type.shape.dim.add(dim_value=3)
    done = decomposed(source)
    assert "BatchNormalization" not in body(done)
    same(source, done)


def test_attributes_with_a_default() -> None:
    block = function([*held(), node(epsilon="eps")])
    block.attribute_proto.append(helper.make_attribute("eps", 0.5))
    for second in (0.5, 2.0):
        source = model([block], [{}, {"eps": second}], [IMAGE, IMAGE])
        done = decomposed(source)
        assert "BatchNormalization" not in body(done)
        same(source, done)


def test_an_attribute_that_no_call_gives_is_the_operator_s_default() -> None:
    source = model([function([*held(), node(epsilon="eps")], ["eps"])], [{}], [IMAGE])
    done = decomposed(source)
    assert body(done) == [*CONSTANTS, "Mul", "Add"]
    same(source, done)


def test_attributes_passed_on_through_another_function() -> None:
    inner = function([*held(), node(epsilon="eps")], ["eps"], name="inner")
    call = helper.make_node("inner", ["x"], ["y"], domain="local")
    call.attribute.append(onnx.AttributeProto(name="eps", ref_attr_name="e", type=onnx.AttributeProto.FLOAT))
    source = model([function([call], ["e"]), inner], [{"e": 0.25}, {"e": 0.25}], [IMAGE, IMAGE])
    done = decomposed(source)
    assert body(done, "inner") == [*CONSTANTS, "Mul", "Add"]
    same(source, done)


def test_types_through_calls_and_branches_of_a_body() -> None:
    """The type of the norm's input follows from a call's result, and that from both branches of an If."""

    def branch(op_type: str) -> onnx.GraphProto:
        out = [helper.make_tensor_value_info("out", TensorProto.UNDEFINED, None)]
        out[0].ClearField("type")
        return helper.make_graph([helper.make_node(op_type, ["x"], ["out"])], op_type, [], out)

    choose = helper.make_node("If", ["yes"], ["y"], then_branch=branch("Neg"), else_branch=branch("Abs"))
    yes = helper.make_node("Constant", [], ["yes"], value=numpy_helper.from_array(np.array(True)))
    inner = function([yes, choose], name="inner")
    call = helper.make_node("inner", ["x"], ["h"], domain="local")
    source = model([function([*held(), call, node(["h", *PARAMETERS])]), inner], [{}], [(DOUBLE, ("n", 3, 5))])
    done = decomposed(source)
    assert body(done) == [*CONSTANTS, "inner", "Mul", "Add"]
    same(source, done, 1e-12)


@pytest.mark.parametrize(
    ("block", "calls", "inputs", "reason"),
    [
        (function([*held(), node()]), [{}, {}], [IMAGE, (HALF, ("n", 3, 5))], Reason.TYPE_UNKNOWN),
        (
            function([*held(), node(training_mode="t")], ["t"]),
            [{"t": 0}, {"t": 1}],
            [IMAGE, IMAGE],
            Reason.REFERENCE_ATTRIBUTE,
        ),
        (
            function([*held(), node(epsilon="e")], ["e"]),
            [{"e": 0.5}, {}],
            [IMAGE, IMAGE],
            Reason.REFERENCE_ATTRIBUTE,
        ),
        (
            function([*held(), node(epsilon="e")], ["e"], opset=11),
            [{"e": 0.5}, {"e": 0.25}],
            [IMAGE, IMAGE],
            Reason.REFERENCE_ATTRIBUTE,
        ),
        (function([*held(), node(epsilon="e")], ["e"]), [], [], Reason.TYPE_UNKNOWN),
    ],
    ids=["two types", "two modes", "only sometimes given", "no Constant of a float yet", "never called"],
)
def test_what_calls_leave_open(
    block: onnx.FunctionProto,
    calls: Sequence[Mapping[str, Any]],
    inputs: Sequence[tuple[int, Sequence[int | str]]],
    reason: Reason,
) -> None:
    source = model([block], calls, inputs, opset=block.opset_import[0].version)
    done = decomposed(source)
    assert done.event is not None
    assert done.event.reason is reason
    ((_, path, _),) = left(done.model, OPERATORS)
    assert path == "local::block"
    assert done.model.proto.functions[0].SerializeToString(deterministic=True) == block.SerializeToString(
        deterministic=True
    )


def test_functions_that_call_each_other_are_refused() -> None:
    there = helper.make_node("there", ["h"], ["y"], domain="local")
    back = helper.make_node("block", ["x"], ["y"], domain="local")
    source = model([function([*held(), node(output="h"), there]), function([back], name="there")], [{}], [IMAGE])
    with pytest.raises(MalformedModel, match="calls itself"):
        load(source)
