"""Channels whose integers equal the zero point, as QDQ and as QLinearConv: results are equal bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from bnfold import ir, reference
from bnfold.pipeline import passes
from bnfold.settings import Options
from tests.folding.nets import Net, saved


def integers(net: Net, *shape: int, zero: int = 0, dead: bool = False) -> str:
    array = net.rng.integers(-20, 20, size=shape).astype(np.int8)
    if dead:
        array[shape[0] // 2 :] = zero
    return net.tensor(array)


def scale(net: Net, number: float) -> str:
    return net.tensor(np.array(number, np.float32))


def qdq(net: Net, x: str, step: float) -> str:
    zero = net.tensor(np.array(10, np.uint8))
    number = scale(net, step)
    return net.node("DequantizeLinear", net.node("QuantizeLinear", x, number, zero), number, zero)


@pytest.mark.parametrize("zero", [0, 3])
@pytest.mark.parametrize("has_bias", [True, False])
def test_dequantized_weights(zero: int, has_bias: bool) -> None:
    net = Net(dtype=np.float32)
    point = (net.tensor(np.array(zero, np.int8)),) if zero else ()
    weight = net.node("DequantizeLinear", integers(net, 16, 3, 1, 1, zero=zero, dead=True), scale(net, 0.01), *point)
    bias = net.node("DequantizeLinear", net.tensor(np.arange(16, dtype=np.int32) * 73 + 11), scale(net, 0.0005))
    x = net.node("Relu", net.node("Conv", qdq(net, net.input(1, 3, 6, 6), 0.05), weight, bias))
    weight = net.node("DequantizeLinear", integers(net, 4, 16, 3, 3), scale(net, 0.01))
    more = [net.node("DequantizeLinear", net.tensor(np.arange(4, dtype=np.int32)), scale(net, 0.0004))] * has_bias
    end = net.node("Conv", qdq(net, x, 0.04), weight, *more)
    proto = net.model(end)
    model = ir.load(proto)
    report = passes.rewrite(model, Options(target_opset="keep"))
    # Without a quantized bias, the constants have nowhere to go.
    assert [(row.before, row.after) for row in report.channels] == ([(16, 8)] if has_bias else [])
    result = saved(model)
    kinds = {tensor.data_type for tensor in result.graph.initializer if len(tensor.dims) == 4}
    assert kinds == {ir.tensor.TP.INT8}
    before, after = (reference.evaluate(ir.load(each), net.feeds)[end] for each in (proto, result))
    np.testing.assert_allclose(after, before, rtol=0, atol=1e-6)


@pytest.mark.parametrize("pads", [0, 1])
def test_convolutions_of_integers(pads: int) -> None:
    """A padded convolution reads its zero point there: only a channel that is at it may go."""
    net = Net(dtype=np.float32)
    step, zero = scale(net, 0.05), net.tensor(np.array(128, np.uint8))
    point = net.tensor(np.array(0, np.int8))
    x = net.node("QuantizeLinear", net.input(1, 3, 6, 6), step, zero)
    made, weight = scale(net, 0.04), scale(net, 0.01)
    bias = net.tensor(np.arange(16, dtype=np.int32) * 73 + 11)
    x = net.node("QLinearConv", x, step, zero, integers(net, 16, 3, 1, 1, dead=True), weight, point, made, zero, bias)
    x = net.node("QLinearConv", x, made, zero, integers(net, 4, 16, 3, 3), weight, point, made, zero, pads=[pads] * 4)
    end = net.node("DequantizeLinear", x, made, zero)
    proto = net.model(end)
    model = ir.load(proto)
    report = passes.rewrite(model, Options(target_opset="keep"))
    assert [(row.before, row.after) for row in report.channels] == ([] if pads else [(16, 8)])
    before, after = (reference.evaluate(ir.load(each), net.feeds)[end] for each in (proto, saved(model)))
    np.testing.assert_array_equal(after, before)
