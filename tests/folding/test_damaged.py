"""Models that no runtime could run: whatever does not fit is left alone, with a reason, and nothing crashes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import bnfold
from bnfold import ir
from bnfold.folding.affine import on_axis
from bnfold.folding.ops import padded, window
from bnfold.report.reasons import Declined, Reason

HEAD = '<ir_version: 8, opset_import: ["" : 15]> g (float[2,6,4,5] x) => (float[A,B,C,D] y)'
BN = "BatchNormalization"


def made(nodes: str, **weights: list[int]) -> onnx.ModelProto:
    """The nodes, with weights of the shapes given; ``p`` is a parameter of six channels."""
    rng = np.random.default_rng(3)
    proto = onnx.parser.parse_model(f"{HEAD} {{ {nodes} }}")
    for name, shape in {"p": [6], **weights}.items():
        proto.graph.initializer.append(numpy_helper.from_array(rng.uniform(0.5, 2, shape).astype(np.float32), name))
    return proto


@pytest.mark.parametrize(
    "proto",
    [
        pytest.param(made(f"y = {BN} (k, p, p, p, p)", k=[2, 8, 4, 5]), id="a constant of other channels"),
        pytest.param(made(f"a = {BN} (x, p, q, p, p)  y = {BN} (a, p, p, p, p)", q=[8]), id="a bias of other channels"),
        pytest.param(made(f"a = Conv (x, w, b)  y = {BN} (a, p, p, p, p)", w=[6, 6, 1, 1], b=[4]), id="a Conv's bias"),
        pytest.param(made(f"a = Conv (x, w)  y = {BN} (a, p, p, p, p)", w=[4, 6, 1, 1]), id="a Conv's outputs"),
        pytest.param(made(f"a = Mul (x, w)  y = {BN} (a, p, p, p, p)", w=[1, 4, 1, 1]), id="a Mul's operand"),
        pytest.param(made(f"a = InstanceNormalization (x, p, b)  y = {BN} (a, p, p, p, p)", b=[4]), id="a normaliser"),
    ],
)
def test_weights_that_do_not_fit(proto: onnx.ModelProto) -> None:
    outcome = bnfold.fold(proto, verify=bnfold.VerifyOptions(depth="none"), all_affines=True)
    last = outcome.report.batchnorms[-1]
    assert last.verdict == "kept"
    assert last.reason is not None
    assert outcome.to_proto().graph.node == proto.graph.node


def test_an_input_of_one_axis_is_one_channel() -> None:
    """Even where scaling by the parameters would change nothing, there is no telling what the node means."""
    proto = onnx.parser.parse_model(f"{HEAD.replace('2,6,4,5', '6')} {{ y = {BN} (x, one, zero, zero, one) }}")
    for name, number in (("one", 1), ("zero", 0)):
        proto.graph.initializer.append(numpy_helper.from_array(np.full(6, number, np.float32), name))
    proto.graph.node[0].attribute.append(onnx.helper.make_attribute("epsilon", 0.0))
    outcome = bnfold.fold(proto, verify=bnfold.VerifyOptions(depth="none"), all_affines=True)
    (event,) = outcome.report.batchnorms
    assert (event.verdict, event.reason) == ("kept", Reason.UNREADABLE)


RESHAPES = {
    "to more elements": f"a = {BN} (x, p, p, p, p)  b = Reshape (a, n)  y = Conv (b, w)",
    "from fewer elements": f"a = Conv (x, w)  b = Reshape (a, n)  y = {BN} (b, p, p, p, p)",
    "to negative sizes": f"a = {BN} (x, p, p, p, p)  b = Reshape (a, m)  y = Conv (b, w)",
    "of an axis that is not 1": f"a = {BN} (x, p, p, p, p)  b = Squeeze (a, i)  y = Gemm (b, w)",
}


@pytest.mark.parametrize("nodes", RESHAPES.values(), ids=RESHAPES)
def test_a_reshape_that_cannot_be_declines_by_itself(nodes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of numpy's is forgiven here."""
    monkeypatch.setattr("bnfold.folding.facts.MISFIT", ())
    proto = made(nodes, w=[6, 6, 1, 1])
    for name, target in {"n": [2, 6, 7, 5], "m": [2, 6, -3, 5], "i": [1]}.items():
        proto.graph.initializer.append(numpy_helper.from_array(np.array(target), name))
    outcome = bnfold.fold(proto, verify=bnfold.VerifyOptions(depth="none"))
    (event,) = outcome.report.batchnorms
    assert event.reason is not None
    assert (event.verdict, event.reason.code) == ("kept", "unreadable")
    assert outcome.to_proto().graph.node == proto.graph.node


def test_a_weight_of_another_size_than_its_channels_is_unreadable() -> None:
    outcome = bnfold.fold(made(f"y = {BN} (k, p, p, p, p)", k=[2, 8, 4, 5]), verify=bnfold.VerifyOptions(depth="none"))
    assert outcome.report.batchnorms[0].reason == Reason.UNREADABLE


def test_a_scalar_has_no_channels() -> None:
    proto = made(f"y = {BN} (x, p, p, p, p)")
    del proto.graph.input[0].type.tensor_type.shape.dim[:]
    outcome = bnfold.fold(proto, verify=bnfold.VerifyOptions(depth="none"))
    assert outcome.report.batchnorms[0].reason == Reason.UNREADABLE


