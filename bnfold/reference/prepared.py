"""What several evaluations of one model share."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from bnfold import ir
from bnfold.ir.elements import Array
from bnfold.reference.dispatch import Bound
from bnfold.reference.precision import Datum
from bnfold.reference.schedule import Schedule


@dataclass(slots=True, eq=False)
class KeptWeights:
    """Weights in the precision of the runs, as long as there is ``room`` for so many elements."""

    room: int = 0
    _held: dict[ir.Value, Array] = field(default_factory=dict)

    def get(self, value: ir.Value) -> Array | None:
        """Return a weight that is kept."""
        return self._held.get(value)

    def keep(self, value: ir.Value, weight: Datum) -> Datum:
        """Return the weight. If there is room it is kept, and may not be written to."""
        if isinstance(weight, np.ndarray) and weight.size <= self.room:
            self.room -= weight.size
            weight.setflags(write=False)
            self._held[value] = weight
        return weight


@dataclass(slots=True, eq=False)
class Prepared:
    """What runs of one model in one precision have in common.

    These are orders of nodes, their kernels outside functions, and weights.
    """

    weights: KeptWeights = field(default_factory=KeptWeights)
    schedules: dict[tuple[ir.Graph, tuple[ir.Value, ...]], Schedule] = field(default_factory=dict)
    bound: dict[tuple[ir.Node, int | None], Bound] = field(default_factory=dict)
