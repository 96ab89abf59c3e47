"""Any BatchNormalization, versions 1, 6, 7, 9, 14 and 15, in one normal form.

Inference: ``y = (x − mean)/sqrt(var + epsilon)·scale + bias``. Training: the same with the batch's own mean and
population variance, and ``running = input·momentum + current·(1 − momentum)``. How a node says which of the two it is
changed three times (``is_test``, number of outputs, ``training_mode``); :mod:`bnfold.semantics.mode` reads that.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cache
from typing import NamedTuple

import numpy as np

from bnfold import ir
from bnfold.semantics.layout import is_per_activation
from bnfold.semantics.mode import STATISTICS, Mode, read_mode
from bnfold.semantics.policy import Repair, Unreadable, literal
from bnfold.settings import Policy

VERSIONS = (1, 6, 7, 9, 14, 15)
DEFAULT_EPSILON = float(np.float32(1e-5))
DEFAULT_MOMENTUM = float(np.float32(0.9))

Parameters = tuple["ir.Value", "ir.Value", "ir.Value", "ir.Value", "ir.Value"]
Outputs = tuple["ir.Value", "ir.Value | None", "ir.Value | None", "ir.Value | None", "ir.Value | None"]


class BatchNormSpec(NamedTuple):
    """One BatchNormalization, but for epsilon and momentum, which may be a function's parameters.

    Attributes:
        inputs: x of dims (N, C, D1..Dn), or (N,) with C = 1; scale, bias, mean and variance, each of C elements, or
            C·D1·…·Dn if ``per_activation``, in any shape, in row-major order.
        per_activation: ``spatial=0``: statistics for every element of ``x[0]``, not for every channel.
        outputs: y, running mean, running variance, saved mean, saved variance; None where the node does not name it
            or, in inference mode, cannot mean it.
    """

    version: int
    inputs: Parameters
    mode: Mode
    per_activation: bool
    outputs: Outputs
    repairs: tuple[Repair, ...]


def read_batchnorm(node: ir.Node, policy: Policy) -> BatchNormSpec:
    """Return normal form of ``node`` under ``policy``.

    Raises:
        Unreadable: No version of the operator allows this form, the policy forbids to guess, or an attribute that says
            the mode or the layout is a parameter of the enclosing function.
    """
    version = version_of(node)
    inputs = parameters(node)
    if (y := _plain_output(node, version)) is not None:
        return BatchNormSpec(version, inputs, "inference", False, (y, None, None, None, None), ())
    repairs = _misplaced(node, version)
    mode = read_mode(node, version, policy, repairs)
    per_activation = is_per_activation(node, inputs, repairs)
    return BatchNormSpec(version, inputs, mode, per_activation, _outputs(node, mode, repairs), tuple(repairs))


def epsilon(node: ir.Node) -> float:
    """Return the float32 attribute, widened. Raises Unreadable where it is no number, or a function's parameter."""
    stated = literal(node, "epsilon")
    return DEFAULT_EPSILON if stated is None else float(stated)


def _plain_output(node: ir.Node, version: int) -> ir.Value | None:
    """Return the output of a node with one, and no attribute that could change its meaning, as nearly all have."""
    if version < 7 or len(node.outputs) != 1:
        return None
    for attribute in node.proto.attribute[:]:
        if attribute.name not in ("epsilon", "momentum"):
            return None
    return node.outputs[0]


def version_of(node: ir.Node) -> int:
    """Return version of BatchNormalization that the opset of the graph or function around ``node`` selects."""
    return version_at(node.graph.opset(""))


@cache
def version_at(opset: int) -> int:
    """Return version of BatchNormalization that ``opset`` selects."""
    return VERSIONS[max(bisect_right(VERSIONS, opset) - 1, 0)]


def parameters(node: ir.Node) -> Parameters:
    """Return the five inputs x, scale, bias, mean, var.

    Raises:
        Unreadable: One of them is missing, or there are more (withdrawn drafts of opset 12 had a sixth).
    """
    inputs = [value for value in node.inputs if value is not None]
    if len(inputs) != 5 or len(node.inputs) != 5:
        raise Unreadable(node, f"has {len(inputs)} inputs, needs 5 (X, scale, B, mean, var)")
    return inputs[0], inputs[1], inputs[2], inputs[3], inputs[4]


_KNOWN = frozenset({"is_test", "spatial", "consumed_inputs", "training_mode"})
_LEGAL = {
    1: frozenset({"is_test", "spatial", "consumed_inputs"}),
    6: frozenset({"is_test", "spatial"}),
    7: frozenset({"spatial"}),
    9: frozenset(),
    14: frozenset({"training_mode"}),
    15: frozenset({"training_mode"}),
}


def _misplaced(node: ir.Node, version: int) -> list[Repair]:
    """Return a repair for each attribute of another version: it is honoured by meaning."""
    found = {attribute.name for attribute in node.proto.attribute[:]} & _KNOWN
    return [
        Repair(
            "misplaced-attribute",
            node.label,
            f"BatchNormalization-{version} has no attribute {name}: read by its meaning at other versions",
        )
        for name in sorted(found - _LEGAL[version])
    ]


def _outputs(node: ir.Node, mode: Mode, repairs: list[Repair]) -> Outputs:
    named = [*node.outputs, *[None] * 5][:5]
    y = named[0]
    if y is None:
        raise Unreadable(node, "does not name its first output")
    if mode == "training":
        return y, named[1], named[2], named[3], named[4]
    dropped = [name for name, value in zip(STATISTICS, named[1:], strict=True) if value is not None]
    if dropped:
        text = f"in inference mode there is no {', '.join(dropped)}: unread outputs dropped"
        repairs.append(Repair("dropped-outputs", node.label, text))
    return y, None, None, None, None
