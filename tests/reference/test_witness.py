"""The referee against onnxruntime on random geometry: groups, padding modes, roundings, all combined.

Cases in which the two are known to part, and the operator text is on the referee's side, are not drawn: SAME padding
of dilated pooling (onnxruntime ignores the dilation), ceil_mode with auto_pad, transposed convolutions that are to be
larger than their kernels reach, the fifth output of BatchNormalization-9, masks of Dropout before version 12.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.reference.models import Array, one_node
from tests.reference.witness import Case, disagreements

Draw = Callable[[np.random.Generator], Case]


def normal(rng: np.random.Generator, *shape: int) -> Array:
    return rng.standard_normal(shape).astype(np.float32)


def ints(rng: np.random.Generator, low: int, high: int, count: int) -> list[int]:
    return [int(value) for value in rng.integers(low, high, count)]


def sometimes(rng: np.random.Generator, attrs: dict[str, Any], name: str, value: Any, chance: float = 0.5) -> None:
    if rng.random() < chance:
        attrs[name] = value


def spatial(rng: np.random.Generator, rank: int) -> list[int]:
    return [int(size) for size in rng.permutation([5, 6, 7, 8])[:rank]]


def convolution(rng: np.random.Generator) -> Case:
    rank, groups = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    ins, outs = groups * int(rng.integers(1, 3)), groups * int(rng.integers(1, 4))
    kernel = ints(rng, 1, 4, rank)
    attrs: dict[str, Any] = {"group": groups}
    sometimes(rng, attrs, "strides", ints(rng, 1, 4, rank))
    sometimes(rng, attrs, "auto_pad", str(rng.choice(["SAME_UPPER", "VALID"])), 0.4)
    if "auto_pad" not in attrs:
        sometimes(rng, attrs, "pads", ints(rng, 0, 3, 2 * rank))
    if attrs.get("auto_pad") != "SAME_UPPER":
        sometimes(rng, attrs, "dilations", ints(rng, 1, 3, rank))
    x, w = normal(rng, 2, ins, *spatial(rng, rank)), normal(rng, outs, ins // groups, *kernel)
    return one_node("Conv", int(rng.choice([1, 11, 22])), [x, w, normal(rng, outs)][: int(rng.integers(2, 4))], **attrs)


def transposed_convolution(rng: np.random.Generator) -> Case:
    rank, groups = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    ins, outs = groups * int(rng.integers(1, 3)), int(rng.integers(1, 4))
    kernel, strides = ints(rng, 1, 4, rank), ints(rng, 1, 4, rank)
    attrs: dict[str, Any] = {"group": groups, "strides": strides}
    sometimes(rng, attrs, "pads", ints(rng, 0, 2, 2 * rank))
    sometimes(rng, attrs, "dilations", ints(rng, 1, 3, rank))
    sometimes(rng, attrs, "output_padding", [int(rng.integers(0, stride)) for stride in strides])
    x, w = normal(rng, 2, ins, *spatial(rng, rank)), normal(rng, ins, outs, *kernel)
    inputs = [x, w, normal(rng, outs * groups)][: int(rng.integers(2, 4))]
    return one_node("ConvTranspose", int(rng.choice([1, 11, 22])), inputs, **attrs)


POOLS = {"AveragePool": [7, 10, 11, 19, 22], "MaxPool": [1, 8, 10, 11, 12, 22], "LpPool": [2, 11, 18, 22]}
DILATED = {"AveragePool": 19, "MaxPool": 10, "LpPool": 18}


def pooling(rng: np.random.Generator) -> Case:
    op = str(rng.choice(list(POOLS)))
    opset, rank = int(rng.choice(POOLS[op])), int(rng.integers(1, 4))
    kernel = ints(rng, 1, 4, rank)
    attrs: dict[str, Any] = {"kernel_shape": kernel, "strides": ints(rng, 1, min(kernel) + 1, rank)}
    sometimes(rng, attrs, "auto_pad", str(rng.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])), 0.4)
    if "auto_pad" not in attrs:
        sometimes(rng, attrs, "pads", [int(rng.integers(0, size)) for size in kernel * 2])
        if opset >= DILATED[op]:
            sometimes(rng, attrs, "dilations", ints(rng, 1, 3, rank))
        if opset >= (18 if op == "LpPool" else 10):
            sometimes(rng, attrs, "ceil_mode", 1)
    outputs = ["y"]
    if op == "AveragePool":
        sometimes(rng, attrs, "count_include_pad", 1)
    if op == "LpPool":
        attrs["p"] = int(rng.integers(1, 4))
    if op == "MaxPool" and opset >= 8 and rng.random() < 0.5:
        outputs.append("index")
        sometimes(rng, attrs, "storage_order", 1)
    return one_node(op, opset, [normal(rng, 2, 3, *spatial(rng, rank))], outputs, **attrs)


def batch_normalization(rng: np.random.Generator) -> Case:
    opset, rank = int(rng.choice([7, 8, 9, 13, 14, 15])), int(rng.integers(2, 6))
    dims = [int(size) for size in rng.permutation([2, 3, 4, 5, 6])[:rank]]
    attrs: dict[str, Any] = {"epsilon": 0.01, "momentum": 0.7}
    outputs, shape = ["y"], dims[1:2]
    if opset >= 14 and rng.random() < 0.5:
        attrs["training_mode"] = 1
        outputs += ["mean", "var"]
    if opset == 7 and rng.random() < 0.5:
        attrs["spatial"], shape = 0, dims[1:]
    parameters = [normal(rng, *shape) for _ in range(3)]
    return one_node(
        "BatchNormalization", opset, [normal(rng, *dims), *parameters, abs(normal(rng, *shape)) + 0.1], outputs, **attrs
    )


def normalisation(rng: np.random.Generator) -> Case:
    x = normal(rng, 3, 6, 4, 5)
    kind = str(rng.choice(["Instance", "Group", "Layer"]))
    if kind == "Instance":
        return one_node("InstanceNormalization", int(rng.choice([6, 22])), [x * 3 + 5, normal(rng, 6), normal(rng, 6)])
    if kind == "Group":
        opset, groups = int(rng.choice([18, 21])), int(rng.choice([2, 3]))
        count = groups if opset == 18 else 6
        return one_node("GroupNormalization", opset, [x, normal(rng, count), normal(rng, count)], num_groups=groups)
    axis = int(rng.integers(-3, 4))
    scale = normal(rng, *x.shape[axis:])
    return one_node("LayerNormalization", 17, [x, scale, scale + 1], ["y", "mean", "inverse"], axis=axis)


def resizing(rng: np.random.Generator) -> Case:
    opset = int(rng.choice([11, 13, 18, 19]))
    mode = str(rng.choice(["nearest", "linear", "cubic"]))
    coordinates = str(rng.choice(["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]))
    attrs: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": coordinates}
    if mode == "nearest":
        sometimes(
            rng, attrs, "nearest_mode", str(rng.choice(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]))
        )
    if mode == "cubic":
        sometimes(rng, attrs, "exclude_outside", 1)
    empty = np.zeros(0, np.float32)
    sizes = np.array([1, 2, *ints(rng, 1, 12, 2)])
    return one_node("Resize", opset, [normal(rng, 1, 2, 4, 7), empty, empty, sizes], stored=(1, 2, 3), **attrs)


def recurrence(rng: np.random.Generator) -> Case:
    op, gates = [("LSTM", 4), ("GRU", 3), ("RNN", 1)][int(rng.integers(3))]
    direction = str(rng.choice(["forward", "reverse", "bidirectional"]))
    count = 2 if direction == "bidirectional" else 1
    inputs: list[Array | None] = [
        normal(rng, 4, 3, 5),
        normal(rng, count, gates * 6, 5),
        normal(rng, count, gates * 6, 6),
    ]
    inputs += [normal(rng, count, 2 * gates * 6), np.array([4, 2, 3], np.int32), normal(rng, count, 3, 6)]
    attrs: dict[str, Any] = {"hidden_size": 6, "direction": direction}
    sometimes(rng, attrs, "clip", 0.5, 0.3)
    if op == "GRU":
        sometimes(rng, attrs, "linear_before_reset", 1)
    if op == "LSTM":
        inputs += [normal(rng, count, 3, 6), normal(rng, count, 18)]
    return one_node(op, int(rng.choice([7, 14, 22])), inputs, ["y", "h", "c"][: 3 if op == "LSTM" else 2], **attrs)


def whole(rng: np.random.Generator, *shape: int) -> Array:
    return rng.integers(0, 255, shape).astype(np.uint8)


def integer_product(rng: np.random.Generator) -> Case:
    zero, other = (np.array(value, np.uint8) for value in (120, 100))
    if rng.random() < 0.5:
        return one_node("MatMulInteger", 10, [whole(rng, 2, 3, 4), whole(rng, 4, 5), zero, other])
    groups = int(rng.integers(1, 3))
    x, w = whole(rng, 1, 4, 6, 5), whole(rng, 6, 4 // groups, 3, 3)
    return one_node("ConvInteger", 10, [x, w, zero, other], group=groups, pads=[1, 0, 1, 1], strides=[1, 2])


def quantised_product(rng: np.random.Generator) -> Case:
    scales = [np.array(value, np.float32) for value in rng.random(3) * 0.1 + [0, 0, 5]]
    zeros = [np.array(value, np.uint8) for value in (120, 100, 110)]
    bias = rng.integers(-300, 300, 6).astype(np.int32)
    if rng.random() < 0.5:
        inputs = [whole(rng, 2, 3, 4), scales[0], zeros[0], whole(rng, 4, 5), scales[1], zeros[1], scales[2], zeros[2]]
        return one_node("QLinearMatMul", 10, inputs)
    groups = int(rng.integers(1, 3))
    x, w, scale, zero = whole(rng, 1, 4, 6, 5), whole(rng, 6, 4 // groups, 3, 3), scales[1], zeros[1]
    if rng.random() < 0.5:  # one scale an output channel, for signed weights around zero
        # Halved: onnxruntime lets pairs of unsigned times signed bytes overflow 16 bits on processors without VNNI.
        w, scale, zero = w.astype(np.int8) // 2, (rng.random(6) * 0.1).astype(np.float32), np.zeros(6, np.int8)
    inputs = [x, scales[0], zeros[0], w, scale, zero, scales[2], zeros[2], bias]
    return one_node("QLinearConv", 10, inputs, group=groups, pads=[1, 0, 1, 1])


def sampling(rng: np.random.Generator) -> Case:
    opset, rank = int(rng.choice([16, 20, 22])), int(rng.integers(2, 4))
    cubic = "bicubic" if opset == 16 else "cubic"
    mode = str(rng.choice(["bilinear" if opset == 16 else "linear", "nearest", cubic]))
    rank = 2 if opset == 16 or mode == cubic else rank
    attrs: dict[str, Any] = {
        "padding_mode": str(rng.choice(["zeros", "border", "reflection"])),
        "align_corners": int(rng.integers(2)),
    }
    grid = (rng.random((2, *[4, 3, 2][:rank], rank)) * 4 - 2).astype(np.float32)
    return one_node("GridSample", opset, [normal(rng, 2, 3, *[5, 6, 7][:rank]), grid], mode=mode, **attrs)


def deformed(rng: np.random.Generator) -> Case:
    groups, regions = int(rng.integers(1, 3)), int(rng.integers(1, 3))
    kernel, size = ints(rng, 1, 4, 2), spatial(rng, 2)
    attrs: dict[str, Any] = {"group": groups, "offset_group": regions, "kernel_shape": kernel}
    attrs |= {"strides": ints(rng, 1, 3, 2), "pads": ints(rng, 0, 3, 4), "dilations": ints(rng, 1, 3, 2)}
    x, w = normal(rng, 2, 4, *size), normal(rng, 2 * groups, 4 // groups, *kernel)
    extent = [(k - 1) * d + 1 for k, d in zip(kernel, attrs["dilations"], strict=True)]
    room = [n + attrs["pads"][axis] + attrs["pads"][axis + 2] - extent[axis] for axis, n in enumerate(size)]
    made = [r // s + 1 for r, s in zip(room, attrs["strides"], strict=True)]
    taps = regions * kernel[0] * kernel[1]
    inputs: list[Array | None] = [x, w, normal(rng, 2, 2 * taps, *made) * 2]
    inputs.append(normal(rng, 2 * groups) if rng.random() < 0.5 else None)
    inputs += [normal(rng, 2, taps, *made)] if rng.random() < 0.5 else []
    return one_node("DeformConv", int(rng.choice([19, 22])), inputs, **attrs)


def region_pooling(rng: np.random.Generator) -> Case:
    size = spatial(rng, 2)
    corners = np.sort(rng.integers(-2, 10, (4, 2, 2)), 1).reshape(4, 4) * 1.5
    rois = np.concatenate([rng.integers(0, 2, (4, 1)), corners], 1).astype(np.float32)
    shape, scale = ints(rng, 1, 4, 2), float(rng.choice([1, 0.5, 2]))
    return one_node("MaxRoiPool", 1, [normal(rng, 2, 3, *size), rois], pooled_shape=shape, spatial_scale=scale)


def uniqueness(rng: np.random.Generator) -> Case:
    attrs: dict[str, Any] = {}
    sometimes(rng, attrs, "axis", int(rng.integers(-3, 3)))
    sometimes(rng, attrs, "sorted", 0)
    x = rng.integers(0, 3, (4, 2, 5)).astype(np.float32)
    return one_node("Unique", 11, [x], ["y", "first", "which", "counts"][: int(rng.integers(1, 5))], **attrs)


def affine_grid(rng: np.random.Generator) -> Case:
    rank = int(rng.integers(2, 4))
    size = np.array([2, 3, 4, 5, 6][: rank + 2])
    return one_node("AffineGrid", 20, [normal(rng, 2, rank, rank + 1), size], align_corners=int(rng.integers(2)))


def softmax(rng: np.random.Generator) -> Case:
    shape = [2, 3, 4, 5][: int(rng.integers(2, 5))]
    op, opset = str(rng.choice(["Softmax", "LogSoftmax", "Hardmax"])), int(rng.choice([1, 11, 13]))
    return one_node(
        op, opset, [normal(rng, *shape)], axis=int(rng.integers(0 if opset == 1 else -len(shape), len(shape)))
    )


DRAWS: list[tuple[Draw, int]] = [
    (convolution, 120),
    (transposed_convolution, 120),
    (pooling, 160),
    (batch_normalization, 80),
    (normalisation, 40),
    (resizing, 120),
    (recurrence, 60),
    (softmax, 40),
    (sampling, 120),
    (deformed, 40),
    (region_pooling, 40),
    (uniqueness, 40),
    (affine_grid, 10),
    (integer_product, 30),
    (quantised_product, 60),
]


@pytest.mark.parametrize(("draw", "count"), DRAWS, ids=[draw.__name__ for draw, _ in DRAWS])
def test_agreement(draw: Draw, count: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(2026)
    wrong, compared = disagreements([draw(rng) for _ in range(count)], tmp_path)
    assert not wrong
    assert compared > 0.8 * count
