"""Weights behind DequantizeLinear: the scale takes the factors, the integers stay integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import bnfold
from bnfold import ir
from bnfold.folding.affine import Affine
from bnfold.folding.ops.registry import ask
from bnfold.report.reasons import Declined
from tests.folding.nets import Folded, Net, declined, folded


def weight(
    net: Net, *, per_channel: bool, dtype: Any = np.int8, zero: Any = None, low: int = -127, axis: int = 0
) -> str:
    dims = (4, 3, 2, 2)
    limits = np.iinfo(dtype)
    integers = net.rng.integers(max(low, limits.min), limits.max + 1, dims).astype(dtype)
    q = net.const(value=integers)
    scale = net.const(value=net.rng.uniform(0.01, 0.02, dims[axis] if per_channel else ()))
    zeros = [] if zero is None else [net.const(value=np.full(dims[axis] if per_channel else (), zero, dtype))]
    return net.node("DequantizeLinear", q, scale, *zeros, **({"axis": axis} if per_channel else {}))


def integers(result: Folded) -> np.ndarray:
    return result.weight("DequantizeLinear", 0)


@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("zero", [None, 0])
@pytest.mark.parametrize("positive", [True, False])
def test_scales_by_channel(per_channel: bool, zero: int | None, positive: bool) -> None:
    net = Net(dtype=np.float32)
    y = net.node("Conv", net.input(2, 3, 5, 7), weight(net, per_channel=per_channel, zero=zero))
    result = folded(net, net.batchnorm(y, 4, positive=positive), tolerance=1e-6)
    assert result.ops == ["DequantizeLinear", "Conv"]
    assert integers(result).dtype == np.int8


def test_positive_scales_leave_the_integers_alone() -> None:
    net = Net(dtype=np.float32)
    y = net.node("Conv", net.input(2, 3, 5, 7), weight(net, per_channel=True, low=-128))
    proto = net.model(bn := net.batchnorm(y, 4, positive=True))
    result = folded(net, bn, tolerance=1e-6)
    before = next(
        tensor for tensor in proto.graph.initializer if tensor.name == result.node("DequantizeLinear").proto.input[0]
    )
    after = next(tensor for tensor in result.proto.graph.initializer if tensor.name == before.name)
    assert after.SerializeToString() == before.SerializeToString()


def test_unsigned_integers_mirror_at_their_zero_point() -> None:
    net = Net(dtype=np.float32)
    y = net.node("Conv", net.input(2, 3, 5, 7), weight(net, per_channel=True, dtype=np.uint8, zero=128, low=1))
    assert folded(net, net.batchnorm(y, 4), tolerance=1e-6).ops == ["DequantizeLinear", "Conv"]


def test_the_least_integer_has_no_negative() -> None:
    net = Net(dtype=np.float32)
    q = net.const(value=np.full((4, 3, 2, 2), -128, np.int8))
    y = net.node("Conv", net.input(2, 3, 5, 7), net.node("DequantizeLinear", q, net.const(value=0.01)))
    assert declined(net, net.batchnorm(y, 4)) == ["quantized-weight"]


def test_scales_along_the_other_axis() -> None:
    net = Net(dtype=np.float32)
    y = net.node("Conv", net.input(2, 3, 5, 7), weight(net, per_channel=True, axis=1))
    assert declined(net, net.batchnorm(y, 4)) == ["quantized-weight"]


def test_one_scale_for_all_of_opset_ten() -> None:
    net = Net(opset=10, dtype=np.float32)
    y = net.node("Conv", net.input(2, 3, 5, 7), weight(net, per_channel=False))
    assert declined(net, net.batchnorm(y, 4)) == ["quantized-weight"]


def test_a_scale_for_each_integer_is_no_quantization() -> None:
    net = Net(dtype=np.float32)
    flat = net.node("DequantizeLinear", net.const(value=np.arange(48, dtype=np.int8)), net.const(value=0.01))
    y = net.node("Conv", net.input(2, 3, 5, 7), net.node("Reshape", flat, net.ints(4, 3, 2, 2)))
    assert declined(net, net.batchnorm(y, 4)) == ["quantized-weight"]


def test_a_scale_stays_positive() -> None:
    net = Net(dtype=np.float32)
    integers = net.const(value=np.ones((4, 3, 2, 2), np.int8))
    y = net.node("Conv", net.input(2, 3, 5, 7), net.node("DequantizeLinear", integers, net.const(value=1e-20)))
    assert declined(net, net.batchnorm(y, 4, scale=[1.0, 1.0, 1e-28, 2.0])) == ["range"]


@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("positive", [True, False])
def test_a_negative_scale_stays_negative(per_channel: bool, positive: bool) -> None:
    """No number overflows there or loses digits."""
    net = Net(dtype=np.float32)
    scale = [0.01, -0.02, 0.03, -0.01] if per_channel else -0.02
    q = net.const(value=net.rng.integers(-127, 128, (4, 3, 2, 2)).astype(np.int8))
    w = net.node("DequantizeLinear", q, net.const(value=scale), **({"axis": 0} if per_channel else {}))
    y = net.node("Conv", net.input(2, 3, 5, 7), w)
    result = folded(net, net.batchnorm(y, 4, positive=positive), tolerance=1e-6)
    assert result.ops == ["DequantizeLinear", "Conv"]
    assert np.array_equal(np.sign(result.weight("DequantizeLinear", 1)), np.sign(np.full(4, 1.0) * scale))


@pytest.mark.parametrize("zero", [None, 5])
def test_a_dead_channel_is_at_its_zero_point(zero: int | None) -> None:
    net = Net(dtype=np.float32)
    y = net.node("Conv", net.input(2, 3, 5, 7), weight(net, per_channel=True, zero=zero, low=-100))
    result = folded(net, net.batchnorm(y, 4, scale=[1.0, 0.0, 1.0, 2.0]), tolerance=1e-6)
    assert result.ops == ["DequantizeLinear", "Conv"]
    assert (integers(result)[1] == (zero or 0)).all()
    assert (result.weight("DequantizeLinear", 1) > 0).all()


SMALL = {
    "int4": (ml_dtypes.int4, 21, np.arange(-7, 8)),
    "uint4": (ml_dtypes.uint4, 21, np.arange(1, 16)),
    "int16": (np.int16, 21, np.arange(-32767, 32768)),
    "uint16": (np.uint16, 21, np.arange(1, 65536)),
    "float8e4m3fn": (ml_dtypes.float8_e4m3fn, 19, np.linspace(-4, 4, 33)),
    "float8e5m2": (ml_dtypes.float8_e5m2, 19, np.linspace(-4, 4, 33)),
}


@pytest.mark.parametrize("kind", SMALL)
def test_numbers_of_every_type_have_negatives(kind: str) -> None:
    dtype, opset, numbers = SMALL[kind]
    net = Net(opset=opset, dtype=np.float32, ir_version=10)
    q = net.tensor(net.rng.choice(numbers, (4, 3, 2, 2)).astype(dtype))
    zero = [] if numbers[0] < 0 else [net.tensor(np.full((), numbers[numbers.size // 2]).astype(dtype))]
    w = net.node("DequantizeLinear", q, net.const(value=0.02), *zero)
    result = folded(net, net.batchnorm(net.node("Conv", net.input(2, 3, 5, 7), w), 4), tolerance=1e-6)
    assert result.ops == ["DequantizeLinear", "Conv"]
    assert integers(result).dtype == dtype


def blocked(net: Net, dims: tuple[int, ...], axis: int, block: int, dtype: Any = ml_dtypes.int4) -> str:
    shape = [-(-size // block) if place == axis else size for place, size in enumerate(dims)]
    q, zero = net.rng.integers(-5, 8, dims).astype(dtype), np.full(shape, 1).astype(dtype)
    scale = net.const(value=net.rng.uniform(0.01, 0.02, shape))
    return net.node("DequantizeLinear", net.tensor(q), scale, net.tensor(zero), axis=axis, block_size=block)


BLOCKS: dict[str, tuple[Callable[[Net], str], bool]] = {
    "Conv": (lambda net: net.node("Conv", net.input(2, 5, 5, 7), blocked(net, (4, 5, 2, 2), 1, 2)), True),
    "MatMul": (lambda net: net.node("MatMul", net.input(3, 6), blocked(net, (6, 4), 0, 3)), True),
    "Gemm": (lambda net: net.node("Gemm", net.input(3, 6), blocked(net, (4, 6), 1, 4), transB=1), True),
    "along the channels": (lambda net: net.node("MatMul", net.input(3, 6), blocked(net, (6, 4), 1, 2)), False),
}


@pytest.mark.parametrize("case", BLOCKS)
def test_scales_by_block(case: str) -> None:
    build, folds = BLOCKS[case]
    net = Net(opset=21, dtype=np.float32, ir_version=10)
    y = net.batchnorm(build(net), 4)
    if not folds:
        assert declined(net, y) == ["quantized-weight"]
        return
    result = folded(net, y, tolerance=1e-6)
    assert result.ops[0] == "DequantizeLinear"
    assert "BatchNormalization" not in result.ops
    assert integers(result).dtype == ml_dtypes.int4


def test_a_factor_that_blocks_share() -> None:
    net = Net(opset=21, dtype=np.float32, ir_version=10)
    y = net.node("MatMul", net.input(3, 6), blocked(net, (6, 4), 1, 2))
    y = net.node("Mul", y, net.const(value=[2.0, 2.0, -1.5, -1.5]))
    assert folded(net, y, tolerance=1e-6, all_affines=True).ops == ["DequantizeLinear", "MatMul"]


@pytest.mark.parametrize("op", ["Conv", "Gemm"])
def test_a_quantized_bias_becomes_exact(op: str) -> None:
    net = Net(dtype=np.float32)
    bias = net.node("DequantizeLinear", net.const(value=np.arange(4, dtype=np.int32)), net.const(value=0.5))
    if op == "Conv":
        y = net.node("Conv", net.input(2, 3, 5, 7), weight(net, per_channel=True), bias)
    else:
        q = net.const(value=net.rng.integers(-127, 128, (3, 4)).astype(np.int8))
        y = net.node("Gemm", net.input(5, 3), net.node("DequantizeLinear", q, net.const(value=0.02)), bias)
    result = folded(net, net.batchnorm(y, 4), tolerance=1e-6)
    assert result.ops == ["DequantizeLinear", op]
    assert result.weight(op, 2).dtype == np.float32


def test_groups_that_are_scaled_differently() -> None:
    net = Net(dtype=np.float32)
    y = net.node("ConvTranspose", net.input(2, 4, 5, 7), weight(net, per_channel=False), group=2)
    assert declined(net, net.batchnorm(y, 6)) == ["quantized-weight"]


@pytest.mark.parametrize("exact", [True, False])
def test_a_weight_in_float16_behind_a_cast(exact: bool) -> None:
    """It keeps its type, and is not rounded a second time."""
    net = Net(dtype=np.float32)
    kernel = net.node("Cast", net.tensor(net.rng.standard_normal((4, 3, 2, 2)).astype(np.float16)), to=1)
    y = net.node("Conv", net.input(2, 3, 5, 7), kernel)
    if exact:
        result = folded(net, net.node("Mul", y, net.const(value=[[[[-2.0]]]])), all_affines=True)
        assert result.ops == ["Cast", "Conv"]
        assert result.weight("Cast", 0).dtype == np.float16
    else:
        assert declined(net, net.batchnorm(y, 4)) == ["quantized-weight"]


def test_the_affine_of_a_quantized_constant_is_none() -> None:
    net = Net(dtype=np.float32)
    w = net.batchnorm(weight(net, per_channel=True, axis=1), 3, shift=np.zeros(3))
    result = folded(net, net.node("Conv", net.input(2, 3, 5, 7), w), tolerance=1e-6)
    assert result.ops == ["DequantizeLinear", "Conv"]
    assert integers(result).dtype == np.int8


def test_gemm_and_matmul() -> None:
    for op in ("Gemm", "MatMul"):
        net = Net(dtype=np.float32)
        q = net.const(value=net.rng.integers(-127, 128, (3, 5)).astype(np.int8))
        matrix = net.node("DequantizeLinear", q, net.const(value=net.rng.uniform(0.1, 0.2, 5)), axis=1)
        y = net.node(op, net.input(4, 3), matrix)
        assert folded(net, net.batchnorm(y, 5), tolerance=1e-6).ops == ["DequantizeLinear", "Gemm"]


def test_a_weight_that_another_node_reads_too() -> None:
    net = Net(dtype=np.float32)
    matrix = weight(net, per_channel=True)
    x = net.input(2, 3, 5, 7)
    y = net.batchnorm(net.node("Conv", x, matrix), 4)
    assert declined(net, y, net.node("Conv", x, matrix)) == ["shared-value"]


def quantized(net: Net, dims: tuple[int, ...], *, scales: bool = True) -> str:
    """A weight of one scale for all, or of one for each index of the first axis that a factor of 3 channels fits."""
    axis = dims.index(3)
    scale = net.const(value=net.rng.uniform(0.01, 0.02, 3 if scales else ()))
    zero = net.const(value=np.full(3 if scales else (), 2, np.int8))
    integers = net.const(value=net.rng.integers(-100, 100, dims).astype(np.int8))
    return net.node("DequantizeLinear", integers, scale, zero, **({"axis": axis} if scales else {}))


BEHIND: dict[str, Callable[[Net, tuple[int, ...]], str]] = {
    "directly": quantized,
    "one scale": lambda net, dims: quantized(net, dims, scales=False),
    "Transpose": lambda net, dims: net.node("Transpose", quantized(net, dims[::-1])),
    "Reshape": lambda net, dims: net.node("Reshape", quantized(net, (1, *dims, 1)), net.ints(*dims)),
    "Squeeze and Identity": lambda net, dims: net.node(
        "Identity", net.node("Squeeze", quantized(net, (*dims, 1)), net.ints(-1))
    ),
    "Cast": lambda net, dims: net.node("Cast", quantized(net, dims, scales=False), to=TensorProto.FLOAT),
}


READERS: dict[str, Callable[[Net, Callable[[tuple[int, ...]], str]], str]] = {
    "Gemm": lambda net, w: net.node("Gemm", net.batchnorm(net.input(4, 3), 3), w((3, 5)), net.const(5)),
    "Gemm, transB": lambda net, w: net.node("Gemm", net.batchnorm(net.input(4, 3), 3), w((5, 3)), transB=1),
    "MatMul": lambda net, w: net.node("MatMul", net.batchnorm(net.input(4, 3), 3), w((3, 5))),
    "MatMul, left": lambda net, w: net.node("MatMul", w((5, 3)), net.batchnorm(net.input(2, 3, 4), 3)),
    "Conv": lambda net, w: net.node("Conv", net.batchnorm(net.input(2, 3, 5, 7), 3), w((4, 3, 2, 2))),
    "depthwise Conv": lambda net, w: net.node(
        "Conv", net.batchnorm(net.input(2, 3, 5, 7), 3), w((3, 1, 2, 2)), group=3
    ),
    "ConvTranspose": lambda net, w: net.node("ConvTranspose", net.batchnorm(net.input(2, 3, 5, 7), 3), w((3, 4, 1, 1))),
}


@pytest.mark.parametrize("behind", BEHIND)
@pytest.mark.parametrize("consumer", READERS)
def test_a_factor_goes_down_into_the_scale(consumer: str, behind: str) -> None:
    """What is wanted of an input of the reader is not what stands on an output of it."""
    net = Net(dtype=np.float32)
    result = folded(net, READERS[consumer](net, lambda dims: BEHIND[behind](net, dims)), tolerance=1e-6)
    assert "BatchNormalization" not in result.ops
    assert integers(result).dtype == np.int8


def test_a_tied_weight_takes_the_factor_that_both_readers_have() -> None:
    net = Net(dtype=np.float32)
    y, matrix = net.batchnorm(net.input(4, 3), 3), quantized(net, (3, 5))
    one, two = net.node("MatMul", y, matrix), net.node("MatMul", y, matrix)
    assert sorted(folded(net, net.node("Mul", one, two), tolerance=1e-6).ops) == [
        "DequantizeLinear",
        "Gemm",
        "Gemm",
        "Mul",
    ]


def test_a_tied_weight_stays_where_one_reader_wants_it_as_it_is() -> None:
    net = Net(dtype=np.float32)
    x, matrix = net.input(4, 3), quantized(net, (3, 5))
    one, two = net.node("MatMul", net.batchnorm(x, 3), matrix), net.node("MatMul", x, matrix)
    assert declined(net, net.node("Add", one, two)) == ["shared-value"]


def trained(
    net: Net,
    values: np.ndarray,
    *,
    axis: int | None = None,
    dtype: Any = np.int8,
    zero: int | None = 0,
    between: tuple[int, int] | None = None,
    before: float | None = None,
) -> str:
    """Floats that are quantized and dequantized, as quantisation-aware training leaves a weight."""
    spread = np.abs(values).max(tuple(each for each in range(values.ndim) if each != axis))
    scale = net.const(value=spread / (7 if dtype is ml_dtypes.int4 else 120))
    grid = [scale] if zero is None else [scale, net.tensor(np.full(spread.shape, zero).astype(dtype))]
    attributes = {} if axis is None else {"axis": axis}
    w = net.const(value=values)
    if before is not None:
        w = net.node("Clip", w, net.const(value=-before), net.const(value=before))
    q = net.node("QuantizeLinear", w, *grid, **attributes)
    if between is not None:
        q = net.node("Clip", q, *(net.tensor(np.array(bound, dtype)) for bound in between))
    return net.node("DequantizeLinear", q, *grid, **attributes)


def as_runtime_makes(proto: onnx.ModelProto) -> np.ndarray:
    """The integers of a fake-quantized weight less their zero points, in onnxruntime."""
    model, held = onnx.ModelProto(), {tensor.name: numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}
    model.CopyFrom(proto)
    steps = [node for node in model.graph.node if node.op_type in ("QuantizeLinear", "Clip", "DequantizeLinear")]
    del model.graph.node[:], model.graph.input[:], model.graph.output[:]
    ones = np.ones_like(held[steps[-1].input[1]])
    model.graph.initializer.append(numpy_helper.from_array(ones, "ones"))
    steps[-1].input[1] = "ones"
    model.graph.node.extend(steps)
    model.graph.output.append(helper.make_tensor_value_info(steps[-1].output[0], TensorProto.FLOAT, None))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {})[0])


def same_integers(net: Net, y: str, folded_to: Folded, signs: np.ndarray) -> None:
    """As onnxruntime makes them, which divides in float32."""
    old, new = (as_runtime_makes(proto) for proto in (net.model(y), folded_to.proto))
    np.testing.assert_array_equal(new, signs.reshape(-1, *(1,) * (old.ndim - 1)) * old)


@pytest.mark.parametrize("form", [
    {}, {"axis": 0}, {"axis": 0, "zero": None, "dtype": np.uint8}, {"axis": 0, "between": (-127, 127)},
    {"axis": 0, "dtype": ml_dtypes.int4}, {"dtype": np.int16}, {"zero": 3},
])  # fmt: skip
def test_floats_that_are_quantized_keep_their_integers(form: dict[str, Any]) -> None:
    net = Net(opset=21, dtype=np.float32, ir_version=10)
    unsigned = form.get("dtype") is np.uint8
    values = np.abs(net.rng.standard_normal((4, 300, 3, 3))) if unsigned else net.rng.standard_normal((4, 300, 3, 3))
    y = net.batchnorm(net.node("Conv", net.input(1, 300, 4, 5), trained(net, values, **form)), 4, positive=unsigned)
    result = folded(net, y, tolerance=1e-6)
    assert result.ops == ["QuantizeLinear", *(["Clip"] if "between" in form else []), "DequantizeLinear", "Conv"]
    signs = np.ones(4) if unsigned else np.array([1.0, -1.0, 1.0, -1.0])
    same_integers(net, y, result, signs)


TIES: dict[str, tuple[Any, int, bool]] = {
    "int8": (np.int8, 0, True),
    "int8 about 3": (np.int8, 3, False),
    "uint8": (np.uint8, 128, True),
    "int16": (np.int16, 0, True),
    "uint16": (np.uint16, 32768, True),
    "int4": (ml_dtypes.int4, 0, True),
    "uint4": (ml_dtypes.uint4, 8, True),
}


@pytest.mark.parametrize("axis", [None, 0])
@pytest.mark.parametrize("case", TIES)
def test_ties_fall_as_they_did(case: str, axis: int | None) -> None:
    """All weights lie between two integers, up to rounding; products that do not are written on the grid."""
    dtype, zero, mirrored = TIES[case]
    net = Net(opset=21, dtype=np.float32, ir_version=10)
    half = 2 ** (ml_dtypes.iinfo(dtype).bits - 1)
    scale = np.float32(0.01) if axis is None else net.rng.uniform(0.01, 0.02, 4).astype(np.float32)
    w = (net.rng.integers(3 - half, half - 5, (4, 50, 3, 3)) + 0.5).T * scale
    grid = net.const(value=scale), net.tensor(np.full(scale.shape, zero).astype(dtype))
    q = net.node("QuantizeLinear", net.const(value=w.T), *grid, axis=0)
    weight = net.node("DequantizeLinear", q, *grid, axis=0)
    y = net.batchnorm(net.node("Conv", net.input(1, 50, 4, 5), weight), 4, positive=not mirrored)
    result = folded(net, y, tolerance=1e-6)
    same_integers(net, y, result, np.array([1.0, -1.0, 1.0, -1.0]) if mirrored else np.ones(4))


def test_all_weights_on_ties_are_verified() -> None:
    """As right after the scale was taken from the largest weight: 127.5 steps, which is the largest integer."""
    net = Net(dtype=np.float32)
    w = net.rng.standard_normal((4, 3, 2, 2)).astype(np.float32)
    w[:, 0, 0, 0] = 5
    grid = net.const(value=np.float32(5) / np.float32(127.5)), net.tensor(np.array(0, np.int8))
    weight = net.node("DequantizeLinear", net.node("QuantizeLinear", net.const(value=w), *grid), *grid)
    y = net.batchnorm(net.node("Conv", net.input(1, 3, 4, 5), weight), 4)
    outcome = bnfold.fold(net.model(y))
    assert outcome.verdict is not None
    assert outcome.verdict.verified
    assert outcome.report.count("folded") == 1


def test_a_clip_in_front_is_evaluated() -> None:
    net = Net(dtype=np.float32)
    w = trained(net, net.rng.standard_normal((4, 3, 2, 2)), axis=0, before=0.7)
    assert folded(net, net.batchnorm(net.node("Conv", net.input(2, 3, 5, 7), w), 4), tolerance=1e-6).ops == [
        "QuantizeLinear",
        "DequantizeLinear",
        "Conv",
    ]


def test_a_clip_that_cuts_negatives() -> None:
    net = Net(dtype=np.float32)
    w = trained(net, net.rng.standard_normal((4, 3, 2, 2)), axis=0, between=(-127, 20))
    assert declined(net, net.batchnorm(net.node("Conv", net.input(2, 3, 5, 7), w), 4)) == ["quantized-weight"]


def test_a_dead_channel_of_floats_that_are_quantized() -> None:
    net = Net(dtype=np.float32)
    y = net.node("Conv", net.input(2, 3, 5, 7), trained(net, net.rng.standard_normal((4, 3, 2, 2)), axis=0))
    result = folded(net, net.batchnorm(y, 4, scale=[1.0, 0.0, 1.0, 2.0]), tolerance=1e-6)
    assert (result.weight("QuantizeLinear", 0)[1] == 0).all()
    assert (result.weight("QuantizeLinear", 1) > 0).all()


def test_integers_that_others_read() -> None:
    net = Net(dtype=np.float32)
    w = trained(net, net.rng.standard_normal((4, 3, 2, 2)), axis=0)
    integers = net.nodes[-1].input[0]
    other = net.node("DequantizeLinear", integers, *net.nodes[-1].input[1:], axis=0)
    x = net.input(2, 3, 5, 7)
    y = net.batchnorm(net.node("Conv", x, w), 4)
    assert declined(net, y, net.node("Conv", x, other)) == ["shared-value"]


def test_another_grid_behind() -> None:
    net = Net(dtype=np.float32)
    q = net.node("QuantizeLinear", net.const(4, 3, 2, 2), net.const(value=0.02), net.tensor(np.array(0, np.int8)))
    w = net.node("DequantizeLinear", q, net.const(value=0.04), net.tensor(np.array(0, np.int8)))
    y = net.batchnorm(net.node("Conv", net.input(2, 3, 5, 7), w), 4, positive=True)
    assert declined(net, y) == ["quantized-weight"]


def activation(net: Net, x: str) -> str:
    """To integers and back."""
    grid = net.const(value=0.05), net.tensor(np.array(3, np.int8))
    return net.node("DequantizeLinear", net.node("QuantizeLinear", x, *grid), *grid)


@pytest.mark.parametrize(("factor", "shift"), [(1.3, 0.0), (-1.5, 0.0), (1.0, 0.5), ([1.0, 2.0, 3.0, 4.0], 0.0)])
def test_behind_an_activation_one_positive_factor_goes_into_its_scale(factor: Any, shift: float) -> None:
    net = Net(dtype=np.float32)
    y = activation(net, net.node("Relu", net.input(2, 4, 5, 7)))
    var, zeros = net.const(value=np.full(4, 1.0 - 1e-3)), net.const(value=np.zeros(4))
    scale, bias = (net.const(value=np.broadcast_to(each, 4)) for each in (factor, shift))
    bn = net.node("BatchNormalization", y, scale, bias, zeros, var, epsilon=1e-3)
    if factor == 1.3:
        result = folded(net, bn, tolerance=1e-6)
        assert result.ops == ["Relu", "QuantizeLinear", "DequantizeLinear"]
        assert result.weight("QuantizeLinear", 1) == np.float32(0.05)
    else:
        assert declined(net, bn) == ["quantized-activation"]


@pytest.mark.parametrize(("factor", "folds"), [(0.25, True), (1.3, False), (-2.0, False)])
def test_before_an_activation_a_power_of_two_goes_into_its_scale(factor: float, folds: bool) -> None:
    net = Net(dtype=np.float32)
    x = net.node("Mul", net.node("Sigmoid", net.input(2, 4, 5, 7)), net.const(value=factor))
    y = activation(net, x)
    ops = folded(net, y, tolerance=1e-6, all_affines=True).ops
    assert ("Mul" in ops) != folds


def test_a_batchnorm_before_an_activation() -> None:
    net = Net(dtype=np.float32)
    y = activation(net, net.batchnorm(net.input(2, 3, 5, 7), 3))
    assert declined(net, net.node("Conv", y, net.const(4, 3, 2, 2))) == ["quantized-activation"]


@pytest.mark.parametrize("op", ["ConvInteger", "MatMulInteger"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("by_channel", [True, False])
def test_the_floats_behind_a_product_of_integers(op: str, bias: bool, by_channel: bool) -> None:
    """As onnxruntime quantizes dynamically: scales of input and weight are multiplied, and then with the product."""
    net = Net(dtype=np.float32)
    conv = op == "ConvInteger"
    x = net.input(2, 3, 5, 7) if conv else net.input(6, 3)
    q, scale, zero = net.nodes_of("DynamicQuantizeLinear", x, outputs=3)
    w = net.tensor(net.rng.integers(-99, 99, (4, 3, 2, 2) if conv else (3, 4)).astype(np.int8))
    product = net.node("Cast", net.node(op, q, w, zero), to=TensorProto.FLOAT)
    shape = (4, 1, 1) if conv else (4,)
    both = net.node("Mul", scale, net.const(value=np.full(shape if by_channel else (), 0.01)))
    y = net.node("Mul", product, both)
    if bias:
        y = net.node("Add", y, net.const(*shape))
    result = folded(net, net.batchnorm(y, 4), tolerance=1e-6)
    assert result.ops == ["DynamicQuantizeLinear", op, "Cast", "Mul", "Mul", "Add"]
    assert result.weight("Mul", 1).shape == shape
    onnx.checker.check_model(onnx.shape_inference.infer_shapes(result.proto, strict_mode=True), full_check=True)


@pytest.mark.parametrize(("op", "domain"), [("MatMulInteger", ""), ("MatMulNBits", "com.microsoft")])
def test_what_rounds_inside_says_so(op: str, domain: str) -> None:
    graph = helper.make_graph([helper.make_node(op, ["a", "b"], ["y"], domain=domain)], "net", [], [])
    (node,) = ir.load(helper.make_model(graph)).nodes()
    with pytest.raises(Declined, match="rounds inside"):
        ask(node, "up", {0: Affine(np.ones((1, 1)), np.zeros((1, 1)))})