def test_a_value_that_depends_on_itself_ends_the_search() -> None:
    proto = made(f"a = Relu (c)  b = Relu (a)  c = Relu (b)  y = {BN} (c, p, p, p, p)")
    del proto.graph.output[0].type.tensor_type.shape.dim[:]
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    outcome = bnfold.fold(proto, verify=bnfold.VerifyOptions(depth="none"))
    assert outcome.report.batchnorms[0].verdict == "kept"


def test_initializers_that_a_rewrite_adds_are_allowed_by_the_ir_version() -> None:
    """A file of IR version 1 says no opset, which then is 1; it has no weights but in nodes, and gets one."""
    parameters = " ".join(f"{name} = Constant <value = float[6] {{1, 2, 3, 4, 5, 6}}> ()" for name in "sbmv")
    kernel = f"w = Constant <value = float[6,6,1,1] {{{', '.join('1' * 36)}}}> ()"
    norm = f"y = {BN} <is_test = 1, consumed_inputs = [0, 0, 0, 1, 1]> (a, s, b, m, v)"
    proto = onnx.parser.parse_model(f"{HEAD} {{ {parameters} {kernel} a = Conv (x, w) {norm} }}")
    proto.ir_version = 1
    del proto.opset_import[:]
    outcome = bnfold.fold(proto, verify=bnfold.VerifyOptions(depth="none"))
    result = outcome.to_proto()
    assert outcome.report.batchnorms[0].verdict == "folded"
    assert result.graph.initializer
    assert (result.ir_version, [(entry.domain, entry.version) for entry in result.opset_import]) == (4, [("", 1)])
    onnx.checker.check_model(result)


@pytest.mark.parametrize("attributes", ["strides = [2]", "dilations = [1, 1, 1]", "strides = [0, 1]", "pads = [1, 1]"])
def test_windows_of_another_rank_than_the_kernel_are_unreadable(attributes: str) -> None:
    attributes += "" if "pads" in attributes else ", pads = [1, 1, 1, 1]"
    node = ir.load(made(f"y = Conv <{attributes}> (x, w)", w=[7, 6, 3, 3])).graph.nodes[0]
    shift = on_axis(np.ones(6), np.arange(6.0), 1, 4)
    with pytest.raises(Declined) as declined:
        padded.down(node, 0, shift, moves_on=False)
    assert declined.value.reason == Reason.UNREADABLE


def test_same_padding_of_another_rank_than_the_kernel_is_unreadable() -> None:
    proto = made('y = Conv <auto_pad = "SAME_UPPER", strides = [2]> (x, w)', w=[7, 6, 3, 3])
    with pytest.raises(Declined):
        window.pads(ir.load(proto).graph.nodes[0])


def test_a_constant_that_is_no_float_is_left() -> None:
    proto = made(f"y = {BN} (k, p, p, p, p)")
    proto.graph.initializer.append(numpy_helper.from_array(np.ones((2, 6, 4, 5), np.int32), "k"))
    outcome = bnfold.fold(proto, verify=bnfold.VerifyOptions(depth="none"))
    assert outcome.report.batchnorms[0].reason == Reason.TYPE


def test_what_is_computed_from_integers_is_left() -> None:
    """No runtime multiplies integers by floats; folded, the product would be of integers altogether."""
    proto = made(f"a = MatMul (x, w)  y = {BN} (a, p, p, p, p)", w=[5, 7])
    proto.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.UINT16
    outcome = bnfold.fold(proto, verify=bnfold.VerifyOptions(depth="none"))
    assert outcome.report.batchnorms[0].reason == Reason.TYPE


def test_a_kernel_without_dims_is_left() -> None:
    proto = made(f"a = Conv (x, w)  y = {BN} (a, p, p, p, p)", w=[])
    outcome = bnfold.fold(proto, verify=bnfold.VerifyOptions(depth="none"))
    assert outcome.report.batchnorms[0].verdict == "kept"


BESIDE = {
    "what another reader would notice": f"a = Conv (x, w)  y = {BN} (a, p, p, p, p)  z = Slice (a, two, one, one)",
    "a dead shift": "a = Conv (x, w, p)  b = Slice (a, two, one, one)  y = InstanceNormalization (b, p, p)",
    "a dead shift and no axis": "a = Conv (x, w, p)  b = Concat <axis = 9> (a, a)  y = InstanceNormalization (b, p, p)",
    "a part of a Concat": f"a = Concat <axis = 9> (x, x)  y = {BN} (a, p, p, p, p)",
    "a row of factors": f"a = Mul (x, q)  y = {BN} (a, p, p, p, p)",
    "a Tile without repeats": f"a = Conv (x, w)  b = Tile (a, two)  y = {BN} (b, p, p, p, p)",
}


@pytest.mark.parametrize("nodes", BESIDE.values(), ids=BESIDE)
def test_a_damaged_node_that_is_asked_beside_the_search(nodes: str) -> None:
    proto = made(nodes, w=[6, 6, 1, 1], q=[1, 4, 1, 1])
    for name, numbers in {"two": [0, 0], "one": [1]}.items():
        proto.graph.initializer.append(numpy_helper.from_array(np.array(numbers), name))
    outcome = bnfold.fold(proto, verify=bnfold.VerifyOptions(depth="none"), all_affines=True)
    assert outcome.to_proto().graph.node == proto.graph.node
