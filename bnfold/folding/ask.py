"""The one way to ask a handler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from bnfold import ir
from bnfold.folding import facts
from bnfold.folding.affine import Affine
from bnfold.folding.facts import guarded
from bnfold.folding.ops import record
from bnfold.folding.size_budget import Limits
from bnfold.folding.step import Step
from bnfold.report.reasons import Declined, Reason


def ask(
    node: ir.Node,
    direction: Literal["up", "down"],
    affines: Mapping[int, Affine],
    limits: Limits | None = None,
    form: str = "",
) -> Step:
    """Return what the handler of ``node`` answers, for affines by slot: one, or downward several at once.

    Raises Declined.

    Downward in the given form, if it has that.
    """
    known, ((slot, affine), *others) = record(node), affines.items()
    if others:
        assert known.joint is not None, "it was looked for"
        decline_excluded(node, limits)
        return guarded(node, known.joint, node, affines)
    solve = known.up if direction == "up" else known.forms.get(form, known.down)
    if solve is None:
        raise Declined(Reason.NO_HANDLER, facts.where(node) + (f" {known.declines}" if known.declines else ""))
    if slot >= (known.outputs if direction == "up" else known.inputs):
        raise Declined(Reason.NO_HANDLER, f"{'output' if direction == 'up' else 'input'} {slot} of {facts.where(node)}")
    decline_excluded(node, limits)
    return guarded(node, solve, node, slot, affine)


def decline_excluded(node: ir.Node, limits: Limits | None) -> None:
    """Decline operators that a caller wants left alone."""
    if limits is None:
        return
    if (limits.only and node.op_type not in limits.only) or node.op_type in limits.excluded:
        raise Declined(Reason.EXCLUDED, node.op_type)
