"""A program that registers an operator, as its types allow: what a kernel, a shape, a rule and a step may look like."""

# ruff: noqa: ARG001 - callers' functions take what they are given, and some are wrong on purpose

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

import bnfold
from bnfold.operators import (
    AffineRule,
    AffineStep,
    ChannelAffine,
    DoesNotApply,
    NodeForm,
    OperatorNode,
    ValueType,
    Versions,
    unregister_operator,
)

Array = npt.NDArray[Any]


def kernel(x: Array, w: Array, b: Array | None = None, *, beta: float = 1.0) -> tuple[Array, Array]:
    return beta * x * w[:, None, None] / 2, np.asarray(x.sum())


def older(x: Array, w: Array) -> Array:
    return x * w[:, None, None]


def shape(x: ValueType, w: ValueType, b: ValueType | None = None, *, beta: float = 1.0) -> list[ValueType]:
    size = x.dims[0]
    kind = "float" if x.dtype.kind == "f" else np.int64
    return [ValueType((size, *x.dims[1:]), x.dtype), ValueType([], kind)]


def up(node: OperatorNode, affine: ChannelAffine) -> AffineStep:
    if not affine.is_scale_only:
        raise DoesNotApply("a shift")
    weight = node.constant(1)
    return AffineStep(constants={1: affine.of(len(weight)).scale * weight}, attributes={"beta": 1.0})


def newer(node: OperatorNode) -> NodeForm:
    return NodeForm({"beta": 2.0}, [0, node.constant(1), None])


def convert(model: onnx.ModelProto) -> bnfold.Outcome:
    """Register version 1 and 2 of an operator, and convert a model to the second."""
    rule = AffineRule(up=up, axis=-3)
    versions = Versions((2,), upgrade=newer)
    bnfold.register_operator("com.acme", "Typed", kernel=kernel, shape=shape, affine=rule, versions=versions)
    bnfold.register_operator("com.acme", "Typed", kernel=older, versions=[1])
    try:
        return bnfold.convert(model, domain_opsets={"com.acme": 2})
    finally:
        unregister_operator("com.acme", "Typed")
