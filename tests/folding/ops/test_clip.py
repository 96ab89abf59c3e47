"""Clip: its bounds move where they stay one number for all channels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bnfold import analysis
from tests.folding.nets import Folded, Net, compare, declined, fold_only, folded

EITHER_FORM = pytest.mark.parametrize("opset", [7, 9, 11, 12, 13])
LARGEST = float(np.finfo(np.float32).max)


def conv(net: Net, x: str, outputs: int, inputs: int) -> str:
    return net.node("Conv", x, net.const(outputs, inputs, 1, 1), net.const(outputs))


def clip(net: Net, x: str, low: float | None, high: float | None) -> str:
    """With attributes or inputs, as the opset has it."""
    if net.opset < 11:
        return net.node("Clip", x, **{key: bound for key, bound in (("min", low), ("max", high)) if bound is not None})
    bounds = ["" if bound is None else net.const(value=float(bound)) for bound in (low, high)]
    return net.node("Clip", x, *(bounds if bounds[1] else bounds[:1] if bounds[0] else []))


def bounds(result: Folded) -> list[float | None]:
    node = result.node("Clip")
    if node.graph.opset() < 11:
        return [node.attr("min"), node.attr("max")]
    held = [analysis.constant(node.input(slot)) for slot in (1, 2)]
    return [None if tensor is None else tensor.numpy().item() for tensor in held]


def number(net: Net, x: str, factor: float, shift: float) -> str:
    """A factor and a shift for all channels."""
    return net.node("Add", net.node("Mul", x, net.const(value=factor)), net.const(value=shift))


@EITHER_FORM
@pytest.mark.parametrize("factor", [2.0, -0.5])
@pytest.mark.parametrize("ends", [(-0.5, 0.75), (None, 0.75), (-0.5, None), (None, None)])
def test_up(opset: int, factor: float, ends: tuple[float | None, float | None]) -> None:
    net = Net(opset=opset, dtype=np.float32)
    y = number(net, clip(net, conv(net, net.input(2, 3, 5, 4), 4, 3), *ends), factor, 0.25)
    result = folded(net, y, all_affines=True, tolerance=1e-6)
    assert result.ops == ["Conv", "Clip"]
    moved = [None if end is None else factor * end + 0.25 for end in ends]
    found = bounds(result)
    for bound, expected in zip(found, moved if factor > 0 else moved[::-1], strict=True):
        assert bound == expected or (expected is None and abs(bound or 0) >= LARGEST)


@EITHER_FORM
@pytest.mark.parametrize("factor", [4.0, -0.25])
def test_down(opset: int, factor: float) -> None:
    net = Net(opset=opset)
    y = conv(net, clip(net, number(net, net.input(2, 3, 5, 4), factor, 0.5), -0.5, 1.5), 4, 3)
    result = folded(net, y, all_affines=True)
    assert result.ops == ["Clip", "Conv"]
    assert bounds(result) == sorted([-1.0 / factor, 1.0 / factor])


def test_a_batchnorm_of_one_channel_or_of_equal_ones() -> None:
    net = Net()
    y = net.batchnorm(clip(net, conv(net, net.input(2, 3, 5, 4), 1, 3), 0, 6), 1, scale=[-0.7])
    assert folded(net, y).ops == ["Conv", "Clip"]


def test_channels_of_their_own_pass_a_bound_of_zero() -> None:
    """Clip without an upper bound is a Relu."""
    net = Net()
    y = net.batchnorm(clip(net, conv(net, net.input(2, 3, 5, 4), 4, 3), 0, None), 4, positive=True, shift=[0] * 4)
    result = folded(net, y)
    assert result.ops == ["Conv", "Clip"]
    assert bounds(result) == [0, None]


def test_bounds_of_opposite_sign_pass_signs() -> None:
    net = Net()
    y = net.node(
        "Mul", clip(net, conv(net, net.input(2, 3, 5, 4), 4, 3), -1, 1), net.const(value=[[[-2.0]], [[2.0]]] * 2)
    )
    result = folded(net, y, all_affines=True)
    assert result.ops == ["Conv", "Clip"]
    assert bounds(result) == [-2, 2]


def test_nothing_but_a_shift() -> None:
    net = Net()
    y = net.batchnorm(clip(net, conv(net, net.input(2, 3, 5, 4), 4, 3), -1, 1), 4, scale=[0.0] * 4, shift=[0.5] * 4)
    assert folded(net, y).ops == ["Conv", "Clip"]
    net = Net()
    x = net.batchnorm(net.input(2, 3, 5, 4), 3, scale=[0.0] * 3)
    assert declined(net, conv(net, clip(net, x, -1, 1), 4, 3)) == ["zero-scale"]


def norm(net: Net, low: float | None, high: float | None, **about: Any) -> str:
    return net.batchnorm(clip(net, conv(net, net.input(2, 3, 5, 4), 4, 3), low, high), 4, **about)


@pytest.mark.parametrize(
    ("ends", "about", "reason"),
    [
        ((0, 6), {"positive": True}, "axis"),
        ((0, None), {"positive": True}, "axis"),
        ((0, 6), {}, "axis"),
        ((0, None), {"scale": [0.0] * 4}, "axis"),
        ((6, 0), {"positive": True}, "unreadable"),
        ((np.nan, 6), {"positive": True}, "unreadable"),
    ],
)
def test_what_stays(ends: tuple[float, float], about: dict[str, Any], reason: str) -> None:
    net = Net()
    proto = net.model(norm(net, *ends, **about))
    result = fold_only(proto)
    assert result.ops == ["Conv", "Clip", "BatchNormalization"]
    assert result.reasons == [reason]


def test_bounds_in_the_wrong_order_stay() -> None:
    """Which one has the last word, runtimes of old versions did not agree on."""
    net = Net()
    y = number(net, clip(net, conv(net, net.input(2, 3, 5, 4), 4, 3), 1, -1), -2.0, 0.5)
    assert folded(net, y, all_affines=True).ops == ["Conv", "Clip", "Mul", "Add"]


def test_a_bound_that_others_read_stays_theirs() -> None:
    net = Net()
    low = net.const(value=-0.5)
    x = net.node("Clip", conv(net, net.input(2, 3, 5, 4), 4, 3), low)
    other = net.node("Clip", net.input(2, 3), low)
    result = folded(net, number(net, x, 3.0, 0.5), other, all_affines=True)
    assert result.ops == ["Conv", "Clip", "Clip"]


def test_a_bound_that_is_fed() -> None:
    net = Net()
    low = net.input()
    y = net.node("Clip", conv(net, net.input(2, 3, 5, 4), 1, 3), low)
    assert declined(net, net.batchnorm(y, 1)) == ["dynamic-weight"]


def test_a_bound_that_callers_may_replace() -> None:
    net = Net()
    y = net.batchnorm(clip(net, conv(net, net.input(2, 3, 5, 4), 1, 3), 0, 6), 1)
    proto = net.model(y)
    low = next(node.input[1] for node in proto.graph.node if node.op_type == "Clip")
    stored = next(tensor for tensor in proto.graph.initializer if tensor.name == low)
    import onnx

    proto.graph.input.append(onnx.helper.make_tensor_value_info(low, stored.data_type, stored.dims))
    assert fold_only(proto).reasons == ["dynamic-weight"]


def test_float_attributes_of_doubles() -> None:
    net = Net(opset=9)
    y = number(net, clip(net, conv(net, net.input(2, 3, 5, 4), 4, 3), -0.5, 0.75), 0.1, 0.25)
    assert folded(net, y, all_affines=True).ops == ["Conv", "Clip", "Mul", "Add"]


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-6), (np.float16, 2e-3)])
@pytest.mark.parametrize("opset", [9, 17])
def test_smaller_types(dtype: Any, tolerance: float, opset: int) -> None:
    net = Net(opset=opset, dtype=dtype)
    y = number(net, clip(net, conv(net, net.input(2, 3, 5, 4), 4, 3), -0.5, None), -0.3, 0.1)
    assert folded(net, y, all_affines=True, tolerance=tolerance).ops == ["Conv", "Clip"]


def test_a_bound_that_would_overflow() -> None:
    net = Net(dtype=np.float16)
    y = number(net, clip(net, conv(net, net.input(2, 3, 5, 4), 4, 3), None, 6e4), 8.0, 0.0)
    proto = net.model(y)
    result = fold_only(proto, all_affines=True)
    assert result.ops == ["Conv", "Clip", "Mul"]
    compare(proto, result.proto, net.feeds, 1e-2)
