"""The boundary of a rewrite: all that verification needs to know about it."""

from __future__ import annotations

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
