"""What one BatchNormalization is: where its parameters come from, what it does to its input, what had to be decided."""

from __future__ import annotations

from typing import Any

import numpy as np

from bnfold import analysis, ir
from bnfold.errors import BnfoldError
from bnfold.folding import chains
from bnfold.ir.tensor import Float64
from bnfold.pipeline.explain.scales import spread
from bnfold.report.reasons import Declined
from bnfold.semantics import Policy, Unreadable
from bnfold.semantics import batchnorm as batchnorm_semantics

NAMES = ("scale", "bias", "mean", "var")


ScaleAndShift = tuple[Float64, Float64]
"""Scale and shift, one element a parameter."""


def describe(node: ir.Node, policy: Policy) -> tuple[dict[str, Any], ScaleAndShift | None]:
    """Return the facts of a BatchNormalization of any version, read as ``policy`` says, as reports hold them.

    And the affine that it is in every run; None where there is none.
    """
    if not node.is_op("BatchNormalization"):
        return _decomposed(node, policy)
    sources = {name: source(node, slot) for slot, name in enumerate(NAMES, start=1)}
    parameters: dict[str, Any] = {**sources, "epsilon": None, "per_activation": False}
    facts: dict[str, Any] = {"parameters": parameters, "affine": None, "policies": []}
    try:
        norm, epsilon = batchnorm_semantics.read_batchnorm(node, policy), batchnorm_semantics.epsilon(node)
        parameters |= {"epsilon": epsilon, "per_activation": norm.per_activation}
        facts["policies"] = [repair.text for repair in norm.repairs]
        scale, shift = chains.statistics(norm, epsilon)
    except (Unreadable, Declined, BnfoldError):
        return facts, None
    if norm.mode == "training" or not scale.size:
        return facts, None
    return facts | {"affine": _ranges(scale, shift)}, (scale, shift)


def _decomposed(node: ir.Node, policy: Policy) -> tuple[dict[str, Any], ScaleAndShift | None]:
    """Describe one that ends in ``node``; only its affine is known."""
    facts: dict[str, Any] = {"parameters": None, "affine": None, "policies": []}
    try:
        whole = next(chains.around(node, policy)).affine
    except (Declined, BnfoldError):
        return facts, None
    scale, shift = (block.reshape(-1) for block in np.broadcast_arrays(whole.s, whole.t))
    return facts | {"affine": _ranges(scale, shift)}, (scale, shift)


def _ranges(scale: Float64, shift: Float64) -> dict[str, Any]:
    return {"channels": int(scale.size), "scale": spread(scale), "shift": spread(shift)}


def source(node: ir.Node, slot: int) -> dict[str, Any]:
    """Return the kind of producer of the value at ``slot``, the value's name, and its dims as far as they are known."""
    value = node.input(slot)
    if value is None:
        return {"kind": "missing", "name": "", "shape": None}
    shape = list(value.shape) if value.shape is not None else None
    return {"kind": _kind(value), "name": value.name, "shape": shape}


def _kind(value: ir.Value) -> str:
    if value.is_initializer:
        return "initializer" if value.graph.model.is_constant_initializer(value) else "overridable initializer"
    if value.producer is None:
        return "input of the graph"
    if value.producer.is_op("Constant"):
        return "Constant node"
    computed = f"{value.producer.op_type} {value.producer.label!r}"
    if analysis.constant(value) is not None:
        return f"constant, made by {computed}"
    when = "from constants" if analysis.is_made_of_constants(value) else "at run time"
    return f"computed {when} by {computed}"
