"""What a model consists of, counted."""

from __future__ import annotations

from collections import Counter

from bnfold import ir


def operators(model: ir.Model) -> dict[str, int]:
    """Nodes of every graph by operator, the most frequent first; foreign domains stand before the name."""
    counts = Counter(f"{node.domain}::{node.op_type}" if node.domain else node.op_type for node in model.nodes())
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def weights(model: ir.Model) -> int:
    """Bytes of all stored tensors, whether initializers or Constant nodes hold them."""
    made = (node.output(0) for node in model.nodes() if node.is_op("Constant"))
    held = (ir.constant(value) for value in made)
    return model.parameter_bytes() + sum(tensor.nbytes for tensor in held if tensor is not None)
