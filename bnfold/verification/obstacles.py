"""Why there is no comparison: what stops an experiment, as a reason with its code."""

from __future__ import annotations

from bnfold import reference
from bnfold.errors import BadInput
from bnfold.verification.claims import ClaimOutcome, Feeds, NumberKind, Why
from bnfold.verification.codes import Code


class Obstacle(Exception):
    """Ends an experiment; ``why`` is the reason, and ``outcome`` what follows from it."""

    def __init__(self, why: Why, outcome: ClaimOutcome) -> None:
        super().__init__(why.text)
        self.why, self.outcome = why, outcome


class NotCompared(Obstacle):
    """An experiment, of parts or of whole models, could not be made, or shows nothing."""

    def __init__(self, why: Why) -> None:
        super().__init__(why, ClaimOutcome(doubt=why))


class Broken(Obstacle):
    """The rewritten model does not run where the original does: on ``feeds``, which are of the kind ``numbers``."""

    def __init__(self, why: Why, feeds: Feeds | None = None, numbers: NumberKind = "drawn") -> None:
        super().__init__(why, ClaimOutcome(fault=why))
        self.feeds, self.numbers = feeds, numbers


def silent(reason: str) -> Why:
    """Return why a runtime shows nothing."""
    return Why(Code.RUNTIME_SILENT, reason)


def not_run(error: Exception, what: str = "") -> Why:
    """Return why ``what`` cannot be run, from the error that says so."""
    text = f"{what}: {error}" if what else str(error)
    if isinstance(error, reference.Random):
        return Why(Code.RANDOM, text)
    if isinstance(error, BadInput | reference.Misfit | reference.TooShort):
        return Why(Code.NO_FIT, text)
    if isinstance(error, reference.OutOfTime):
        return Why(Code.TIME, text)
    if isinstance(error, MemoryError):
        return Why(Code.MEMORY, text)
    if isinstance(error, reference.CannotEvaluate):
        code = Code.NOT_COMPUTED if error.reason else Code.NO_KERNEL
        return Why(code, text, {"node": error.node, "operator": error.op, "version": error.version})
    return Why(Code.NOT_COMPUTED, text)
