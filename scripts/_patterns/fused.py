"""Clip, Einsum, and onnxruntime's fused operators, next to a BatchNormalization."""

from __future__ import annotations

from typing import Any

import numpy as np
from fuzz.builder import Builder, Drawn
from fuzz.fused import own

from _patterns.parts import Build, Pattern, conv, exchanged, given, image, node, norm, weight


def _clip(b: Builder, x: Drawn, low: float | None, high: float | None) -> Drawn:
    bounds = ["" if bound is None else b.weight(np.array(bound, np.float32)) for bound in (low, high)]
    return node(b, "Clip", x, *bounds)


def _number(b: Builder, x: Drawn, number: float) -> Drawn:
    """Append a factor for all channels, and a shift."""
    factor, shift = (b.weight(np.array(value, np.float32)) for value in (number, 0.25))
    return node(b, "Add", node(b, "Mul", x, factor), shift)


def _before(low: float | None, high: float | None, number: float) -> Build:
    return lambda b: _number(b, _clip(b, conv(b, image(b)), low, high), number)


def _behind(low: float, high: float, number: float) -> Build:
    return lambda b: conv(b, _clip(b, _number(b, image(b), number), low, high))


def _einsum(b: Builder, equation: str, *operands: Drawn | str) -> Drawn:
    return node(b, "Einsum", *operands, equation=equation)


def _behind_einsum(b: Builder, equation: str = "bij,kj->bki") -> Drawn:
    return norm(b, _einsum(b, equation, given(b, 2, 5, 3), weight(b, 4, 3)))


def _turned(b: Builder) -> Drawn:
    return norm(b, _einsum(b, "bwhc->bchw", _einsum(b, "bchw->bwhc", conv(b, image(b)))))


def _fused_conv(b: Builder, x: Drawn, activation: str, *added: str) -> Drawn:
    operands = [x.name, weight(b, 4, x.shape[1], 1, 1), weight(b, 4), *added]
    about = {"activation": activation} if activation else {}
    return own(b, "FusedConv", operands, (x.shape[0], 4, *x.shape[2:]), **about)


def _behind_conv(activation: str, **options: Any) -> Build:
    return lambda b: norm(b, _fused_conv(b, image(b), activation), **options)


def _added(b: Builder) -> Drawn:
    x = image(b)
    return norm(b, _fused_conv(b, x, "", conv(b, x, kernel=1).name))


def _fused_matmul(b: Builder, x: Drawn, **turned: int) -> Drawn:
    first, last = x.shape[-2:][:: -1 if turned.get("transA") else 1]
    shape = (5, last) if turned.get("transB") else (last, 5)
    return own(b, "FusedMatMul", [x.name, weight(b, *shape)], (*x.shape[:-2], first, 5), alpha=0.5, **turned)


def _behind_matmul(b: Builder) -> Drawn:
    return norm(b, node(b, "Transpose", _fused_matmul(b, given(b, 2, 3, 4), transB=1), perm=[0, 2, 1]))


def _like_relu(b: Builder) -> Drawn:
    return norm(b, _clip(b, conv(b, image(b)), 0, None), positive=True, scale_only=True)


def _into_einsum(equation: str, *shape: int) -> Build:
    return lambda b: _einsum(b, equation, norm(b, given(b, *shape)), weight(b, 3, 4))


def _square(b: Builder) -> Drawn:
    return norm(b, _einsum(b, "bij,jk->bik", given(b, 2, 3, 3), weight(b, 3, 3)))


def _into_matmul(*shape: int, **turned: int) -> Build:
    return lambda b: _fused_matmul(b, norm(b, given(b, *shape)), **turned)


EXACT = [
    Pattern("Conv → Clip → a number times it, and one added", _before(-0.5, 1.5, 2.0)),
    Pattern("Conv → Clip → a negative number times it, and one added", _before(-0.5, 1.5, -2.0)),
    Pattern("Conv → Clip without upper bound → a number times it", _before(-0.5, None, -0.5)),
    Pattern("a number times it, and one added → Clip → Conv", _behind(-0.5, 1.5, -2.0)),
    Pattern("Conv → Clip (0, ∞) → BN (s > 0) without shift", _like_relu),
    exchanged("Einsum → BN", _behind_einsum),
    exchanged("BN → Einsum", _into_einsum("bci,ck->bki", 2, 3, 5)),
    Pattern("Conv → Einsum that turns, twice → BN", _turned),
    Pattern("FusedConv → BN", _behind_conv("")),
    Pattern("FusedConv with something added → BN", _added),
    Pattern("FusedConv with Relu → BN (s > 0) without shift", _behind_conv("Relu", positive=True, scale_only=True)),
    Pattern("BN → FusedConv with Sigmoid", lambda b: _fused_conv(b, norm(b, image(b)), "Sigmoid")),
    exchanged("FusedMatMul → BN", _behind_matmul),
    exchanged("BN → FusedMatMul", _into_matmul(2, 3, 4, transA=1)),
]  # fmt: skip
TRAPS = [
    Pattern("Conv → Clip → BN", lambda b: norm(b, _clip(b, conv(b, image(b)), 0, 6))),
    Pattern("Conv → Clip, bounds swapped → a number times it", _before(1.5, -0.5, -2.0)),
    Pattern("Einsum along another axis → BN, sizes coincide", _square),
    Pattern("BN → Einsum that sums it alone", _into_einsum("bci,ck->bk", 2, 3, 5)),
    Pattern("BN → Einsum of a diagonal", _into_einsum("bcc,ck->bk", 2, 3, 3)),
    Pattern("FusedConv with Relu → BN with negative scales", _behind_conv("Relu")),
    Pattern("FusedConv with Tanh → BN", _behind_conv("Tanh")),
    Pattern("BN → FusedMatMul along another axis, sizes coincide", _into_matmul(2, 3, 3)),
]  # fmt: skip
