"""A right rewrite of everything bnfold can fold, upgrade or decompose, and ways to get each of them wrong.

Every pair is made by hand from the operator texts, without bnfold's rewriting side. A `Rewrite` has one model before,
one right model after, and named wrong ones.
"""

from __future__ import annotations

from tests.verification.faults import (
    arms,
    branches,
    carriers,
    channels,
    composed,
    convolution,
    normalisers,
    operators,
    paying,
    precision,
    products,
    sequences,
    simplified,
    unseen,
    upgrades,
)
from tests.verification.faults.rewrite import Rewrite

__all__ = ["Rewrite", "rewrites", "table"]


def rewrites() -> list[Rewrite]:
    """All of them."""
    modules = (
        arms, branches, carriers, channels, composed, convolution, normalisers, operators, paying, precision,
        products, sequences, simplified, unseen, upgrades,
    )  # fmt: skip
    return [rewrite for module in modules for rewrite in module.rewrites()]


def table() -> str:
    """The table in Markdown, as README.md beside this file has it."""
    rows = [f"| {rewrite.name} | {fault} |" for rewrite in rewrites() for fault in rewrite.wrong]
    text = [
        "# Seeded faults",
        "",
        "Wrong variants of right rewrites. `tests/verification/test_faults.py` shows that each is caught by comparing",
        "whole models, by checking the rewrite on its own, and by checking whatever changed although no rewrite",
        "said so; and that every right variant passes all three.",
        "",
        "| rewrite | fault |",
        "|---|---|",
        *rows,
    ]
    return "\n".join(text) + "\n"
