"""Find tables that are read at computed indices: equal results prove nothing about rows that were never read.

This serves integers: an index chooses what is read, and each row has to be chosen once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from bnfold import ir
from bnfold.ir.elements import Array
from bnfold.reference.operators import CHOOSING
from bnfold.verification.changes.extract import Subgraph, constant_of, producer_of_elements
from bnfold.verification.changes.from_constants import fixed_or_default
from bnfold.verification.changes.unchanged import identity
from bnfold.verification.coverage.effects import read_for_sizes
from bnfold.verification.coverage.record import Table
from bnfold.verification.inputs.bounds import follow_from_sizes
from bnfold.verification.tolerance.floats import is_float


def tables(old: Subgraph, new: Subgraph, *, are_alone: bool = True) -> list[Table]:
    """Return what one model chooses from otherwise than the other; where only its numbers differ, these.

    If the parts are not compared alone, more than them may differ. Then numbers that are the same may be wrong, and
    what a part is fed may be chosen from a table in front of it.
    """
    nodes = [
        {
            identity(node): node
            for node in (*side.nodes, *(() if are_alone else map(producer_of_elements, side.fed)))
            if node is not None and constant_of(node.output(0)) is None
        }
        for side in (old, new)
    ]
    measured = [read_for_sizes(side) for side in (old, new)]
    lone = [(0, key, node) for key, node in nodes[0].items() if key not in nodes[1]]
    found = []
    for side, key, node in [*lone, *((1, key, node) for key, node in nodes[1].items())]:
        value, tensor, others = node.input(0), constant_of(node.input(0)), [other for other in node.inputs[1:] if other]
        if not node.has_trait(CHOOSING) or value is None or tensor is None or all(map(fixed_or_default, others)):
            continue
        if node in measured[side]:
            continue
        if value in (old, new)[side].fed:  # a default, in whose place there are other numbers
            continue
        marks = _marks(node, tensor)
        unread = np.ones(int(marks.max(initial=-1)) + 1, bool)
        twin = nodes[0].get(key) if side and are_alone else None
        before = constant_of(twin.input(0)) if twin is not None else None
        if before is not None and (before.dtype, before.dims) == (tensor.dtype, tensor.dims):
            differs = before.numpy() != tensor.numpy()
            if nodes[0].keys() == nodes[1].keys() or not differs.any():
                unread[:] = False
                unread[marks[differs].astype(np.int64)] = True
        chosen = next(made for made in node.outputs if made is not None)
        found.append(Table(side, value, chosen, marks, unread, follow_from_sizes(others)))
    return found


def indices_into(found: Iterable[Table], sides: Sequence[Subgraph]) -> list[str]:
    """Return the names of computed indices into tables with unread rows, if both parts compute all of them."""
    made = [{value.name for node in side.nodes for value in node.outputs if value is not None} for side in sides]
    names: dict[str, None] = {}
    for table in (table for table in found if table.unread.any()):
        node = table.chosen.producer
        for value in node.inputs[1:] if node is not None else ():
            if value is not None and fixed_or_default(value) is None and value not in sides[table.side].fed:
                names[value.name] = None
    return [*names] if all(name in each for name in names for each in made) else []


def _marks(node: ir.Node, tensor: ir.Tensor) -> Array:
    """Return a number for each row of a table that rows are chosen from, else for each element."""
    dtype = np.float64 if is_float(tensor.dtype) else np.int64
    axis = int(node.attr("axis", 0)) if node.is_op("Gather") and not node.has_references else None
    if axis is None or not -len(tensor.dims) <= axis < len(tensor.dims):
        return np.arange(tensor.size, dtype=dtype).reshape(tensor.dims)
    rows = np.arange(tensor.dims[axis], dtype=dtype)
    return np.moveaxis(np.broadcast_to(rows, (*np.delete(tensor.dims, axis), rows.size)), -1, axis)
