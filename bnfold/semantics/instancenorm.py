"""What any InstanceNormalization, of versions 1, 6 and 22, reads and makes.

``y = (x − m)/sqrt(v + epsilon)·scale + bias`` with m and v over all axes but 0 and 1, at every version; version 1
differs by an attribute without meaning, version 22 by one more type.
"""

from __future__ import annotations

import numpy as np

from bnfold import ir
from bnfold.semantics.policy import Repair, Unreadable

VERSIONS = (1, 6, 22)
DEFAULT_EPSILON = float(np.float32(1e-5))


def version_of(node: ir.Node) -> int:
    """Return version of InstanceNormalization that the opset of the graph or function around ``node`` selects."""
    opset = node.graph.opset("")
    return max((version for version in VERSIONS if version <= opset), default=1)


def slots(node: ir.Node) -> tuple[ir.Value, ir.Value, ir.Value, ir.Value]:
    """Return the three inputs and the output.

    Raises:
        Unreadable: There are others, or one of them is missing.
    """
    inputs = [value for value in node.inputs if value is not None]
    outputs = [value for value in node.outputs if value is not None]
    if len(inputs) != 3 or len(node.inputs) != 3:
        raise Unreadable(node, f"has {len(inputs)} inputs, needs 3 (input, scale, B)")
    if len(outputs) != 1:
        raise Unreadable(node, f"names {len(outputs)} outputs, needs 1")
    return inputs[0], inputs[1], inputs[2], outputs[0]


def strays(node: ir.Node) -> tuple[Repair, ...]:
    """Return a repair for each attribute that never belonged to the operator.

    Converters copied BatchNormalization's.
    """
    legal = {"epsilon", "consumed_inputs"} if version_of(node) == 1 else {"epsilon"}
    return tuple(
        Repair("stray-attribute", node.label, f"InstanceNormalization has no attribute {name}: it carries no meaning")
        for name in sorted(set(node.attrs) - legal)
    )
