"""One node that does the work of several."""

from __future__ import annotations

from typing import NamedTuple

from bnfold import ir
from bnfold.folding.step import Edit


def key_of(node: ir.Node) -> tuple[str, str]:
    """Return what a rewrite is called if a weight turns out to overflow: its graph and what it makes."""
    made = node.outputs[0]
    assert made is not None, "it was looked at"
    return node.graph.path, made.name


class NodeMerge(NamedTuple):
    """``kept``, one of ``nodes``, reads ``source`` and makes what the first of them makes, once it is edited.

    ``cost`` is what the edits take of what may be added.
    """

    kept: ir.Node
    nodes: tuple[ir.Node, ...]
    source: ir.Value
    edits: tuple[Edit, ...]
    cost: int

    def carry_out(self) -> list[str]:
        """Take out all nodes but the one that stays; the names of values that are gone."""
        made, kept = self.nodes[0].outputs[0], self.kept
        assert made is not None, "it was looked at"
        gone = [value.name for node in self.nodes for value in node.outputs if value not in (None, made)]
        if kept.input(0) is not self.source:
            kept.set_input(0, self.source)
        others = [node for node in self.nodes if node is not kept]
        for node in others:
            node.detach()
        for node in others:
            node.graph.remove(node)
        if kept.outputs[0] is not made:
            kept.set_output(0, made)
        for name in ("alpha", "beta"):  # they are in the constants
            kept.del_attr(name)
        return gone
