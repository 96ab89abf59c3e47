"""Rules that callers register: what they pass, absorb and add, on which axis, and what they do wrong."""

# ruff: noqa: ARG001, ARG005 - callers' functions take what they are given, and some are wrong on purpose

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import bnfold
from bnfold.operators import AffineRule, AffineStep, ChannelAffine, DoesNotApply, OperatorNode
from tests import acme

_CONV = "a = Conv(x, k)  c = com.acme.Act<slope = 0.5>(a)  z = BatchNormalization(c, s, b, m, v)"


def act(x: Any, *, slope: float) -> Any:
    return np.where(x > 0, x, slope * x)


def positive(node: OperatorNode, affine: ChannelAffine) -> AffineStep:
    if (affine.scale < 0).any():
        raise DoesNotApply("a scale is negative")
    return AffineStep(passes=ChannelAffine(affine.scale, np.zeros(1)), adds=affine.shift)


def positive_down(node: OperatorNode, affine: ChannelAffine) -> AffineStep:
    return AffineStep(passes=ChannelAffine(affine.scale, np.zeros(1)), adds=affine.shift / affine.scale)


def with_kernel(nodes: str, inputs: str = "float[2,4,3,3] x") -> onnx.ModelProto:
    proto = acme.model(nodes, inputs)
    draw = np.random.default_rng(0).standard_normal((4, 4, 1, 1)).astype(np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(draw, "k"))
    return proto


def folded(proto: onnx.ModelProto, **options: Any) -> tuple[str, list[str]]:
    outcome = bnfold.fold(proto, **options)
    assert outcome.verified, outcome.verdict
    (event,) = outcome.report.batchnorms
    return event.verdict, [node.op_type for node in outcome.to_proto().graph.node]


def kept_because(proto: onnx.ModelProto) -> tuple[str, str]:
    (row,) = bnfold.fold(proto).to_json()["batchnorms"]
    assert row["verdict"] == "kept"
    return row["reason"]["code"], row["reason"]["detail"]


def test_a_scale_passes_upward_and_an_add_stays() -> None:
    with acme.registered("Act", kernel=act, affine=AffineRule(positive, axis=None)):
        assert folded(with_kernel(_CONV), exchange="always") == ("exchanged", ["Conv", "Act", "Add"])


def test_a_scale_passes_downward_and_an_add_stays_in_front() -> None:
    nodes = "n = BatchNormalization(x, s, b, m, v)  c = com.acme.Act<slope = 0.5>(n)  z = Conv(c, k)"
    with acme.registered("Act", kernel=act, affine=AffineRule(down=positive_down, axis=None)):
        assert folded(with_kernel(nodes), exchange="always") == ("exchanged", ["Add", "Act", "Conv"])


def test_what_passes_whole_is_absorbed_behind_it() -> None:
    def same(node: OperatorNode, affine: ChannelAffine) -> AffineStep:
        return AffineStep(passes=affine)

    nodes = "n = BatchNormalization(x, s, b, m, v)  c = com.acme.Turn(n)  z = Conv(c, k)"
    with acme.registered("Turn", kernel=lambda x: x[..., ::-1].copy(), affine=AffineRule(same, same, axis=None)):
        assert folded(with_kernel(nodes)) == ("folded", ["Turn", "Conv"])
        assert folded(with_kernel("a = Conv(x, k)  c = com.acme.Turn(a)  z = BatchNormalization(c, s, b, m, v)")) == (
            "folded",
            ["Conv", "Turn"],
        )


def test_an_attribute_may_take_a_scale_that_is_one_for_all() -> None:
    def up(node: OperatorNode, affine: ChannelAffine) -> AffineStep:
        if affine.scale.size > 1 or not affine.is_scale_only:
            raise DoesNotApply("it is not one factor")
        return AffineStep(attributes={"alpha": float(affine.scale[0]) * node.attributes["alpha"]})

    proto = acme.model("c = com.acme.Times<alpha = 3.0>(x)  z = BatchNormalization(c, one, zero, zero, one)")
    for name, number in (("one", 1.0), ("zero", 0.0)):
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.full(4, number, np.float32), name))
    next(t for t in proto.graph.initializer if t.name == "one").CopyFrom(
        onnx.numpy_helper.from_array(np.full(4, 4.0, np.float32), "one")
    )
    with acme.registered("Times", kernel=lambda x, *, alpha: alpha * x, affine=AffineRule(up)):
        assert folded(proto) == ("folded", ["Times"])


