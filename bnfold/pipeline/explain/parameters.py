"""What one BatchNormalization is: where its parameters come from, what it does to its input, what had to be decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bnfold import ir
from bnfold.errors import BnfoldError
from bnfold.folding import recognise
from bnfold.ir.tensor import Float64
from bnfold.pipeline.explain.scales import spread
from bnfold.report.reasons import Declined
from bnfold.semantics import Policy, Unreadable
from bnfold.semantics import batchnorm as batchnorm_semantics

NAMES = ("scale", "bias", "mean", "var")


@dataclass(frozen=True, slots=True)
class Facts:
    """``affine`` is (scale, shift) in float64, one element a parameter; None where it is not the same in every run."""

    sources: dict[str, dict[str, Any]]
    epsilon: float | None
    per_activation: bool
    affine: tuple[Float64, Float64] | None
    policies: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        affine = None
        if self.affine is not None:
            scale, shift = self.affine
            affine = {"channels": int(scale.size), "scale": spread(scale), "shift": spread(shift)}
        return {
            "parameters": {**self.sources, "epsilon": self.epsilon, "per_activation": self.per_activation},
            "affine": affine,
            "policies": list(self.policies),
        }


def describe(node: ir.Node, policy: Policy) -> Facts:
    """The facts of a BatchNormalization of any version, read as ``policy`` says."""
    sources = {name: source(node, slot) for slot, name in enumerate(NAMES, start=1)}
    try:
        norm = batchnorm_semantics.read(node, policy)
    except (Unreadable, BnfoldError):
        return Facts(sources, None, per_activation=False, affine=None, policies=())
    return Facts(
        sources, norm.epsilon, norm.per_activation, _affine(norm), tuple(repair.text for repair in norm.repairs)
    )


def _affine(norm: batchnorm_semantics.BatchNorm) -> tuple[Float64, Float64] | None:
    if norm.mode == "training":
        return None
    try:
        scale, shift = recognise.statistics(norm)
    except (Declined, BnfoldError):
        return None
    return (scale, shift) if scale.size else None


def source(node: ir.Node, slot: int) -> dict[str, Any]:
    """Who makes the value at ``slot``: ``kind``, the value's name, and its dims as far as they are known."""
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
    return f"constant, made by {computed}" if ir.constant(value) is not None else f"computed at run time by {computed}"
