"""The support vector machines of ai.onnx.ml, without estimates of probability for more than two classes."""

from __future__ import annotations

import numpy as np

from bnfold.ir.elements import Array
from bnfold.ir.schemas import MACHINE_LEARNING
from bnfold.reference.kernels.scores import labels_of
from bnfold.reference.registry import Call, KernelDeclined, KernelResult, kernel, require


@kernel("SVMRegressor", 1, domain=MACHINE_LEARNING)
def regress(call: Call, x: Array) -> KernelResult:
    """Return one weighted sum of kernels, or for one class whether it is positive."""
    weights, rho = (np.array(call.attr(name, []), np.float64) for name in ("coefficients", "rho"))
    require(call.attr("post_transform") == "NONE", "post_transform of an SVM, which has no one meaning", KernelDeclined)
    require(rho.size > 0, "one rho")
    count = call.attr("n_supports")
    kernels = _kernels(call, x, call.attr("support_vectors", []), count) if count else _rows(x)
    require(weights.size == kernels.shape[1], "as many coefficients as support vectors, or as features")
    scores = kernels @ weights.reshape(-1, 1) + rho[0]
    return np.where(scores > 0, 1.0, -1.0) if call.attr("one_class") else scores


@kernel("SVMClassifier", 1, domain=MACHINE_LEARNING)
def classify(call: Call, x: Array) -> KernelResult:
    """Compare each pair of classes; the class that wins most often is the first of them."""
    labels, supports = labels_of(call, "classlabels_ints"), call.attr("vectors_per_class", [])
    count, total = len(labels), sum(supports)
    require(total and len(supports) == count > 1, "the text does not say how linear scores choose", KernelDeclined)
    require(call.attr("post_transform") == "NONE", "post_transform of an SVM, which has no one meaning", KernelDeclined)
    require(not call.attr("prob_a"), "probabilities, which are iterated up to a precision of .5 %", KernelDeclined)
    weights, rho = (np.array(call.attr(name, []), np.float64) for name in ("coefficients", "rho"))
    require(weights.size == (count - 1) * total, "as many coefficients as support vectors for each other class")
    require(rho.size == count * (count - 1) // 2, "one rho for each pair of classes")
    kernels, weights = _kernels(call, x, call.attr("support_vectors", []), total), weights.reshape(count - 1, total)
    ends = np.cumsum(supports)
    rows = [np.arange(end - size, end) for end, size in zip(ends, supports, strict=True)]
    votes, scores = np.zeros((len(x), count), np.int64), list[Array]()
    for first in range(count - 1):
        for second in range(first + 1, count):
            score = kernels[:, rows[first]] @ weights[second - 1, rows[first]]
            score += kernels[:, rows[second]] @ weights[first, rows[second]] + rho[len(scores)]
            scores.append(score)
            votes[np.arange(len(x)), np.where(score > 0, first, second)] += 1
    if count == 2:
        is_sure = (weights < 0).any()
        require(is_sure, "implementations disagree about two classes without negative coefficients", KernelDeclined)
        scores = [-scores[0], scores[0]]
    return labels[votes.argmax(axis=1)], np.stack(scores, axis=1)


def _rows(x: Array) -> Array:
    require(x.ndim == 2, f"{x.ndim} axes of features", KernelDeclined)
    return x.astype(np.float64)


def _kernels(call: Call, x: Array, stored: list[float], count: int) -> Array:
    """Return the kernel of each row and each support vector."""
    x, vectors = _rows(x), np.array(stored, np.float64)
    require(vectors.size == count * x.shape[1], "support vectors of as many features as its input")
    vectors = vectors.reshape(count, -1)
    gamma, shift, degree = (*(call.attr("kernel_params") or ()), 0.0, 0.0, 0.0)[:3]
    name = call.attr("kernel_type")
    if name == "RBF":
        squares = ((x[:, None, :] - vectors) ** 2).sum(axis=2)
        return np.asarray(np.exp(-gamma * squares))
    products = x @ vectors.T
    if name == "LINEAR":
        return np.asarray(products)
    if name == "SIGMOID":
        return np.asarray(np.tanh(gamma * products + shift))
    require(name == "POLY" and degree == int(degree), f"kernel_type {name!r}, or a degree that is no integer")
    return np.asarray((gamma * products + shift) ** int(degree))
