"""Why something was not done: stable codes, a sentence each. Reports carry the code, people read the sentence."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import Enum
from typing import NamedTuple, Self

from bnfold.report.rewrites import Rewrite


class Reason(Enum):
    """``reason.value`` is the sentence, ``reason.code`` what reports and tests go by."""

    # the BatchNormalization itself
    TRAINING_MODE = "it is in training mode: its statistics come from each batch"
    INSTANCE_UNPROVEN = "it may be an InstanceNormalization, written as training mode; what that depends on is unproven"
    DYNAMIC_PARAMETERS = "a parameter is a graph input, or computed by nodes that bnfold does not evaluate"
    OVERRIDABLE_PARAMETER = "a parameter is a graph input that callers may feed (if nobody does: --overridable freeze)"
    NON_FINITE = "a parameter is NaN or infinite, or variance + epsilon is not positive"
    UNREADABLE = "the node is invalid in every version of the operator"
    REFERENCE_ATTRIBUTE = "an attribute is a parameter of the function around the node"
    # what the search for a weight to fold into met
    GRAPH_INPUT = "the search reached a graph input"
    GRAPH_OUTPUT = "the value is a graph output and must not change"
    SHARED_VALUE = "other nodes read the same value, and would see it change"
    BARRIER = "the value crosses the boundary of a subgraph or function"
    NO_HANDLER = "the operator can neither take the scale and shift nor pass them on"
    DYNAMIC_WEIGHT = "the weight is a graph input, or computed by nodes that bnfold does not evaluate"
    QUANTIZED_WEIGHT = "the weight is stored in a smaller type, which cannot take the scale exactly"
    QUANTIZED_ACTIVATION = "the value is rounded to integers there; scaled or shifted, it would round differently"
    SHARED_WEIGHT = (
        "the weight is shared or computed, and storing another would enlarge the model too much (see --max-growth)"
    )
    AXIS = "the operator there mixes the channels or scales another axis"
    NOT_STATIC = "a size that the rewrite depends on is unknown"
    RANK_UNKNOWN = "the rank of the value is unknown"
    SHIFT_THROUGH_PADDING = "the shift cannot move past the padding"
    SHIFT_NO_ROOM = "nothing there can take the shift without extra work"
    NEGATIVE_SCALE = "a channel's scale is negative and cannot move past the operator"
    ZERO_SCALE = "a channel's scale is zero, and the shift would be divided by it"
    ZERO_SIGN = "it turns -0 into 0, and a node behind it makes another number of the one than of the other"
    RANGE = "a folded weight would overflow or lose precision in its type"
    TYPE = "the element types do not allow it"
    TYPE_UNKNOWN = "the element type of the value is unknown"
    OPSET = "an operator that the rewrite needs does not exist at this opset"
    SUBGRAPH_STATISTICS = "a node that reads the value computes statistics, which would change"
    UNUSED_OUTPUT = "another output of the operator is in use"
    TOO_FAR = "the search gave up: the path is too long"
    NO_GAIN = "the rewrite would add as much work as it removes"
    UNEQUAL_BRANCHES = "convolutions that are added up differ in channels, groups, strides or window"
    LEGACY_BROADCAST = "the operator broadcasts as before opset 7; upgrade first"
    EXCLUDED = "the operator is excluded by --only or --except"
    DISABLED = "the rewrite is left out by --disable"

    @property
    def code(self) -> str:
        """The stable name, as in reports: ``shared-value``."""
        return self.name.lower().replace("_", "-")

    @classmethod
    def of(cls, code: str) -> Reason:
        """Return the reason that a report's code stands for.

        Raises KeyError for a code of another version of bnfold.
        """
        return cls[code.upper().replace("-", "_")]


_ENDS = {(Reason.GRAPH_INPUT, "up"): "the graph input", (Reason.GRAPH_OUTPUT, "down"): "the graph output"}
"""Where a search ends because the graph does."""
_NO_WEIGHTS = (Reason.NO_HANDLER, Reason.GRAPH_INPUT, Reason.GRAPH_OUTPUT)
"""Reasons of a search that met nothing with weights."""


class SearchTrace(NamedTuple):
    """One direction of a search: the nodes that would have gone along, and where and why it ended.

    ``passed`` are labels in the order in which the search met them. ``operator`` is the type of the node
    ``stopped_at``. ``reason`` is None if it found a weight to take the scale and shift.
    """

    direction: str
    passed: tuple[str, ...]
    stopped_at: str = ""
    reason: Reason | None = None
    detail: str = ""
    operator: str = ""

    def obstacle(self, *, named: bool) -> str:
        """Return the node or the end of the graph that cannot absorb anything; empty for any other reason.

        ``named`` adds the node's name to its operator.
        """
        if self.reason is Reason.NO_HANDLER and self.operator:
            return f"{self.operator} {self.stopped_at!r}" if named else self.operator
        end = _ENDS.get((self.reason, self.direction)) if self.reason is not None else None
        return f"{end} {self.detail.removeprefix('value ')}" if end else ""

    @property
    def says_more(self) -> bool:
        """Whether the detail of an obstacle is more than its name."""
        return self.reason is Reason.NO_HANDLER and self.detail != self.obstacle(named=True)


class Declined(Exception):
    """Raised anywhere in planning to say no; turned into data at one place.

    ``at`` is the node that was asked, ``operator`` its type, ``attempts`` what a whole search tried before it gave up.
    """

    def __init__(self, reason: Reason, detail: str = "", depth: int = 0, at: str = "", operator: str = "") -> None:
        super().__init__(sentence(reason.value, detail))
        self.reason = reason
        self.detail = detail
        self.depth = depth
        self.at = at
        self.operator = operator
        self.attempts: tuple[SearchTrace, ...] = ()

    def attempt(self, direction: str, passed: Iterable[str]) -> SearchTrace:
        """Return this refusal as the end of one direction of a search."""
        return SearchTrace(direction, tuple(passed), self.at, self.reason, self.detail, self.operator)

    def without_frames(self) -> Self:
        """Return this refusal, to be kept: with its traceback it would hold whole searches, in circles."""
        self.__cause__ = self.__context__ = None
        return self.with_traceback(None)


def require_enabled(rewrite: Rewrite, disabled: Collection[str]) -> None:
    """Raise Declined if the rewrite is among the ``disabled`` ones."""
    if rewrite.name in disabled:
        raise Declined(Reason.DISABLED, rewrite.name)


_ABSORB = "absorb it"
"""What is in a detail that needs no reason in front of it."""


def obstacles(refusal: Declined, *, named: bool = True) -> str:
    """Return the sentence about a search that met no weights: ``neither Sigmoid nor Tanh can absorb it``.

    It is empty if the search ended for another reason. ``named`` adds the nodes' names.
    """
    ends = {attempt.direction: attempt for attempt in refusal.attempts}
    if refusal.reason not in _NO_WEIGHTS or not {"up", "down"} <= ends.keys():
        return ""
    up, down = ends["up"], ends["down"]
    before, after = up.obstacle(named=named), down.obstacle(named=named)
    more = "; ".join(end.detail for end in (up, down) if named and end.says_more)
    more = f" ({more})" if more else ""
    if before and after:
        both = f"neither {before} nor {after} can" if before != after else f"no {before} beside it can"
        return f"{both} {_ABSORB}{more}"
    found, other, where = (up, down, "after") if before else (down, up, "before")
    if found.detail != refusal.detail or other.reason is None:
        return ""
    return f"{before or after} cannot {_ABSORB}{more}; {where} it, {sentence(other.reason.value, other.detail)}"


def sentence(text: str, detail: str) -> str:
    """Return a reason with its detail, as one sentence."""
    return detail if _ABSORB in detail else f"{text}{f' ({detail})' if detail else ''}"


def reason_to_json(reason: Reason | None, detail: str) -> dict[str, str] | None:
    """Return a refusal as reports store it; None where there was none."""
    return {"code": reason.code, "text": reason.value, "detail": detail} if reason is not None else None
