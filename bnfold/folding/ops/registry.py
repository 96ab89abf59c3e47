"""What folding knows of an operator: one record, which the file of its family registers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from bnfold.folding import facts
from bnfold.folding.affine import Affine
from bnfold.folding.facts import guarded
from bnfold.folding.limits import Limits
from bnfold.folding.ops.registered import by_rule
from bnfold.folding.step import Step, leaves, wants
from bnfold.ir import Node
from bnfold.ir.registered import registered_operator
from bnfold.registered.table import RegisteredOperator
from bnfold.report.reasons import Declined, Reason

Solve = Callable[[Node, int, Affine], Step]
Joint = Callable[[Node, Mapping[int, Affine]], Step]
Move = Callable[[Node, Affine], Affine]


@dataclass(frozen=True, slots=True, eq=False)
class Handler:
    """How an operator treats an affine.

    Attributes:
        up: The step that lets the node compute an affine, wanted on an output slot; None where there is none.
        down: The step that keeps the node's results although an input slot reads its operand without the affine.
        joint: As ``down``, for several operands at once, by slot.
        forms: Other ways down, by name: for a shift that zero padding dilutes, or past a node that stays.
        inputs: How many of its first inputs are data, not parameters. An affine may apply to these only.
        outputs: How many of its first outputs are data, not statistics or indices. An affine may be wanted of these.
        reads_parts: Whether it reads a part of its operand only, so that others may request changes of the rest.
        shift: What becomes of one before it: it passes, is absorbed by a parameter, stops, or makes no difference.
        bias: The slot of an optional bias for each channel, 0 where it has none.
        declines: Why neither way is possible.
    """

    up: Solve | None = None
    down: Solve | None = None
    joint: Joint | None = None
    forms: Mapping[str, Solve] = field(default_factory=dict)
    inputs: int = 1
    outputs: int = 1
    reads_parts: bool = False
    shift: Literal["passes", "absorbed", "stops", "vanishes"] = "passes"
    bias: int = 0
    declines: str = ""


ALL = 1 << 31
"""As many inputs or outputs as there are."""
HANDLERS: dict[str, Handler] = {}
_NONE = Handler()
_INTEGER = Handler(declines="multiplies or adds integers, and rounds inside")
INTEGERS = frozenset({
    "ConvInteger", "DynamicQuantizeMatMul", "MatMulInteger", "MatMulIntegerToFloat", "MatMulNBits", "QGemm",
    "QLinearAdd", "QLinearConv", "QLinearMatMul", "QLinearMul",
})  # fmt: skip
"""Of the default domain, or onnxruntime's."""


def carrier(before: Move, behind: Move | None = None, *, reads_parts: bool = False) -> Handler:
    """Return the record of an operator that only moves, repeats or averages elements.

    ``before`` is the affine before it that comes to a given one behind it, ``behind`` the reverse, by default the same.
    """
    beyond = behind or before
    return Handler(
        lambda node, _, affine: wants(before(node, affine)),
        lambda node, _, affine: leaves(beyond(node, affine)),
        reads_parts=reads_parts,
    )


def register(**handlers: Handler) -> None:
    """Enter operators."""
    HANDLERS.update(handlers)


def record(node: Node) -> Handler:
    """Return the handler of a node, one without any answer where there is none."""
    if node.op_type in INTEGERS and node.domain in ("", "com.microsoft"):
        return _INTEGER
    if node.is_known:
        return HANDLERS.get(node.op_type, _NONE)
    operator = registered_operator(node)
    return _NONE if operator is None else _by_rule(operator)


@cache
def _by_rule(operator: RegisteredOperator) -> Handler:
    """Return the record of an operator that a caller registered."""
    rule = operator.affine
    if rule is None:
        return Handler(declines="was registered without a rule for an affine")
    up = by_rule(rule, rule.up, "up") if rule.up is not None else None
    down = by_rule(rule, rule.down, "down") if rule.down is not None else None
    return Handler(up, down, declines="has no rule in this direction")


def ask(
    node: Node,
    direction: Literal["up", "down"],
    affines: Mapping[int, Affine],
    limits: Limits | None = None,
    form: str = "",
) -> Step:
    """Return what the handler of ``node`` answers, for affines by slot: one, or downward several at once.

    Downward in the given form, if it has that. Raises Declined. This is the one way to ask a handler.
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


def decline_excluded(node: Node, limits: Limits | None) -> None:
    """Decline operators that a caller wants left alone."""
    if limits is None:
        return
    if (limits.only and node.op_type not in limits.only) or node.op_type in limits.excluded:
        raise Declined(Reason.EXCLUDED, node.op_type)
