"""Repair what early exporters wrote against the specification. Every repair is reported."""

from __future__ import annotations

from bnfold import ir
from bnfold.ir.traits import WINDOWED
from bnfold.semantics import Repair


def complete_pads(node: ir.Node) -> Repair | None:
    """One pad for every axis instead of two: PyTorch in 2017, read by Caffe2 as the same on both sides."""
    if node.op_type not in WINDOWED or (stated := node.find("pads")) is None:
        return None
    pads = list(stated.ints)
    window = node.find("kernel_shape")
    if not pads or window is None or len(pads) != len(window.ints) or node.has_references:
        return None
    node.set_attr("pads", [*pads, *pads])
    return Repair("half-pads", node.label, f"pads {pads} for {len(pads)} axes: read as the same on both sides")
