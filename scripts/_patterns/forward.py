"""A BatchNormalization, then perhaps a carrier of affines, then a linear operator; and affines among themselves."""

from __future__ import annotations

import numpy as np
from fuzz.builder import Builder, Drawn

from _patterns.parts import (
    Pattern,
    conv,
    conv_transpose,
    exchanged,
    gemm,
    given,
    image,
    ints,
    matmul,
    node,
    norm,
    through,
    weight,
)


def _direct() -> list[Pattern]:
    return [
        Pattern("BN → Conv", lambda b: conv(b, norm(b, image(b)))),
        Pattern("BN → Conv with group", lambda b: conv(b, norm(b, given(b, 2, 6, 5, 7)), 8, group=2)),
        Pattern("BN → depthwise Conv", lambda b: conv(b, norm(b, image(b)), 6, group=3)),
        exchanged("BN → padded Conv", lambda b: conv(b, norm(b, image(b)), pads=[1, 1, 1, 1])),
        Pattern(
            "BN → padded Conv → GlobalAveragePool → Flatten → Gemm",
            lambda b: gemm(
                b,
                through("Flatten")(
                    b, through("GlobalAveragePool")(b, conv(b, norm(b, image(b)), kernel=3, pads=[1, 1, 1, 1]))
                ),
            ),
        ),
        exchanged("BN with a zero scale → padded Conv", _dead_channel),
        Pattern(
            "BN without shift → padded Conv", lambda b: conv(b, norm(b, image(b), scale_only=True), pads=[1, 1, 1, 1])
        ),
        Pattern(
            "BN → Conv SAME that pads nothing",
            lambda b: conv(b, norm(b, given(b, 2, 3, 6, 8)), auto_pad="SAME_UPPER", strides=[2, 2]),
        ),
        Pattern("BN → ConvTranspose 1x1", lambda b: conv_transpose(b, norm(b, image(b)), kernel=1)),
        Pattern("BN without shift → ConvTranspose", lambda b: conv_transpose(b, norm(b, image(b), scale_only=True))),
        Pattern("BN → Gemm", lambda b: gemm(b, norm(b, given(b, 3, 4)))),
        Pattern(
            "BN → Gemm transB, alpha, beta", lambda b: gemm(b, norm(b, given(b, 3, 4)), transB=1, alpha=0.5, beta=2.0)
        ),
        Pattern("BN → MatMul", lambda b: matmul(b, norm(b, given(b, 3, 4)))),
        Pattern("BN → Transpose → MatMul → Add", _token),
        exchanged(
            "BN → constant MatMul x",
            lambda b: node(b, "MatMul", weight(b, 5, 3), norm(b, given(b, 2, 3, 4))),
        ),
        Pattern("BN → Conv, Conv", _two_consumers),
        Pattern("shift → InstanceNormalization", _dead_shift),
        Pattern("Conv → Add → InstanceNormalization (Add and bias dead)", _dead_bias),
    ]


def _dead_channel(b: Builder) -> Drawn:
    arrays = [
        np.array([0.5, 0.0, -2.0]),
        np.array([1.0, 2.0, -1.0]),
        np.array([0.1, 0.2, 0.3]),
        np.array([1.0, 2.0, 0.5]),
    ]
    operands = [b.weight(array.astype(np.float32)) for array in arrays]
    x = node(b, "BatchNormalization", image(b), *operands)
    return conv(b, x, kernel=3, pads=[1, 1, 1, 1])


def _token(b: Builder) -> Drawn:
    x = node(b, "Transpose", norm(b, given(b, 2, 3, 4)), perm=[0, 2, 1])
    return node(b, "Add", matmul(b, x), weight(b, 5))


def _two_consumers(b: Builder) -> list[Drawn]:
    x = norm(b, image(b))
    return [conv(b, x), conv(b, x, 5)]


def _dead_shift(b: Builder) -> Drawn:
    ones = [b.weight(np.ones(3, np.float32)) for _ in range(2)]
    x = b.node("BatchNormalization", [image(b).name, ones[0], weight(b, 3), weight(b, 3), ones[1]], epsilon=0.0)[0]
    return node(b, "InstanceNormalization", x, weight(b, 3), weight(b, 3))


def _dead_bias(b: Builder) -> Drawn:
    x = node(b, "Add", conv(b, image(b)), weight(b, 4, 1, 1))
    return node(b, "InstanceNormalization", x, weight(b, 4), weight(b, 4))


