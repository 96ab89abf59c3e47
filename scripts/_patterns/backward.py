"""A linear operator, then perhaps a carrier of affines, then a BatchNormalization."""

from __future__ import annotations

from typing import Any

import numpy as np
from fuzz.builder import Builder, Drawn
from onnx import TensorProto

from _patterns import quantised
from _patterns.parts import (
    Build,
    Part,
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


def _convs() -> list[Pattern]:
    rows = [
        Pattern(f"Conv {rank}-D → BN", lambda b, rank=rank: norm(b, conv(b, given(b, 2, 3, *(6, 7, 5)[:rank]))))  # type: ignore[misc]
        for rank in (1, 2, 3)
    ]
    return [
        *rows,
        Pattern("Conv without bias → BN", lambda b: norm(b, conv(b, image(b), bias=False))),
        Pattern("Conv with group → BN", lambda b: norm(b, conv(b, given(b, 2, 6, 5, 7), 8, group=2))),
        Pattern("depthwise Conv → BN", lambda b: norm(b, conv(b, image(b), 6, group=3))),
        Pattern("Conv, bias omitted by an empty name → BN", _empty_bias),
        Pattern("Conv, W read by two nodes → BN", _shared_weight),
        Pattern("Conv in bfloat16 → BN", lambda b: norm(b, conv(b, image(b))), 22, TensorProto.BFLOAT16),
        Pattern("Conv in float16 → BN", lambda b: norm(b, conv(b, image(b))), dtype=TensorProto.FLOAT16),
        Pattern("Conv in float64 → BN", lambda b: norm(b, conv(b, image(b))), dtype=TensorProto.DOUBLE),
        Pattern("ConvTranspose → BN", lambda b: norm(b, conv_transpose(b, image(b)))),
        Pattern(
            "ConvTranspose with group → BN", lambda b: norm(b, conv_transpose(b, given(b, 2, 6, 5, 7), 2, group=3))
        ),
        *(Pattern(f"{name} → BN", build, opset) for name, (build, opset) in quantised.STORED.items()),
        Pattern("Conv → BN → BN", lambda b: norm(b, norm(b, conv(b, image(b))))),
    ]


def _empty_bias(b: Builder) -> Drawn:
    return norm(b, node(b, "Conv", image(b), weight(b, 4, 3, 2, 2), ""))


def _halves(b: Builder, x: Drawn) -> list[Drawn]:
    return b.node("Split", [x.name, ints(b, 2, x.shape[1] - 2)], outputs=2, axis=1)


def _swapped(b: Builder) -> Drawn:
    one, two = _halves(b, conv(b, image(b), 5))
    return norm(b, node(b, "Concat", two, one, axis=1))


def _shared_weight(b: Builder) -> list[Drawn]:
    x, w = given(b, 2, 3, 6, 8), weight(b, 3, 3, 2, 2)
    return [norm(b, node(b, "Conv", x, w)), node(b, "Conv", x, w)]


def _matrices() -> list[Pattern]:
    shapes: dict[str, tuple[int, ...] | None] = {
        "without C": None, "C ()": (), "C (1)": (1,), "C (N)": (5,),
        "C (1,N)": (1, 5), "C (M,1)": (3, 1), "C (M,N)": (3, 5),
    }  # fmt: skip
    return [
        *(Pattern(f"Gemm {name}, alpha, beta → BN", _factors(c)) for name, c in shapes.items()),
        Pattern("Gemm transA, transB → BN", lambda b: norm(b, gemm(b, given(b, 4, 3), transA=1, transB=1))),
        Pattern(
            "Gemm, C omitted by an empty name → BN",
            lambda b: norm(b, node(b, "Gemm", given(b, 3, 4), weight(b, 4, 5), "")),
        ),
        Pattern("MatMul 2-D → BN", lambda b: norm(b, matmul(b, given(b, 3, 4)))),
        Pattern("MatMul → Add → BN", lambda b: norm(b, node(b, "Add", matmul(b, given(b, 3, 4)), weight(b, 5)))),
        exchanged(
            "Conv → Relu (s > 0) → BN", lambda b: norm(b, through("Relu")(b, conv(b, image(b), 4)), positive=True)
        ),
        exchanged("MatMul N-D → Transpose → BN", lambda b: norm(b, _turned(b, matmul(b, given(b, 2, 3, 4))))),
        Pattern(
            "MatMul → Reshape (N,C,1,1) → BN",
            lambda b: norm(b, through("Reshape", [-1, 5, 1, 1])(b, matmul(b, given(b, 3, 4)))),
        ),
        exchanged("constant MatMul x → BN", lambda b: norm(b, node(b, "MatMul", weight(b, 5, 3), given(b, 2, 3, 4)))),
    ]


def _factors(c: tuple[int, ...] | None) -> Build:
    return lambda b: norm(b, gemm(b, given(b, 3, 4), c=c, alpha=0.5, beta=2.0))


def _turned(b: Builder, x: Drawn) -> Drawn:
    return node(b, "Transpose", x, perm=[0, 2, 1])


CARRIERS: dict[str, tuple[Part, dict[str, Any]]] = {
    "Identity": (through("Identity"), {}),
    "Dropout": (through("Dropout"), {}),
    "Transpose twice": (
        lambda b, x: through("Transpose", perm=[0, 1, 3, 2])(b, through("Transpose", perm=[0, 1, 3, 2])(b, x)),
        {},
    ),
    "Transpose": (through("Transpose", perm=[0, 1, 3, 2]), {}),
    "Reshape": (through("Reshape", [2, 4, -1]), {}),
    "Squeeze (of Unsqueeze)": (lambda b, x: through("Squeeze", [2])(b, through("Unsqueeze", [2])(b, x)), {}),
    "Unsqueeze": (through("Unsqueeze", [2]), {}),
    "channel shuffle": (
        lambda b, x: through("Reshape", [0, 4, 5, 7])(
            b, through("Transpose", perm=[0, 2, 1, 3, 4])(b, through("Reshape", [0, 2, 2, 5, 7])(b, x))
        ),
        {},
    ),
    "GlobalAveragePool": (through("GlobalAveragePool"), {}),
    "AveragePool": (through("AveragePool", kernel_shape=[2, 2]), {}),
    "MaxPool (s > 0)": (through("MaxPool", kernel_shape=[2, 2]), {"positive": True}),
    "ReduceMean": (through("ReduceMean", axes=[2, 3]), {}),
    "Resize nearest": (
        lambda b, x: node(b, "Resize", x, "", b.weight(np.array([1, 1, 2, 2], np.float32)), mode="nearest"),
        {},
    ),
    "Pad reflect": (through("Pad", [0, 0, 1, 1, 0, 0, 1, 1], mode="reflect"), {}),
    "Slice": (through("Slice", [1], [4], [1]), {}),
    "Gather": (lambda b, x: node(b, "Gather", x, ints(b, 3, 0, 2), axis=1), {}),
    "DepthToSpace": (through("DepthToSpace", blocksize=2), {}),
    "constant Mul": (lambda b, x: node(b, "Mul", x, weight(b, 1, x.shape[1], 1, 1)), {}),
    "constant Mul, constant first": (lambda b, x: node(b, "Mul", weight(b, 1, x.shape[1], 1, 1), x), {}),
    "constant Add": (lambda b, x: node(b, "Add", x, weight(b, 1, x.shape[1], 1, 1)), {}),
    "constant Sub, constant first": (lambda b, x: node(b, "Sub", weight(b, x.shape[1], 1, 1), x), {}),
    "constant Div": (lambda b, x: node(b, "Div", x, weight(b, x.shape[1], 1, 1)), {}),
}


def _carried() -> list[Pattern]:
    rows = []
    for name, (part, options) in CARRIERS.items():
        channels = 8 if name == "DepthToSpace" else 4

        def build(b: Builder, part: Part = part, options: Any = options, channels: int = channels) -> Drawn:
            return norm(b, part(b, conv(b, image(b), channels)), **options)

        rows.append(Pattern(f"Conv → {name} → BN", build))
    return rows


def _operands() -> list[Pattern]:
    return [
        Pattern(
            "Concat(Conv, x) → BN (a smaller one stays)",
            lambda b: norm(b, node(b, "Concat", conv(b, given(b, 2, 3, 6, 8), kernel=1), given(b, 2, 3, 6, 8), axis=1)),
        ),
        Pattern("Conv → Split → Concat in another order → BN", _swapped),
        Pattern(
            "Concat(Conv, Conv) → BN",
            lambda b: norm(b, node(b, "Concat", conv(b, image(b)), conv(b, image(b), 2), axis=1)),
        ),
        Pattern("Add(Conv, Conv) → BN", lambda b: norm(b, node(b, "Add", conv(b, image(b)), conv(b, image(b))))),
        Pattern("Sub(Conv, Conv) → BN", lambda b: norm(b, node(b, "Sub", conv(b, image(b)), conv(b, image(b))))),
        Pattern("Conv → Split → BN, BN", _split),
        Pattern(
            "InstanceNormalization → BN",
            lambda b: norm(b, node(b, "InstanceNormalization", image(b), weight(b, 3), weight(b, 3))),
        ),
        Pattern(
            "LayerNormalization → BN",
            lambda b: norm(b, _turned(b, node(b, "LayerNormalization", given(b, 2, 3, 5), weight(b, 5), weight(b, 5)))),
        ),
        Pattern("embedding Gather → BN", _embedding),
    ]


def _split(b: Builder) -> list[Drawn]:
    parts = b.node("Split", [conv(b, image(b), 6).name, ints(b, 2, 4)], outputs=2, axis=1)
    return [norm(b, part) for part in parts]


def _embedding(b: Builder) -> Drawn:
    indices = node(b, "Cast", node(b, "Abs", given(b, 2, 3)), to=TensorProto.INT64)
    return norm(b, _turned(b, node(b, "Gather", weight(b, 9, 5), indices)))


ROWS = [*_convs(), *_matrices(), *_carried(), *_operands()]
