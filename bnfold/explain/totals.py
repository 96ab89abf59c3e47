"""What a model consists of, counted."""

from __future__ import annotations

from collections import Counter

from bnfold import ir


def operators(model: ir.Model) -> dict[str, int]:
    """Nodes of every graph by operator, the most frequent first; foreign domains stand before the name."""
    counts = Counter(f"{node.domain}::{node.op_type}" if node.domain else node.op_type for node in model.nodes())
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
