"""How parameters stand against the activation: which shape makes them broadcast, and over which axes statistics go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bnfold import ir
from bnfold.decomposing.builder import Builder
from bnfold.ir.tensor import Float64
from bnfold.ir.value import Dim
from bnfold.report.reasons import Declined, Reason


@dataclass(frozen=True, slots=True)
class Layout:
    """One of three: a channel axis in a known rank, a channel axis in an unknown one, or one parameter an activation.

    Attributes:
        rank: Of the activation; None where it is not known.
        activations: (C, D1..Dn) of per-activation parameters; None for one a channel.
    """

    rank: int | None
    activations: tuple[int, ...] | None = None

    def dims(self, count: int) -> tuple[int, ...] | None:
        """Return the fewest dims in which ``count`` parameters broadcast against the activation.

        None if that is only known in a run.
        """
        if self.activations is not None:
            return self.activations
        if self.rank == 1 or count == 1:
            return ()
        return None if self.rank is None else (count, *(1,) * (self.rank - 2))

    @property
    def axes(self) -> list[int]:
        """The axes over which batch statistics go; the rank must be known unless parameters are per activation."""
        if self.activations is not None or self.rank is None:
            return [0]
        return [axis for axis in range(self.rank) if axis != 1]

    def constant(self, builder: Builder, old: ir.Value, flat: Float64, dtype: int, hint: str) -> ir.Value:
        """Return the constant parameters ``flat`` in place of ``old``, to broadcast against the activation."""
        dims = self.dims(flat.size)
        if dims is not None:
            return builder.successor(old, flat.reshape(dims), dtype, hint)
        vector = builder.successor(old, flat.reshape(-1), dtype, hint)
        return builder.add("Reshape", [vector, builder.channel_dims], f"{hint}_column")

    def spread(self, builder: Builder, vector: ir.Value) -> ir.Value:
        """Return a computed (C,), or any shape of per-activation parameters, such that it broadcasts."""
        if self.activations is not None:
            return builder.add("Reshape", [vector, builder.ints(self.activations, "activations")], "block")
        if self.rank is None:
            return builder.add("Reshape", [vector, builder.channel_dims], "column")
        inner = range(1, self.rank - 1)
        return builder.along("Unsqueeze", vector, inner, "unsqueeze") if inner else vector

    def collapse(self, builder: Builder, statistic: ir.Value, like: Sequence[Dim] | None) -> ir.Value:
        """Return a statistic over `axes`, which were kept as 1, in the dims ``like`` that parameters have."""
        if self.rank == 1:
            return statistic
        if self.activations is not None and like is not None and len(like) == 1:
            return builder.add("Reshape", [statistic, builder.ints([-1], "flat")], "vector")
        return builder.along("Squeeze", statistic, self.axes, "squeeze")


def per_activation(x: Sequence[Dim] | None, parameter: Sequence[Dim] | None) -> Layout:
    """Return the layout of ``spatial=0`` parameters. Raises Declined where a size is not known."""
    for dims in (None if x is None else x[1:], parameter if parameter is not None and len(parameter) > 1 else None):
        if dims is None:
            continue
        static = tuple(dim for dim in dims if isinstance(dim, int))
        if len(static) == len(dims) and 0 not in static:
            return Layout(len(static) + 1, static)
    raise Declined(Reason.NOT_STATIC, "the sizes of the activation that each parameter belongs to")
