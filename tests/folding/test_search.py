"""The search: directions, limits, what it refuses and says, and that long graphs neither recurse nor get lost."""

from __future__ import annotations

import gc
from types import FrameType

import numpy as np
import pytest

from bnfold.semantics import Policy
from tests.folding.nets import Net, declined, fold_only, folded


def conv_norm(net: Net) -> str:
    return net.batchnorm(net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2)), 4)


@pytest.mark.parametrize(
    ("limits", "reason"), [({"only": frozenset({"Gemm"})}, "excluded"), ({"excluded": frozenset({"Conv"})}, "excluded")]
)
def test_handlers_can_be_switched_off(limits: dict[str, frozenset[str]], reason: str) -> None:
    net = Net()
    assert declined(net, conv_norm(net), **limits) == [reason]


def test_a_graph_output_in_the_way() -> None:
    net = Net()
    y = net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2))
    assert declined(net, net.batchnorm(y, 4), y) == ["graph-output"]


def test_an_output_that_would_be_the_input_again_stays_what_it_is() -> None:
    """A sign turned twice: nothing is left to compute, but the output's name has to be made by somebody."""
    net = Net()
    one, zero = (net.const(value=np.full(3, number)) for number in (1.0, 0.0))
    turned = net.const(value=np.full(3, -1.0))
    x = net.node("BatchNormalization", net.input(2, 3, 5, 7), turned, zero, zero, one, epsilon=0.0)
    outputs = net.node("Neg", x), net.node("Conv", x, net.const(4, 3, 2, 2))
    assert declined(net, *outputs) == ["graph-output"]


def test_a_value_with_other_readers() -> None:
    net = Net()
    y = net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2))
    assert declined(net, net.batchnorm(y, 4), net.node("Exp", y)) == ["shared-value"]


def test_an_operator_without_a_handler() -> None:
    net = Net()
    y = net.node("Exp", net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2)))
    assert declined(net, net.batchnorm(y, 4)) == ["no-handler"]


def test_an_operator_of_another_domain() -> None:
    net = Net()
    proto = net.model(conv_norm(net))
    proto.graph.node[0].domain = "com.example"
    proto.opset_import.add(domain="com.example", version=1)
    made = proto.graph.value_info.add(name=proto.graph.node[0].output[0]).type.tensor_type
    made.elem_type = 11
    for size in (2, 4, 4, 6):
        made.shape.dim.add(dim_value=size)
    assert fold_only(proto).reasons == ["no-handler"]


def test_the_refusal_that_got_furthest_is_told() -> None:
    net = Net()
    y = net.node("Exp", net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2)))
    y = net.node("Transpose", net.node("Identity", y), perm=[0, 1, 3, 2])
    result = fold_only(net.model(net.batchnorm(y, 4)))
    assert result.reasons == ["no-handler"]
    assert "Exp" in result.report.batchnorms[0].detail


def test_training_mode() -> None:
    net = Net()
    y = net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2))
    weights = [net.const(4), net.const(4), net.const(4), net.const(value=np.full(4, 2.0))]
    y, _, _ = net.nodes_of("BatchNormalization", y, *weights, outputs=3, training_mode=1)
    assert declined(net, y) == ["training-mode"]
    net = Net()
    y = net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2))
    weights = [net.const(4), net.const(4), net.const(4), net.const(value=np.full(4, 2.0))]
    y, _, _ = net.nodes_of("BatchNormalization", y, *weights, outputs=3, training_mode=1)
    assert fold_only(net.model(y), policy=Policy(force_inference=True)).ops == ["Conv"]


def test_dynamic_parameters() -> None:
    net = Net()
    y = net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2))
    y = net.node("BatchNormalization", y, net.input(4), net.const(4), net.const(4), net.const(value=np.ones(4)))
    assert declined(net, y) == ["dynamic-parameters"]


def test_overridable_parameters() -> None:
    net = Net()
    bn = conv_norm(net)
    proto = net.model(bn)
    scale = proto.graph.node[-1].input[1]
    proto.graph.input.add(name=scale).type.tensor_type.elem_type = 11
    proto.graph.input[-1].type.tensor_type.shape.dim.add(dim_value=4)
    assert fold_only(proto).reasons == ["overridable-parameter"]


def test_parameters_that_are_not_as_many_as_channels() -> None:
    net = Net()
    y = net.node("Conv", net.input(2, 3, 5, 7, declared=(2, 3, 5, 7)), net.const(1, 3, 2, 2))
    bn = net.batchnorm(net.node("Identity", y), 4)
    proto = net.model(y)
    del proto.graph.output[:]
    proto.graph.output.add(name=bn).type.tensor_type.elem_type = 11
    proto.graph.output[0].type.tensor_type.shape.dim.add()
    proto.graph.value_info.add(name=net.nodes[-2].output[0]).type.tensor_type.elem_type = 11
    for size in (2, 1, 4, 6):
        proto.graph.value_info[0].type.tensor_type.shape.dim.add(dim_value=size)
    assert fold_only(proto).reasons == ["unreadable"]


