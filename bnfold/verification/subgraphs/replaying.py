"""Compare two parts in small sizes, which are a guess, and in recorded ones, until each possible fault has shown.

Small sizes cost next to nothing, and results that agree there and would show each fault are enough. Otherwise recorded
sizes decide: a difference counts if a run of the original on inputs that callers may feed has these sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import cycle

from bnfold import ir
from bnfold.ir.value import Known
from bnfold.verification.claims import Why
from bnfold.verification.codes import Code
from bnfold.verification.comparing.recording import Recording, Recordings
from bnfold.verification.inputs.bounds import kinds_of
from bnfold.verification.inputs.drawing import FLAT, SAMPLE_KINDS
from bnfold.verification.inputs.shapes import elements, open_places
from bnfold.verification.inputs.sized import fitted
from bnfold.verification.subgraphs.pairs import SubgraphPair
from bnfold.verification.subgraphs.runnable import LARGEST_HELD, takes_long
from bnfold.verification.subgraphs.sampling import sampled
from bnfold.verification.subgraphs.small_sizes import (
    LARGEST_FEED,
    Shapes,
    SmallSizes,
    broadcast_sizes,
    contradict,
    may_be_fed_at,
)
from bnfold.verification.subgraphs.trials import TOO_LARGE, NotCompared, TrialResult, fails
from bnfold.verification.tolerance.compare import Difference

_VARYING = [number for number, kind in enumerate(SAMPLE_KINDS) if kind not in FLAT]
"""The kinds of numbers that are compared at other sizes: a statistic of flat ones may not depend on them."""

_LITTLE_TIME = 0.1
"""Counted seconds at the first sizes; beyond, fewer others are tried."""

_MANY = 1 << 16
"""Elements of activations beyond which it is asked first whether they fit together."""

_NUMBERS = (Code.DIFFERS, Code.NOT_EQUAL)
"""Differences of numbers, not of shapes, which sizes that occur in no run may cause."""

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
    declared: Mapping[str, Known | None]
    """The shapes of the values in the original; consumers may suggest more, and take other sizes as well."""
    certain: int = 0
    """At how many sizes that callers may feed the results were equal."""
    _equal: Difference | None = None
    _fault: Difference | None = None
    """A difference at sizes that callers may feed."""
    _open_fault: Difference | None = None
    """One at sizes that the model does not exclude."""
    _guessed_fault: Difference | None = None
    """One at sizes that contradict those that the model declares."""
    _obstacle: NotCompared | None = None
    _runs_at_some: bool = False
    """Whether the rewritten part does not run, or makes another shape, at sizes that are a guess."""
    _is_refused: bool = False
    """Whether the original's part does not run in recorded sizes."""
    _tried: list[Shapes] = field(default_factory=list)

    def run(self, small: Iterable[SmallSizes], recordings: Recordings) -> TrialResult:
        """Return the finding."""
        many: Shapes | None = None
        for sizes in small:
            self._compare_small(sizes)
            many = many or sizes.many
            if self._fault is not None:
                break
        kinds = cycle(_VARYING if self.subgraphs.samples > 1 else (0,))
        for recording in recordings if self._needs_more() else ():
            is_one_kind = self._equal is not None and self.is_settled()
            self._compare_recorded(recording, next(kinds) if is_one_kind else None)
            if not self._needs_more():
                break
        if self._equal is None and self._fault is None:
            self._compare_declared()
        if many is not None and self._equal is not None and self._fault is None and not self.is_settled():
            guessed = self._is_guess(many)
            found = sampled(self.subgraphs, self.fed, many, guessed=guessed)
            self._note(many, found, is_certain=False, guessed=guessed)
        return self._outcome()

    def _compare_declared(self) -> None:
        """Compare the parts in the sizes that the original declares, if no run of it has shown any."""
        shapes = {
            name: tuple(dim for dim in value.shape or () if isinstance(dim, int)) for name, value in self.fed.items()
        }
        if self.is_static and shapes not in self._tried and may_be_fed_at(shapes):
            self._note(shapes, sampled(self.subgraphs, self.fed, shapes, guessed=False), is_certain=True, guessed=False)

    def _needs_more(self) -> bool:
        """Whether no difference was found, and equality at the sizes so far does not suffice.

        A fault may not have shown, or show at some sizes only.
        """
        if self._fault is not None or self._is_unknown:
            return False
        return self._equal is None or not self.is_settled() or self._depends_on_sizes()

    @property
    def _is_unknown(self) -> bool:
        """Whether some numbers cannot be computed: those that can, elsewhere, prove nothing of them."""
        return self._obstacle is not None and self._obstacle.why.code in (Code.NO_KERNEL, Code.NOT_COMPUTED)

    def _depends_on_sizes(self) -> bool:
        """Whether a guess is to be confirmed, or operators that differ depend on dynamic sizes of the inputs."""
        if self._open_fault is not None or self._guessed_fault is not None or self._runs_at_some:
            return self.conclusive < (1 if self.is_static else 2)
        if self.is_static or not any(map(_is_fed_by_callers, self.values.values())):
            return False
        old, new = (kinds_of(side.subgraph.nodes) for side in (self.subgraphs.old, self.subgraphs.new))
        return old != new or self._is_stretched

    @property
    def _is_stretched(self) -> bool:
        """Whether a constant is as long as an open axis was in all sizes so far: at another size it may grow it."""
        stretched = broadcast_sizes(self.subgraphs.nodes)
        places = [
            place for same in open_places({n: shape or () for n, shape in self.declared.items()}) for place in same
        ]
        return any(
            (shapes[name][axis], len(shapes[name]) - axis) in stretched
            for name, axis in places
            for shapes in self._tried
        )

    def _compare_small(self, small: SmallSizes) -> None:
        model = self.subgraphs.old.subgraph.model
        guessed = self._is_guess(small.shapes)
        if guessed and elements(small.shapes) > _MANY and fitted(model, small.shapes) is None:
            return
        work = self.subgraphs.coverage.work
        begin = work.seconds
        found = sampled(self.subgraphs, self.fed, small.shapes, guessed=guessed)
        are_inputs = all(map(_is_fed_by_callers, self.fed.values()))
        is_certain = not guessed and (are_inputs or self.is_static)
        self._note(small.shapes, found, is_certain=is_certain, guessed=guessed)
        others = small.quick if small.quick and work.seconds - begin > _LITTLE_TIME else small.others
        kinds = cycle(_VARYING if self.subgraphs.samples > 1 else (0,))
        shows_nothing = isinstance(found, NotCompared) and found.why.code is Code.EMPTY
        for shapes in others if shows_nothing or self._is_equal(found) else ():
            made = self._equal.elements if self._equal is not None else 0
            is_shown = made > LARGEST_HELD and not self.subgraphs.coverage.uncovered
            if (self._is_guess(shapes) and not guessed) or is_shown or takes_long(model, shapes, made):
                continue
            kind = next(kinds) if self._equal is not None else None
            latest = sampled(self.subgraphs, self.fed, shapes, guessed=guessed, kind=kind)
            if isinstance(latest, Difference) or latest.only_after:
                self._note(shapes, latest, is_certain=is_certain, guessed=guessed)
            if not self._is_equal(latest) and self._is_equal(found):
                self._equal = None  # at the first sizes by chance, or these cannot occur
                return
        for shapes in small.deciding if self._equal is not None and self.subgraphs.coverage.uncovered else ():
            latest = sampled(self.subgraphs, self.fed, shapes, guessed=True)
            self._note(shapes, latest, is_certain=are_inputs, guessed=guessed)

    @property
    def is_static(self) -> bool:
        """Whether all sizes are declared; 0 is what exporters write for an open one."""
        return all(
            shape is not None and all(isinstance(dim, int) and dim for dim in shape) for shape in self.declared.values()
        )

    @property
    def _lacks_rank(self) -> bool:
        return any(value.shape is None for value in self.fed.values())

    def _is_guess(self, shapes: Shapes) -> bool:
        """Whether a model declares other sizes, or the original no rank."""
        new = {name: it.shape for name, it in self.subgraphs.new.subgraph.inputs.items() if name in self.fed}
        own = {name: value.shape for name, value in self.fed.items()}
        return self._lacks_rank or contradict(own, shapes) or contradict(new, shapes)

    @staticmethod
    def _is_equal(found: TrialResult) -> bool:
        return isinstance(found, Difference) and not fails(found)

    @property
    def conclusive(self) -> int:
        """At how many of them all sizes but the number of rows are those that are declared."""
        dims = [dim for shape in self.declared.values() for dim in (shape[1:] if shape is not None else [None])]
        return self.certain if all(isinstance(dim, int) and dim for dim in dims) else 0

    def _compare_recorded(self, recording: Recording, kind: int | None = None) -> None:
        """Compare the parts in the sizes of a recording, on numbers of all kinds or of one."""
        shapes = recording.shapes(self.values)
        if shapes is None or shapes in self._tried or elements(shapes) > LARGEST_FEED:
            return
        self.subgraphs.recorded.update(recording.integers(self.values))
        is_certain = recording.is_certain(self.values) and not contradict(self.declared, shapes)
        found = sampled(self.subgraphs, self.fed, shapes, guessed=not is_certain, kind=kind)
        self.subgraphs.recorded.clear()
        self._note(shapes, found, is_certain=is_certain, guessed=not recording.are_declared)
        self._is_refused |= recording.are_declared and isinstance(found, NotCompared) and not found.only_after

    def _note(self, shapes: Shapes, found: TrialResult, *, is_certain: bool, guessed: bool) -> None:
        self._tried.append(shapes)
        if isinstance(found, NotCompared):
            self._obstacle = self._obstacle or found
            self._runs_at_some |= guessed and found.only_after and found.why.code is Code.ASSUMED_SIZES
        elif not fails(found):
            self._equal = self._equal or found
            self.certain += is_certain
        elif is_certain or (not guessed and found.code in _NUMBERS):
            self._fault = found if self._equal is None else found._replace(by_size=True)
        elif guessed:
            self._guessed_fault = self._guessed_fault or found
        else:
            self._open_fault = self._open_fault or found

    def _outcome(self) -> TrialResult:
        if self._fault is not None:
            return self._fault
        if self._obstacle is not None and self._is_unknown:
            return self._obstacle
        fault = self._open_fault or self._guessed_fault
        if self._runs_at_some and self._lacks_rank and self._equal is not None and not self.certain:
            return NotCompared(_AT_SOME)
        if fault is None or (self.certain and self._open_fault is None and self._equal is not None):
            return self._equal or self._obstacle or NotCompared(TOO_LARGE if self._tried else _UNKNOWN)
        if self._equal is not None:
            return NotCompared(_AT_SOME, at_some_sizes=self._open_fault is not None)
        return NotCompared(_NOT_RUN) if self._is_refused and self._open_fault is None else fault


def _is_fed_by_callers(value: ir.Value) -> bool:
    return value.is_input and value.graph.parent is None
