"""What differs between two models, whoever made them: interface, nodes, constants, and where their values part."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from bnfold import ir
from bnfold.diffing.document import compare
from bnfold.diffing.identity import Identities
from bnfold.diffing.matching import Matching

__all__ = ["diff"]


def diff(before: ir.Model, after: ir.Model, *, drawn: bool = False) -> dict[str, Any]:
    """Compare two models node by node.

    Args:
        before: One model.
        after: The other one.
        drawn: Whether to tell the nodes around every difference, for drawings.

    Returns:
        The differences as plain JSON types; docs/diff.md describes them.

    Raises:
        BadInput: A constant that cannot be read.
    """
    common = {
        value.name
        for ours, theirs in ((before.graph.inputs, after.graph.inputs), (before.graph.outputs, after.graph.outputs))
        for value in ours
        if value.name in {other.name for other in theirs}
    }
    with ExitStack() as stack:
        known = Identities()
        for model in (before, after):
            stack.enter_context(ir.evaluated_once(model))
            known.add(model, common)
        match = Matching(known)
        functions = {function.path: function for function in after.functions}
        for function in before.functions:
            if function.path in functions:
                match.add(function, functions[function.path], set())
        match.add(before.graph, after.graph, common)
        return compare(before, after, known, match, drawn=drawn)
