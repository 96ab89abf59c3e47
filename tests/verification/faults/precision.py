"""Where the type of the weights sets limits."""

from __future__ import annotations

import numpy as np
import onnx

from tests.verification.faults.rewrite import BN, Rewrite
from tests.verification.graphs import Array, affine, along, model, numbers, single, statistics


def quantized_weight() -> Rewrite:
    """An int8 weight dequantised per channel: the factor goes into the scale, its sign into the integers."""
    rng = numbers(13)
    stats = statistics(rng, 4)
    stored = rng.integers(-127, 128, size=(4, 3, 3, 3)).astype(np.int8)
    step = single(rng.uniform(0.01, 0.02, 4))
    s, t = affine(stats)
    head = "(float[N,3,H,W] x) => (float[N,4,P,Q] y)"
    dequantise = "w = DequantizeLinear <axis = 0> (Q, step)"
    before = model(
        f"{head} {{ {dequantise}  c = Conv (x, w)  y = {BN} (c, scale, B, mean, var) }}",
        {"Q": stored, "step": step, **stats},
    )
    signs = np.sign(s).astype(np.int8)

    def after(integers: Array, steps: Array) -> onnx.ModelProto:
        return model(f"{head} {{ {dequantise}  y = Conv (x, w, b) }}", {"Q": integers, "step": steps, "b": t})

    return Rewrite(
        "DequantizeLinear weight, Conv, BatchNormalization",
        before,
        after(stored * along(signs, 0, 4), step * np.abs(s)),
        {
            "integers not negated": after(stored, step * np.abs(s)),
            "scale divided": after(stored * along(signs, 0, 4), step / np.abs(s)),
            "scale left alone": after(stored * along(signs, 0, 4), step),
        },
    )


def trained_weight() -> Rewrite:
    """A weight of quantisation-aware training: |s| belongs into floats and both scales, its sign into the floats."""
    rng = numbers(14)
    stats = statistics(rng, 4)
    floats = single(rng.uniform(-1, 1, (4, 3, 3, 3)))
    step = single(rng.uniform(0.008, 0.02, 4))
    s, t = affine(stats)
    head = "(float[N,3,H,W] x) => (float[N,4,P,Q] y)"
    pair = "q = QuantizeLinear <axis = 0> (F, step, zero)  w = DequantizeLinear <axis = 0> (q, step_behind, zero)"
    zero = np.zeros(4, np.int8)
    before = model(
        f"{head} {{ {pair}  c = Conv (x, w)  y = {BN} (c, scale, B, mean, var) }}",
        {"F": floats, "step": step, "step_behind": step, "zero": zero, **stats},
    )

    def after(values: Array, steps: Array, behind: Array) -> onnx.ModelProto:
        constants = {"F": single(values), "step": single(steps), "step_behind": single(behind), "zero": zero, "b": t}
        return model(f"{head} {{ {pair}  y = Conv (x, w, b) }}", constants)

    folded, steps = floats * along(s, 0, 4), step * np.abs(s)
    return Rewrite(
        "QuantizeLinear, DequantizeLinear weight, Conv, BatchNormalization",
        before,
        after(folded, steps, steps),
        {
            "sign of the floats lost": after(np.abs(folded) * np.sign(floats), steps, steps),
            "scale behind left alone": after(folded, steps, step),
            "scale in front left alone": after(folded, step, steps),
        },
    )


def half_overflow() -> Rewrite:
    """Float16: s is 300/sqrt(1e-5), so the folded weight overflows although every output is finite."""
    rng = numbers(17)
    half = np.float16
    weight = rng.normal(size=(3, 2, 3, 3)).astype(half)
    stats = {
        "scale": np.full(3, 300, half),
        "B": np.ones(3, half),
        "mean": np.zeros(3, half),
        "var": np.full(3, 1e-5, half),
    }
    head = "(float16[N,2,H,W] x) => (float16[N,3,P,Q] y)"
    before = model(
        f"{head} {{ m = Mul (x, k)  c = Conv (m, W)  y = {BN} (c, scale, B, mean, var) }}",
        {"W": weight, "k": np.array(1e-3, half), **stats},
        opset=15,
    )
    s, t = affine(stats)
    split = {
        "W": (weight * along(s, 0, 4) * 2.0**-10).astype(half),
        "k": np.array(1e-3, half),
        "p": np.array(2.0**10, half),
        "b": (t * 2.0**-10).astype(half),
    }
    right = model(f"{head} {{ m = Mul (x, k)  c1 = Conv (m, W, b)  y = Mul (c1, p) }}", split, opset=15)
    with np.errstate(over="ignore"):
        folded = {"W": (weight * along(s, 0, 4)).astype(half), "k": np.array(1e-3, half), "b": t.astype(half)}
    wrong = model(f"{head} {{ m = Mul (x, k)  y = Conv (m, W, b) }}", folded, opset=15)
    return Rewrite("float16 Conv, BatchNormalization", before, right, {"folded weight overflows float16": wrong})


def half_underflow() -> Rewrite:
    """Float16: s is so small that folded weights become subnormal and lose most of their bits."""
    rng = numbers(18)
    half = np.float16
    weight = rng.normal(size=(3, 2, 3, 3)).astype(half)
    stats = {
        "scale": np.full(3, 2e-6, half),
        "B": np.zeros(3, half),
        "mean": np.zeros(3, half),
        "var": np.ones(3, half),
    }
    head = "(float16[N,2,H,W] x) => (float16[N,3,P,Q] y)"
    tail = "y = Mul (n, k)"
    up = {"k": np.array(3e4, half)}
    before = model(
        f"{head} {{ c = Conv (x, W)  n = {BN} (c, scale, B, mean, var)  {tail} }}",
        {"W": weight, **stats, **up},
        opset=15,
    )
    s, _ = affine(stats)
    right = model(
        f"{head} {{ c = Conv (x, W)  n = Mul (c, s)  {tail} }}",
        {"W": weight, "s": along(s, 0, 3), **up},
        opset=15,
        dtype=np.float32,
    )
    right.graph.initializer[1].CopyFrom(onnx.numpy_helper.from_array(along(s, 0, 3).astype(half), "s"))
    tiny = (weight * along(s, 0, 4)).astype(half)
    wrong = model(f"{head} {{ n = Conv (x, W)  {tail} }}", {"W": tiny, **up}, opset=15)
    return Rewrite("float16 Conv, tiny BatchNormalization", before, right, {"folded weight subnormal": wrong})


def rewrites() -> list[Rewrite]:
    """All of this module."""
    return [quantized_weight(), trained_weight(), half_overflow(), half_underflow()]
