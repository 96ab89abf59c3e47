"""The image of a shift behind a Conv that pads with zeros."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bnfold import ir
from bnfold.edits.edit import ExtraAdd
from bnfold.folding.affine import on_axis
from bnfold.folding.ops import padded
from bnfold.report.growth import WORTH
from bnfold.report.reasons import Declined, Reason
from tests.folding.nets import Net, declined, fold_only, folded

DEAD = [1.0, 0.0, -2.0, 0.5]


def padded_conv(net: Net, *, scale: list[float] | None = DEAD, **attributes: Any) -> str:
    """BatchNormalization with a dead channel → Conv: no Add in front can bring its shift."""
    x = net.batchnorm(net.input(2, 4, 6, 5), 4, scale=scale)
    return net.node("Conv", x, net.const(6, 4, 3, 2), net.const(6), **(attributes or {"pads": [1, 0, 1, 1]}))


GEOMETRY = [
    {"pads": [1, 0, 1, 1]},
    {"pads": [0, 2, 0, 0]},
    {"pads": [2, 1, 0, 1], "strides": [2, 3]},
    {"pads": [1, 1, 1, 1], "dilations": [2, 3]},
    {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
    {"auto_pad": "SAME_LOWER"},
    {"auto_pad": "SAME_UPPER", "dilations": [2, 1]},
]


@pytest.mark.parametrize("attributes", GEOMETRY)
def test_behind_the_conv(attributes: dict[str, Any]) -> None:
    net = Net()
    assert folded(net, net.node("Exp", padded_conv(net, **attributes))).ops == ["Conv", "Add", "Exp"]


def test_a_batchnorm_behind_the_conv_is_folded_before_the_add_stands_between_them() -> None:
    net = Net()
    result = folded(net, net.node("Relu", net.batchnorm(padded_conv(net), 6)))
    assert result.ops == ["Conv", "Add", "Relu"]
    verdicts = [(event.verdict, *event.operators) for event in result.report.batchnorms]
    assert verdicts == [("exchanged", "Conv"), ("folded", "Conv")]


@pytest.mark.parametrize("group", [2, 4])
def test_groups(group: int) -> None:
    net = Net()
    x = net.batchnorm(net.input(2, 4, 6, 5), 4, scale=DEAD)
    y = net.node("Conv", x, net.const(8, 4 // group, 3, 2), group=group, pads=[1, 1, 0, 1])
    assert folded(net, y).ops == ["Conv", "Add"]


@pytest.mark.parametrize("spatial", [(7,), (4, 3, 5)])
def test_any_rank(spatial: tuple[int, ...]) -> None:
    net = Net()
    x = net.batchnorm(net.input(2, 4, *spatial), 4, scale=DEAD)
    y = net.node("Conv", x, net.const(3, 4, *[2] * len(spatial)), pads=[1] * (2 * len(spatial)))
    assert folded(net, y).ops == ["Conv", "Add"]


def test_an_axis_without_padding_may_have_any_size() -> None:
    net = Net()
    x = net.batchnorm(net.input(2, 4, 6, 5, declared=("N", 4, "H", 5)), 4, scale=DEAD)
    result = folded(net, net.node("Conv", x, net.const(3, 4, 3, 2), pads=[0, 1, 0, 1]))
    assert result.ops == ["Conv", "Add"]
    assert result.weight("Add").shape == (3, 1, 6)


def test_a_padded_axis_of_unknown_size() -> None:
    net = Net()
    x = net.batchnorm(net.input(2, 4, 6, 5, declared=("N", 4, "H", 5)), 4, scale=DEAD)
    assert declined(net, net.node("Conv", x, net.const(3, 4, 3, 2), pads=[1, 1, 1, 1])) == ["zero-scale"]


def test_absorbed_further_on() -> None:
    """Nothing at all is left of the BatchNormalization where somebody behind the Conv has room."""
    net = Net()
    y = net.node("Flatten", padded_conv(net, scale=None))
    assert folded(net, net.node("Gemm", y, net.const(180, 3), net.const(3))).ops == ["Conv", "Flatten", "Gemm"]


@pytest.mark.parametrize("mean", ["GlobalAveragePool", "ReduceMean"])
def test_absorbed_behind_a_mean(mean: str) -> None:
    net = Net()
    attributes = {"axes": [-2, 3], "keepdims": 1} if mean == "ReduceMean" else {}
    y = net.node("Flatten", net.node(mean, padded_conv(net, scale=None), **attributes))
    result = folded(net, net.node("Gemm", y, net.const(6, 3)))
    assert result.ops == ["Conv", mean, "Flatten", "Gemm"]


def test_not_absorbed_behind_a_maximum() -> None:
    net = Net()
    y = net.node("Flatten", net.node("GlobalMaxPool", padded_conv(net, scale=None)))
    result = folded(net, net.node("Gemm", y, net.const(6, 3)))
    assert sorted(result.ops) == ["Add", "Conv", "Flatten", "Gemm", "GlobalMaxPool"]


def test_where_less_is_read_and_written() -> None:
    """One operation either way; that on fewer elements wins: before a Conv that widens, behind one that strides."""
    net = Net()
    wide = net.batchnorm(net.input(1, 2, 8, 9), 2)
    assert folded(net, net.node("Conv", wide, net.const(9, 2, 3, 3), pads=[1] * 4)).ops == ["Add", "Conv"]
    net = Net()
    deep = net.batchnorm(net.input(1, 4, 8, 9), 4)
    y = net.node("Conv", deep, net.const(3, 4, 3, 3), pads=[1] * 4, strides=[2, 2])
    assert folded(net, y).ops == ["Conv", "Add"]


def test_several_readers_share_an_add_in_front() -> None:
    net = Net()
    x = net.batchnorm(net.input(2, 4, 6, 5), 4)
    ends = [net.node("Conv", x, net.const(2, 4, 3, 3), pads=[1] * 4, strides=[3, 3]) for _ in range(2)]
    assert folded(net, *ends).ops == ["Add", "Conv", "Conv"]


def test_within_the_limit_of_growth() -> None:
    net = Net()
    proto = net.model(padded_conv(net))
    image = (6 * 6 * 5 - 4 * 4) * 8  # less the parameters, which go
    assert fold_only(proto, growth=image - 1).reasons == ["zero-scale"]
    assert fold_only(proto, growth=image).ops == ["Conv", "Add"]


@pytest.mark.parametrize(("size", "left"), [(8, ["Conv", "Add"]), (16, ["BatchNormalization", "Conv"])])
def test_without_a_limit_an_image_costs_what_an_operator_is_worth(size: int, left: list[str]) -> None:
    net = Net()
    x = net.batchnorm(net.input(1, 4, size, size), 4, scale=DEAD)
    proto = net.model(net.node("Conv", x, net.const(6, 4, 3, 3), net.const(6), pads=[1] * 4))
    assert (6 * size * size * 8 > WORTH + 4 * 4 * 8) == (left[0] == "BatchNormalization")
    assert fold_only(proto, growth=None).ops == left


def test_the_limit_holds_for_all_together() -> None:
    net = Net()
    proto = net.model(padded_conv(net), padded_conv(net))
    image = (6 * 6 * 5 - 4 * 4) * 8  # less the parameters, which go
    assert fold_only(proto, growth=2 * image - 1).reasons == ["zero-scale"]


def test_padding_that_cuts_is_declined() -> None:
    net = Net()
    y = net.node("Conv", net.input(2, 4, 6, 5), net.const(3, 4, 2, 2), pads=[1, 0, 1, 0])
    proto = net.model(y)
    next(a for a in proto.graph.node[-1].attribute if a.name == "pads").ints[0] = -1
    node = next(node for node in ir.load(proto).graph.nodes)
    with pytest.raises(Declined) as refusal:
        padded.down(node, 0, on_axis(np.ones(4), np.arange(1.0, 5.0), 1, 4), moves_on=False)
    assert refusal.value.reason is Reason.UNREADABLE


def test_without_padding_it_is_the_usual_fold() -> None:
    net = Net()
    y = net.node("Conv", net.input(2, 4, 6, 5), net.const(3, 4, 2, 2))
    node = next(node for node in ir.load(net.model(y)).graph.nodes)
    for solve in padded.FORMS.values():
        step = solve(node, 0, on_axis(np.ones(4), np.arange(1.0, 5.0), 1, 4))
        assert step.requested == step.pending == ()
        assert not any(isinstance(edit, ExtraAdd) for edit in step.edits)


def test_an_image_whose_size_runtimes_compute_differently() -> None:
    """10 × 0.7 is 7 in float32 and less in float64: an image for one of them would not fit the other."""
    net = Net(dtype=np.float32)
    y = net.node("Resize", net.batchnorm(net.input(2, 3, 10), 3), "", net.const(value=np.array([1, 1, 0.7])))
    y = net.batchnorm(net.node("Conv", y, net.const(3, 3, 2), pads=[0, 1], strides=[2]), 3)
    assert folded(net, y, tolerance=1e-6).ops == ["Resize", "Add", "Conv"]
