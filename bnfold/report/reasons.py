"""Why something was not done: stable codes, a sentence each. Reports carry the code, people read the sentence."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple


class Reason(Enum):
    """``reason.value`` is the sentence, ``reason.code`` what reports and tests go by."""

    # the BatchNormalization itself
    TRAINING_MODE = "it is in training mode: its statistics come from each batch"
    DYNAMIC_PARAMETERS = "its parameters are computed at run time or are inputs of the graph"
    OVERRIDABLE_PARAMETER = (
        "a parameter is an initializer that a caller may override (--overridable freeze says nobody does)"
    )
    NON_FINITE = "a parameter is NaN or infinite, or variance + epsilon is not positive"
    UNREADABLE = "its form is legal in no version of the operator"
    REFERENCE_ATTRIBUTE = "an attribute depends on the caller of the function it stands in"
    # the way to a home
    GRAPH_INPUT = "the value comes straight from outside"
    GRAPH_OUTPUT = "the value is an output of the graph and must stay what it is"
    SHARED_VALUE = "the value has other readers, which would see another one"
    BARRIER = "the value crosses into or out of a subgraph"
    NO_HANDLER = "the operator there can neither absorb nor pass on an affine"
    DYNAMIC_WEIGHT = "the weight there is computed at run time or is an input of the graph"
    QUANTIZED_WEIGHT = "the weight is stored in a smaller type, which cannot take the affine exactly"
    QUANTIZED_ACTIVATION = (
        "the value is rounded to integers there, and rounding what is scaled or shifted is not the same"
    )
    SHARED_WEIGHT = "the weight is shared, and a copy of it would enlarge the model (--max-growth allows it)"
    AXIS = "the affine's axis is not the one that the operator scales"
    NOT_STATIC = "a size that the rewrite depends on is not known"
    RANK_UNKNOWN = "the rank of the value is not known"
    SHIFT_THROUGH_PADDING = "zero padding lets no shift through"
    SHIFT_NO_ROOM = "there is a shift and no place for it that costs nothing"
    NEGATIVE_SCALE = "a scale is negative, which the operator there does not commute with"
    ZERO_SCALE = "a scale is zero, so that the shift cannot be divided by it"
    RANGE = "a folded weight would overflow or lose its bits in the weight's type"
    TYPE = "the element types there do not allow it"
    TYPE_UNKNOWN = "the element type of the value is not known"
    OPSET = "the operator that would be needed does not exist at this opset"
    SUBGRAPH_STATISTICS = "the statistics there would change"
    UNUSED_OUTPUT = "another output of the operator there is in use"
    TOO_FAR = "the search was given up: the path is too long"
    NO_GAIN = "the rewrite would add as much work as it removes"
    LEGACY_BROADCAST = "the operator's broadcasting is of before opset 7; upgrade first"
    EXCLUDED = "the handler was switched off (--only, --except)"

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

    ``passed`` are labels in the order in which the search met them. ``reason`` is None where it found a home.
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
