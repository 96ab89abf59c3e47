"""A region that is evaluated many times: what it stores is read once, and its nodes are looked up once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bnfold import ir, reference
from bnfold.ir.elements import Array
from bnfold.reference.precision import widen
from bnfold.verification.changes.extract import Subgraph
from bnfold.verification.inputs.cost import estimate
from bnfold.verification.inputs.sized import sized

LARGEST_HELD = 10 << 20
"""Elements of a weight that is held in float64, in 80 MB; larger ones are read anew for each evaluation."""


REGION_SECONDS = 1.0
"""Counted, for one evaluation of a region at sizes that are not usual."""

FEW = 128


@dataclass(frozen=True, slots=True)
class Runnable:
    """A part that is evaluated many times, with its ``held`` weights in float64.

    A part with equal nodes can stand in for another one: ``names`` maps the weights to the names that they have there.
    """

    subgraph: Subgraph
    held: Mapping[str, Array] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    prepared: reference.Prepared = field(default_factory=reference.Prepared)


def runnable(subgraph: Subgraph, values: Sequence[ir.Value], like: Runnable | None = None) -> Runnable:
    """Return the part with ``values`` in the place of its own stored tensors, read and widened once."""
    held: dict[str, Array] = {}
    names: dict[str, str] = {}
    for value, other in zip(values, subgraph.stored, strict=True):
        tensor = value.tensor
        if tensor is not None and tensor.size <= LARGEST_HELD:
            held[other.name], names[other.name] = widen(tensor.numpy()), value.name
    return Runnable(subgraph, held, names) if like is None else Runnable(subgraph, held, names, like.prepared)


def takes_long(subgraph: ir.Model, shapes: Mapping[str, tuple[int, ...]], produced: int) -> bool:
    """Whether evaluating a part takes long although its inputs are small: it may compute large sizes.

    That is only examined if an axis is long, or if many elements are ``produced`` at the usual sizes.
    """
    is_long = max(map(max, filter(None, shapes.values())), default=0) > FEW or produced > LARGEST_HELD
    return is_long and estimate(sized(subgraph, shapes)).seconds > REGION_SECONDS
