"""Why there is no comparison: what stops an experiment, as a reason with its code."""

from __future__ import annotations

from bnfold import reference
from bnfold.errors import BadInput
from bnfold.verification.claims import Evidence, Feeds, NumberKind, Why
from bnfold.verification.codes import Code


class Obstacle(Exception):
    """Ends an experiment; ``why`` is the reason."""

    def __init__(self, why: Why) -> None:
        super().__init__(why.text)
        self.why = why


class NotCompared(Obstacle):
    """An experiment, of parts or of whole models, that could not be made, or that shows nothing, and why.

    A part returns it, for other inputs may do; ``only_after`` says that the original part ran. ``is_same`` says that it
    was compared, and agreed, perhaps ``at_some_sizes`` only. ``behind`` is the evidence on a value computed from the
    results, where that has decided.
    """

    def __init__(
        self,
        why: Why,
        *,
        only_after: bool = False,
        is_same: bool = False,
        at_some_sizes: bool = False,
        behind: Evidence | None = None,
    ) -> None:
        super().__init__(why)
        self.only_after, self.is_same, self.at_some_sizes, self.behind = only_after, is_same, at_some_sizes, behind


class Broken(Obstacle):
    """The rewritten model does not run where the original does: on ``feeds``, which are of the kind ``numbers``."""

    def __init__(self, why: Why, feeds: Feeds | None = None, numbers: NumberKind = "drawn") -> None:
        super().__init__(why)
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
