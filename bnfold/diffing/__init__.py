"""What differs between two models, whoever made them: interface, nodes, constants, and where their values part."""

from __future__ import annotations

from bnfold.diffing.document import diff

__all__ = ["diff"]
