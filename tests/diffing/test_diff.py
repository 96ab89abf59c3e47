"""What differs between two models: told once, in the right place, and nothing else; names fool nobody."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from bnfold import ir
from bnfold.api import optimize
from bnfold.verification import verify
from tests.conftest import MODELS
from tests.diffing.models import diff, model, network, node, renamed, texts

W = np.arange(16, dtype=np.float32).reshape(4, 4)


@pytest.mark.parametrize("name", sorted(path.name for path in MODELS.glob("*.onnx")))
def test_a_renamed_copy_is_equal(name: str) -> None:
    document = diff(network(name), renamed(network(name)))
    assert document["differences"] == []
    assert document["interface"] == []
    assert document["equal"]
    assert json.loads(json.dumps(document, allow_nan=False)) == document


@pytest.mark.parametrize("again", [False, True])
def test_folding_takes_out_batchnormalizations_and_changes_convolutions(again: bool, tmp_path: Path) -> None:
    optimize(MODELS / "resnet_opset6.onnx", tmp_path / "out.onnx")
    folded = onnx.load(tmp_path / "out.onnx")
    document = diff(network(), renamed(folded) if again else folded)
    gone = [name for each in document["differences"] for name in each["before"]]
    assert len(gone) == 9
    assert all(name.startswith("BatchNormalization") for name in gone)
    assert [name for each in document["differences"] for name in each["after"]] == []
    changed = [change["before"] for each in document["differences"] for change in each["changes"]]
    assert sum(name.startswith("Conv") for name in changed) == 9
    assert {row["what"] for row in document["interface"]} == {"opset ai.onnx"}


def test_one_number_of_one_weight() -> None:
    old, new = network(), renamed(network())
    tensor = new.graph.initializer[0]
    array = numpy_helper.to_array(tensor).copy()
    array.flat[3] += 0.5
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    (difference,) = diff(old, new)["differences"]
    (change,) = difference["changes"]
    (constant,) = change["constants"]
    assert (constant["differing"], constant["elements"]) == (1, array.size)
    assert constant["largest"] == pytest.approx(0.5)
    assert change["attributes"] == change["inputs"] == []


def test_a_node_that_is_gone_and_one_that_came() -> None:
    old = model(node("Relu", "x", "a"), node("MatMul", "a w", "b"), node("Neg", "b", "c"), node("Abs", "c", "y"), w=W)
    new = model(node("Relu", "x", "1"), node("MatMul", "1 w", "2"), node("Abs", "2", "3"), node("Exp", "3", "y"), w=W)
    first, second = diff(old, new)["differences"]
    assert (first["kind"], first["before"], first["after"]) == ("removed", ["Neg c"], [])
    assert (second["kind"], second["before"], second["after"]) == ("added", [], ["Exp y"])


def test_a_replaced_node_is_one_difference() -> None:
    old = model(node("Relu", "x", "a"), node("Softplus", "a", "b"), node("Abs", "b", "y"))
    new = model(node("Relu", "x", "a"), node("Exp", "a", "c"), node("Log", "c", "b"), node("Abs", "b", "y"))
    (difference,) = diff(old, new)["differences"]
    assert (difference["before"], difference["after"]) == (["Softplus b"], ["Exp c", "Log b"])


def test_names_that_are_numbers_move_on_by_one() -> None:
    layers = [node("MatMul" if index % 2 else "Relu", f"{index} w{index}" if index % 2 else f"{index}", f"{index + 1}")
              for index in range(8)]  # fmt: skip
    weights: Any = {f"w{index}": W + index for index in range(8)}
    old = model(node("Abs", "x", "0"), *layers, node("Abs", "8", "y"), **weights)
    new = deepcopy(old)
    for each in new.graph.node:
        for field in (each.input, each.output):
            field[:] = [str(int(name) + 2) if name.isdigit() else name for name in field]
    del new.graph.node[0]
    new.graph.node.insert(0, node("Abs", "x", "0"))
    new.graph.node.insert(1, node("Neg", "0", "1"))
    new.graph.node.insert(2, node("Exp", "1", "2"))
    (difference,) = diff(old, new)["differences"]
    assert difference["after"] == ["Neg 1", "Exp 2"]


def test_an_attribute_an_input_and_an_output() -> None:
    parts = node("Split", "x", "a b", axis=1), node("Concat", "a b", "y", axis=1)
    assert texts(model(*parts), model(parts[0], node("Concat", "a b", "y", axis=0))) == ["Concat y: axis 1 → 0"]
    swapped = model(parts[0], node("Concat", "b a", "y", axis=1))
    assert texts(model(*parts), swapped) == [
        "Concat y: input 0: a (Split a) → b (Split a), input 1: b (Split a) → a (Split a)"
    ]
    two = model(node("Relu", "x", "a"), node("Abs", "x", "b"), node("Sub", "a b", "y"))
    one = deepcopy(two)
    one.graph.output[0].name = "b"
    assert {row["what"] for row in diff(two, one)["interface"]} == {"output y", "output b"}


def test_an_attribute_that_only_one_node_has_is_told_beside_what_holds_without_it() -> None:
    def told(op_type: str, read: str, **attributes: Any) -> list[str]:
        plain, other = (model(node(op_type, read, "y", **each), w=W) for each in ({}, attributes))
        return [text.removeprefix(f"{op_type} y: ") for text in (*texts(plain, other), *texts(other, plain))]

    assert told("LeakyRelu", "x", alpha=0.1) == ["alpha 0.01 → 0.1", "alpha 0.1 → 0.01"]
    assert told("Conv", "x w", strides=[2, 1]) == ["strides all 1 → [2, 1]", "strides [2, 1] → all 1"]
    assert told("Conv", "x w", kernel_shape=[1]) == ["kernel_shape absent → [1]", "kernel_shape [1] → absent"]
    spelled, other = (node("Conv", "x w", "y", strides=each) for each in ([1, 1], [2, 1]))
    assert texts(model(spelled, w=W), model(other, w=W)) == ["Conv y: strides [1, 1] → [2, 1]"]
    assert told("Upsample", "x w", scales=[0.1, 2.0])[0] == "scales absent → [0.1, 2.0]"


def test_attributes_of_old_versions_are_told_by_what_they_mean() -> None:
    def differs(op_type: str, read: str, **attributes: Any) -> list[str]:
        weights = dict.fromkeys(read.split()[1:], W)
        old = model(node(op_type, read, "y", **attributes), opset=6, **weights)
        return texts(old, model(node(op_type, read, "y"), opset=15, **weights))

    norm = "x a b c d"
    assert differs("BatchNormalization", norm, is_test=1) == []
    assert differs("BatchNormalization", norm) == ["BatchNormalization y: is_test 0 → absent"]
    assert differs("BatchNormalization", norm, is_test=0) == ["BatchNormalization y: is_test 0 → absent"]
    assert differs("Gemm", "x a b", broadcast=1) == []
    assert differs("Add", "x a", broadcast=1, axis=1) == ["Add y: axis 1 → absent"]


def test_what_makes_no_difference() -> None:
    gemm = node("Gemm", "x w", "y"), node("Gemm", "x w", "y", alpha=1.0, transB=0)
    assert diff(model(gemm[0], w=W), model(gemm[1], w=W))["equal"]
    held = node("Constant", "", "v", value=numpy_helper.from_array(W))
    held.ClearField("input")
    assert diff(model(gemm[0], w=W), model(held, node("Gemm", "x v", "y")))["equal"]
    made = model(node("Identity", "w", "v"), node("Gemm", "x v", "y"), w=W)
    assert diff(model(gemm[0], w=W), made)["equal"]
    result = onnx.TensorProto.FLOAT, [4, 4]
    for each in (first := model(gemm[0], w=W)), (second := model(held, node("Gemm", "x v", "y"))):
        each.graph.output.append(helper.make_tensor_value_info(each.graph.node[-1].input[1], *result))
    assert [tuple(row.values()) for row in diff(first, second)["interface"]] == [("name of output w", "w", "v")]
    twice = model(node("Relu", "x", "a"), node("Relu", "x", "b"), node("Sub", "a b", "y"))
    other = model(node("Relu", "x", "b"), node("Relu", "x", "a"), node("Sub", "b a", "y"))
    assert diff(twice, other)["equal"]


def test_what_makes_one_random_number_of_two() -> None:
    drawn = [node("RandomNormalLike", "x", name) for name in "ab"]
    two, one = (model(*drawn, node("Sub", read, "y")) for read in ("a b", "a a"))
    assert diff(two, deepcopy(two))["equal"]
    assert not diff(two, one)["equal"]


def test_the_interface() -> None:
    old = model(node("Relu", "x", "y"))
    for change in ("name", "dims", "type", "symbol"):
        new = deepcopy(old)
        given = new.graph.input[0]
        if change == "name":
            given.name = new.graph.node[0].input[0] = "z"
        elif change == "type":
            given.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
        else:
            given.type.tensor_type.shape.dim[0].CopyFrom(onnx.TensorShapeProto.Dimension(dim_param="N"))
        document = diff(old, new)
        assert not document["equal"], change
        assert document["differences"] == []
        other = deepcopy(new)
        if change == "symbol":
            other.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
        assert diff(new, other)["equal"]


def test_weights_that_are_listed_as_inputs_are_one_row() -> None:
    new = model(*(node("Add", "x w", f"a{place}") for place in range(3)), node("Relu", "x", "y"), w=W)
    old = deepcopy(new)
    for name in "abcd":
        old.graph.initializer.append(numpy_helper.from_array(W, name))
        old.graph.input.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, W.shape))
    row = {"what": "inputs with a default", "before": "a, b, c, 1 more", "after": "absent"}
    assert diff(old, new)["interface"] == [row]
    assert diff(new, old)["interface"] == [{**row, "before": row["after"], "after": row["before"]}]


def test_metadata_is_told_and_makes_no_difference() -> None:
    old, new = model(node("Relu", "x", "y")), model(node("Relu", "x", "y"))
    new.producer_name, new.ir_version = "somebody", 9
    document = diff(old, new)
    assert document["equal"]
    assert {row["what"] for row in document["metadata"]} == {"producer_name", "IR version"}


def _branches(then: str, read: str = "a") -> onnx.ModelProto:
    made = helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, [1, 4])
    bodies = [helper.make_graph([node(op_type, read, "z")], "body", [], [made]) for op_type in (then, "Neg")]
    choice = node("If", "flag", "y", then_branch=bodies[0], else_branch=bodies[1])
    result = model(node("Relu", "x", "a"), node("Abs", "x", "b"), choice)
    result.graph.initializer.append(numpy_helper.from_array(np.array(True), "flag"))
    return result


def test_bodies_are_compared_in_their_own_place() -> None:
    assert diff(_branches("Exp"), _branches("Exp"))["equal"]
    (difference,) = diff(_branches("Exp"), _branches("Log"))["differences"]
    assert difference["graph"]
    assert (difference["before"], difference["after"]) == (["Exp z"], ["Log z"])
    captured = diff(_branches("Exp"), _branches("Exp", "b"))["differences"]
    assert [change["before"] for each in captured for change in each["changes"]] == ["Exp z", "Neg z"]


def test_unrelated_models() -> None:
    document = diff(network("mlp.onnx"), network("dense.onnx"), drawn=True)
    assert not document["equal"]
    told = sum(len(each["before"]) + len(each["changes"]) for each in document["differences"])
    assert told + document["same"] == sum(each.op_type != "Constant" for each in network("mlp.onnx").graph.node)


def test_drawings_show_both_sides() -> None:
    old = model(node("Relu", "x", "a"), node("Neg", "a", "b"), node("Abs", "b", "y"))
    new = model(node("Relu", "x", "a"), node("Abs", "a", "y"))
    (difference,) = diff(old, new, drawn=True)["differences"]
    drawn = [
        [(each["op"], each["role"]) for each in difference["drawing"][side]["nodes"]] for side in ("before", "after")
    ]
    assert drawn[0] == [("Relu", "context"), ("Neg", "only"), ("Abs", "context")]
    assert drawn[1] == [("Relu", "context"), ("Abs", "context")]


def test_values_that_part() -> None:
    layers = [node("MatMul", "x w", "a"), node("Exp", "a", "b"), node("MatMul", "b v", "c"), node("Abs", "c", "y")]
    old = model(*layers, w=W, v=W)
    values = diff(old, renamed(old), values=True)["values"]
    assert values["differing"] == 0
    assert [name for name, _ in values["errors"]] == ["a", "b", "c", "y"]
    values = diff(old, model(*layers, w=W, v=W + 1), values=True)["values"]
    assert [row["before"] for row in values["begins"]] == ["c"]
    assert [error > 0 for _, error in values["errors"]] == [False, False, True, True]


def test_a_reshape_that_only_one_model_has_makes_no_value_differ() -> None:
    ends = [node("Exp", "x", "a"), node("Abs", "c", "y")]
    old = model(ends[0], node("Flatten", "a", "b", axis=2), node("Flatten", "b", "c", axis=0), ends[1])
    values = diff(old, model(ends[0], node("Flatten", "a", "c", axis=0), ends[1]), values=True)["values"]
    assert values["differing"] == 0
    assert "b" in dict(values["errors"])


def test_values_that_cannot_be_compared_say_why() -> None:
    old = model(node("Relu", "x", "y"))
    new = model(node("Relu", "z", "y"))
    new.graph.input.append(helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, [1, 4]))
    other = model(node("Relu", "x", "y"))
    other.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 5
    renamed = model(node("Relu", "z", "y"))
    renamed.graph.input[0].CopyFrom(other.graph.input[0])
    renamed.graph.input[0].name = "z"
    reasons = (
        (new, "only B takes z"),
        (other, "B takes other sizes of x"),
        (renamed, "B's z takes other sizes than A's x"),
    )
    for each, why in reasons:
        assert diff(old, each, values=True)["values"]["reason"] == f"the models have other inputs; {why}"


@pytest.mark.parametrize(("ends", "count"), [(("z", "y"), 1), (("x", "q"), 1), (("z", "q"), 2)])
def test_renamed_inputs_and_outputs_are_paired_as_verify_does(ends: tuple[str, str], count: int) -> None:
    old, new = (
        model(node("Relu", "x", "a"), node("Neg", "a", "y")),
        model(node("Relu", "x", "a"), node("Neg", "a", "y")),
    )
    given, result = ends
    new.graph.input[0].name = new.graph.node[0].input[0] = given
    new.graph.output[0].name = new.graph.node[1].output[0] = result
    found = diff(old, new, values=True)
    assert not found["equal"]
    assert found["differences"] == []
    assert [row["what"].startswith("name of ") for row in found["interface"]] == [True] * count
    assert (list(found["after"]["inputs"]), list(found["after"]["outputs"])) == ([given], [result])
    assert found["values"]["outputs"] == {**found["values"]["outputs"], "count": 1, "notable": 0}
    assert verify(ir.load(old), ir.load(new), by_position=True).verified


def test_inputs_in_another_order_are_not_paired() -> None:
    old = model(node("Sub", "x z", "y"))
    old.graph.input.append(helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, [1, 4]))
    new = deepcopy(old)
    new.graph.input[0].CopyFrom(old.graph.input[1])
    new.graph.input[1].CopyFrom(old.graph.input[0])
    assert [row["what"] for row in diff(old, new)["interface"]] == ["order of the inputs"]


def test_constants_of_every_kind() -> None:
    def held(array: np.ndarray) -> onnx.ModelProto:
        made = model(node("Op", "k", "z", domain="somebody"), node("Relu", "x", "y"))
        made.graph.initializer.append(numpy_helper.from_array(array, "k"))
        return made

    def told(old: np.ndarray, new: np.ndarray) -> str:
        (text,) = texts(held(old), held(new))
        return text.removeprefix("Op z: ")

    assert told(np.array([1, 2]), np.array([1, 3])) == "k: 1 of 2 differ, by up to 1"
    assert told(np.array([2**60]), np.array([2**60 + 1])) == "k: 1 of 1 differ, by up to 0"
    assert told(np.array([1.0, np.nan]), np.array([np.inf, np.nan])) == "k: 1 of 2 differ, by up to inf"
    assert told(np.array([0.0]), np.array([-0.0])) == "k: other bits, equal values"
    assert told(np.array(["a"], object), np.array(["b"], object)) == "k: other values"
    assert told(np.array([1.0, 2.0]), np.array([1.0])) == "k: double[2] → double[1]"


def test_weights_that_ir_version_3_lists_are_counted_and_make_no_difference() -> None:
    old = onnx.parser.parse_model(
        """<ir_version: 3, opset_import: ["": 9]> g (float[2] x, float[2] w) => (float[2] y)
        <float[2] w = {1, 2}> { y = Add (x, w) }"""
    )
    new = onnx.ModelProto.FromString(old.SerializeToString())
    new.ir_version = 8
    del new.graph.input[1]
    document = diff(old, new)
    assert {"what": "weights listed as inputs", "before": "1", "after": "0"} in document["metadata"]
    assert document["equal"]
