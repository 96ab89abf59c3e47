"""The parts that patterns consist of. Dims are pairwise different, scales of both signs unless chosen otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from fuzz.builder import Builder, Drawn
from onnx import TensorProto

from _patterns.verdict import Measure, affines

Build = Callable[[Builder], "Drawn | list[Drawn]"]
Part = Callable[[Builder, Drawn], Drawn]


@dataclass(frozen=True)
class Pattern:
    """One row. ``build`` makes the graph and returns its outputs; ``change`` edits the model."""

    name: str
    build: Build
    opset: int = 17
    dtype: int = TensorProto.FLOAT
    change: Callable[[onnx.ModelProto], None] = lambda _: None
    whole: bool = False
    """Whether it counts as folded only if no affine node is left."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of bnfold beside folding."""
    measure: Measure = affines

    def model(self) -> onnx.ModelProto:
        """Build the model; the result never changes."""
        b = Builder(np.random.default_rng(1), opset=self.opset, dtype=self.dtype, plain=True)
        outputs = self.build(b)
        made = b.model(outputs if isinstance(outputs, list) else [outputs])
        self.change(made)
        return made


def exchanged(name: str, build: Build, **options: Any) -> Pattern:
    """Make a row in which an Add replaces the BatchNormalization; bnfold does so by an option."""
    return Pattern(f"{name} (`--exchange always`)", build, options={"exchange": "always"}, **options)


def given(b: Builder, *shape: int) -> Drawn:
    """Add an input of the graph."""
    b.inputs.append(Drawn(b.fresh("x"), b.dtype, shape))
    b.values.append(b.inputs[-1])
    return b.inputs[-1]


def weight(b: Builder, *shape: int) -> str:
    """Add a random constant, kept away from zero."""
    drawn = b.numbers(shape, 0.5, 1.5)
    return b.weight(drawn * np.where(b.rng.random(shape) < 0.5, -1, 1).astype(drawn.dtype))


def norm(b: Builder, x: Drawn, *, positive: bool = False, scale_only: bool = False, **attributes: Any) -> Drawn:
    """Append a BatchNormalization over axis 1."""
    channels = x.shape[1]
    scale = b.numbers([channels], 0.5, 1.5) * (1 if positive else np.where(np.arange(channels) % 2, -1, 1))
    shift, mean = (b.numbers([channels]) * (0 if scale_only else 1) for _ in range(2))
    arrays = [scale, shift, mean, b.numbers([channels], 0.5, 2.0)]
    operands = [b.weight(array.astype(b.numbers([]).dtype)) for array in arrays]
    return b.node("BatchNormalization", [x.name, *operands], epsilon=1e-3, **attributes)[0]


def node(b: Builder, op_type: str, *operands: Drawn | str, **attributes: Any) -> Drawn:
    """Append a node with one output."""
    names = [operand if isinstance(operand, str) else operand.name for operand in operands]
    return b.node(op_type, names, **attributes)[0]


def conv(
    b: Builder, x: Drawn, channels: int = 4, *, group: int = 1, bias: bool = True, kernel: int = 2, **attributes: Any
) -> Drawn:
    """Append a Conv of any rank."""
    spatial = len(x.shape) - 2
    operands: list[Drawn | str] = [x, weight(b, channels, x.shape[1] // group, *[kernel] * spatial)]
    return node(b, "Conv", *operands, *([weight(b, channels)] if bias else []), group=group, **attributes)


def conv_transpose(b: Builder, x: Drawn, each: int = 4, *, group: int = 1, kernel: int = 2, **attributes: Any) -> Drawn:
    """Append a ConvTranspose with ``each`` output channels a group."""
    kernel_shape = [kernel] * (len(x.shape) - 2)
    operands = (weight(b, x.shape[1], each, *kernel_shape), weight(b, each * group))
    return node(b, "ConvTranspose", x, *operands, group=group, **attributes)


def gemm(b: Builder, x: Drawn, columns: int = 5, c: Sequence[int] | None = (5,), **attributes: Any) -> Drawn:
    """Append a Gemm, with C of a shape or without."""
    inner = x.shape[0] if attributes.get("transA") else x.shape[1]
    matrix = weight(b, *((columns, inner) if attributes.get("transB") else (inner, columns)))
    return node(b, "Gemm", x, matrix, *([] if c is None else [weight(b, *c)]), **attributes)


def matmul(b: Builder, x: Drawn, columns: int = 5) -> Drawn:
    """Append a MatMul with a constant right operand."""
    return node(b, "MatMul", x, weight(b, x.shape[-1], columns))


def ints(b: Builder, *numbers: int) -> str:
    """Append a constant list of int64."""
    return b.integers(numbers)


def through(op_type: str, *constants: Sequence[int], **attributes: Any) -> Part:
    """Append a node of one computed operand, with constant lists of integers behind it."""
    return lambda b, x: node(b, op_type, x, *(ints(b, *numbers) for numbers in constants), **attributes)


def image(b: Builder) -> Drawn:
    """Add an input of images."""
    return given(b, 2, 3, 6, 8)
