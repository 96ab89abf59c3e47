"""What classifiers and regressors of ai.onnx.ml make of scores."""

from __future__ import annotations

import numpy as np

from bnfold.ir.elements import Array
from bnfold.reference.registry import Call, KernelDeclined, require

_NEARLY_ZERO = 1e-7


def labels_of(call: Call, of_integers: str) -> Array:
    """Return the labels of the classes: strings or integers."""
    strings, integers = call.attr("classlabels_strings"), call.attr(of_integers)
    require(bool(strings) != bool(integers), "class labels of one type, which its text asks for")
    return np.array(strings, object) if strings else np.array(integers, np.int64)


def transformed(scores: Array, transform: str) -> Array:
    """Apply a post_transform to rows of scores."""
    if transform == "NONE":
        return scores
    if transform == "LOGISTIC":
        return np.asarray(1.0 / (1.0 + np.exp(-scores)))
    if transform == "PROBIT":
        return _probit(scores)
    powers = np.exp(scores - scores.max(axis=1, keepdims=True, initial=-np.inf))
    if transform == "SOFTMAX_ZERO":
        is_zero = scores == 0
        is_open = (~is_zero & (np.abs(scores) <= _NEARLY_ZERO)).any() or is_zero.all(axis=1).any()
        require(not is_open, "SOFTMAX_ZERO of scores that nearly are zero, or all are", KernelDeclined)
        powers = np.where(is_zero, 0.0, powers)
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def _probit(scores: Array) -> Array:
    """Apply the approximation (of Winitzki) that runtimes have of the quantiles of a normal distribution."""
    require(
        not np.isin(scores, (0.0, 1.0)).any(), "PROBIT of 0 or 1, which implementations disagree about", KernelDeclined
    )
    log = np.log(4.0 * scores * (1.0 - scores))
    half = 2.0 / (np.pi * 0.147) + log / 2.0
    return np.asarray(np.sign(scores - 0.5) * np.sqrt(2.0 * (np.sqrt(half * half - log / 0.147) - half)))
