"""Products in a row that become one, and channels that are evened out across layers."""

from __future__ import annotations

import numpy as np
import onnx

from tests.verification.faults.rewrite import Rewrite
from tests.verification.graphs import Array, along, model, numbers, single


def convs(*, pointwise_first: bool) -> Rewrite:
    """A 1×1 Conv and a 3×2 one, in either order; as many channels between as before, so that axes can be mixed up."""
    rng = numbers(71)
    wide, small = single(rng.normal(size=(4, 4, 3, 2))), single(rng.normal(size=(4, 4, 1, 1)))
    biases = [single(rng.normal(size=4)) for _ in range(2)]
    first, second = (small, wide) if pointwise_first else (wide, small)
    about = "<strides = [2,1], dilations = [1,2]{}>"
    pads = "" if pointwise_first else ", pads = [1,0,2,1]"
    texts = ("", about.format(pads)) if pointwise_first else (about.format(pads), "")
    head = "(float[N,4,H,W] x) => (float y)"
    before = model(
        f"{head} {{ c = Conv {texts[0]} (x, V, a)  y = Conv {texts[1]} (c, W, b) }}",
        {"V": first, "a": biases[0], "W": second, "b": biases[1]},
    )
    inner, outer = first.astype(np.float64), second.astype(np.float64)
    middle = outer.sum(axis=(2, 3))

    def product(one: Array, two: Array) -> Array:
        if pointwise_first:
            return np.asarray(np.einsum("omhw,mc->ochw", two, one[:, :, 0, 0]))
        return np.asarray(np.einsum("om,mchw->ochw", two[:, :, 0, 0], one))

    def after(kernel: Array, shift: Array, attributes: str = about.format(pads)) -> onnx.ModelProto:
        return model(f"{head} {{ y = Conv {attributes} (x, V, b) }}", {"V": kernel, "b": shift})

    right, shift = product(inner, outer), middle @ biases[0] + biases[1]
    wrong = {
        "bias of the first one lost": after(right, biases[1]),
        "bias of the second one lost": after(right, middle @ biases[0]),
        "bias of the first one not multiplied": after(right, biases[0] + biases[1]),
        "channels between mixed up": after(product(inner[::-1], outer), shift),
        "the first one turned": after(product(inner.swapaxes(0, 1), outer), shift),
        "the second one turned": after(product(inner, outer.swapaxes(0, 1)), shift),
        "taps backwards": after(right[:, :, ::-1, ::-1], shift),
        "strides lost": after(right, shift, f"<dilations = [1,2]{pads}>"),
    }
    if pointwise_first:
        wrong["bias through one tap alone"] = after(right, outer[:, :, 1, 0] @ biases[0] + biases[1])
    else:
        wrong["pads lost"] = after(right, shift, about.format(""))
    name = "Conv 1x1, Conv 3x2" if pointwise_first else "Conv 3x2 that pads, Conv 1x1"
    return Rewrite(name, before, after(right, shift), wrong)


def gemms() -> Rewrite:
    """Gemm → Gemm, with alpha, beta and one weight turned; square, so that axes can be mixed up."""
    rng = numbers(72)
    first, second = (single(rng.normal(size=(5, 5))) for _ in range(2))
    c, d = single(rng.normal(size=(1, 5))), single(rng.normal(size=5))
    head = "(float[N,5] x) => (float[N,5] y)"
    before = model(
        f"{head} {{ h = Gemm <alpha = 0.5, beta = 2.0> (x, B, c)"
        "  y = Gemm <alpha = 3.0, beta = 0.25, transB = 1> (h, D, d) }",
        {"B": first, "c": c, "D": second, "d": d},
    )
    inner, outer = first.astype(np.float64), 3 * second.T.astype(np.float64)

    def after(matrix: Array, shift: Array, attributes: str = "") -> onnx.ModelProto:
        return model(f"{head} {{ y = Gemm {attributes} (x, B, c) }}", {"B": matrix, "c": shift})

    right, shift = 0.5 * inner @ outer, 2 * c @ outer + 0.25 * d
    wrong = {
        "alpha of the first one lost": after(2 * right, shift),
        "alpha of the second one lost": after(right / 3, shift),
        "alpha applied twice": after(right, shift, "<alpha = 0.5>"),
        "beta applied twice": after(right, shift, "<beta = 2.0>"),
        "transB overlooked": after(1.5 * inner @ second, shift),
        "multiplied the wrong way round": after(0.5 * outer @ inner, shift),
        "C of the first one not multiplied": after(right, 2 * c + 0.25 * d),
        "C of the first one without beta": after(right, c @ outer + 0.25 * d),
        "C of the second one lost": after(right, 2 * c @ outer),
    }
    return Rewrite("Gemm, Gemm", before, after(right, shift), wrong)


def evened() -> Rewrite:
    """Conv → Relu → depthwise Conv → Add → Relu → Conv: factors go in, and out again behind what is positive."""
    rng = numbers(73)
    first, deep, last = (single(rng.normal(size=size)) for size in ((4, 3, 1, 1), (4, 1, 2, 2), (4, 4, 1, 1)))
    bias, added = single(rng.normal(size=4)), single(rng.normal(size=(4, 1, 1)))
    one, two = np.array([0.25, 3.0, 1.5, 0.5]), np.array([2.0, 0.75, 0.125, 5.0])
    head = "(float[N,3,H,W] x) => (float y)"
    nodes = (
        "c{0} = Conv (x, U, b)  d{0} = Relu (c{0})  e{0} = Conv <group = 4> (d{0}, V)  f{0} = Add (e{0}, a)"
        "  g{0} = Relu (f{0})  y = Conv (g{0}, W)"
    )

    def made(given: dict[str, Array], suffix: str) -> onnx.ModelProto:
        return model(f"{head} {{ {nodes.format(suffix)} }}", given)

    def after(
        u: Array = one, b: Array = one, v: Array = one, w: Array = two, a: Array = two, last_in: Array = two
    ) -> onnx.ModelProto:
        weights = {
            "U": first * along(u, 0, 4), "b": bias * b, "V": deep * along(w / v, 0, 4), "a": added * along(a, 0, 3),
            "W": last / along(last_in, 1, 4),
        }  # fmt: skip
        return made(weights, "1")

    ones = np.ones(4)
    wrong = {
        "bias not scaled": after(b=ones),
        "what is added not scaled": after(a=ones),
        "not undone": after(last_in=ones),
        "applied again instead of undone": after(last_in=1 / two),
        "not undone between": after(v=ones),
        "undone in another order": after(last_in=two[::-1]),
        "undone by the factors of the other layer": after(last_in=one),
        "a negative factor through Relu": after(u=one * [1, -1, 1, 1], b=one * [1, -1, 1, 1], v=one * [1, -1, 1, 1]),
    }
    before = made({"U": first, "b": bias, "V": deep, "a": added, "W": last}, "")
    return Rewrite("Conv, Relu, depthwise Conv, Add, Relu, Conv, evened out", before, after(), wrong)


def rewrites() -> list[Rewrite]:
    """All of this module."""
    return [convs(pointwise_first=True), convs(pointwise_first=False), gemms(), evened()]
