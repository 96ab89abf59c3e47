"""Stacks of layers with uneven channels, branches and channels of zeros: models for `--equalize`."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto

from fuzz.builder import Array, Builder, Drawn
from fuzz.draw import feed

ACTIVATIONS = ("Relu", "LeakyRelu", "PRelu", "Abs", "Sigmoid", "Clip", "")


def draw(seed: int) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Draw the model of a seed, and its inputs."""
    rng = np.random.default_rng([seed, 7])
    dtype = int(rng.choice([TensorProto.DOUBLE, TensorProto.FLOAT, TensorProto.FLOAT16], p=[0.6, 0.2, 0.2]))
    b = Builder(rng, opset=int(rng.choice([13, 15, 17, 18, 21])), dtype=dtype)
    channels = int(rng.integers(2, 7))
    x = Drawn(b.fresh("x"), dtype, (2, channels, int(rng.integers(3, 6)), int(rng.integers(3, 6))))
    b.inputs.append(x)
    b.values.append(x)
    made = x
    for _ in range(int(rng.integers(2, 6))):
        made = _layer(b, made)
    if b.chance(0.3):
        (made,) = b.node("Flatten", [made.name])
        (made,) = b.node("Gemm", [made.name, b.weight(_uneven(b, (3, made.shape[1]), 0))], transB=1)
    outputs = [made, *([b.pick(b.values)] if b.chance(0.2) else [])]
    return b.model(list({value.name: value for value in outputs}.values())), {x.name: feed(rng, x)}


def _layer(b: Builder, x: Drawn) -> Drawn:
    kind, channels = b.rng.random(), x.shape[1]
    if kind < 0.3:
        made = _conv(b, x, channels, group=channels)
    elif kind < 0.55:  # back to where it started
        inner = _activation(b, _conv(b, x, int(b.rng.integers(2, 6))))
        (made,) = b.node(b.pick(["Add", "Add", "Sub", "Sum"]), [x.name, _conv(b, inner, channels).name])
    elif kind < 0.62:
        (made,) = b.node("Concat", [x.name, _conv(b, x, int(b.rng.integers(1, 5))).name], axis=1)
    elif kind < 0.7 and channels % 2 == 0:
        made = _conv(b, x, 2 * int(b.rng.integers(1, 3)), group=2)
    else:
        made = _conv(b, x, int(b.rng.integers(2, 7)))
    if b.chance(0.3):
        scale = _spread(b, channels := made.shape[1])
        parts = [
            scale,
            scale * b.rng.standard_normal(channels),
            b.rng.standard_normal(channels),
            1 + b.rng.random(channels),
        ]
        (made,) = b.node("BatchNormalization", [made.name, *(_weight(b, part) for part in parts)])
    made = _activation(b, made)
    if b.chance(0.15):
        (made,) = b.node("MaxPool", [made.name], kernel_shape=[2, 2], pads=[1, 1, 1, 1])
    return made


def _conv(b: Builder, x: Drawn, channels: int, group: int = 1) -> Drawn:
    kernel = int(b.pick([1, 3]))
    weight = _uneven(b, (channels, x.shape[1] // group, kernel, kernel), int(b.rng.integers(2)))
    inputs = [x.name, b.weight(weight), *([_weight(b, b.rng.standard_normal(channels))] if b.chance(0.6) else [])]
    (made,) = b.node("Conv", inputs, group=group, pads=[kernel // 2] * 4)
    return made


def _activation(b: Builder, x: Drawn) -> Drawn:
    kind = b.pick(ACTIVATIONS)
    if kind == "PRelu":
        more = [_weight(b, b.rng.standard_normal((x.shape[1], 1, 1)))]
    else:
        more = [_weight(b, np.array(low)) for low in (-1.0, 1.0)] if kind == "Clip" else []
    if kind:
        (x,) = b.node(kind, [x.name, *more])
    if b.chance(0.2):
        (x,) = b.node("Add", [x.name, _weight(b, b.rng.standard_normal((x.shape[1], 1, 1)))])
    if b.chance(0.1):
        (x,) = b.node("Mul", [_weight(b, b.rng.standard_normal((1, 1, 1))), x.name])
    return x


def _uneven(b: Builder, dims: tuple[int, ...], axis: int) -> Array:
    shape = [1] * len(dims)
    shape[axis] = -1
    fan = np.sqrt(np.prod(dims[1:]))
    return _typed(b, b.rng.standard_normal(dims) * _spread(b, dims[axis]).reshape(shape) / fan)


def _spread(b: Builder, channels: int) -> Array:
    """Draw some powers of ten, and some zeros."""
    scale = 10.0 ** b.rng.uniform(-2 if b.dtype == TensorProto.FLOAT16 else -4, 0, channels)
    return np.where(b.rng.random(channels) < 0.1, 0.0, scale)


def _weight(b: Builder, array: Array) -> str:
    return b.weight(_typed(b, array), "n")


def _typed(b: Builder, array: Array) -> Array:
    return np.asarray(array).astype(onnx.helper.tensor_dtype_to_np_dtype(b.dtype))
