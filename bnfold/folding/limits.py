"""What folding may cost and use."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from bnfold import ir


class Limits(NamedTuple):
    """What a plan may cost and use.

    Attributes:
        growth: Bytes that copies of shared weights may add, over the whole run; or what tells them when they matter.
        only: Operators that may take part; empty for all.
        excluded: Operators that may not.
        all_affines: Fold rows of constant Mul, Add, … too that no BatchNormalization stands in.
        merge_branches: Merge parallel convolutions, too, that no BatchNormalization stands in.
        equalize: Even out the channels of layers that follow each other.
        simple: Only plans that change no value for anybody who would have to undo it.
        banned: Nodes of rows or sums that stay, by graph and output: a weight overflowed when they were folded.
    """

    growth: int | Callable[[], int] = 0
    only: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()
    all_affines: bool = False
    merge_branches: bool = False
    equalize: bool = False
    simple: bool = False
    banned: frozenset[tuple[str, str]] = frozenset()


_SMALL, _LARGE = 64 << 10, 1 << 20


def growth_budget(model: ir.Model, nodes: Iterable[ir.Node]) -> Callable[[], int]:
    """The bytes that copies of shared weights may add by default, beyond those that the parameters of ``nodes`` free.

    These are 64 KiB, up to 1 MiB while that is at most a quarter of the model, or 1 %, whatever is most.
    Counted when it is called, because few models share weights; the parameters are remembered now.
    """
    parameters = {value for node in nodes for value in node.inputs[1:] if value is not None and value.is_initializer}
    whole = {value: value.tensor_proto for value in parameters}

    def count() -> int:
        freed = sum(model.tensor(proto).nbytes for proto in whole.values() if proto is not None)
        whole_model = model.parameter_bytes()
        return freed + max(_SMALL, min(_LARGE, whole_model // 4), whole_model // 100)

    return count
