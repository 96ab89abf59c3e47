"""Convolutions of one value, and the value itself, that are added up: one Conv if all have the same grid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from fuzz.builder import Builder, Drawn
from onnx import TensorProto, helper

from _patterns.parts import Pattern, conv, given, node, norm

SAME: dict[str, Any] = {"pads": [1, 1, 1, 1]}
WIDE: dict[str, Any] = {"kernel": 3, "dilations": [2, 2], "pads": [2, 2, 2, 2]}
UPPER: dict[str, Any] = {"auto_pad": "SAME_UPPER"}
TWO: dict[str, Any] = {"strides": [2, 2]}


def _sum(b: Builder, *parts: Drawn, op: str = "Add") -> Drawn:
    total = parts[0]
    for part in parts[1:]:
        total = node(b, op, total, part)
    return total


def _block(b: Builder, x: Drawn, group: int = 1) -> list[Drawn]:
    """Build the sum of a RepVGG block."""
    dense = conv(b, x, x.shape[1], kernel=3, group=group, **SAME)
    point = conv(b, x, x.shape[1], kernel=1, group=group)
    return [norm(b, dense), norm(b, point), norm(b, x)]


def _image(b: Builder, channels: int = 4) -> Drawn:
    return given(b, 2, channels, 6, 8)


def _mobile(b: Builder) -> Drawn:
    x = _image(b, 3)
    convs = [conv(b, x, 3, kernel=size, group=3, pads=[size // 2] * 4) for size in (1, 3, 3)]
    return _sum(b, norm(b, convs[0]), norm(b, x), *(norm(b, part) for part in convs[1:]))


def _difference(b: Builder) -> Drawn:
    x = _image(b)
    return _sum(b, norm(b, conv(b, x, 4, kernel=3, **SAME)), norm(b, conv(b, x, 4, kernel=1)), op="Sub")


def _pair(large: dict[str, Any], small: dict[str, Any], channels: int = 3) -> Callable[[Builder], Drawn]:
    """Append two normalised convolutions of one value."""

    def build(b: Builder) -> Drawn:
        x = given(b, 2, 4, 11, 13)
        return _sum(b, *(norm(b, conv(b, x, channels, **dict(about))) for about in (large, small)))

    return build


def _exact(name: str, build: Callable[[Builder], Drawn], **options: Any) -> Pattern:
    return Pattern(f"{name} → one Conv", build, whole=True, **options)


EXACT = [
    _exact("RepVGG: BN(Conv 3x3) + BN(Conv 1x1) + BN(x)", lambda b: _sum(b, *_block(b, _image(b)))),
    _exact("the same with groups", lambda b: _sum(b, *_block(b, _image(b), 2))),
    _exact("the same by Sum", lambda b: node(b, "Sum", *_block(b, _image(b)))),
    _exact("the same in float16", lambda b: _sum(b, *_block(b, _image(b))), dtype=TensorProto.FLOAT16),
    _exact("MobileOne: depthwise, of four branches", _mobile),
    _exact("BN(Conv 3x3) + x", lambda b: _sum(b, norm(b, conv(b, x := _image(b), 4, kernel=3, **SAME)), x)),
    _exact("BN(Conv 3x3) - BN(Conv 1x1)", _difference),
    _exact("BN(Conv 3x3 + x)", lambda b: norm(b, _sum(b, conv(b, x := _image(b), 4, kernel=3, **SAME), x))),
    _exact("two BN(Conv), stride 2", _pair({"kernel": 3, **SAME, **TWO}, {"kernel": 1, **TWO})),
    _exact("two BN(Conv), dilated", _pair(WIDE, {"kernel": 1})),
    _exact("two BN(Conv), SAME", _pair({"kernel": 3, "auto_pad": "SAME_LOWER"}, {"kernel": 1})),
    _exact("BN(Conv 5x5) + BN(Conv 3x3)", _pair({"kernel": 5, "pads": [2] * 4}, {"kernel": 3, **SAME})),
]  # fmt: skip


def _one_broadcast(b: Builder) -> Drawn:
    x = _image(b)
    return _sum(b, *(norm(b, conv(b, x, channels, kernel=1)) for channels in (4, 1)))


def _strided_value(b: Builder) -> Drawn:
    """Build a sum in which the convolution leaves one row and column, so that the value is broadcast."""
    x = given(b, 2, 4, 1, 1)
    return _sum(b, conv(b, x, 4, kernel=3, strides=[2, 2], pads=[3] * 4), norm(b, x))


def _unequal_channels(b: Builder) -> Drawn:
    x = given(b, 2, 1, 6, 8)
    return _sum(b, conv(b, x, 4, kernel=3, **SAME), norm(b, x))


def _swapped_groups(b: Builder, group: int = 2) -> Drawn:
    x = _image(b)
    return _sum(b, norm(b, conv(b, x, 4, kernel=1, group=group)), norm(b, conv(b, x, 4, kernel=1)))


def _twice(b: Builder) -> Drawn:
    y = norm(b, conv(b, _image(b)))
    return _sum(b, y, y)


def _overflow(b: Builder) -> Drawn:
    """Build a sum of kernels that overflows although each kernel is finite."""
    x = node(b, "Mul", _image(b, 2), b.weight(np.array(1e-5, np.float16)))
    kernels = [b.weight(np.full((2, 2, 1, 1), 4e4, np.float16)) for _ in range(2)]
    return norm(b, _sum(b, *(node(b, "Conv", x, kernel) for kernel in kernels)))


def _read_inside(model: onnx.ModelProto) -> None:
    """Build an If that reads the first convolution's value in both branches."""
    graph = model.graph
    value = next(made.output[0] for made in graph.node if made.op_type == "Conv")
    end = helper.make_tensor_value_info("inside", TensorProto.FLOAT, [None] * 4)
    bodies = [helper.make_graph([helper.make_node(op, [value], ["inside"])], op, [], [end]) for op in ("Exp", "Neg")]
    graph.node.append(helper.make_node("If", ["chosen"], ["seen"], then_branch=bodies[0], else_branch=bodies[1]))
    graph.initializer.append(helper.make_tensor("chosen", TensorProto.BOOL, [], [True]))
    graph.output.append(helper.make_tensor_value_info("seen", TensorProto.FLOAT, [None] * 4))


