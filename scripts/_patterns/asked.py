"""Patterns for options: products in a row that are merged, channels equalised across layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from fuzz.builder import Builder, Drawn
from onnx import TensorProto, numpy_helper

from _patterns.parts import Build, Pattern, conv, gemm, given, image, node, norm, weight

SAME: dict[str, Any] = {"kernel": 3, "pads": [1, 1, 1, 1]}


def _products(model: onnx.ModelProto) -> tuple[float, float]:
    """Count the products, runtimes' own among them."""
    kinds = ("Conv", "FusedConv", "Gemm", "FusedGemm", "MatMul")
    return sum(made.op_type in kinds for made in model.graph.node), 0


def _spread(model: onnx.ModelProto) -> tuple[float, float]:
    """Return the largest range of a channel over the smallest, in the weight with the largest ratio."""
    ratios = [1.0]
    for tensor in model.graph.initializer:
        sizes = np.abs(numpy_helper.to_array(tensor))
        for axis in range(min(sizes.ndim, 2)) if sizes.ndim > 1 else ():
            ranges = sizes.max(tuple(other for other in range(sizes.ndim) if other != axis))
            ratios.append(float(ranges.max() / max(float(ranges.min()), 1e-30)))
    return max(ratios), 0


def _row(first: dict[str, Any], second: dict[str, Any], between: int = 9, channels: int = 3) -> Build:
    """Build two convolutions, one behind the other."""

    def build(b: Builder) -> Drawn:
        x = conv(b, given(b, 2, channels, 7, 6), between, **first)
        return node(b, "Sin", conv(b, x, 4, **second))

    return build


def _normalised(b: Builder) -> Drawn:
    x = norm(b, conv(b, image(b), 9, kernel=1))
    return node(b, "Sin", norm(b, conv(b, x, 4, kernel=3)))


def _read_twice(b: Builder) -> list[Drawn]:
    x = conv(b, image(b), 9, kernel=1)
    return [node(b, "Sin", conv(b, x, 4)), node(b, "Exp", x)]


def _gemms(c: tuple[int, ...] = (7,), **second: Any) -> Build:
    def build(b: Builder) -> Drawn:
        x = gemm(b, given(b, 4, 5), 7 if not second.get("transA") else 4, c, alpha=0.5, beta=2.0)
        return node(b, "Sin", gemm(b, x, 3, (3,), **second))

    return build


def _overflow(b: Builder) -> Drawn:
    x = node(b, "Mul", given(b, 2, 2, 3, 4), b.weight(np.array(1e-4, np.float16)))
    for _ in range(2):
        x = node(b, "Conv", x, b.weight(np.full((2, 2, 1, 1), 300.0, np.float16)))
    return x


def _uneven(*between: Callable[[Builder, Drawn], Drawn]) -> Build:
    """Build a Conv whose channels differ in range by three powers of ten, the operators between, and a Conv."""

    def build(b: Builder) -> Drawn:
        factors = np.logspace(-3, 0, 6).astype(np.float32).reshape(6, 1, 1, 1)
        x = node(b, "Conv", image(b), b.weight(b.numbers([6, 3, 2, 2], 0.5, 1.5) * factors))
        for part in between:
            x = part(b, x)
        return conv(b, x)

    return build


def _relu(b: Builder, x: Drawn) -> Drawn:
    return node(b, "Relu", x)


def _sloped(b: Builder, x: Drawn) -> Drawn:
    return node(b, "MaxPool", node(b, "PRelu", x, weight(b, 6, 1, 1)), kernel_shape=[2, 2])


def _clip(b: Builder, x: Drawn) -> Drawn:
    return node(b, "Clip", x, *(b.weight(np.array(bound, np.float32)) for bound in (0, 6)))


def _asked(name: str, build: Build, option: str, **options: Any) -> Pattern:
    measure = {"merge_branches": _products, "equalize": _spread}[option]
    told = f"{name} (`--{option.replace('_', '-')}`)"
    return Pattern(told, build, options={option: True}, measure=measure, **options)


def _merged(name: str, build: Build, **options: Any) -> Pattern:
    return _asked(name, build, "merge_branches", **options)


def _evened(name: str, *between: Callable[[Builder, Drawn], Drawn]) -> Pattern:
    return _asked(f"uneven Conv → {name} → Conv", _uneven(*between), "equalize")


EXACT = [
    _merged("Conv 1x1 → Conv 3x3 → one Conv", _row({"kernel": 1}, {"kernel": 3})),
    _merged("Conv 3x3 that pads, with stride → Conv 1x1 → one Conv", _row({**SAME, "strides": [2, 2]}, {"kernel": 1})),
    _merged("Conv 1x1 → BN → Conv 3x3 → BN → one Conv", _normalised),
    _merged("Gemm → Gemm → one Gemm", _gemms()),
    _merged("Gemm → Gemm transB, alpha → one Gemm", _gemms(transB=1, alpha=0.5)),
    _evened("Relu", _relu),
    _evened("Relu, depthwise Conv", _relu, lambda b, x: conv(b, x, 6, group=6)),
    _evened("PRelu, MaxPool", _sloped),
]  # fmt: skip
TRAPS = [
    _merged("Conv 1x1 with bias → Conv 3x3 that pads", _row({"kernel": 1}, SAME)),
    _merged("Conv 1x1 with stride → Conv 2x2", _row({"kernel": 1, "strides": [2, 2]}, {"kernel": 2})),
    _merged("Conv 1x1 with bias → Conv 2x2, SAME_UPPER", _row({"kernel": 1}, {"kernel": 2, "auto_pad": "SAME_UPPER"})),
    _merged("Conv 3x3 → Conv 3x3", _row({"kernel": 3}, {"kernel": 3})),
    _merged("depthwise Conv 1x1 → Conv 3x3", _row({"kernel": 1, "group": 3}, {"kernel": 3})),
    _merged("Conv 1x1 → Conv 1x1 with group", _row({"kernel": 1}, {"kernel": 1, "group": 4}, between=8)),
    _merged("Conv 1x1 → Conv, and read by another", _read_twice),
    _merged("Conv 1x1 to few channels → Conv 3x3, one would be larger", _row({"kernel": 1}, {"kernel": 3}, 2, 9)),
    _merged("Conv 1x1 → Conv 1x1 in float16, the product would overflow", _overflow, dtype=TensorProto.FLOAT16),
    _merged("Gemm → Gemm transA", _gemms((), transA=1)),
    _merged("Gemm, C by row → Gemm", _gemms((4, 1))),
    _evened("Sigmoid", lambda b, x: node(b, "Sigmoid", x)),
    _evened("Clip", _clip),
    _evened("twice into a Mul", lambda b, x: node(b, "Mul", x, x)),
]  # fmt: skip
