"""Networks with filters of zeros: residual sums, gates, groups, shuffles, shared weights, and what counts channels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto

from fuzz.builder import Array, Builder, Drawn

CHANNELS = (8, 12, 16, 20, 24)
Block = Callable[[Builder, Drawn], Drawn]


def draw(seed: int) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Draw a network of blocks, most of whose layers have zero filters or read some channels with zeros."""
    rng = np.random.default_rng([seed, 75])
    b = Builder(rng, opset=int(rng.choice([11, 13, 15, 17, 18, 20, 21])), dtype=TensorProto.FLOAT, plain=True)
    size = b.pick((4, 6, 8))
    b.inputs.append(Drawn(b.fresh("x"), b.dtype, (b.pick((1, 2)), b.pick((3, 4, 8)), size, size)))
    x = b.inputs[0]
    for _ in range(int(rng.integers(2, 7))):
        kept = b.size
        try:
            y = b.pick(BLOCKS)(b, x)
            x = y if min(y.shape) > 0 else _undo(b, kept, x)
        except (onnx.shape_inference.InferenceError, ValueError):
            b.cut(kept)
    ends = [_end(b, x)]
    inner = [value for value in b.values[:-1] if value.name != ends[0].name]
    if inner and b.chance(0.15):
        ends.append(b.pick(inner))
    if b.chance(0.4):
        b.leave_open(b.inputs[0], 0)
    return b.model(ends), {value.name: b.numbers(value.shape) for value in b.inputs}


def _undo(b: Builder, size: tuple[int, int, int, int], x: Drawn) -> Drawn:
    b.cut(size)
    return x


def filters(b: Builder, shape: tuple[int, ...], made: int = 0) -> str:
    """Append a weight with zero slices along axis ``made``, and perhaps along the other one."""
    array = b.numbers(shape, -0.4, 0.4)
    share = b.pick((0.0, 0.3, 0.5, 0.5, 0.8, 1.0))
    np.moveaxis(array, made, 0)[b.rng.random(shape[made]) < share] = 0
    if b.chance(0.3):
        np.moveaxis(array, 1 - made, 0)[b.rng.random(shape[1 - made]) < 0.5] = 0
    return b.weight(array)


def vector(b: Builder, count: int, *, scale: bool = False) -> str:
    """Append a number for each channel, some or all of them 0."""
    numbers = b.numbers((count,), 0.2 if scale else -2.0)
    share = b.pick((0.0, 0.0, 0.5, 1.0))
    numbers[b.rng.random(count) < share] = 0
    return b.weight(numbers)