def test_channels_may_be_on_another_axis() -> None:
    nodes = "t = Transpose<perm = [0, 2, 3, 1]>(x)  c = com.acme.Last(t, w)  u = Transpose<perm = [0, 3, 1, 2]>(c)"
    nodes += "  z = BatchNormalization(u, s, b, m, v)"
    last = {"kernel": lambda x, w, b=None: x * w + (0 if b is None else b)}
    with acme.registered("Last", **last, affine=AffineRule(acme.gain_rule().up, axis=-1)):
        assert folded(acme.model(nodes)) == ("folded", ["Transpose", "Last", "Transpose"])
    with acme.registered("Last", **last):
        assert kept_because(acme.model(nodes))[0] == "axis"
    with acme.registered("Last", **last, affine=AffineRule(acme.gain_rule().up, axis=7)):
        assert kept_because(acme.model(nodes)) == ("axis", "Last 'c' has channels on axis 7 of 4")


def test_the_constants_that_a_rule_sees_cannot_be_written_to() -> None:
    def up(node: OperatorNode, affine: ChannelAffine) -> AffineStep:
        weight = node.constant(1)
        weight *= affine.scale
        return AffineStep({1: weight})

    with acme.registered(affine=AffineRule(up)):
        code, detail = kept_because(acme.model())
    assert code == "no-handler"
    assert "its registered rule raised ValueError" in detail


def broken(*_: Any) -> Any:
    raise KeyError("alpha")


@pytest.mark.parametrize(
    ("up", "text"),
    [
        (broken, "its registered rule raised KeyError: 'alpha'"),
        (lambda *_: None, "raised TypeError: it returned NoneType in place of AffineStep"),
        (lambda *_: AffineStep({1: np.full(4, np.nan)}), "numbers that are NaN or infinite"),
        (lambda node, _: AffineStep({1: node.constant(0)}), "Gain 'c': input 0 is no constant"),
        (lambda *_: AffineStep({0: np.ones(4)}), "input 0 of Gain 'c'"),
        (lambda node, affine: AffineStep({1: affine.of(5).scale}), "Gain 'c': factors for 4 channels meet 5"),
    ],
)
def test_what_a_rule_does_wrong_is_the_reason(up: Any, text: str) -> None:
    with acme.registered(affine=AffineRule(up)):
        _, detail = kept_because(acme.model())
    assert text in detail


def test_without_a_rule_the_reason_says_so() -> None:
    with acme.registered(affine=None):
        assert "was registered without a rule for an affine" in kept_because(acme.model())[1]
    with acme.registered(affine=AffineRule(down=broken)):
        assert "has no rule in this direction" in kept_because(acme.model())[1]


def test_a_second_output_that_is_read_is_in_the_way() -> None:
    nodes = "c, d = com.acme.Both(x, w)  n = BatchNormalization(c, s, b, m, v)  z = Add(n, d)"
    with acme.registered("Both", kernel=lambda x, w: (acme.gain(x, w), x), shape=lambda x, _: [x, x]):
        assert "before it, another output of the operator is in use (Both 'c')" in kept_because(acme.model(nodes))[1]


def test_a_rule_does_not_reach_an_operator_of_the_same_name_elsewhere() -> None:
    nodes = "a = Conv(x, k)  c = com.acme.Relu(a)  z = BatchNormalization(c, s, b, m, v)"
    with acme.registered("Relu", kernel=lambda x: -x, affine=None):
        assert kept_because(with_kernel(nodes))[0] == "no-handler"


def test_a_weight_that_others_read_is_copied() -> None:
    nodes = "c = com.acme.Gain(x, w)  d = com.acme.Gain(x, w)  n = BatchNormalization(c, s, b, m, v)  z = Add(n, d)"
    with acme.registered():
        assert folded(acme.model(nodes)) == ("folded", ["Gain", "Gain", "Add"])


def test_values_of_different_ranks_are_not_passed() -> None:
    def same(node: OperatorNode, affine: ChannelAffine) -> AffineStep:
        return AffineStep(passes=affine)

    nodes = "p = com.acme.Pool(x)  z = BatchNormalization(p, s, b, m, v)"
    shape = {"shape": lambda x: [bnfold.operators.ValueType(x.dims[:2], x.dtype)]}
    proto = acme.model(nodes)
    del proto.graph.output[0].type.tensor_type.shape.dim[2:]
    with acme.registered("Pool", kernel=lambda x: x.mean((2, 3)), affine=AffineRule(same), **shape):
        assert kept_because(proto) == ("axis", "Pool 'p' reads and makes values of different ranks")
