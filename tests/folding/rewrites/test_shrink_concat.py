"""A BatchNormalization behind a Concat shrinks to the one part that cannot absorb it."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import bnfold
from bnfold import ir
from bnfold.pipeline.passes import rewrite
from bnfold.settings import Options
from tests.folding.nets import Folded, Net, compare, declined, fold_only, folded


def conv(net: Net, channels: int) -> str:
    return net.node("Conv", net.input(2, 3, 5, 7), net.const(channels, 3, 2, 2))


def channels_of(result: Folded) -> list[int]:
    norms = [node for node in result.proto.graph.node if node.op_type == "BatchNormalization"]
    sizes = {tensor.name: tensor.dims[0] for tensor in result.proto.graph.initializer if tensor.dims}
    return [sizes[node.input[1]] for node in norms]


@pytest.mark.parametrize("axis", [1, -3])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_one_part_that_cannot(at: int, axis: int) -> None:
    net = Net()
    parts = [conv(net, 4), conv(net, 3)]
    parts.insert(at, net.input(2, 2, 4, 6))
    end = net.batchnorm(net.node("Concat", *parts, axis=axis), 9)
    result = folded(net, net.node("Exp", end))
    assert sorted(result.ops) == ["BatchNormalization", "Concat", "Conv", "Conv", "Exp"]
    assert channels_of(result) == [2]
    assert result.reasons == ["no-handler"], "of Exp: the way up ends before anybody is asked"
    assert result.node("Concat").proto.output[0] == end
    assert [note.split(" channels")[0] for note in result.report.notes] == ["BatchNormalization_13 keeps 2 of 9"]


def test_the_end_of_a_graph() -> None:
    net = Net()
    result = folded(net, net.batchnorm(net.node("Concat", conv(net, 4), net.input(2, 2, 4, 6), axis=1), 6))
    assert result.ops == ["Conv", "BatchNormalization", "Concat"]


def test_parameters_keep_their_names_and_bits() -> None:
    net = Net(dtype=np.float32)
    end = net.batchnorm(net.node("Concat", conv(net, 4), net.input(2, 2, 4, 6), axis=1), 6)
    before = {tensor.name: np.frombuffer(tensor.raw_data, np.float32) for tensor in net.weights}
    result = folded(net, end, tolerance=1e-5)
    for value in result.node("BatchNormalization").inputs[1:]:
        assert value is not None
        assert value.tensor is not None
        np.testing.assert_array_equal(value.tensor.numpy(), before[value.name][4:])


def test_parameters_with_another_reader_stay_as_they_are() -> None:
    net = Net()
    shared = [net.const(value=np.linspace(0.5, 2, 6)) for _ in range(4)]
    kept = net.node("BatchNormalization", net.input(2, 6, 4, 6), *shared)
    y = net.node("Concat", conv(net, 4), net.input(2, 2, 4, 6), axis=1)
    result = folded(net, net.node("BatchNormalization", y, *shared), kept)
    assert sorted(channels_of(result)) == [2, 6]


def test_a_concat_in_a_concat() -> None:
    net = Net()
    inner = net.node("Concat", conv(net, 3), net.input(2, 2, 4, 6), axis=1)
    result = folded(net, net.batchnorm(net.node("Concat", inner, conv(net, 4), axis=1), 9))
    assert channels_of(result) == [2]
    assert len(result.report.notes) == 2


def test_what_is_left_may_go_down() -> None:
    """The negative scales are among those that went up, so that the rest passes a Relu."""
    net = Net()
    scale = [-1.0, 2.0, -0.5, 1.5, 2.0]
    y = net.node("Concat", conv(net, 3), net.input(2, 2, 4, 6), axis=1)
    y = net.node("Relu", net.batchnorm(y, 5, scale=scale, shift=np.zeros(5)))
    result = folded(net, net.node("Conv", y, net.const(4, 5, 2, 2)))
    assert result.ops == ["Conv", "Concat", "Relu", "Conv"]
    assert result.report.batchnorms[0].verdict == "folded"


def test_before_a_relu_that_negative_scales_do_not_pass() -> None:
    net = Net()
    y = net.node("Concat", conv(net, 3), net.input(2, 2, 4, 6), axis=1)
    result = folded(net, net.node("Conv", net.node("Relu", net.batchnorm(y, 5)), net.const(4, 5, 2, 2)))
    assert channels_of(result) == [2]
    assert result.reasons == ["negative-scale"]


def test_a_value_in_two_parts_agrees_to_nothing() -> None:
    net = Net()
    y = conv(net, 3)
    x = net.node("Concat", y, net.node("Identity", y), net.input(2, 2, 4, 6), axis=1)
    assert declined(net, net.batchnorm(x, 8)) == ["shared-value"]


def test_a_concat_that_others_read() -> None:
    net = Net()
    y = net.node("Concat", conv(net, 3), net.input(2, 2, 4, 6), axis=1)
    other = net.node("Exp", y)
    result = fold_only(net.model(net.batchnorm(y, 5), other))
    assert channels_of(result) == [5]


@pytest.mark.parametrize("axis", [0, 2])
def test_a_concat_along_another_axis(axis: int) -> None:
    net = Net()
    y = net.node("Concat", conv(net, 4), net.input(2, 4, 4, 6), axis=axis)
    assert declined(net, net.batchnorm(y, 4)) == ["graph-input"]


def test_parts_that_would_need_an_add_each() -> None:
    net = Net()
    y = net.node("Concat", net.node("Relu", conv(net, 3)), net.input(2, 2, 4, 6), axis=1)
    assert declined(net, net.batchnorm(y, 5, positive=True)) == ["graph-input"], "no operation less than before"


@pytest.mark.parametrize("excluded", ["Concat", "Conv"])
def test_handlers_can_be_switched_off(excluded: str) -> None:
    net = Net()
    y = net.node("Concat", conv(net, 4), net.input(2, 2, 4, 6), axis=1)
    assert declined(net, net.batchnorm(y, 6), excluded=frozenset({excluded})) == ["excluded"]


def test_doing_it_twice_changes_nothing() -> None:
    net = Net()
    once = folded(net, net.batchnorm(net.node("Concat", conv(net, 4), net.input(2, 2, 4, 6), axis=1), 6))
    assert fold_only(once.proto).proto == once.proto


def test_what_comes_after_folding_still_finds_it() -> None:
    """Upgrades and decompositions look for a BatchNormalization by the value it makes, which is another one now."""
    net = Net(opset=9, dtype=np.float32)
    model = ir.load(net.model(net.batchnorm(net.node("Concat", conv(net, 4), net.input(2, 2, 4, 6), axis=1), 6)))
    report = rewrite(model, Options(decompose="remaining"))
    assert [event.verdict for event in report.batchnorms] == ["decomposed"]
    assert "BatchNormalization" not in [node.op_type for node in model.graph.nodes]


def test_parameters_that_nodes_make_behind_the_concat() -> None:
    net = Net()
    y = net.batchnorm(net.node("Concat", conv(net, 4), net.input(2, 2, 4, 6), axis=1), 6)
    model = net.model(y)
    norm = next(node for node in model.graph.node if node.op_type == "BatchNormalization")
    for name in norm.input[2:4]:
        tensor = next(one for one in model.graph.initializer if one.name == name)
        held = onnx.helper.make_node("Constant", [], [name], value=tensor)
        model.graph.initializer.remove(tensor)
        model.graph.node.insert(len(model.graph.node) - 1, held)
    result = fold_only(model)
    onnx.checker.check_model(result.proto)
    assert result.ops == ["Conv", "BatchNormalization", "Concat"]
    compare(model, result.proto, net.feeds)


def test_a_parameter_that_callers_could_override_stops_being_an_input() -> None:
    """Its dims change; as an input of the old dims it would not load."""
    net = Net(dtype=np.float32)
    y = net.batchnorm(net.node("Concat", conv(net, 4), net.input(2, 2, 4, 6), axis=1), 6)
    model = net.model(y)
    listed = model.graph.node[-1].input[2]
    model.graph.input.append(onnx.helper.make_tensor_value_info(listed, onnx.TensorProto.FLOAT, [6]))
    outcome = bnfold.fold(model, verify=bnfold.VerifyOptions(depth="none"), overridable="freeze")
    result = outcome.to_proto()
    assert listed not in [entry.name for entry in result.graph.input]
    assert outcome.report.frozen == [listed]
    onnx.checker.check_model(result, full_check=True)
    compare(model, result, net.feeds, 1e-6)


def test_a_concat_of_one_value_has_no_other_channels() -> None:
    net = Net()
    result = folded(net, net.node("Exp", net.batchnorm(net.node("Concat", net.input(2, 3, 4, 6), axis=1), 3)))
    assert result.report.notes == []
    assert channels_of(result) == [3]
