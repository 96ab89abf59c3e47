"""What became of what is no BatchNormalization: channels that were equalized, nodes that were simplified."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from bnfold.errors import printable
from bnfold.report.reasons import Declined, Reason, reason_to_json, sentence
from bnfold.report.rewrites import Rewrite


class SimplifyEvent(NamedTuple):
    """One node that ``rewrite`` took out or replaced.

    ``into`` is the value that is read now, or the node that computes it; empty for what nothing
    read. A stored result makes the weights grow by ``growth`` bytes, and ``saved`` nodes go with it.
    """

    rewrite: Rewrite
    name: str
    graph: str
    operator: str
    into: str
    growth: int = 0
    saved: int = 0

    def __str__(self) -> str:
        """One line, for logs: the rewrite, the node, and what is there now."""
        where = f" in {self.graph}" if self.graph else ""
        return printable(f"{self.rewrite.name}: {self.operator} {self.name}{where} -> {self.into or 'removed'}")

    def to_json(self) -> dict[str, Any]:
        """Return the row of the report's ``simplified``."""
        return {**self._asdict(), "rewrite": self.rewrite.name, "title": self.rewrite.title}


@dataclass(frozen=True, slots=True)
class RewriteCount:
    """How often a rewrite was made."""

    rewrite: Rewrite
    count: int

    def to_json(self) -> dict[str, Any]:
        """Return the row of the report's ``rewrites``."""
        made = self.rewrite
        bitwise = made.is_bitwise
        return {"name": made.name, "title": made.title, "count": self.count, "bitwise": bitwise, "rounds": made.rounds}


def counted(made: Iterable[Rewrite]) -> list[RewriteCount]:
    """Return each rewrite with how often it was made, the most frequent first."""
    return [RewriteCount(*row) for row in Counter(made).most_common()]


@dataclass(slots=True, eq=False)
class EqualizeEvent:
    """What became of the channels behind the layer ``name``: ``layers`` took their factors, ``passed`` let them pass.

    ``factors`` are the smallest and the largest; ``layers`` is empty where it was declined.
    """

    name: str
    graph: str
    channels: int = 0
    factors: tuple[float, float] = (1.0, 1.0)
    layers: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()
    reason: Reason | None = None
    detail: str = ""

    def __str__(self) -> str:
        """One line, for logs."""
        if self.reason is not None:
            why = f"{self.reason.code}: {sentence(self.reason.value, self.detail)}"
            return printable(f"channels not equalized: {self.name}: {why}")
        low, high = self.factors
        through = f" through {', '.join(self.passed)}" if self.passed else ""
        factors = f"{self.channels} channels, times {low:.3g} to {high:.3g}"
        return printable(f"channels equalized: {', '.join(self.layers)}{through} ({factors})")

    def decline(self, refusal: Declined) -> None:
        self.reason, self.detail = refusal.reason, refusal.detail

    def to_json(self) -> dict[str, Any]:
        """Return the row of the report's ``equalized``."""
        return {
            "name": self.name,
            "graph": self.graph,
            "channels": self.channels,
            "factors": list(self.factors),
            "layers": list(self.layers),
            "passed": list(self.passed),
            "reason": reason_to_json(self.reason, self.detail),
        }


class ChannelEvent(NamedTuple):
    """A layer that lost channels: how many it made before, and makes after; 0 if a constant took its place."""

    name: str
    graph: str
    operator: str
    before: int
    after: int

    def __str__(self) -> str:
        """One line, for logs."""
        return printable(f"channels removed: {self.operator} {self.name} {self.change}")

    @property
    def change(self) -> str:
        """Both numbers, with an arrow."""
        return f"{self.before} → {self.after or 'a constant'}"

    def to_json(self) -> dict[str, Any]:
        """Return the row of the report's ``channels``."""
        return self._asdict()
