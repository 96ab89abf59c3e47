"""A right rewrite of everything bnfold can fold, upgrade or decompose, and ways to get each of them wrong.

Every pair is made by hand from the operator texts, without bnfold's rewriting side. A `Rewrite` has one model before,
one right model after, and named wrong ones.
"""

from __future__ import annotations

from tests.verify.faults import arms, carriers, convolution, normalisers, precision, products, upgrades
from tests.verify.faults.rewrite import Rewrite

__all__ = ["Rewrite", "rewrites"]


def rewrites() -> list[Rewrite]:
    """All of them."""
    modules = (arms, carriers, convolution, normalisers, precision, products, upgrades)
    return [rewrite for module in modules for rewrite in module.rewrites()]
