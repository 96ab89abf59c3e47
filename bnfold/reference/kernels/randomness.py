"""Operators whose result is random, as functions of numbers that somebody else draws."""

from __future__ import annotations

from typing import Any

import numpy as np

from bnfold.reference.registry import Array, Call, Result, dims_to_make, kernel


@kernel("RandomUniform", 1, 22)
@kernel("RandomUniformLike", 1, 22)
def uniform(call: Call, like: Array | None = None) -> Result:
    """Between ``low`` and ``high``."""
    low, high = call.attr("low"), call.attr("high")
    return (low + (high - low) * call.generator().random(_shape(call, like))).astype(_dtype(call, like))


@kernel("RandomNormal", 1, 22)
@kernel("RandomNormalLike", 1, 22)
def normal(call: Call, like: Array | None = None) -> Result:
    """Around ``mean``, with the standard deviation ``scale``."""
    drawn = call.generator().standard_normal(_shape(call, like))
    return (call.attr("mean") + call.attr("scale") * drawn).astype(_dtype(call, like))


@kernel("Bernoulli", 15, 22)
def bernoulli(call: Call, x: Array) -> Result:
    """1 with the probability X, else 0."""
    return (call.generator().random(x.shape) < x).astype(_dtype(call, x))


@kernel("Multinomial", 7, 22)
def multinomial(call: Call, x: Array) -> Result:
    """Classes by logarithms of their odds, as many a row as ``sample_size``."""
    odds = np.exp(x - x.max(axis=1, keepdims=True))
    ends = np.cumsum(odds, axis=1) / odds.sum(axis=1, keepdims=True)
    drawn = call.generator().random((len(x), call.attr("sample_size"), 1))
    return (drawn >= ends[:, None, :-1]).sum(axis=2).astype(call.dtype(call.attr("dtype")))


def _shape(call: Call, like: Array | None) -> tuple[int, ...]:
    return dims_to_make(call.attr("shape")) if like is None else like.shape


def _dtype(call: Call, like: Array | None) -> np.dtype[Any]:
    """``dtype``, else the input's."""
    code = call.attr("dtype")
    return like.dtype if code is None and like is not None else call.dtype(code)
