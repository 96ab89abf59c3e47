"""What folding may use and may do."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Limits(NamedTuple):
    """What a plan may cost and use.

    Attributes:
        only: Operators that may take part; empty for all.
        excluded: Operators that may not.
        all_affines: Fold rows of constant Mul, Add, … too that no BatchNormalization stands in.
        spares_fused: But for those that are steps of GELU or of a normaliser.
        merge_branches: Merge parallel convolutions, too, that no BatchNormalization stands in.
        exchange: Whether an Add takes a BatchNormalization's place always, or where that pays.
        simplifies: Whether simplification follows, which takes out nodes that a fold brings together.
        simple: Only plans after which no consumer has to undo a change.
        disabled: Names of rewrites that are left out.
        banned: Nodes of rows or sums that stay, by graph and output: a weight overflowed when they were folded.
    """

    only: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()
    all_affines: bool = False
    spares_fused: bool = False
    merge_branches: bool = False
    exchange: Literal["auto", "always"] = "auto"
    simplifies: bool = False
    simple: bool = False
    disabled: frozenset[str] = frozenset()
    banned: frozenset[tuple[str, str]] = frozenset()
