"""Compare two parts in recorded sizes, one recording after the other, until each possible fault would have shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import cycle, islice

from bnfold import ir
from bnfold.verification.claims import Why
from bnfold.verification.codes import Code
from bnfold.verification.inputs.bounds import depend_on_sizes, largest_bound
from bnfold.verification.inputs.drawing import FLAT, SAMPLE_KINDS
from bnfold.verification.inputs.recording import Recording, Recordings
from bnfold.verification.subgraphs.opened import Shapes
from bnfold.verification.subgraphs.pairs import SubgraphPair
from bnfold.verification.subgraphs.sampling import sampled
from bnfold.verification.subgraphs.shapes import may_be_fed_at, needs_other_sizes
from bnfold.verification.subgraphs.trials import TOO_LARGE, Found, NotCompared, by_size, fails
from bnfold.verification.subgraphs.windows import reach_of
from bnfold.verification.tolerance.compare import Difference

_VARYING = [number for number, kind in enumerate(SAMPLE_KINDS) if kind not in FLAT]
"""The kinds of numbers that are compared at other sizes: a statistic of flat ones may not depend on them."""

_LITTLE_TIME = 0.1
"""Counted seconds at the first sizes; beyond, one other is tried."""

_MOST_OTHERS = 4

_AT_SOME = Why(
    Code.SOME_SIZES, "it is equivalent for some input shapes only, and the model does not declare which it gets"
)
_NOT_DECLARED = Why(Code.SOME_SIZES, "it differs at sizes that the model does not declare, and was not run at others")
_UNKNOWN = Why(Code.NO_FIT, "no run of the original shows the sizes of what it is fed")


@dataclass(slots=True, eq=False)
class Replay:
    """What comparing two parts in recorded sizes has shown so far.

    ``values`` are those of the original that the parts are fed; ``settled`` says whether all faults have shown.
    """

    subgraphs: SubgraphPair
    fed: Mapping[str, ir.Value]
    values: Mapping[str, ir.Value]
    settled: Callable[[], bool]
    certain: int = 0
    """At how many sizes that callers may feed the results were equal."""
    equal: Difference | None = None
    obstacle: NotCompared | None = None
    differs_elsewhere: bool = False
    """Whether the results differ at sizes that callers cannot feed."""
    _tried: list[Shapes] = field(default_factory=list)
    _fault: Found | None = None

    def run(self, recordings: Recordings) -> Found:
        """Return the finding."""
        work = self.subgraphs.coverage.work
        begin = work.seconds
        for recording in sorted_by_windows(recordings.usual(), self.values, reach_of(self.subgraphs.nodes)):
            self._compare(recording, None)
            if self._fault is not None or self.equal is not None:
                break
        takes_time = work.seconds - begin > _LITTLE_TIME
        kinds = cycle(_VARYING if self.subgraphs.samples > 1 else (0,))
        if self._fault is None and self.equal is not None:
            least, most = self._others_needed(takes_time=takes_time)
            for number, recording in enumerate(islice(recordings.others(), most)):
                if number >= least and self.settled():
                    break
                if self._compare(recording, next(kinds)) and (self._fault or self.differs_elsewhere):
                    break
        if self._fault is None and not self.certain and (self.equal is None or self._asks_for_declared()):
            for recording in recordings.usual():
                if recording.is_certain(self.values) and self._compare(recording, None if self.equal is None else 0):
                    break
        return self._outcome()

    def _others_needed(self, *, takes_time: bool) -> tuple[int, int]:
        """Return at how many other sizes the parts are compared at least, and at most."""
        nodes = self.subgraphs.nodes
        least = _MOST_OTHERS - 1 if depend_on_sizes(nodes) else 1 if needs_other_sizes(nodes) else 0
        return (min(least, 1), 1) if takes_time else (least, _MOST_OTHERS)

    def _asks_for_declared(self) -> bool:
        """Whether equality at sizes that are not declared does not suffice."""
        shortest = max((max(shape, default=0) for shapes in self._tried for shape in shapes.values()), default=0)
        is_beyond = depend_on_sizes(self.subgraphs.nodes) and largest_bound(self.subgraphs.nodes) > shortest
        return self.differs_elsewhere or is_beyond or not self.settled()

    def _compare(self, recording: Recording, kind: int | None) -> bool:
        """Compare the parts in the sizes of a recording, on numbers of all kinds or of one; return whether it did."""
        shapes = recording.shapes(self.values)
        if shapes is None or shapes in self._tried or not may_be_fed_at(shapes):
            return False
        self._tried.append(shapes)
        is_certain = recording.is_certain(self.values)
        self.subgraphs.recorded.clear()
        self.subgraphs.recorded.update(recording.integers(self.values))
        found = sampled(self.subgraphs, self.fed, shapes, guessed=not is_certain, kind=kind)
        if isinstance(found, NotCompared):
            self.obstacle = self.obstacle or found
        elif not fails(found):
            self.equal = self.equal or found
            self.certain += is_certain
        elif is_certain:
            self._fault = found if self.equal is None else by_size(found)
        else:
            self.differs_elsewhere = True
        return not isinstance(found, NotCompared)

    def _outcome(self) -> Found:
        if self._fault is not None:
            return self._fault
        if self.differs_elsewhere and not self.certain:
            return NotCompared(_NOT_DECLARED if self.equal is None else _AT_SOME)
        if self.equal is not None:
            return self.equal
        return self.obstacle or NotCompared(TOO_LARGE if self._tried else _UNKNOWN)


def sorted_by_windows(
    recordings: Iterable[Recording], values: Mapping[str, ir.Value], reach: int
) -> Iterator[Recording]:
    """Yield those recordings first in which all sides are longer than windows ``reach``: each weight is read there."""
    others = []
    for recording in recordings:
        shapes = recording.shapes(values) if reach else None
        if shapes is None or all(min(shape[2:], default=reach + 1) > reach for shape in shapes.values()):
            yield recording
        else:
            others.append(recording)
    yield from reversed(others)
