"""Constant arithmetic that is a step of a function that runtimes compute at once, if it stands as exporters write it.

These are GELU, by Erf or by Tanh, normalisers, and MatMul with a bias. A step that is folded into a weight leaves fewer
nodes, and a slower model: two networks with GELU took 3 to 12 % longer so, in onnxruntime 1.32 and in OpenVINO 2026.4.
"""

from __future__ import annotations

from bnfold import ir
from bnfold.analysis.traits import ARITHMETIC
from bnfold.folding.chains import AffineChain, has_constant
from bnfold.folding.decomposed import normalises

CURVES = ("Erf", "Tanh")


def is_fused(chain: AffineChain) -> bool:
    """Whether the row is such a step."""
    source, made = chain.source, chain.target
    readers = [node for node, _ in made.uses]
    if any(node.is_op(*CURVES) or _gates(node) for node in readers):
        return True
    producer = source.producer
    return normalises(source) or (producer is not None and (_gates(producer) or _is_bias(chain, producer)))


def _is_bias(chain: AffineChain, producer: ir.Node) -> bool:
    return producer.is_op("MatMul") and len(chain.links) == 1 and chain.links[0].node.is_op("Add")


def _gates(node: ir.Node) -> bool:
    """Whether the node multiplies a value by the curve of GELU, plus one."""
    return node.is_op("Mul") and any(map(_is_curve, node.inputs))


def _is_curve(value: ir.Value | None) -> bool:
    node = value.producer if value is not None else None
    if node is not None and node.has_trait(ARITHMETIC) and has_constant(node):
        node = next((read.producer for read in node.inputs if read is not None and read.producer is not None), None)
    return node is not None and node.is_op(*CURVES)
