"""Compare two parts in small sizes, which are a guess, and in recorded ones, until each possible fault has shown.

Small sizes cost next to nothing, and results that agree there and would show each fault are enough. Otherwise recorded
sizes decide: a difference counts if a run of the original on inputs that callers may feed has these sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import cycle

from bnfold import ir
from bnfold.verification.claims import Why
from bnfold.verification.codes import Code
from bnfold.verification.inputs.bounds import kinds_of
from bnfold.verification.inputs.drawing import FLAT, SAMPLE_KINDS
from bnfold.verification.inputs.recording import Recording, Recordings
from bnfold.verification.inputs.shapes import is_static
from bnfold.verification.inputs.sized import fitted
from bnfold.verification.subgraphs.pairs import SubgraphPair
from bnfold.verification.subgraphs.runnable import LARGEST_HELD, takes_long
from bnfold.verification.subgraphs.sampling import sampled
from bnfold.verification.subgraphs.small_sizes import (
    LARGEST_FEED,
    Shapes,
    SmallSizes,
    elements,
    has_guesses,
)
from bnfold.verification.subgraphs.trials import TOO_LARGE, Found, NotCompared, by_size, fails
from bnfold.verification.tolerance.compare import Difference

_VARYING = [number for number, kind in enumerate(SAMPLE_KINDS) if kind not in FLAT]
"""The kinds of numbers that are compared at other sizes: a statistic of flat ones may not depend on them."""

_LITTLE_TIME = 0.1
"""Counted seconds at the first sizes; beyond, fewer others are tried."""

_MANY = 1 << 16
"""Elements of activations beyond which it is asked first whether they fit together."""

_AT_SOME = Why(
    Code.SOME_SIZES, "it is equivalent for some input shapes only, and the model does not declare which it gets"
)
_NOT_RUN = Why(Code.SOME_SIZES, "it does not run at the declared sizes, and differs at others")
_UNKNOWN = Why(Code.NO_FIT, "no run of the original shows the sizes of what it is fed")


@dataclass(slots=True, eq=False)
class Replay:
    """What comparing two parts at several sizes has shown so far.

    ``values`` are those of the original that the parts are fed; ``is_settled`` says whether each fault has shown.
    """

    subgraphs: SubgraphPair
    fed: Mapping[str, ir.Value]
    values: Mapping[str, ir.Value]
    is_settled: Callable[[], bool]
    certain: int = 0
    """At how many sizes that callers may feed the results were equal."""
    _equal: Difference | None = None
    _fault: Difference | None = None
    """A difference at sizes that callers may feed."""
    _guessed_fault: Difference | None = None
    """One at other sizes."""
    _obstacle: NotCompared | None = None
    _is_refused: bool = False
    """Whether the original's part does not run in recorded sizes."""
    _tried: list[Shapes] = field(default_factory=list)

    def run(self, small: SmallSizes | None, recordings: Recordings) -> Found:
        """Return the finding."""
        if small is not None:
            self._compare_small(small)
        if self._equal is None:
            for recording in recordings.usual():
                self._compare_recorded(recording)
                if self._fault is not None or (self._equal is not None and not recording.is_a_rank):
                    break
        kinds = cycle(_VARYING if self.subgraphs.samples > 1 else (0,))
        for recording in recordings.beside() if self._equal is not None and self._needs_more() else ():
            self._compare_recorded(recording, next(kinds))
            if self._fault is not None or not self._needs_more():
                break
        return self._outcome()

    def _needs_more(self) -> bool:
        """Whether equality at the sizes so far does not suffice: a fault may not have shown, or shows at some sizes."""
        return not self.is_settled() or (not self.certain and self._depends_on_sizes())

    def _depends_on_sizes(self) -> bool:
        """Whether operators that depend on sizes differ, or there is a guess to confirm."""
        old, new = (kinds_of(side.subgraph.nodes) for side in (self.subgraphs.old, self.subgraphs.new))
        return self._guessed_fault is not None or old != new

    def _compare_small(self, small: SmallSizes) -> None:
        model = self.subgraphs.old.subgraph.model
        guessed = has_guesses(self.fed, small.shapes)
        if guessed and elements(small.shapes) > _MANY and fitted(model, small.shapes) is None:
            return
        work = self.subgraphs.coverage.work
        begin = work.seconds
        found = sampled(self.subgraphs, self.fed, small.shapes, guessed=guessed)
        self._note(small.shapes, found, is_certain=not guessed and is_static(self.fed.values()))
        others = small.quick if small.quick and work.seconds - begin > _LITTLE_TIME else small.others
        kinds = cycle(_VARYING if self.subgraphs.samples > 1 else (0,))
        for shapes in others if self._equal is not None else ():
            is_shown = self._equal.elements > LARGEST_HELD and not self.subgraphs.coverage.uncovered
            if (
                (has_guesses(self.fed, shapes) and not guessed)
                or is_shown
                or takes_long(model, shapes, self._equal.elements)
            ):
                continue
            found = sampled(self.subgraphs, self.fed, shapes, guessed=guessed, kind=next(kinds))
            if fails(found) or (isinstance(found, NotCompared) and found.only_after):
                self._note(shapes, by_size(found), is_certain=False)
                self._equal = None  # at the first sizes by chance, or these cannot occur
                break

    def _compare_recorded(self, recording: Recording, kind: int | None = None) -> None:
        """Compare the parts in the sizes of a recording, on numbers of all kinds or of one."""
        shapes = recording.shapes(self.values)
        if shapes is None or shapes in self._tried or elements(shapes) > LARGEST_FEED:
            return
        self.subgraphs.recorded.update(recording.integers(self.values))
        is_certain = recording.is_certain(self.values)
        found = sampled(self.subgraphs, self.fed, shapes, guessed=not is_certain, kind=kind)
        self.subgraphs.recorded.clear()
        self._note(shapes, found, is_certain=is_certain)
        self._is_refused |= is_certain and isinstance(found, NotCompared)

    def _note(self, shapes: Shapes, found: Found, *, is_certain: bool) -> None:
        self._tried.append(shapes)
        if isinstance(found, NotCompared):
            self._obstacle = self._obstacle or found
        elif not fails(found):
            self._equal = self._equal or found
            self.certain += is_certain
        elif is_certain:
            self._fault = found if self._equal is None else found._replace(by_size=True)
        else:
            self._guessed_fault = self._guessed_fault or found

    def _outcome(self) -> Found:
        if self._fault is not None:
            return self._fault
        if self._guessed_fault is None:
            return self._equal or self._obstacle or NotCompared(TOO_LARGE if self._tried else _UNKNOWN)
        if self.certain and is_static(self.fed.values()) and self._equal is not None:
            return self._equal  # the rewrite relies on declared sizes
        if self._equal is not None:
            return NotCompared(_AT_SOME)
        return NotCompared(_NOT_RUN) if self._is_refused else self._guessed_fault
