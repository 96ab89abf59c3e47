"""The tree ensembles of ai.onnx.ml.

A feature is compared with a threshold as the runtime has it: in the type that the file gives it.
"""

from __future__ import annotations

import numpy as np

from bnfold.ir.elements import Array
from bnfold.ir.schemas import MACHINE_LEARNING
from bnfold.reference.forest import Forest, numbers_of, read_forest, transform_of
from bnfold.reference.kernels.scores import labels_of, transformed
from bnfold.reference.precision import as_declared, is_float
from bnfold.reference.registry import Call, KernelDeclined, KernelResult, kernel, require

_EXACT = 1 << 24
"""Larger integers are rounded when a runtime compares them with a threshold."""


@kernel("TreeEnsembleRegressor", 1, 3, domain=MACHINE_LEARNING)
@kernel("TreeEnsemble", 5, domain=MACHINE_LEARNING)
def regress(call: Call, x: Array) -> KernelResult:
    """Return the aggregated votes of the leaves that a row reaches."""
    scores, _ = _aggregated(call, x, _base(call))
    transform = transform_of(call.op, call.attrs)
    one = scores.shape[1] == 1 and transform not in ("NONE", "PROBIT")
    require(not one, f"post_transform={transform} of one target, which runtimes leave out", KernelDeclined)
    return transformed(scores, transform)


@kernel("TreeEnsembleClassifier", 1, 3, domain=MACHINE_LEARNING)
def classify(call: Call, x: Array) -> KernelResult:
    """Return the class with the most votes, and the votes for all.

    The text says nothing of two classes. Onnxruntime and onnx's implementation agree if one of them has all the votes.
    """
    labels, transform = labels_of(call, "classlabels_int64s"), transform_of(call.op, call.attrs)
    base, two = _base(call), len(labels) == 2
    forest = _forest(call)
    require(len(labels) > 1, "the text does not say what the votes for one class mean", KernelDeclined)
    if two and not forest.targets.any() and base.size < 2:
        return _of_two(call, x, transform, labels, base)
    scores, voted = _aggregated(call, x, base)
    made = transformed(scores, transform)
    if not call.read[0]:
        return None, made
    require(not two, "the text does not say which class wins by votes for both", KernelDeclined)
    voted |= base.size > 0
    best = np.where(voted, scores, -np.inf).argmax(axis=1)
    is_sure = voted.any(axis=1) & (best == scores.argmax(axis=1)) & (best == made.argmax(axis=1))
    require(is_sure.all(), "the text does not say whether a class without votes, or in place of which, wins")
    return labels[best], made


def _of_two(call: Call, x: Array, transform: str, labels: Array, base: Array) -> KernelResult:
    """Return the second class if there are votes enough for it: all votes are its own."""
    scores = _aggregated(call, x, np.zeros(0))[0][:, :1] + base.sum()
    is_share = not (numbers_of(call.attrs, "class_weights") < 0).any()
    require(
        transform == ("NONE" if is_share else "LOGISTIC"),
        f"the text does not say how votes for one of two classes become scores with post_transform={transform}",
        KernelDeclined,
    )
    made = np.concatenate([1.0 - scores, scores] if is_share else [-scores, scores], axis=1)
    return labels[(scores[:, 0] > (0.5 if is_share else 0.0)).astype(np.int64)], transformed(made, transform)


def _forest(call: Call) -> Forest:
    """Return the trees, which all runs of a node share."""
    if "forest" not in call.kept:
        call.kept["forest"] = read_forest(call.op, call.attrs)
    found: Forest = call.kept["forest"]
    return found


def _base(call: Call) -> Array:
    return numbers_of(call.attrs, "base_values")


def _aggregated(call: Call, x: Array, base: Array) -> tuple[Array, Array]:
    forest = _forest(call)
    require(x.ndim == 2, f"{x.ndim} axes of features", KernelDeclined)
    if is_float(x):
        x = as_declared(x, call.kind)
    else:
        large = np.abs(x).max(initial=0) > _EXACT
        require(not large, "integers that are compared with thresholds after rounding", KernelDeclined)
    require(base.size in (0, forest.count), f"{base.size} base values for {forest.count} targets", KernelDeclined)
    scores, voted = forest.scores(forest.leaves(x.astype(np.float64)))
    is_open = forest.aggregate in ("MIN", "MAX") and not voted.all()
    require(not is_open, "the text does not say what is the extreme of no votes", KernelDeclined)
    is_left_out = base.size > 1 and call.op != "TreeEnsembleClassifier" and not voted.all()
    require(not is_left_out, "runtimes leave out the base value of a target without votes", KernelDeclined)
    return (scores + base if base.size else scores), voted
