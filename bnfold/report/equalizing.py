"""What equalizing did to the channels behind a layer, and why not: an event of the report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bnfold.errors import printable
from bnfold.report.reasons import Declined, Reason, reason_to_json, sentence


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
