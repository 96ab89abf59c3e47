"""Patterns whose fold would be wrong, or has been wrong: leaving them is right here, folding right is better."""

from __future__ import annotations

import numpy as np
from fuzz.builder import Builder, Drawn
from onnx import TensorProto

from _patterns.parts import Pattern, conv, conv_transpose, gemm, given, image, matmul, node, norm, through, weight


def _training(b: Builder) -> Drawn:
    y = conv(b, image(b))
    statistics = [weight(b, 4), weight(b, 4), weight(b, 4), b.weight(b.numbers([4], 0.5, 2.0))]
    return b.node("BatchNormalization", [y.name, *statistics], outputs=3, training_mode=1)[0]


def _overflow(b: Builder) -> Drawn:
    """Build a model whose numbers are all finite, and whose folded weight is not."""
    x = node(b, "Mul", image(b), b.weight(np.array(1e-3, np.float16)))
    kernel = b.weight(np.full((4, 3, 2, 2), 2.0, np.float16))
    scale, zero = b.weight(np.full(4, 300.0, np.float16)), b.weight(np.zeros(4, np.float16))
    var = b.weight(np.full(4, 1e-5, np.float16))
    y = node(b, "Conv", x, kernel)
    return b.node("BatchNormalization", [y.name, scale, zero, zero, var], epsilon=1e-12)[0]


def _subnormal(b: Builder) -> Drawn:
    scale = b.weight(np.full(4, 1e-6, np.float16))
    zero, one = b.weight(np.zeros(4, np.float16)), b.weight(np.ones(4, np.float16))
    y = b.node("BatchNormalization", [conv(b, image(b), bias=False).name, scale, zero, zero, one], epsilon=0.0)[0]
    return node(b, "Mul", y, b.weight(np.array(3e4, np.float16)))


def _taken_names(b: Builder) -> list[Drawn]:
    y = norm(b, conv(b, image(b), bias=False))
    made = b.nodes[0]
    for hint in ("bias", "weight"):
        name = f"{made.input[1]}_{hint}"
        b.weights.append(_named(b, name))
    for hint in ("bias", "weight"):
        b.weights.append(_named(b, f"{y.name}_{hint}"))
    return [y, *(node(b, "Neg", tensor.name) for tensor in b.weights[-4:])]


def _named(b: Builder, name: str) -> TensorProto:
    from onnx import numpy_helper

    return numpy_helper.from_array(b.numbers([4]), name)


def _square(b: Builder) -> Drawn:
    return matmul(b, given(b, 6, 4), 6)


def _coinciding() -> list[Pattern]:
    return [
        Pattern("MatMul → Reshape (1,6,6) → BN, sizes coincide", lambda b: norm(b, _reshaped(b, _square(b), 1, 6, 6))),
        Pattern("MatMul → Transpose → BN, sizes coincide", lambda b: norm(b, _turned(b, _square(b)))),
        Pattern("Gemm → Transpose → BN, sizes coincide", lambda b: norm(b, _turned(b, gemm(b, given(b, 5, 4))))),
        Pattern("Conv → Mul by a vector along the width", lambda b: node(b, "Mul", _even(b), weight(b, 4))),
        Pattern("Conv → Mul by (C,1) along the height", lambda b: node(b, "Mul", _even(b), weight(b, 4, 1))),
        Pattern("ConvTranspose with group → Mul along the width", _grouped),
    ]


def _reshaped(b: Builder, x: Drawn, *target: int) -> Drawn:
    return through("Reshape", target)(b, x)


def _turned(b: Builder, x: Drawn) -> Drawn:
    return node(b, "Transpose", x, perm=[1, 0])


def _even(b: Builder) -> Drawn:
    return conv(b, given(b, 2, 3, 5, 5))


def _grouped(b: Builder) -> Drawn:
    return node(b, "Mul", conv_transpose(b, given(b, 2, 4, 3, 3), 4, group=2), weight(b, 4))


def _between_integers(*, before: bool) -> Pattern:
    def build(b: Builder) -> Drawn:
        grid = [b.weight(np.array(0.05, np.float32)), b.weight(np.array(3, np.int8))]
        x = norm(b, image(b)) if before else conv(b, image(b))
        x = node(b, "DequantizeLinear", node(b, "QuantizeLinear", x, *grid), *grid)
        return conv(b, x) if before else norm(b, x)

    way = "BN → QuantizeLinear → DequantizeLinear → Conv" if before else "Conv → QuantizeLinear → DequantizeLinear → BN"
    return Pattern(way, build)


def _unlawful() -> list[Pattern]:
    maximum = through("MaxPool", kernel_shape=[2, 2])
    mean = through("AveragePool", kernel_shape=[2, 2], pads=[1, 1, 1, 1], count_include_pad=1)
    zeros = through("Pad", [0, 0, 1, 1, 0, 0, 1, 1])
    return [
        Pattern("Conv → MaxPool → BN with negative scales", lambda b: norm(b, maximum(b, conv(b, image(b))))),
        Pattern("Conv → Relu → BN with negative scales", lambda b: norm(b, through("Relu")(b, conv(b, image(b))))),
        Pattern("Conv → AveragePool counting its padding → BN", lambda b: norm(b, mean(b, conv(b, image(b))))),
        Pattern("Conv → Pad with zeros → BN", lambda b: norm(b, zeros(b, conv(b, image(b))))),
    ]


ROWS = [
    Pattern("Conv → BN in training mode", _training),
    Pattern("float16 weights that would overflow", _overflow, dtype=TensorProto.FLOAT16),
    Pattern("float16 weights that would lose their bits", _subnormal, dtype=TensorProto.FLOAT16),
    Pattern("names that tools like to make are taken", _taken_names),
    *(_between_integers(before=before) for before in (False, True)),
    *_coinciding(),
    *_unlawful(),
]