def _carried() -> list[Pattern]:
    return [
        Pattern("BN → Flatten → Gemm", lambda b: gemm(b, through("Flatten")(b, norm(b, image(b))))),
        Pattern("BN → Reshape → Gemm", lambda b: gemm(b, through("Reshape", [0, -1])(b, norm(b, image(b))))),
        Pattern(
            "BN → GlobalAveragePool → Flatten → Gemm",
            lambda b: gemm(b, through("Flatten")(b, through("GlobalAveragePool")(b, norm(b, image(b))))),
        ),
        Pattern(
            "BN → AveragePool → Conv",
            lambda b: conv(b, through("AveragePool", kernel_shape=[2, 2])(b, norm(b, image(b)))),
        ),
        Pattern(
            "BN → MaxPool (s > 0) → Conv",
            lambda b: conv(b, through("MaxPool", kernel_shape=[2, 2])(b, norm(b, image(b), positive=True))),
        ),
        Pattern("BN → Concat → Conv", lambda b: conv(b, node(b, "Concat", norm(b, image(b)), image(b), axis=1))),
        Pattern("BN → Split → Conv, Conv", _split),
        Pattern("BN → Split → Concat in another order → Conv", _swapped),
        Pattern("BN → Add(GlobalAveragePool, itself) → Conv", _both),
        Pattern(
            "BN → Transpose → Conv", lambda b: conv(b, through("Transpose", perm=[0, 1, 3, 2])(b, norm(b, image(b))))
        ),
        Pattern(
            "BN → Slice → Conv", lambda b: conv(b, through("Slice", [1], [4], [1])(b, norm(b, given(b, 2, 5, 6, 7))))
        ),
        Pattern(
            "BN → SpaceToDepth → Conv", lambda b: conv(b, through("SpaceToDepth", blocksize=2)(b, norm(b, image(b))))
        ),
        Pattern(
            "BN → Pad edge → Conv",
            lambda b: conv(b, through("Pad", [0, 0, 1, 1, 0, 0, 1, 1], mode="edge")(b, norm(b, image(b)))),
        ),
        exchanged(
            "BN → Relu → Conv 1x1 (s > 0)",
            lambda b: conv(b, through("Relu")(b, norm(b, image(b), positive=True)), kernel=1),
        ),
        Pattern("BN → constant Mul → Conv", lambda b: conv(b, node(b, "Mul", norm(b, image(b)), weight(b, 3, 1, 1)))),
    ]


def _split(b: Builder) -> list[Drawn]:
    parts = b.node("Split", [norm(b, given(b, 2, 5, 6, 7)).name, ints(b, 2, 3)], outputs=2, axis=1)
    return [conv(b, part) for part in parts]


def _swapped(b: Builder) -> Drawn:
    one, two = b.node("Split", [norm(b, given(b, 2, 5, 6, 7)).name, ints(b, 2, 3)], outputs=2, axis=1)
    return conv(b, node(b, "Concat", two, one, axis=1))


def _both(b: Builder) -> Drawn:
    x = norm(b, image(b))
    return conv(b, node(b, "Add", through("GlobalAveragePool")(b, x), x))


def _algebra() -> list[Pattern]:
    return [
        Pattern("BN → BN", lambda b: norm(b, norm(b, image(b)))),
        Pattern(
            "BN → constant Mul → constant Add",
            lambda b: node(b, "Add", node(b, "Mul", norm(b, image(b)), weight(b, 3, 1, 1)), weight(b, 3, 1, 1)),
        ),
        Pattern("constant Mul → BN", lambda b: norm(b, node(b, "Mul", image(b), weight(b, 3, 1, 1)))),
        Pattern("BN that is an identity", _identity),
        Pattern(
            "Conv → Mul → Add (constants second)",
            lambda b: node(b, "Add", node(b, "Mul", conv(b, image(b)), weight(b, 4, 1, 1)), weight(b, 4, 1, 1)),
        ),
        Pattern(
            "Conv → Mul → Add (constants first)",
            lambda b: node(b, "Add", weight(b, 4, 1, 1), node(b, "Mul", weight(b, 4, 1, 1), conv(b, image(b)))),
        ),
        Pattern(
            "ConvTranspose → Mul → Add",
            lambda b: node(
                b, "Add", node(b, "Mul", conv_transpose(b, image(b)), weight(b, 4, 1, 1)), weight(b, 4, 1, 1)
            ),
        ),
        Pattern(
            "Gemm → Mul → Add",
            lambda b: node(b, "Add", node(b, "Mul", gemm(b, given(b, 3, 4)), weight(b, 5)), weight(b, 5)),
        ),
        Pattern(
            "MatMul → Mul → Add",
            lambda b: node(b, "Add", node(b, "Mul", matmul(b, given(b, 3, 4)), weight(b, 5)), weight(b, 5)),
        ),
        Pattern("Conv → Sub → Div → Mul → Add (a BN as arithmetic)", _decomposed),
    ]


def _identity(b: Builder) -> Drawn:
    ones, zeros = ([b.weight(np.full(3, number, np.float32)) for _ in range(2)] for number in (1.0, 0.0))
    x = node(b, "Relu", image(b))
    return node(b, "Exp", node(b, "BatchNormalization", x, ones[0], zeros[0], zeros[1], ones[1], epsilon=0.0))


def _decomposed(b: Builder) -> Drawn:
    y = node(b, "Sub", conv(b, image(b)), weight(b, 4, 1, 1))
    y = node(
        b,
        "Div",
        y,
        node(b, "Sqrt", node(b, "Add", b.weight(b.numbers([4, 1, 1], 0.5, 2.0)), b.weight(b.numbers([], 0.1, 0.2)))),
    )
    return node(b, "Add", node(b, "Mul", y, weight(b, 4, 1, 1)), weight(b, 4, 1, 1))


ROWS = [*_direct(), *_carried(), *_algebra()]
