"""Training or inference: how each version of BatchNormalization says it, and what to make of contradictions."""

from __future__ import annotations

from typing import Literal

from bnfold import ir
from bnfold.semantics.policy import Repair, Unreadable, flag, truth
from bnfold.settings import Policy

Mode = Literal["inference", "training"]
STATISTICS = ("running mean", "running variance", "saved mean", "saved variance")


def read_mode(node: ir.Node, version: int, policy: Policy, repairs: list[Repair]) -> Mode:
    """Return mode of ``node``; every choice that the operator text does not make goes to ``repairs``.

    Raises:
        Unreadable: An illegal number of outputs, attributes that contradict each other, statistics that are read but
            that the mode does not produce, or a choice that the policy forbids.
    """
    _check_arity(node, version)
    mode = _stated(node) or _implied(node, version, policy, repairs)
    if mode == "inference":
        _check_unread(node, "is in inference mode")
        return mode
    if not policy.force_inference:
        return mode
    _check_unread(node, "cannot be forced to inference mode")
    repairs.append(Repair("forced-inference", node.label, "training mode read as inference, as asked"))
    return "inference"


def statistics(node: ir.Node) -> list[tuple[str, ir.Value]]:
    """Return the named outputs behind the first, with what they hold."""
    return [(what, value) for what, value in zip(STATISTICS, node.outputs[1:], strict=False) if value is not None]


def _check_arity(node: ir.Node, version: int) -> None:
    declared = len(node.outputs)
    if version <= 9 and declared not in (1, 5):
        raise Unreadable(node, f"declares {declared} outputs; version {version} allows 1 or 5")
    if version >= 14 and any(value is not None for value in node.outputs[3:]):
        raise Unreadable(node, f"declares {declared} outputs; version {version} allows 1 or 3")


def _stated(node: ir.Node) -> Mode | None:
    """Return mode that the attributes of any version state outright, wherever they stand."""
    training_mode = truth(node, "training_mode")
    is_test = flag(node, "is_test")  # by its text, it means anything but zero
    if is_test is not None and is_test == training_mode:
        raise Unreadable(node, f"is_test={int(is_test)} contradicts training_mode={int(is_test)}")
    if is_test is not None:
        return "inference" if is_test else "training"
    if training_mode is not None:
        return "training" if training_mode else "inference"
    return None


def _implied(node: ir.Node, version: int, policy: Policy, repairs: list[Repair]) -> Mode:
    """Return mode of a node without a word about it."""
    if version >= 14:
        return "inference"
    if version >= 7:
        return "training" if statistics(node) else "inference"
    return _guessed(node, policy, repairs)


def _guessed(node: ir.Node, policy: Policy, repairs: list[Repair]) -> Mode:
    """Return versions 1 and 6 without ``is_test``: the default says training, one output says inference."""
    named = bool(statistics(node))
    if _read_statistics(node):
        return "training"
    if policy.legacy_mode == "training":
        _note(node, repairs, "read as training, as asked: the attribute's default")
        return "training"
    if policy.legacy_mode == "inference":
        _note(node, repairs, "read as inference, as asked")
        return "inference"
    if named:
        return "training"
    if policy.legacy_mode == "error":
        raise Unreadable(node, "has no is_test, so it may mean training or inference (--legacy-mode says which)")
    _note(node, repairs, "read as inference: exporters that wrote one output meant it")
    return "inference"


def _note(node: ir.Node, repairs: list[Repair], text: str) -> None:
    repairs.append(Repair("absent-is-test", node.label, f"is_test is absent: {text}"))


def _check_unread(node: ir.Node, what: str) -> None:
    read = _read_statistics(node)
    if read:
        raise Unreadable(node, f"{what}, but its {', '.join(read)} is read")


def _read_statistics(node: ir.Node) -> list[str]:
    return [what for what, value in statistics(node) if value.uses or value.is_output]