def _kept(b: Builder) -> list[Drawn]:
    x = _image(b)
    parts = [conv(b, x, 4, kernel=1) for _ in range(2)]
    return [norm(b, _sum(b, *parts)), parts[1]]


TRAPS = [
    Pattern("Conv with stride 2 + BN(x), broadcast", _strided_value),
    Pattern("Conv of one channel to four + BN(x), broadcast", _unequal_channels),
    Pattern("BN(Conv with group) + BN(Conv without)", _swapped_groups),
    Pattern("BN(depthwise Conv) + BN(Conv)", lambda b: _swapped_groups(b, 4)),
    Pattern("BN(Conv) twice into one Add", _twice),
    Pattern("BN(Conv) + BN(Conv), one broadcast", _one_broadcast),
    Pattern("two BN(Conv), other dilations", _pair(WIDE, {"kernel": 3, **SAME})),
    Pattern("two BN(Conv), SAME_UPPER and SAME_LOWER", _pair(UPPER, {"auto_pad": "SAME_LOWER"})),
    Pattern("two BN(Conv), SAME with stride", _pair({"kernel": 3, **UPPER, **TWO}, {"kernel": 1, **TWO})),
    Pattern("two BN(Conv), window beside the other", _pair({"kernel": 3, "pads": [4, 4, 0, 0]}, {"kernel": 1, **SAME})),
    Pattern("Conv + Conv → BN in float16, the sum would overflow", _overflow, dtype=TensorProto.FLOAT16),
    Pattern("BN(Conv + Conv), one Conv an output", _kept),
    Pattern("BN(Conv + Conv), one Conv read in a subgraph", lambda b: _kept(b)[0], change=_read_inside),
]  # fmt: skip
