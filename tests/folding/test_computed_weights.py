"""Weights and parameters that nodes compute from constants fold, while what is stored then stays within the budget."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from onnx import numpy_helper

from bnfold.analysis.derived import Derived
from bnfold.ir.tensor import Scaled
from tests.folding.nets import Net, declined, fold_only, folded

DIMS = (4, 3, 2, 2)


def standardized(net: Net) -> str:
    v = net.const(*DIMS)
    d = net.node("Sub", v, net.node("ReduceMean", v, axes=[1, 2, 3]))
    spread = net.node("Sqrt", net.node("ReduceMean", net.node("Mul", d, d), axes=[1, 2, 3]))
    return net.node("Div", d, net.node("Add", spread, net.const(value=np.array(1e-5))))


def weight_norm(net: Net) -> str:
    v = net.const(*DIMS)
    return net.node("Mul", net.node("Div", v, net.node("ReduceL2", v, axes=[1, 2, 3])), net.const(4, 1, 1, 1))


def spectral_norm(net: Net) -> str:
    w = net.const(*DIMS)
    flat = net.node("Reshape", w, net.ints(4, -1))
    return net.node("Div", w, net.node("MatMul", net.const(4), net.node("MatMul", flat, net.const(12))))


def normalized(net: Net) -> str:
    """As PyTorch exports F.normalize: the shape of the weight is asked for."""
    v = net.const(*DIMS)
    norm = net.node("Clip", net.node("ReduceL2", v, axes=[1]), net.const(value=np.array(1e-12)))
    return net.node("Div", v, net.node("Expand", norm, net.node("Shape", v)))


def low_rank(net: Net) -> str:
    product = net.node("Reshape", net.node("MatMul", net.const(4, 2), net.const(2, 12)), net.ints(*DIMS))
    return net.node("Add", net.const(*DIMS), net.node("Mul", product, net.const(value=np.array(0.5))))


def masked(net: Net) -> str:
    return net.node("Where", net.tensor(np.arange(2) > 0), net.const(*DIMS), net.const(value=np.array(0.0)))


def parts(net: Net) -> str:
    first, second = net.nodes_of("Split", net.const(8, 3, 2, 2), outputs=2)
    return net.node("Max", first, second)


def sized(net: Net) -> str:
    """Integers say which part of a weight it is."""
    w = net.const(7, 3, 2, 2)
    size = net.node("Gather", net.node("Shape", w), net.ints(0))
    end = net.node("Sub", size, net.ints(1))
    return net.node("Slice", w, net.node("Div", end, net.ints(3)), end, net.ints(0))


KINDS: dict[str, Callable[[Net], str]] = {
    "weight_norm": weight_norm,
    "standardized": standardized,
    "spectral_norm": spectral_norm,
    "normalized": normalized,
    "low_rank": low_rank,
    "masked": masked,
    "parts": parts,
    "sized": sized,
    "concat": lambda net: net.node("Concat", net.const(1, 3, 2, 2), net.const(3, 3, 2, 2), axis=0),
    "slice": lambda net: net.node("Slice", net.const(6, 3, 2, 2), net.ints(1), net.ints(5), net.ints(0)),
    "flipped": lambda net: net.node(
        "Slice", net.const(*DIMS), net.ints(-1, -1), net.ints(-9, -9), net.ints(2, 3), net.ints(-1, -1)
    ),
    "padded": lambda net: net.node("Pad", net.const(4, 3, 1, 1), net.ints(0, 0, 0, 0, 0, 0, 1, 1)),
    "gathered": lambda net: net.node("Gather", net.const(*DIMS), net.ints(3, 0, 0, 2)),
    "exp": lambda net: net.node("Exp", net.const(*DIMS)),
    "tanh": lambda net: net.node("Neg", net.node("Tanh", net.const(*DIMS))),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("beside", ["before", "behind"])
def test_a_weight_of_constants_takes_the_fold(kind: str, beside: str) -> None:
    net = Net()
    weight = KINDS[kind](net)
    x = net.input(2, 3, 5, 7)
    if beside == "behind":
        assert folded(net, net.batchnorm(net.node("Conv", x, weight), 4)).ops == ["Conv"]
    else:
        assert folded(net, net.node("Conv", net.batchnorm(x, 3), weight)).ops == ["Conv"]


def test_parameters_of_constants_are_computed() -> None:
    net = Net()
    y = net.node("Conv", net.input(2, 3, 5, 7), net.const(*DIMS))
    scale = net.node("Mul", net.const(4), net.node("Sigmoid", net.const(4)))
    shift = net.node("Concat", net.const(1), net.const(3), axis=0)
    variance = net.node("Softplus", net.node("ReduceSum", net.const(4, 5), net.ints(1), keepdims=0))
    y = net.node("BatchNormalization", y, scale, shift, net.node("Neg", net.const(4)), variance)
    assert folded(net, y, growth=4 * 8).ops == ["Conv"]


@pytest.mark.parametrize("kind", ["weight_norm", "standardized", "concat", "slice", "low_rank", "parts"])
def test_a_weight_in_place_of_what_computed_it_needs_no_budget(kind: str) -> None:
    net = Net()
    weight = KINDS[kind](net)
    assert folded(net, net.batchnorm(net.node("Conv", net.input(2, 3, 5, 7), weight), 4), growth=0).ops == ["Conv"]


def tiled(net: Net) -> str:
    return net.node("Tile", net.const(4, 1, 2, 2), net.ints(1, 3, 1, 1))


def needed_elsewhere(net: Net) -> tuple[str, str]:
    """A weight made of one that somebody else reads."""
    v = net.const(*DIMS)
    return net.node("Tanh", v), net.node("Conv", net.input(2, 3, 5, 7), v)


def test_a_weight_that_is_larger_than_what_computed_it_needs_a_budget() -> None:
    grows = (48 - 16) * 8 - 4 * 8 - 3 * 4 * 8  # the numbers of repeats go as well, and a bias is all of four parameters
    for growth, reasons in ((grows, []), (grows - 1, ["shared-weight"])):
        net = Net()
        y = net.batchnorm(net.node("Conv", net.input(2, 3, 5, 7), tiled(net)), 4)
        if reasons:
            assert declined(net, y, growth=growth) == reasons
        else:
            assert folded(net, y, growth=growth).ops == ["Conv"]


def test_constants_that_others_read_do_not_make_room() -> None:
    for growth, left in (((48 - 3 * 4) * 8, 0), ((48 - 3 * 4) * 8 - 1, 1)):
        net = Net()
        weight, other = needed_elsewhere(net)
        y = net.batchnorm(net.node("Conv", net.input(2, 3, 5, 7), weight), 4)
        assert folded(net, y, other, growth=growth).ops.count("BatchNormalization") == left


def test_a_computed_weight_for_two_is_stored_once_for_all_who_agree() -> None:
    net = Net()
    weight = weight_norm(net)
    parameters = [net.const(value=net.rng.uniform(0.5, 2, 4)) for _ in range(4)]
    ends = [
        net.node("BatchNormalization", net.node("Conv", net.input(2, 3, 5, 7), weight), *parameters) for _ in range(2)
    ]
    result = folded(net, *ends, growth=4 * 8)
    assert result.ops == ["Conv", "Conv"]
    assert len({node.proto.input[1] for node in result.model.graph.nodes}) == 1


def test_fills_count_as_what_they_stand_for() -> None:
    net = Net()
    """Unless a limit is given, in which what is stored counts."""
    for growth, left in ((None, ["Conv"]), (1 << 15, ["ConstantOfShape", "Conv", "BatchNormalization"])):
        net = Net()
        weight = net.node("ConstantOfShape", net.ints(40, 30, 2, 2), value=numpy_helper.from_array(np.array([0.5])))
        y = net.batchnorm(net.node("Conv", net.input(2, 30, 5, 7), weight), 40)
        assert folded(net, y, growth=growth).ops == left


def test_large_weights_are_computed_when_they_are_written() -> None:
    net = Net()
    v = net.const(64, 32, 3, 3)
    weight = net.node("Div", v, net.node("ReduceL2", v, axes=[1, 2, 3]))
    proto = net.model(net.batchnorm(net.node("Conv", net.input(1, 32, 5, 7), weight), 64))
    result = fold_only(proto, growth=0)
    held = result.node("Conv").input(1)
    assert held is not None
    assert isinstance(held.tensor, Scaled)
    assert isinstance(held.tensor.base, Derived)
    assert held.tensor.base.kept is None


def test_rounded_once() -> None:
    """In float32 three roundings would show."""
    net = Net(dtype=np.float32)
    v = net.const(*DIMS)
    weight = net.node("Div", net.node("Exp", v), net.const(value=np.array(3.0)))
    y = net.batchnorm(net.node("Conv", net.input(2, 3, 5, 7), weight), 4, shift=np.zeros(4))
    proto = net.model(y)
    arrays = {
        tensor.name: np.frombuffer(tensor.raw_data, np.float32).astype(np.float64) for tensor in proto.graph.initializer
    }
    node = proto.graph.node[-1]
    factor = arrays[node.input[1]] / np.sqrt(arrays[node.input[4]] + np.float64(np.float32(1e-3)))
    exact = np.exp(arrays[v].reshape(DIMS)) / 3 * factor.reshape(4, 1, 1, 1)
    np.testing.assert_array_equal(fold_only(proto).weight("Conv"), exact.astype(np.float32))


def test_what_is_stored_in_integers_stays_so_behind_a_concat() -> None:
    net = Net(dtype=np.float32, opset=17)
    halves = [
        net.node(
            "DequantizeLinear",
            net.tensor(net.rng.integers(-100, 100, (2, 3, 2, 2)).astype(np.int8)),
            net.tensor(net.rng.uniform(0.01, 0.1, 2).astype(np.float32)),
            axis=0,
        )
        for _ in range(2)
    ]
    y = net.batchnorm(net.node("Conv", net.input(2, 3, 5, 7), net.node("Concat", *halves, axis=0)), 4, positive=True)
    result = folded(net, y, tolerance=1e-6)
    assert result.ops == ["DequantizeLinear", "DequantizeLinear", "Concat", "Conv"]


def test_halves_behind_a_cast_stay_as_they_are() -> None:
    net = Net(dtype=np.float32)
    halves = [
        net.node("Cast", net.tensor(net.rng.standard_normal((2, 3, 2, 2)).astype(np.float16)), to=1) for _ in "ab"
    ]
    y = net.batchnorm(net.node("Conv", net.input(2, 3, 5, 7), net.node("Concat", *halves, axis=0)), 4)
    assert declined(net, y) == ["quantized-weight"]


def test_integers_that_are_dequantized_by_hand_stay_as_they_are() -> None:
    net = Net(dtype=np.float32)
    wide = net.node("Cast", net.tensor(net.rng.integers(-100, 100, DIMS).astype(np.int8)), to=1)
    y = net.batchnorm(net.node("Conv", net.input(2, 3, 5, 7), net.node("Mul", wide, net.const(4, 1, 1, 1))), 4)
    assert declined(net, y) == ["dynamic-weight"]
