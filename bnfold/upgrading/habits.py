"""What early exporters wrote against the operators' texts, and what they meant by it; every reading is reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bnfold.semantics import Repair

if TYPE_CHECKING:
    from bnfold import ir

WINDOWED = frozenset({"Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool"})


def complete_pads(node: ir.Node) -> Repair | None:
    """One pad for every axis instead of two: PyTorch in 2017, read by Caffe2 as the same on both sides."""
    if node.op_type not in WINDOWED or not (node.has_attr("pads") and node.has_attr("kernel_shape")):
        return None
    if node.has_references:
        return None
    pads, kernel = node.attr("pads"), node.attr("kernel_shape")
    if not (isinstance(pads, list) and isinstance(kernel, list)) or not pads or len(pads) != len(kernel):
        return None
    node.set_attr("pads", [*pads, *pads])
    return Repair("half-pads", node.label, f"pads {pads} for {len(kernel)} axes: read as the same on both sides")
