from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import defs

from bnfold import ir
from bnfold.semantics import BatchNormSpec, Policy, Unreadable
from bnfold.semantics.batchnorm import VERSIONS, epsilon, read_batchnorm

NodeMaker = Callable[..., ir.Node]
FIVE = ("y", "rm", "rv", "sm", "sv")


def kinds(norm: BatchNormSpec) -> list[str]:
    return [repair.kind for repair in norm.repairs]


def test_every_version_of_the_installed_onnx_is_known() -> None:
    known = {s.since_version for s in defs.get_all_schemas_with_history() if s.name == "BatchNormalization"}
    assert known == set(VERSIONS)


@pytest.mark.parametrize(
    ("opset", "version"), [(1, 1), (5, 1), (6, 6), (7, 7), (8, 7), (9, 9), (13, 9), (14, 14), (15, 15), (28, 15)]
)
def test_version_follows_from_the_opset(batchnorm: NodeMaker, opset: int, version: int) -> None:
    assert read_batchnorm(batchnorm(opset, is_test=1) if opset < 7 else batchnorm(opset), Policy()).version == version


@pytest.mark.parametrize(
    ("opset", "attrs", "outputs", "mode", "repairs"),
    [
        (1, {"is_test": 1, "consumed_inputs": [0, 0, 0, 1, 1]}, ("y",), "inference", []),
        (1, {"is_test": 1}, ("y",), "inference", []),
        (6, {"is_test": 1}, ("y",), "inference", []),
        (6, {"is_test": 0}, ("y",), "training", []),
        (6, {"is_test": 0}, FIVE, "training", []),
        (6, {}, FIVE, "training", []),
        (6, {}, ("y",), "inference", ["absent-is-test"]),
        (6, {}, ("y", "", "", "", ""), "inference", ["absent-is-test"]),
        (6, {"is_test": 1}, FIVE, "inference", ["dropped-outputs"]),
        (7, {}, ("y",), "inference", []),
        (7, {}, FIVE, "training", []),
        (9, {}, ("y", "", "", "", "sv"), "training", []),
        (9, {}, ("y", "", "", "", ""), "inference", []),
        (9, {"is_test": 1}, ("y",), "inference", ["misplaced-attribute"]),
        (9, {"is_test": 0}, ("y",), "training", ["misplaced-attribute"]),
        (9, {"training_mode": 1}, ("y",), "training", ["misplaced-attribute"]),
        (9, {"consumed_inputs": [0]}, ("y",), "inference", ["misplaced-attribute"]),
        (14, {}, ("y",), "inference", []),
        (15, {}, ("y", "", ""), "inference", []),
        (14, {"training_mode": 1}, ("y",), "training", []),
        (15, {"training_mode": 1}, ("y", "rm", "rv"), "training", []),
        (15, {"is_test": 1, "spatial": 1}, ("y",), "inference", ["misplaced-attribute"] * 2),
        (15, {"is_test": 0}, ("y",), "training", ["misplaced-attribute"]),
    ],
)
def test_mode(
    batchnorm: NodeMaker, opset: int, attrs: dict[str, Any], outputs: tuple[str, ...], mode: str, repairs: list[str]
) -> None:
    norm = read_batchnorm(batchnorm(opset, outputs=outputs, **attrs), Policy())
    assert norm.mode == mode
    assert kinds(norm) == repairs
    expected = [name or None for name in (*outputs, "", "", "", "")[:5]] if mode == "training" else ["y"] + [None] * 4
    assert [value and value.name for value in norm.outputs] == expected


@pytest.mark.parametrize(
    ("opset", "attrs", "outputs", "reads", "reason"),
    [
        (7, {}, ("y", "rm"), (), "declares 2 outputs"),
        (9, {}, ("y", "rm", "rv"), (), "declares 3 outputs"),
        (9, {}, ("y", "rm", "rv", "sm"), (), "declares 4 outputs"),
        (14, {"training_mode": 1}, FIVE, (), "declares 5 outputs"),
        (14, {}, ("y", "rm", "rv"), ("rm",), "running mean is read"),
        (6, {"is_test": 1}, FIVE, ("sv",), "saved variance is read"),
        (9, {"is_test": 1, "training_mode": 1}, ("y",), (), "contradicts"),
        (9, {"is_test": 0, "training_mode": 0}, ("y",), (), "contradicts"),
        (15, {"training_mode": -2}, ("y",), (), "neither 0 nor 1"),
        (7, {"spatial": "yes"}, ("y",), (), "no number"),
        (7, {"spatial": 2}, ("y",), (), "spatial=2 is neither 0 nor 1"),
        (9, {}, ("", "rm", "rv", "sm", "sv"), ("rm",), "first output"),
    ],
)
def test_illegal_forms_name_the_node(
    batchnorm: NodeMaker,
    opset: int,
    attrs: dict[str, Any],
    outputs: tuple[str, ...],
    reads: tuple[str, ...],
    reason: str,
) -> None:
    with pytest.raises(Unreadable, match=reason) as caught:
        read_batchnorm(batchnorm(opset, outputs=outputs, reads=reads, **attrs), Policy())
    assert caught.value.node in {"bn", "rm"}
    assert "\n" not in str(caught.value)