@pytest.mark.parametrize("opset", [6, 7, 8])
def test_parameters_for_every_activation(opset: int) -> None:
    net = Net(opset=opset)
    x = net.input(2, 3, 4)
    weights = [net.const(3, 4) for _ in range(3)] + [net.const(value=np.full((3, 4), 2.0))]
    y = net.node("BatchNormalization", x, *weights, spatial=0, **({"is_test": 1} if opset == 6 else {}))
    flat = net.node("Flatten", y)
    operands = [flat, net.const(12, 5), net.const(5)]
    y = net.node("Gemm", *operands, **({"broadcast": 1} if opset == 6 else {}))
    assert folded(net, y).ops == ["Flatten", "Gemm"]


def test_a_row_of_affines_longer_than_python_recurses() -> None:
    net = Net()
    y = net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2))
    for index in range(1500):
        y = net.node("Mul" if index % 2 else "Div", y, net.const(value=1.5))
    assert fold_only(net.model(net.batchnorm(y, 4))).ops.count("BatchNormalization") == 0


def test_a_row_of_carriers_longer_than_the_search_goes() -> None:
    net = Net()
    y = net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2))
    for _ in range(200):
        y = net.node("Identity", y)
    assert declined(net, net.batchnorm(y, 4)) == ["too-far"]


def test_all_affines() -> None:
    net = Net()
    y = net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2))
    mean, root, scale, shift = (net.const(4, 1, 1) for _ in range(4))
    y = net.node("Add", net.node("Mul", net.node("Div", net.node("Sub", y, mean), root), scale), shift)
    assert folded(net, y).ops == ["Conv", "Sub", "Div", "Mul", "Add"], "not asked for"
    result = folded(net, y, tolerance=1e-8, all_affines=True)
    assert result.ops == ["Conv"]
    assert result.report.notes


@pytest.mark.parametrize("spelling", ["sqrt-div", "pow-mul", "reciprocal"])
def test_a_batchnorm_spelled_out(spelling: str) -> None:
    net = Net()
    y = net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2))
    var = net.const(value=net.rng.uniform(0.5, 2, (4, 1, 1)))
    spread = net.node("Add", var, net.const(value=1e-3))
    centred = net.node("Sub", y, net.const(4, 1, 1))
    if spelling == "sqrt-div":
        normal = net.node("Div", centred, net.node("Sqrt", spread))
    elif spelling == "pow-mul":
        normal = net.node("Mul", centred, net.node("Pow", spread, net.const(value=-0.5)))
    else:
        normal = net.node("Mul", net.node("Reciprocal", net.node("Sqrt", spread)), centred)
    y = net.node("Add", net.node("Mul", normal, net.const(4, 1, 1)), net.const(4, 1, 1))
    assert folded(net, y, all_affines=True).ops == ["Conv"]


def test_all_affines_never_circle() -> None:
    net = Net()
    scales = [net.const(value=np.array([[[2.0]], [[3.0]], [[size]]])) for size in (4.0, 5.0)]
    y = net.node("Relu", net.node("Mul", net.input(2, 3, 5, 7), scales[0]))
    y = net.node("Exp", net.node("Mul", y, scales[1]))
    assert folded(net, y, all_affines=True, tolerance=1e-8).ops == ["Mul", "Relu", "Exp"]


def test_an_arm_that_stays_as_it_is_does_not_agree_to_a_change() -> None:
    net = Net()
    y = net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2))
    both = net.node("Concat", y, y, axis=0)
    kept, changed = net.nodes_of("Split", both, net.ints(2, 2), outputs=2, axis=0)
    alike = [net.const(value=np.full(4, number)) for number in (2.0, 3.0, -1.0, 0.25)]
    bn = net.node("BatchNormalization", changed, *alike)
    assert declined(net, kept, bn) == ["shared-value"]
    net = Net()
    y = net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2))
    total = net.node("Add", net.node("Sum", y, y, y), net.const(4, 1, 1))
    assert folded(net, total, all_affines=True).ops == ["Conv", "Sum", "Add"], "the shift belongs to one arm only"


