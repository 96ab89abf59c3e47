"""How the inputs and outputs of If, Loop and Scan belong to those of their bodies."""

from __future__ import annotations

from bnfold import ir
from bnfold.ir.value import Dims


def operand_of(value: ir.Value) -> ir.Value | None:
    """Return what the node around a body binds to this input of the body."""
    node = value.graph.parent
    if node is None or not value.is_input or states_of(node) is None:
        return None
    return node.input(value.graph.inputs.index(value))


def states_of(node: ir.Node) -> int | None:
    """Return how many values a Loop or Scan hands on from step to step.

    None for other nodes, and for Scan-8's other form.
    """
    if node.op_type == "Loop":
        return len(node.inputs) - 2
    scanned = node.find("num_scan_inputs")
    if node.op_type != "Scan" or node.has_references or scanned is None:
        return None
    return len(node.inputs) - scanned.i if len(node.inputs) == len(node.bodies[0].inputs) else None


def dims_behind(node: ir.Node, slot: int, shapes: list[Dims | None]) -> Dims | None:
    """Return dims of an output of a node whose bodies end in values of ``shapes``: what is so of all branches."""
    known, states = [shape for shape in shapes if shape is not None], states_of(node)
    if (node.op_type != "If" and states is None) or len(known) < len(shapes) or len(set(map(len, known))) != 1:
        return None
    dims = tuple(sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*known, strict=True))
    if states is None or slot < states:
        begin = node.bodies[0].inputs[slot + 2].shape if node.op_type == "Loop" else dims
        return dims if begin == dims else None
    axis = scan_axis(node, "scan_output_axes", slot - states)
    axis = axis + len(dims) + 1 if axis < 0 else axis
    return (*dims[:axis], None, *dims[axis:])


def scan_axis(node: ir.Node, name: str, index: int) -> int:
    """Say which axis a Scan reads or writes along."""
    axes = node.find(name)
    return axes.ints[index] if axes is not None and index < len(axes.ints) else 0