def test_a_withdrawn_draft_with_six_inputs_is_illegal(batchnorm: NodeMaker) -> None:
    node = batchnorm(12)
    node.set_input(5, node.inputs[1])
    with pytest.raises(Unreadable, match="has 6 inputs, needs 5"):
        read_batchnorm(node, Policy())


@pytest.mark.parametrize(
    ("mode", "outputs", "reads", "expected"),
    [
        ("auto", ("y",), (), "inference"),
        ("auto", FIVE, (), "training"),
        ("inference", ("y",), (), "inference"),
        ("inference", FIVE, (), "inference"),
        ("inference", FIVE, ("rv",), "training"),
        ("training", ("y",), (), "training"),
        ("error", FIVE, (), "training"),
    ],
)
def test_legacy_mode_decides_where_is_test_is_absent(
    batchnorm: NodeMaker, mode: Any, outputs: tuple[str, ...], reads: tuple[str, ...], expected: str
) -> None:
    node = batchnorm(6, outputs=outputs, reads=reads)
    assert read_batchnorm(node, Policy(legacy_mode=mode)).mode == expected


def test_legacy_mode_error_refuses_to_guess(batchnorm: NodeMaker) -> None:
    with pytest.raises(Unreadable, match="no is_test"):
        read_batchnorm(batchnorm(6), Policy(legacy_mode="error"))


@pytest.mark.parametrize("mode", ["auto", "inference", "training", "error"])
def test_legacy_mode_does_not_touch_what_is_written_out(batchnorm: NodeMaker, mode: Any) -> None:
    assert read_batchnorm(batchnorm(6, is_test=0), Policy(legacy_mode=mode)).mode == "training"
    assert read_batchnorm(batchnorm(6, is_test=1), Policy(legacy_mode=mode)).mode == "inference"
    assert read_batchnorm(batchnorm(9), Policy(legacy_mode=mode)).mode == "inference"


def test_force_inference_is_reported_and_drops_unread_statistics(batchnorm: NodeMaker) -> None:
    norm = read_batchnorm(batchnorm(9, outputs=FIVE), Policy(force_inference=True))
    assert norm.mode == "inference"
    assert kinds(norm) == ["forced-inference", "dropped-outputs"]


def test_force_inference_refuses_where_statistics_are_read(batchnorm: NodeMaker) -> None:
    with pytest.raises(Unreadable, match="saved mean is read"):
        read_batchnorm(batchnorm(9, outputs=FIVE, reads=("sm",)), Policy(force_inference=True))


def test_epsilon_is_the_float32_attribute_widened(batchnorm: NodeMaker) -> None:
    assert epsilon(batchnorm(9)) == float(np.float32(1e-5))
    assert epsilon(batchnorm(9, epsilon=1e-3)) == float(np.float32(1e-3))
    assert epsilon(batchnorm(9, epsilon=0.0)) == 0.0


def test_the_parameters_are_in_the_operators_order(batchnorm: NodeMaker) -> None:
    assert [value.name for value in read_batchnorm(batchnorm(9), Policy()).inputs] == [
        "x",
        "scale",
        "bias",
        "mean",
        "var",
    ]


def test_a_functions_parameter_hides_the_numbers_but_not_the_form(batchnorm: NodeMaker) -> None:
    node = batchnorm(9)
    node.proto.attribute.append(
        onnx.AttributeProto(name="epsilon", ref_attr_name="eps", type=onnx.AttributeProto.FLOAT)
    )
    assert read_batchnorm(node, Policy()).mode == "inference"
    with pytest.raises(Unreadable, match="epsilon is the function's parameter eps"):
        epsilon(node)
