"""Repair what early exporters wrote against the specification. Every repair is reported."""

from __future__ import annotations

from bnfold import ir
from bnfold.analysis.traits import WINDOWED
from bnfold.ir.forms import fits, fitting_versions, form_of
from bnfold.ir.schemas import versions_of
from bnfold.semantics import Repair

_CONSUMED = "consumed_inputs"


def complete_pads(node: ir.Node) -> Repair | None:
    """Complete pads, where there is one for every axis instead of two.

    PyTorch in 2017, read by Caffe2 as the same on both sides.
    """
    if node.op_type not in WINDOWED or (stated := node.find("pads")) is None:
        return None
    pads = list(stated.ints)
    window = node.find("kernel_shape")
    if not pads or window is None or len(pads) != len(window.ints) or node.has_references:
        return None
    node.set_attr("pads", [*pads, *pads])
    return Repair("half-pads", node.label, f"pads {pads} for {len(pads)} axes: read as the same on both sides")


def drop_consumed_inputs(node: ir.Node, version: int) -> Repair | None:
    """Drop an attribute of opsets 1 to 5 that never meant anything, if the node is of a later version but for it."""
    if node.find(_CONSUMED) is None or fits(node, version) or not fits(node, version, frozenset({_CONSUMED})):
        return None
    node.del_attr(_CONSUMED)
    text = f"{_CONSUMED}, which {node.op_type}-{version} does not have and which means nothing, is dropped"
    return Repair("misplaced-attribute", node.label, text)


def version_meant(node: ir.Node, version: int, target: int) -> int:
    """Return the version that a node was written for, if it does not fit its own version.

    Exporters, and converters that only change the opset number, leave attributes that the newer version lacks. Then it
    is the newest older version that has all of them. Otherwise the schemas decide (`ir.forms`). It may be a later
    version up to ``target``, which the exporter wrote under a lower opset (a Cast-1 with a number for a type), or an
    earlier one (a Cast-6 with a text for a type).
    """
    if fits(node, version):
        return version
    names = {attribute.name for attribute in node.proto.attribute[:]}
    if not names <= form_of(node.op_type, version).attributes.keys():
        older = [v for v in versions_of(node.op_type) if names <= form_of(node.op_type, v).attributes.keys()]
        if older and older[0] < version:
            return max(v for v in older if v < version)
    return next(fitting_versions(node, version, target), version)