def conv(b: Builder, x: Drawn, count: int = 0, kernel: int = 0, group: int = 1) -> Drawn:
    """Append a Conv, padded or not, with or without a bias."""
    count = count or b.pick(CHANNELS)
    kernel = min(kernel or b.pick((1, 3)), x.shape[2])
    pad = b.pick((0, kernel // 2))
    inputs = [x.name, filters(b, (count, x.shape[1] // group, kernel, kernel))]
    inputs += [vector(b, count)] if b.chance(0.7) else []
    return b.node("Conv", inputs, group=group, kernel_shape=[kernel, kernel], pads=[pad] * 4)[0]


def activation(b: Builder, x: Drawn) -> Drawn:
    """Append an activation, or none."""
    kind = b.pick(("Relu", "LeakyRelu", "Sigmoid", "Tanh", "HardSigmoid", "Elu", "Clip", "PRelu", "Softmax", "", ""))
    if not kind:
        return x
    if kind == "PRelu":
        return b.node(kind, [x.name, b.weight(b.numbers((x.shape[1], 1, 1)))])[0]
    ends = [b.weight(np.array(number, np.float32)) for number in (b.pick((-1, 0)), 6)] if kind == "Clip" else []
    return b.node(kind, [x.name, *ends], **({"axis": 1} if kind == "Softmax" else {}))[0]


def layer(b: Builder, x: Drawn) -> Drawn:
    """Append a convolution and an activation."""
    return activation(b, conv(b, x))


def normalised(b: Builder, x: Drawn) -> Drawn:
    """Append a convolution and a BatchNormalization, some of whose scales are 0."""
    y = conv(b, x)
    count = y.shape[1]
    scale, shift, mean = (vector(b, count) for _ in range(3))
    variance = b.weight(b.numbers((count,), 0.5, 2.0))
    return activation(b, b.node("BatchNormalization", [y.name, scale, shift, mean, variance])[0])


def residual(b: Builder, x: Drawn) -> Drawn:
    """Append a branch beside the value, and what combines both."""
    inner = activation(b, conv(b, x, kernel=1))
    y = b.node("Conv", [inner.name, filters(b, (x.shape[1], inner.shape[1], 1, 1)), vector(b, x.shape[1])])[0]
    operands = [x.name, y.name]
    if b.chance(0.5):
        operands.reverse()
    return activation(b, b.node(b.pick(("Add", "Add", "Sub", "Sum", "Max")), operands)[0])


def gate(b: Builder, x: Drawn) -> Drawn:
    """Append a squeeze-and-excitation: a factor for each channel, computed from all of them."""
    inner = b.node("GlobalAveragePool", [x.name])[0]
    for count in (b.pick((8, 16)), x.shape[1]):
        inner = b.node("Conv", [inner.name, filters(b, (count, inner.shape[1], 1, 1)), vector(b, count)])[0]
        inner = b.node(b.pick(("Relu", "Sigmoid")), [inner.name])[0]
    return b.node("Mul", [x.name, inner.name])[0]


def depthwise(b: Builder, x: Drawn) -> Drawn:
    """Append a depthwise convolution, perhaps of several filters a channel."""
    return activation(b, conv(b, x, x.shape[1] * b.pick((1, 1, 2)), group=x.shape[1]))


def grouped(b: Builder, x: Drawn) -> Drawn:
    """Append a convolution of two or four groups."""
    group = next(group for group in (b.pick((2, 4)), 2, 1) if x.shape[1] % group == 0)
    return activation(b, conv(b, x, b.pick((8, 16, 24)), group=group))


def shuffle(b: Builder, x: Drawn) -> Drawn:
    """Append a channel shuffle."""
    batch, count, height, width = x.shape
    group = next(group for group in (b.pick((2, 4)), 2, 1) if count % group == 0)
    lead = b.pick((0, -1, batch))
    y = b.node("Reshape", [x.name, b.integers([lead, group, count // group, height, width])])[0]
    y = b.node("Transpose", [y.name], perm=[0, 2, 1, 3, 4])[0]
    return b.node("Reshape", [y.name, b.integers([lead, count, height, width])])[0]


def concat(b: Builder, x: Drawn) -> Drawn:
    """Append two or three values beside each other."""
    parts = [activation(b, conv(b, x, kernel=1)) for _ in range(2)]
    sizes = {part.shape[2] for part in parts}
    parts += [x] if b.chance(0.4) and sizes == {x.shape[2]} else []
    return b.node("Concat", [part.name for part in parts], axis=b.pick((1, -3)))[0]


def tied(b: Builder, x: Drawn) -> Drawn:
    """Append two convolutions of one weight."""
    count = b.pick((8, 16))
    weight, bias = filters(b, (count, x.shape[1], 1, 1)), vector(b, count)
    other = b.node("Tanh", [x.name])[0]
    one, two = (b.node("Conv", [each.name, weight, *[bias] * b.chance(0.7)])[0] for each in (x, other))
    return (
        b.node("Concat", [one.name, two.name], axis=1)[0] if b.chance(0.5) else b.node("Add", [one.name, two.name])[0]
    )


def counted(b: Builder, x: Drawn) -> Drawn:
    """Append what counts channels: Split, Slice, Gather, DepthToSpace, a Reshape."""
    count = x.shape[1]
    kind = b.pick(("Split", "Slice", "Gather", "DepthToSpace", "Pad", "Resize"))
    if kind == "Split":
        parts = b.node(kind, [x.name] if b.opset < 13 else [x.name, b.integers([count // 2, count - count // 2])], 2,
                       axis=1, **({"split": [count // 2, count - count // 2]} if b.opset < 13 else {}))  # fmt: skip
        return b.node("Concat", [part.name for part in parts[::-1]], axis=1)[0]
    if kind == "Slice":
        start = int(b.rng.integers(count))
        return b.node(kind, [x.name, *(b.integers([each]) for each in (start, b.pick((count, 1 << 62)), 1))])[0]
    if kind == "Gather":
        return b.node(kind, [x.name, b.integers([*b.rng.integers(-count, count, b.pick((8, 16)))])], axis=1)[0]
    if kind == "Pad":
        mode = b.pick(("constant", "edge", "reflect"))
        return b.node(kind, [x.name, b.integers([0, 0, 1, 1, 0, 0, 1, 1])], mode=mode)[0]
    if kind == "Resize":
        scales = b.weight(np.array([1, 1, 2, 2], np.float32), "scales")
        none = b.weight(np.zeros(0, np.float32), "roi")
        return b.node(kind, [x.name, none, scales], mode=b.pick(("nearest", "linear")))[0]
    return b.node(kind, [x.name], blocksize=2, mode=b.pick(("DCR", "CRD")))[0]


def pooled(b: Builder, x: Drawn) -> Drawn:
    """Append a pool with or without padding."""
    kind = b.pick(("MaxPool", "AveragePool"))
    more = {"count_include_pad": b.pick((0, 1))} if kind == "AveragePool" else {}
    return b.node(kind, [x.name], kernel_shape=[3, 3], strides=[1, 1], pads=[b.pick((0, 1))] * 4, **more)[0]


def transposed(b: Builder, x: Drawn) -> Drawn:
    """Append a ConvTranspose, or matrix products over the last axis."""
    if b.chance(0.5) and x.shape[2] <= 8:
        count = b.pick((8, 16))
        inputs = [x.name, filters(b, (x.shape[1], count, 2, 2), 1), *([vector(b, count)] if b.chance(0.6) else [])]
        return activation(b, b.node("ConvTranspose", inputs, strides=[2, 2])[0])
    y = b.node("Transpose", [x.name], perm=[0, 2, 3, 1])[0]
    for count in (b.pick((8, 16)), b.pick((8, 16))):
        y = b.node("MatMul", [y.name, filters(b, (y.shape[-1], count), 1)])[0]
        y = b.node("Add", [y.name, vector(b, count)])[0] if b.chance(0.5) else y
        y = b.node("Relu", [y.name])[0]
    return b.node("Transpose", [y.name], perm=[0, 3, 1, 2])[0]


BLOCKS: tuple[Block, ...] = (
    *(layer, layer, layer, normalised, normalised, residual, residual, gate, depthwise, grouped, shuffle, concat),
    *(tied, counted, counted, pooled, transposed),
)


def _end(b: Builder, x: Drawn) -> Drawn:
    """Append a head: a convolution, or matrix products behind a Flatten, a Reshape or a global pool."""
    kind = b.pick(("conv", "flat", "reshape", "pool"))
    if kind == "conv":
        return conv(b, x, 5, 1)
    if kind == "pool":
        x = b.node("GlobalAveragePool", [x.name])[0]
    elements = int(np.prod(x.shape[1:]))
    flat = b.node("Reshape", [x.name, b.integers([b.pick((0, -1)), elements])])[0] if kind == "reshape" else None
    flat = flat or b.node("Flatten", [x.name])[0]
    inner = b.node("Gemm", [flat.name, filters(b, (16, elements)), vector(b, 16)], transB=1, beta=b.pick((1.0, 2.0)))[0]
    inner = b.node("Relu", [inner.name])[0]
    return b.node("Gemm", [inner.name, filters(b, (16, 4), 1)], alpha=b.pick((1.0, 0.5)))[0]
