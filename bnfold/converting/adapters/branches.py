"""If: from opset 11 on, its branches may make values of different shapes."""

from __future__ import annotations

from bnfold.converting.context import Inexpressible
from bnfold.converting.node_conversion import NodeConversion


def of_one_shape(conversion: NodeConversion) -> None:
    """Convert If 11 → 1, whose shape inference gives an output all that is known of either branch.

    Runtimes put such a shape in the place of a Shape node, so it must not be that of one branch alone.
    """
    for ends in zip(*(body.outputs for body in conversion.node.bodies), strict=False):
        shapes = [conversion.shape(end) for end in ends]
        if shapes[1:] != shapes[:-1]:
            names = " and ".join(repr(end.name) for end in ends)
            raise Inexpressible(f"its branches may make different shapes ({names})")
