"""Inference with constant parameters: two or three constants, computed in float64 and rounded once.

In a type in which nothing is lost of what the operator itself would have kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from bnfold import analysis, ir
from bnfold.decomposing.builder import TP, Builder, Emit
from bnfold.decomposing.spec import Spec
from bnfold.folding.chains import statistics
from bnfold.ir.elements import finfo
from bnfold.ir.tensor import Float64, round_once
from bnfold.ir.value import shape_of
from bnfold.report.reasons import Declined, Reason
from bnfold.semantics import Policy
from bnfold.semantics import batchnorm as batchnorm_semantics

HALVES = frozenset({TP.FLOAT16, TP.BFLOAT16})
_GROWTH = 8.0
"""How far a 16-bit shift may exceed bias and scale: its rounding error stays within as many roundings of y."""
_HEADROOM = 64.0
"""The share of the range that a 16-bit shift may take: where y is finite, so are the terms of its sum."""


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator with one constant operand; the constant takes the place of parameter ``old``."""

    op_type: str
    block: Float64
    old: ir.Value

    @property
    def is_idle(self) -> bool:
        """Whether it changes nothing."""
        return bool((self.block == (1.0 if self.op_type == "Mul" else 0.0)).all())


def elementwise(spec: Spec, compute: int, steps: Sequence[Operation], builder: Builder) -> dict[ir.Value, ir.Value]:
    """Return ``Mul, Add`` or ``Sub, Mul, Add`` in element type ``compute``.

    The activation is cast where its own differs.
    """
    dtype, value = spec.dtypes["x"], spec.x
    steps = [step for step in steps if not step.is_idle]
    if steps:
        value = builder.cast(value, dtype, compute)
        for step in steps:
            name = step.op_type.lower()
            operand = spec.layout.constant(builder, step.old, step.block, compute, f"{name}_by")
            value = builder.add(step.op_type, [value, operand], name)
        value = builder.cast(value, compute, dtype)
    return {_output(spec): value}


def convolution(spec: Spec, compute: int, s: Operation, t: Operation, builder: Builder) -> dict[ir.Value, ir.Value]:
    """Make a depthwise convolution with a kernel of ones in size, for hardware that has nothing cheaper."""
    channels, inner = s.block.size, (spec.layout.rank or 0) - 2
    kernel = s.block.reshape((channels, 1, *(1,) * inner))
    weight = builder.successor(s.old, kernel, compute, "weight")
    bias = builder.successor(t.old, t.block.reshape(-1), compute, "bias")
    dtype = spec.dtypes["x"]
    value = builder.cast(spec.x, dtype, compute)
    made = builder.add("Conv", [value, weight, bias], "conv", kernel_shape=[1] * inner, group=channels)
    return {_output(spec): builder.cast(made, compute, dtype)}


def plan_arithmetic(spec: Spec, form: str, policy: Policy) -> Emit:
    """Say how to write out an inference BatchNormalization.

    Raises Declined where a parameter is no constant, where one is not finite, or where no type at hand holds them.
    """
    if isinstance(spec.epsilon, str):
        raise Declined(Reason.REFERENCE_ATTRIBUTE, "attribute epsilon")
    dtype, norm = spec.dtypes["x"], batchnorm_semantics.read_batchnorm(spec.node, policy)
    s, t = statistics(norm, spec.epsilon)
    scale, bias, mean = (_values(value) for value in norm.inputs[1:4])
    multiply, shift = Operation("Mul", s, norm.inputs[1]), Operation("Add", t, norm.inputs[2])
    if form == "sub_mul_add":
        steps: tuple[Operation, ...] = (
            Operation("Sub", mean, norm.inputs[3]),
            multiply,
            Operation("Add", bias, norm.inputs[2]),
        )
        steady = is_steady(mean * s, scale, bias, dtype) and has_headroom(mean, dtype)
    else:
        steps, steady = (multiply, shift), is_steady(t, scale, bias, dtype)
    compute = _type(spec, steps, steady=steady)
    if form == "depthwise_conv" and _convolves(spec, compute, s.size):
        return partial(convolution, spec, compute, multiply, shift)
    return partial(elementwise, spec, compute, steps)


def _type(spec: Spec, steps: tuple[Operation, ...], *, steady: bool) -> int:
    """Return the activation's own type where that is as exact as the operator, else float32."""
    dtype = spec.dtypes["x"]
    for candidate in (dtype, TP.FLOAT) if dtype in HALVES else (dtype,):
        if (steady or candidate != dtype) and all(fits(step.block, candidate) for step in steps):
            return candidate
    raise Declined(Reason.RANGE, f"the constants of {spec.node.label!r}")


def _convolves(spec: Spec, compute: int, channels: int) -> bool:
    """Whether a convolution can say it, in a type that runtimes convolve in.

    They refuse images without pixels, which inputs may lead to that are declared with a size of 0.
    """
    layout = spec.layout
    if layout.rank is None or layout.rank < 3 or layout.activations is not None or channels == 0:
        return False
    if any(0 in (shape_of(value.type) or ())[2:] for value in spec.node.graph.model.graph.inputs):
        return False
    return compute in (TP.FLOAT, TP.FLOAT16) or (compute == TP.BFLOAT16 and spec.node.graph.opset("") >= 22)


def _values(value: ir.Value) -> Float64:
    tensor = analysis.constant(value)
    return np.zeros(0) if tensor is None else tensor.float64().reshape(-1)


def _output(spec: Spec) -> ir.Value:
    output = spec.node.output(0)
    assert output is not None, "a BatchNormalization that was read names its first output"
    return output


def fits(block: Float64, dtype: int) -> bool:
    """Whether rounding ``block`` to ``dtype`` keeps it finite and loses no more than rounding does.

    The subnormals of float16 begin at 6e-5, where trained scales live, so there every element counts; with eight or
    more bits of exponent a channel that small is dead, and the block is judged as a whole.
    """
    with np.errstate(all="ignore"):
        rounded = round_once(block, dtype).astype(np.float64)
    if not np.isfinite(rounded).all():
        return False
    size = np.abs(block) if dtype == TP.FLOAT16 else np.abs(block).max(initial=0.0)
    normal = float(finfo(dtype).smallest_normal)
    return bool(((size >= normal) | (rounded == block)).all())


def is_steady(term: Float64, scale: Float64, bias: Float64, dtype: int) -> bool:
    """Whether adding ``term`` (per channel) in ``dtype`` costs no more than a few roundings of the result.

    If the mean is many deviations away from zero, ``mean·s`` is large. Subtracting it cancels, and its rounding error
    stays. For float32 and float64 the limit is the error that runtimes make in BatchNormalization itself. They widen
    16-bit floats to float32 first, so there the error must not grow.
    """
    if dtype not in HALVES:
        return True
    return has_headroom(term, dtype) and bool((np.abs(term) <= _GROWTH * (np.abs(bias) + np.abs(scale))).all())


def has_headroom(term: Float64, dtype: int) -> bool:
    """Whether ``term`` is so far from the end of the range that adding it overflows only where the result does."""
    return bool((np.abs(term) <= float(finfo(dtype).max) / _HEADROOM).all())
