"""Where two regions may differ on some kinds of numbers only: behind a bound, at zero, at a tie."""

from __future__ import annotations

from bnfold import ir
from bnfold.ir.traits import SINGULAR
from bnfold.reference.dispatch import meaning
from bnfold.verification.comparing.mutants import is_smooth
from bnfold.verification.differences.extract import Region, held

_Reading = tuple[object, ...]
"""What a node means, and the values that it makes and reads."""


def bends(old: Region, new: Region) -> bool:
    """Whether only one has a node, or one that reads the same, that may do otherwise on numbers of another kind."""
    return _bent(old) != _bent(new)


def _bent(region: Region) -> set[_Reading]:
    nodes = (node for node in region.nodes if held(node.output(0)) is None)
    return {(*meaning(node), *_names(node)) for node in nodes if node.has_trait(SINGULAR) or not is_smooth(node)}


def _names(node: ir.Node) -> list[str]:
    return [value.name if value is not None else "" for value in (*node.outputs, *node.inputs)]
