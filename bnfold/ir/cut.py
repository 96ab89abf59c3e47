"""The boundary of a rewrite: all that verification needs to know about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from bnfold.ir.elements import Float64


class Cut(NamedTuple):
    """Names that mean the same value before and after a rewrite.

    The region between ``inputs`` and ``outputs`` (walking back from the outputs, constants included) is what the
    rewrite changed. ``graph`` is the `Graph.path` of the graph it lies in, ``label`` says which rewrite it was.
    """

    graph: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    label: str


@dataclass(frozen=True, slots=True, eq=False)
class ScaledValue:
    """A value of the rewritten model that is the value ``name`` of the original, times ``factors``.

    Attributes:
        name: The name in the original.
        dtype: The element type that the factors are rounded to, as ``onnx.TensorProto.DataType``.
        factors: The factors, of a shape that broadcasts to the value's.
    """

    name: str
    dtype: int
    factors: Float64


@dataclass(frozen=True, slots=True, eq=False)
class SelectedValue:
    """A value of the rewritten model that has some channels of the value ``name`` of the original.

    The others are constant, or silent: no result depends on a silent channel, for all that reads it multiplies it by
    zero.

    Attributes:
        name: The name in the original.
        dtype: The element type, as ``onnx.TensorProto.DataType``.
        axis: The axis of the channels.
        kept: Places of the channels that are left, ascending.
        constants: A number for each channel of the original, NaN for one that is silent; what stands at ``kept`` means
            nothing.
        rank: The number of axes.
    """

    name: str
    dtype: int
    axis: int
    kept: tuple[int, ...]
    constants: Float64
    rank: int


ValueMaps = Mapping[tuple[str, str], ScaledValue | SelectedValue]
"""By the path of a graph and the name of a value there: what it is of the original."""
