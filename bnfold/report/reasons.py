"""Why something was not done: stable codes, a sentence each. Reports carry the code, people read the sentence."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple, Self


class Reason(Enum):
    """``reason.value`` is the sentence, ``reason.code`` what reports and tests go by."""

    # the BatchNormalization itself
    TRAINING_MODE = "it is in training mode: its statistics come from each batch"
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
    SHARED_WEIGHT = "the weight is shared, and a copy would enlarge the model too much (--max-growth allows more)"
    AXIS = "the operator there mixes the channels or scales another axis"
    NOT_STATIC = "a size that the rewrite depends on is unknown"
    RANK_UNKNOWN = "the rank of the value is unknown"
    SHIFT_THROUGH_PADDING = "the shift cannot move past the padding"
    SHIFT_NO_ROOM = "nothing there can take the shift without extra work"
    NEGATIVE_SCALE = "a channel's scale is negative and cannot move past the operator"
    ZERO_SCALE = "a channel's scale is zero, and the shift would be divided by it"
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

    @property
    def code(self) -> str:
        """The stable name, as in reports: ``shared-value``."""
        return self.name.lower().replace("_", "-")

    @classmethod
    def of(cls, code: str) -> Reason:
        """The reason that a report's code stands for. Raises KeyError for a code of another version of bnfold."""
        return cls[code.upper().replace("-", "_")]


class SearchTrace(NamedTuple):
    """One direction of a search: the nodes that would have gone along, and where and why it ended.

    ``passed`` are labels in the order in which the search met them. ``reason`` is None if it found a weight to take
    the scale and shift.
    """

    direction: str
    passed: tuple[str, ...]
    stopped_at: str = ""
    reason: Reason | None = None
    detail: str = ""


class Declined(Exception):
    """Raised anywhere in planning to say no; turned into data at one place.

    ``at`` is the node that was asked, ``attempts`` what a whole search tried before it gave up.
    """

    def __init__(self, reason: Reason, detail: str = "", depth: int = 0, at: str = "") -> None:
        super().__init__(f"{reason.value}{f' ({detail})' if detail else ''}")
        self.reason = reason
        self.detail = detail
        self.depth = depth
        self.at = at
        self.attempts: tuple[SearchTrace, ...] = ()

    def attempt(self, direction: str, passed: Iterable[str]) -> SearchTrace:
        """This refusal as the end of one direction of a search."""
        return SearchTrace(direction, tuple(passed), self.at, self.reason, self.detail)

    def without_frames(self) -> Self:
        """This refusal, to be kept: with its traceback it would hold whole searches, in circles."""
        self.__cause__ = self.__context__ = None
        return self.with_traceback(None)
