"""Which way a node is written out. What is here looks and changes nothing; a recipe, once made, cannot decline."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from bnfold import analysis, ir
from bnfold.decomposing import spec, static
from bnfold.decomposing.builder import Emit
from bnfold.decomposing.calls import bound
from bnfold.decomposing.facts import Facts
from bnfold.decomposing.runtime import formula, instance, training
from bnfold.report.reasons import Declined, Reason
from bnfold.semantics import Policy

OPERATORS = ("BatchNormalization", "InstanceNormalization")
_BROADCASTS, _ALLOWS_ZERO = 7, 14
"""First opsets with numpy's broadcasting, and with a Reshape that accepts sizes of zero."""


class Recipe(NamedTuple):
    """How one node is written out, and what it was read as."""

    spec: spec.Spec
    emit: Emit


def recipe(node: ir.Node, facts: Facts, policy: Policy, form: str) -> Recipe:
    """Return the recipe for a BatchNormalization or InstanceNormalization. Raises Declined."""
    if node.graph.opset("") < _BROADCASTS:
        raise Declined(Reason.LEGACY_BROADCAST)
    with bound([node], facts.calls.agreed(node)):
        return _recipe(node, facts, policy, form)


def _recipe(node: ir.Node, facts: Facts, policy: Policy, form: str) -> Recipe:
    if node.is_op("InstanceNormalization"):
        read = spec.instancenorm(node, facts)
        _need_rank(read, is_enough=read.layout.rank not in (None, 2))
        return Recipe(read, partial(instance, read))
    read = spec.batchnorm(node, facts, policy)
    if read.form is not None and read.form.mode == "training":
        _need_rank(read, is_enough=read.layout.rank is not None)
        return Recipe(read, partial(training, read, policy.saved_var))
    return Recipe(read, _inference(read, form, policy))


def _need_rank(read: spec.Spec, *, is_enough: bool) -> None:
    """Decline an unknown rank.

    Statistics are taken in rank 3 then, and only Reshape-14 gets there with sizes of zero.
    """
    if not is_enough and read.node.graph.opset("") < _ALLOWS_ZERO:
        raise Declined(Reason.RANK_UNKNOWN, f"value {read.x.name!r}, before opset {_ALLOWS_ZERO}")


def _inference(read: spec.Spec, form: str, policy: Policy) -> Emit:
    """Use constants where they can be had; else the formula, centred where that keeps what is not finite as it was."""
    try:
        return static.plan_arithmetic(read, form, policy)
    except Declined as refusal:
        known = (Reason.NON_FINITE, Reason.RANGE)
        centre = form == "sub_mul_add" or refusal.reason in known or not _is_finite(read)
        return partial(formula, read, centre)


def _is_finite(read: spec.Spec) -> bool:
    """Whether the parameters that are constant are, and the slope that they make; of others nothing is known."""
    held = {name: analysis.constant(read.inputs[name]) for name in ("scale", "bias", "mean", "var")}
    known = {name: tensor.float64() for name, tensor in held.items() if tensor is not None}
    with np.errstate(all="ignore"):
        both = "scale" in known and "var" in known and known["scale"].shape == known["var"].shape
        if both and not isinstance(read.epsilon, str):
            known["slope"] = (known["scale"] / np.sqrt(known["var"] + read.epsilon)).astype(np.float32)
    return all(bool(np.isfinite(values).all()) for values in known.values())