def test_a_negative_scale_is_the_reason_where_a_positive_one_would_fold() -> None:
    net = Net()
    y = net.node("Relu", net.node("Conv", net.input(2, 3, 5, 7), net.const(20, 3, 1, 1)))
    result = fold_only(net.model(net.node("Sin", net.batchnorm(y, 20))))
    assert result.reasons == ["negative-scale"]
    (event,) = result.report.batchnorms
    assert event.detail.endswith("negative in 10 of 20 channels: 1, 3, 5, 7, 9, 11, 13, 15, …")


def test_where_nothing_could_absorb_a_positive_scale_either_that_is_the_reason() -> None:
    net = Net()
    y = net.node("Relu", net.node("Tanh", net.input(2, 4, 5, 7)))
    result = fold_only(net.model(net.node("Sin", net.batchnorm(y, 4))))
    assert result.reasons == ["no-handler"]
    (event,) = result.report.batchnorms
    assert event.detail.startswith("Tanh")
    assert "needs positive scales (negative in 2 of 4 channels: 1, 3)" in event.detail
    assert [attempt.stopped_at.partition("_")[0] for attempt in event.attempts] == ["Relu", "Sin"]


def test_a_sign_that_turns_on_the_way() -> None:
    net = Net()
    y = net.node("Relu", net.node("GridSample", net.input(2, 4, 5, 7), net.input(2, 5, 7, 2)))
    y = net.node("Transpose", net.node("Neg", net.node("Transpose", y, perm=[0, 1, 3, 2])), perm=[0, 1, 3, 2])
    assert fold_only(net.model(net.node("Sin", net.batchnorm(y, 4, positive=True)))).reasons == ["negative-scale"]


def test_what_was_refused_holds_no_searches() -> None:
    """A traceback holds the frames of a whole search, arrays and all, in circles that only the collector finds."""
    net = Net()
    y = net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2))
    proto = net.model(net.batchnorm(y, 4), net.node("Exp", y))
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        assert fold_only(proto).reasons == ["shared-value"]
        gc.collect()
        frames = [found.f_code.co_qualname for found in gc.garbage if isinstance(found, FrameType)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
    assert frames == []


def test_a_value_with_a_reader_that_takes_another_part_of_it() -> None:
    """It need not ask for the same, so its being there ends no search."""
    net = Net()
    y = net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2))
    s = np.array([1.0, 1.0, 2.0, 3.0])
    zero, one = net.const(value=np.zeros(4)), net.const(value=np.ones(4))
    z = net.node("BatchNormalization", y, net.const(value=s), zero, zero, one, epsilon=0.0)
    part = net.node("Slice", y, net.ints(0), net.ints(2), net.ints(1))
    assert folded(net, z, part).ops == ["Conv", "Slice"]


def test_factors_that_no_convolution_has_are_the_reason_wherever_the_graph_ends() -> None:
    """Parameters for each activation: below, the search gets further, to a graph output."""
    net = Net(opset=7)
    x = net.node("Conv", net.input(2, 3, 4, 5), net.const(4, 3, 1, 1))
    weights = [net.const(value=net.rng.uniform(0.5, 2.0, (4, 4, 5))) for _ in range(4)]
    y = net.node("BatchNormalization", x, *weights, spatial=0)
    y = net.node("Flatten", net.node("Relu", net.node("Transpose", y, perm=[0, 2, 3, 1])))
    result = fold_only(net.model(y))
    assert result.reasons == ["axis"]
    assert "scales channels only" in result.report.batchnorms[0].detail


@pytest.mark.parametrize(
    ("operator", "source", "words"),
    [
        ("Atan", "constant", ", which Atan '{label}' makes of constants"),
        ("Atan", "input", ""),
        ("RandomUniformLike", "constant", ""),
    ],
)
@pytest.mark.parametrize("slot", ["parameter", "weight"])
def test_what_is_made_of_constants_is_not_said_to_be_fed(operator: str, source: str, words: str, slot: str) -> None:
    net = Net()
    shape = (4,) if slot == "parameter" else (4, 3, 2, 2)
    made = net.node(operator, net.const(*shape) if source == "constant" else net.input(*shape, name="s"))
    x = net.node("Conv", net.input(2, 3, 5, 7), made if slot == "weight" else net.const(4, 3, 2, 2))
    rest = [net.const(value=np.ones(4)) for _ in range(4 if slot == "weight" else 3)]
    y = net.node("BatchNormalization", x, *([made, *rest] if slot == "parameter" else rest))
    result = fold_only(net.model(y))
    (event,) = result.report.batchnorms
    assert result.reasons == ["dynamic-parameters" if slot == "parameter" else "dynamic-weight"]
    producer = next(node for node in result.model.graph.nodes if node.op_type == operator)
    assert event.detail.endswith(words.format(label=producer.label))
    assert ("of constants" in event.detail) is bool(words)
