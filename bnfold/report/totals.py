"""What a model consists of, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from bnfold import ir


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts of one model.

    Attributes:
        operators: Nodes of every graph by operator, the most frequent first; foreign domains stand before the name.
        weights: Bytes of all stored tensors, whether initializers or Constant nodes hold them.
        inputs: Inputs of the graph, listed initializers among them.
        outputs: Outputs of the graph.
    """

    operators: Mapping[str, int] = field(default_factory=dict)
    weights: int = 0
    inputs: int = 0
    outputs: int = 0

    @property
    def nodes(self) -> int:
        """Nodes of every graph."""
        return sum(self.operators.values())


def count(model: ir.Model) -> Totals:
    """The totals of a model as it is now."""
    counts: Counter[str] = Counter()
    weights = model.parameter_bytes()
    for node in model.nodes():
        counts[f"{node.domain}::{node.op_type}" if node.domain else node.op_type] += 1
        if node.is_op("Constant"):
            tensor = ir.constant(node.output(0))
            weights += tensor.nbytes if tensor is not None else 0
    operators = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    return Totals(operators, weights, len(model.graph.inputs), len(model.graph.outputs))


def changed(before: Totals, after: Totals) -> dict[str, tuple[int, int]]:
    """Operators whose count changed, with both counts, the largest change first."""
    names = dict.fromkeys((*before.operators, *after.operators))
    pairs = {name: (before.operators.get(name, 0), after.operators.get(name, 0)) for name in names}
    moved = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    return dict(sorted(moved.items(), key=lambda item: -abs(item[1][0] - item[1][1])))
