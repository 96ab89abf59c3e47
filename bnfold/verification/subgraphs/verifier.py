"""Each rewrite on its own: the region between its boundary values, from both models, on small random activations.

The weights are the model's real ones; only the activations are small. What a region costs depends on the region, so a
model of any size is checked in time linear in its rewrites.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, cycle, islice

from bnfold import ir, reference
from bnfold.errors import BnfoldError, Unsupported
from bnfold.ir.time_limit import LimitStruck
from bnfold.verification.changes.boundaries import changed_defaults
from bnfold.verification.changes.enlarged import up_to_poles
from bnfold.verification.changes.extract import Subgraph
from bnfold.verification.changes.from_constants import bodies_run
from bnfold.verification.changes.interface import declared_shapes
from bnfold.verification.changes.partly import known_of
from bnfold.verification.changes.unscaled import unscaled
from bnfold.verification.changes.zeros import ZEROS, at_zeros, makes_zeros, signs_differ, signs_may_show, with_zeros
from bnfold.verification.claims import AGREED, Evidence, Runs, Why, with_outcome
from bnfold.verification.codes import Code
from bnfold.verification.comparing.sides import evaluator
from bnfold.verification.coverage import (
    Coverage,
    cover_nearer,
    cover_part,
    cover_whole,
    differ_in_kind,
    indices_into,
    only_moves,
    sizes_at_discontinuities,
)
from bnfold.verification.inputs.drawing import FLAT, MOST_SAMPLES, SAMPLE_KINDS, DrawnFeeds, samples_for
from bnfold.verification.inputs.shapes import ChosenShapes, elements, is_static
from bnfold.verification.inputs.sized import SharedShapes, fitted
from bnfold.verification.obstacles import NotCompared, not_run
from bnfold.verification.request import Request
from bnfold.verification.subgraphs.fitting import sizes_in_turn
from bnfold.verification.subgraphs.further import (
    beyond_bounds,
    deciding_shapes,
    doubled,
    further_shapes,
    nearby,
    shapes_of_inputs,
)
from bnfold.verification.subgraphs.inside import Wider, with_equal_values_inside
from bnfold.verification.subgraphs.nearer import comes_close, far_numbers
from bnfold.verification.subgraphs.pairs import FEW, LARGEST_HELD, SubgraphPair, runnable, takes_long
from bnfold.verification.subgraphs.repeated import MOST, can_stand_in, repeatable, repeated, signature
from bnfold.verification.subgraphs.sampling import at_other_ranks, drawn, sampled
from bnfold.verification.subgraphs.shapes import (
    Trial,
    has_guesses,
    lacks_rank,
    says_more,
    subgraph_shapes,
)
from bnfold.verification.subgraphs.sides import from_measured, is_constant, proven_outside, sides_of
from bnfold.verification.subgraphs.trials import (
    PartOutcome,
    SubgraphTrials,
    equal_on,
    largest,
    passed,
)
from bnfold.verification.tolerance.rounding import PerturbedWeights

EVALUATIONS = 20  # of a region, more or less

_LITTLE_TIME = 0.1
"""Counted seconds at the first sizes; beyond, fewer others are tried."""

_GROSS = 1e-3
"""Of the largest value: by so much and more, results differ at other sizes where an operator is another one there."""

_MANY = 1 << 16
"""Elements of activations beyond which it is asked first whether they fit together."""

_VARYING = [number for number, kind in enumerate(SAMPLE_KINDS) if kind not in FLAT]
"""The kinds of numbers that are compared at other sizes: a statistic of flat ones may not depend on them."""

_MANY_DOUBTS = 8
"""Possible faults that the results have to show, beyond which it is looked first for values inside that show them."""

_UNCLAIMED = 8
"""Sizes to try until the original runs, if sizes that only the rewritten model states are not relied on."""


def _nested(nodes: Iterable[ir.Node]) -> Iterator[ir.Node]:
    """Yield the nodes, those of the bodies that may run, and of the functions that are called."""
    waiting, seen = [nodes], set[ir.Graph]()
    while waiting:
        for node in waiting.pop():
            yield node
            function = node.called
            graphs = {*bodies_run(node), *([function] if function is not None else [])} - seen
            seen |= graphs
            waiting += [graph.nodes for graph in graphs]


class SubgraphVerifier:
    """Two models, indexed once for any number of cuts, with perturbed copies that separate rounding from faults.

    In its ``request``, values that a rewrite has scaled have their old names again (`unscaled`).
    """

    def __init__(self, request: Request, draws: PerturbedWeights) -> None:
        before, after = unscaled(request.before, request.after, request.scaled)
        self.request = replace(request, before=before, after=after, _found={})
        self._shapes = SharedShapes(before, after)
        self._graphs = self._shapes.graphs
        self._clock = request.clock
        self._rows: dict[tuple[ir.Cut, frozenset[str], ir.Cut | None], Evidence] = {}
        self.further: dict[tuple[ir.Cut, ...], list[ir.Cut]] = {}
        """Changes outside some cuts, which are looked for once."""
        self.going_back = 0.0
        """Counted seconds of comparing parts that differ from values further back."""
        self._compared_in_full: dict[Hashable, SubgraphPair | None] = {}
        self._draws = draws
        self._runs = Runs()
        """What was run for the claim that is looked at."""
        self._coverage: Coverage | None = None
        """The possible faults that its results have to show."""
        self._boundary: tuple[str, ...] = ()
        """The values that both sides of it are computed from."""
        self._nearer: ir.Cut | None = None
        """The cut inside it that differs on numbers that were drawn for it, if it is compared for that reason."""
        self._until = math.inf
        """Counted seconds at which comparing it ends."""
        self._evaluate = evaluator(request.policy, request.clock, lambda: self._until - request.clock.work.seconds)
        self._defaults = changed_defaults(before, after)
        old, new = ({value.name for value in model.overridable_inputs()} for model in (before, after))
        self._moved = self._defaults & old & new
        """Those of them that callers may override in both models."""

    def check(
        self, cut: ir.Cut, *, hidden: Collection[str] = (), nearer: ir.Cut | None = None, seconds: float = math.inf
    ) -> Evidence:
        """Compare the two regions of a cut; ``hidden`` are values that differ inside it, and have to show.

        It may begin further back than a ``nearer`` one that differs on numbers that were drawn for it. Then a fault in
        that has to show, on numbers of every kind, and what is computed for it has to come close to where it differs.
        It is given up after so many counted ``seconds``.
        """
        key = cut, frozenset(hidden), nearer
        if key in self._rows:
            return self._rows[key]
        outer = self._runs, self._coverage, self._boundary, self._nearer, self._until  # of what rests on it, if any
        self._runs, self._coverage, self._boundary = Runs(self.request.ledger.keeps), None, cut.inputs
        self._nearer, self._until = nearer, min(self._until, self._clock.work.seconds + seconds)
        row, behind = self._checked(cut, hidden)
        row = self.request.ledger.enter(row, self._runs.feeds)
        row = row if behind is None else behind
        if self._until == math.inf or row.code is not Code.TIME:
            self._rows[key] = row
        self._runs, self._coverage, self._boundary, self._nearer, self._until = outer
        return row

    def _checked(self, cut: ir.Cut, hidden: Collection[str]) -> tuple[Evidence, Evidence | None]:
        """Return the evidence on the values of the cut, and that on a value behind it, if that decides instead."""
        found = self._outcome(cut, hidden)
        row = Evidence(
            cut.label,
            cut.graph,
            cut.outputs,
            relative=found.difference.relative,
            allowed=found.difference.allowed,
            is_same=found.is_same,
            at_some_sizes=found.at_some_sizes,
            boundary=self._boundary,
            experiments=tuple(self._runs.experiments),
        )
        if (coverage := self._coverage) is not None:
            row = replace(row, faults=coverage.known)
            if coverage.uncovered and not found.agrees:
                row = replace(row, hidden=coverage.uncovered, example=coverage.example)
        return with_outcome(row, found, AGREED if row.experiments else Why(Code.CONSTANT, "")), found.behind

    def _outcome(self, cut: ir.Cut, hidden: Collection[str]) -> PartOutcome:
        """Return what comparing finds, or what ended it."""
        try:
            return PartOutcome(doubt=self._clock.over()) if self._clock.is_over else self._compare(cut, hidden)
        except reference.OutOfTime as error:
            is_given_up = self._until < math.inf and not self._clock.is_over
            late = Why(Code.TIME, str(error)) if is_given_up else None
            why = late or self._clock.over(EVALUATIONS * error.needed, about=str(error))
        except LimitStruck:
            why = self._clock.over()
        except NotCompared as obstacle:
            why = obstacle.why
        except BnfoldError as error:
            why = not_run(error)
        return PartOutcome(doubt=why)

    def coverage(self, cut: ir.Cut, seconds: float) -> Coverage:
        """Return what comparing whole models has to show of a cut. Raises NotCompared if one does not have it."""
        sides = sides_of(self._graphs, cut, self._defaults)
        made = [self._graphs[1][cut.graph].values[name] for name in cut.outputs]
        return cover_whole(*sides, made, self._clock.work, seconds)

    def _compare(self, cut: ir.Cut, hidden: Collection[str]) -> PartOutcome:
        if not hidden and is_constant(self._graphs, cut):
            return PartOutcome()
        cut = proven_outside(self._graphs, from_measured(self._graphs, cut), self._shapes.claimed)
        sides = sides_of(self._graphs, cut, self._defaults)
        self._boundary = tuple({**sides[0].inputs, **sides[1].inputs})
        unknown = reference.unknown_operator(chain.from_iterable(_nested(side.nodes) for side in sides))
        if unknown is not None:  # which is known before any sizes are looked for
            return PartOutcome(doubt=not_run(unknown, "the original part cannot be run"))
        found = self._compare_sides(cut, sides, hidden)
        is_moved = any(value.name in self._moved for side in sides for value in side.stored)
        if not found.agrees or not is_moved:
            return found
        return self._at_other_defaults(cut, hidden) or found

    def _compare_sides(self, cut: ir.Cut, sides: tuple[Subgraph, Subgraph], hidden: Collection[str]) -> PartOutcome:
        claimed = self._shapes.claimed(cut.graph)
        is_known = not any(value.name in claimed for side in sides for value in side.fed)
        may_repeat = is_known and not (hidden or self._nearer) and not self._zeros_may_show(sides)
        key = signature(cut.graph, sides) if may_repeat else None
        if key is None:
            return self._compare_alone(cut, *sides, hidden)
        known = self._compared_in_full.get(key)
        found = repeated(known, sides, self._runs) if known is not None else None
        return found if found is not None else self._compare_alone(cut, *sides, hidden, key)

    def _zeros_may_show(self, sides: Sequence[Subgraph]) -> bool:
        """Whether a pole, inside or behind the part, may show the signs of its zeros: an equal part may have none."""
        groups = [side.nodes for side in sides]
        return signs_may_show(*groups) or (known_of(self.request.before).has_poles and all(map(makes_zeros, groups)))

    def _at_other_defaults(self, cut: ir.Cut, hidden: Collection[str]) -> PartOutcome | None:
        """Say why equal results do not count: with other numbers for inputs whose default changed, they are not."""
        sides = sides_of(self._graphs, cut, self._defaults - self._moved)
        if not self._compare_alone(cut, *sides, hidden).differs:
            return None
        names = ", ".join(repr(value.name) for value in sides[0].fed if value.name in self._defaults)
        reason = f"it is equivalent only at the default of input {names}"
        return PartOutcome(doubt=Why(Code.SOME_DEFAULTS, reason), is_same=True)

    def _compare_alone(
        self,
        cut: ir.Cut,
        old: Subgraph,
        new: Subgraph,
        hidden: Collection[str],
        key: Hashable = None,
        *,
        wider: Wider | None = None,
    ) -> PartOutcome:
        # The rewritten model has a newer opset, for which inference finds more sizes.
        fed = {**new.inputs, **{name: value for name, value in old.inputs.items() if says_more(value, new.inputs)}}
        coverage, samples = self._asked_for(cut, old, new, hidden)
        self._coverage = coverage if self._coverage is None else self._coverage
        first, second = (runnable(side, side.stored) for side in (old, new))
        seed, factors = self.request.checks.seed, {} if wider is None else wider.factors
        reacts = self._compared_in_full.get(key) is not None and not can_stand_in((old, new))
        common = coverage, self._draws, self._evaluate, seed, factors, samples, only_moves(old, new)
        subgraphs = SubgraphPair(cut, first, second, *common, is_known_to_react=reacts, runs=self._runs)
        if wider is None and (inside := self._found_inside_first(subgraphs, fed, hidden)) is not None:
            return inside
        reshapes = any(node.is_op("Reshape") for node in old.nodes)
        attempts = SubgraphTrials(unranked=lacks_rank(fed), reshapes=reshapes)
        agree_inside = cache(lambda: wider is None and self._agree_inside(subgraphs, hidden))
        equal: PartOutcome | None = None
        conclusive, passing, uncovered = 0, 0, -1
        for trial in sizes_in_turn(self.request, cut.graph, fed, (old, new), attempts):
            guessed = has_guesses(fed, trial.shapes)
            # Beyond two sizes, another batch reveals nothing if the last one has not.
            seen = passing if guessed else conclusive
            is_repetition = trial.is_another_batch and seen > 1 and coverage.uncovered == uncovered
            if is_repetition if equal is not None else not attempts.need(trial, guessed=guessed):
                continue
            uncovered = coverage.uncovered
            latest = self._tried(subgraphs, fed, trial, guessed=guessed)
            if equal is not None and latest.differs and not guessed:
                return latest.beside_equal()
            rank = max(map(len, trial.shapes.values()), default=0)
            if equal is None and attempts.decide(latest, guessed=guessed, rank=rank):
                equal = latest
                if (found := self._at_deciding_sizes(subgraphs, fed, trial.shapes)) is not None:
                    return found
            passing += not latest.is_open
            conclusive += trial.passing_is_conclusive and not guessed and not latest.is_open
            if equal is not None and (coverage.is_over or agree_inside()):
                break
        own = not any(name in self._shapes.claimed(cut.graph) for name in fed)
        coverage.close(conclusive if own else 0, is_static=is_static(fed.values()))
        outcome = equal or attempts.outcome()
        if outcome.agrees and (doubt := self._doubt(subgraphs, fed, own=own)):
            return doubt
        self._keep(key if equal is not None else None, subgraphs)
        if outcome.agrees and coverage.uncovered and not agree_inside():
            return self._at_rows_drawn(cut, old, new, coverage, hidden)
        return outcome

    def _asked_for(self, cut: ir.Cut, old: Subgraph, new: Subgraph, hidden: Collection[str]) -> tuple[Coverage, int]:
        """Return what the results of two parts have to show, and on how many samples."""
        if self._nearer is not None:
            nearer = sides_of(self._graphs, self._nearer, self._defaults)
            if not all({*inner.nodes} <= {*outer.nodes} for inner, outer in zip(nearer, (old, new), strict=True)):
                raise Unsupported("it does not begin further back: a name stands for other values than before")
            return cover_nearer(nearer, old, new, self._clock.work), MOST_SAMPLES
        coverage = cover_part(old, new, cut.outputs, hidden, self._clock.work)
        sizes = [size for side in (old, new) for size in sizes_at_discontinuities(side.nodes).values()]
        return coverage, max(samples_for(sizes, FEW), len(SAMPLE_KINDS) if differ_in_kind(old, new) else 1)

    def _keep(self, key: Hashable, subgraphs: SubgraphPair) -> None:
        """Keep what equal parts can reuse of a comparison, if there is a key for them."""
        if key is not None and len(self._compared_in_full) < MOST:
            self._compared_in_full.setdefault(key, repeatable(subgraphs))

    def _at_deciding_sizes(
        self, subgraphs: SubgraphPair, fed: Mapping[str, ir.Value], usual: ChosenShapes
    ) -> PartOutcome | None:
        """Return the finding at sizes that choose another way through the part, if it is no equality.

        They are tried if the results would not show every fault at others.
        """
        if not subgraphs.coverage.uncovered:
            return None
        nodes = subgraphs.nodes
        for shapes in deciding_shapes(fed, usual, nodes):
            found = sampled(subgraphs, fed, shapes, guessed=True)
            if found.differs:
                return found.beside_equal()
            if found.original_ran and found.has_doubt(Code.ASSUMED_SIZES):
                return found
        return None

    def _at_rows_drawn(
        self, cut: ir.Cut, old: Subgraph, new: Subgraph, coverage: Coverage, hidden: Collection[str]
    ) -> PartOutcome:
        """Return the finding if indices are drawn, so that each row of each table is read, or why there is none.

        The part computes them from what it is fed, and has been compared so. That they are right is a claim of its own.
        """
        reason = f"the test inputs would not reveal an error in {coverage.example}"
        if coverage.is_cut_short:
            reason = f"there was no time to find out whether the test inputs reveal an error in {coverage.example}"
        doubt = PartOutcome(doubt=Why(Code.HIDDEN, reason, {"example": coverage.example}), is_same=True)
        names = indices_into(coverage.tables, (old, new))
        claims = (ir.Cut(cut.graph, cut.inputs, (name,), f"indices {name}") for name in names)
        if not names or not all(self.check(claim).status == "verified" for claim in claims):
            return doubt
        found = self._compare_alone(cut, old.fed_with(names), new.fed_with(names), hidden)
        decides = found.behind is not None if found.is_open else found.differs or not coverage.mutants
        return found if decides else doubt

    def _agree_inside(self, subgraphs: SubgraphPair, hidden: Collection[str]) -> bool:
        """Whether the parts agree, and show every fault, if values inside are compared as well."""
        feeds = next((feeds for feeds, _, found in subgraphs.tried if not found.is_open), None)
        return feeds is not None and self._found_inside(subgraphs, feeds, hidden) is not None

    def _found_inside_first(
        self, subgraphs: SubgraphPair, fed: Mapping[str, ir.Value], hidden: Collection[str]
    ) -> PartOutcome | None:
        """Do as `_found_inside` where the results alone would have to show many faults, one after the other."""
        many = len(subgraphs.coverage.mutants) > _MANY_DOUBTS
        trial = next(subgraph_shapes(fed, subgraphs.old.subgraph.nodes), None) if many else None
        return None if trial is None else self._found_inside(subgraphs, drawn(subgraphs, fed, trial.shapes, 0), hidden)

    def _found_inside(self, subgraphs: SubgraphPair, feeds: DrawnFeeds, hidden: Collection[str]) -> PartOutcome | None:
        """Return the finding if values inside are compared as well; None if they differ or do not show every fault."""
        wider = with_equal_values_inside(subgraphs, feeds)
        if wider is None:
            return None
        found = self._compare_alone(wider.cut, wider.old, wider.new, hidden, wider=wider)
        return found if found.agrees else None

    def _doubt(self, subgraphs: SubgraphPair, fed: Mapping[str, ir.Value], *, own: bool) -> PartOutcome | None:
        """Return why equal results do not count, or a difference at zeros, or on far numbers.

        Without ``own``, only the rewritten model states the sizes.
        """
        if subgraphs.runs_only_after():
            reason = "the rewritten part runs on numbers that choose a branch which does not fit in the original part"
            return PartOutcome(doubt=Why(Code.SOME_SIZES, reason), is_same=True, at_some_sizes=True)
        doubt = None if own else self._at_unclaimed_sizes(subgraphs, fed)
        doubt = doubt or at_other_ranks(subgraphs, fed) or self._at_further_sizes(subgraphs, fed)
        close = None if doubt or self._nearer is None else self._not_close(subgraphs, fed, self._nearer)
        return doubt or close or self._at_zeros(subgraphs, fed)

    def _not_close(self, subgraphs: SubgraphPair, fed: Mapping[str, ir.Value], nearer: ir.Cut) -> PartOutcome | None:
        """Return a difference on far numbers, or why equal results do not count: none is close to differing.

        What is computed for the part at the ``nearer`` cut has to be such that, moved a little, it makes it differ.
        """
        usual, guessed = next(equal_on(subgraphs.tried))
        others = far_numbers(subgraphs, fed, usual)
        for feeds in others:
            if (found := subgraphs.attempt(feeds, "far", guessed=guessed)).differs:
                return found
        sides = sides_of(self._graphs, nearer, self._defaults)
        if self.check(nearer).status != "failed":
            return None
        old, new = (runnable(side, side.stored) for side in sides)
        common = self._draws, self._evaluate, self.request.checks.seed
        part = SubgraphPair(nearer, old, new, Coverage(()), *common, samples=MOST_SAMPLES)
        if comes_close(part, subgraphs, [*(feeds for feeds, _ in equal_on(subgraphs.tried)), *others]):
            return None
        names = ", ".join(map(repr, {**sides[0].inputs, **sides[1].inputs}))
        reason = f"it differs on numbers drawn for {names}, and what the model computes there never comes close to them"
        return PartOutcome(doubt=Why(Code.HIDDEN, reason), is_same=True)

    def _at_zeros(self, subgraphs: SubgraphPair, fed: Mapping[str, ir.Value]) -> PartOutcome | None:
        """Return the finding if results differ at zeros of one sign only. Callers feed those that inputs have."""
        sides = [side.subgraph.nodes for side in (subgraphs.old, subgraphs.new)]
        if not signs_may_show(*sides):
            return self._at_poles_behind(subgraphs, fed) if all(map(makes_zeros, sides)) else None
        usual, guessed = next(equal_on(subgraphs.tried))
        from_callers = [name for name, value in fed.items() if value.is_input and value.graph.parent is None]
        for names in (from_callers, [*fed]):
            feeds = [with_zeros(usual, names, zero) for zero in ZEROS]
            found = [subgraphs.attempt(each, "zeros", guessed=guessed) for each in feeds]
            if {each.status for each in found} == {"verified", "failed"}:
                why = at_zeros(ZEROS[0] if found[0].differs else ZEROS[1])
                is_certain = names is from_callers
                return replace(largest(found), fault=why) if is_certain else PartOutcome(doubt=why, is_same=True)
        return None

    def _at_poles_behind(self, subgraphs: SubgraphPair, fed: Mapping[str, ir.Value]) -> PartOutcome | None:
        """Say why equal results do not count: they are zeros of other signs, which a pole behind the part shows.

        The results themselves are no failure, for the zeros are equal. What the pole makes of them is one.
        """
        if not known_of(self.request.before).has_poles:
            return None
        usual, _ = next(equal_on(subgraphs.tried))
        runs = (subgraphs.fed(with_zeros(usual, fed, zero)) for zero in ZEROS)
        if not any(signs_differ(run.old().values(), run.new().values()) for run in runs):
            return None
        nodes = subgraphs.nodes
        inside = {value.name for node in nodes for value in node.outputs if value is not None}
        models = self.request.before, self.request.after
        behind = (cut._replace(label=subgraphs.cut.label) for cut in up_to_poles(*models, subgraphs.cut, inside))
        rows = (self.check(cut) for cut in behind)
        row = next((row for row in rows if row.code is Code.ZERO_SIGN), None)
        if row is None:
            return None
        return PartOutcome(doubt=row.why, is_same=True, behind=row if row.status == "failed" else None)

    def _at_unclaimed_sizes(self, subgraphs: SubgraphPair, fed: Mapping[str, ir.Value]) -> PartOutcome | None:
        """Return why equal results do not count if only the rewritten model states the sizes; it may be wrong."""
        path, usual_shapes = subgraphs.cut.graph, passed(subgraphs.tried)[0]
        with self._shapes.without_claims(path):
            values = self._graphs[0][path].values
            known = {name: values[name].shape for name in usual_shapes if name in self._shapes.claimed(path)}
            near = nearby(usual_shapes, known)
            usual = islice(subgraph_shapes(fed, subgraphs.old.subgraph.nodes), _UNCLAIMED)
            trials = (sampled(subgraphs, fed, trial.shapes, guessed=True) for trial in usual)
            first = next((it for it in trials if not it.is_open or it.original_ran), None)
            others = (sampled(subgraphs, fed, shapes, guessed=True) for shapes in near)
            runs = False
            for found in chain([first] if first is not None else [], others):
                if found.original_ran:
                    return found
                if found.differs:
                    reason = "it is equivalent only at the sizes that the rewritten model declares"
                    return PartOutcome(doubt=Why(Code.SOME_SIZES, reason))
                runs |= found.agrees
        reason = "it runs only at the sizes that the rewritten model declares"
        return None if runs else PartOutcome(doubt=Why(Code.SOME_SIZES, reason))

    def _at_further_sizes(self, subgraphs: SubgraphPair, fed: Mapping[str, ir.Value]) -> PartOutcome | None:
        """Return why equal results do not count if results differ at other sizes that callers may feed; else None."""
        equal, until = passed(subgraphs.tried), self._clock.work.seconds + _LITTLE_TIME
        with self._shapes.without_claims(subgraphs.cut.graph):
            nodes, inputs = subgraphs.nodes, self._graphs[0][""].inputs
            known = {name: self._shapes.inferred(value) for name, value in fed.items() if value.is_input}
            others = [
                *further_shapes(fed, equal[0], _nested(nodes), self._shapes.inferred),
                *doubled(equal, known, nodes),
            ]
            if any(found.differs for _, _, found in subgraphs.tried):
                others += beyond_bounds(fed, equal, nodes, inputs)
            part = subgraphs.old.subgraph.model
            declared = declared_shapes(self.request.before.graph.proto.input)
            others_of_inputs = shapes_of_inputs(part, fed, equal[0], self._shapes.inferred, declared.values())
            of_inputs = [shapes for shapes in others_of_inputs if shapes not in equal]
        wrong = next((it for it in others if sampled(subgraphs, fed, it, guessed=False).differs), None)
        wrong = wrong or next((it for it in of_inputs if self._differs_grossly(subgraphs, fed, it, until)), None)
        if wrong is None:
            return None
        told = ", ".join(f"{name!r} of shape {shape}" for name, shape in wrong.items())
        reason = Why(Code.SOME_SIZES, f"it is not equivalent with {told}")
        return PartOutcome(doubt=reason, is_same=True, at_some_sizes=True)

    def _differs_grossly(
        self, subgraphs: SubgraphPair, fed: Mapping[str, ir.Value], shapes: ChosenShapes, until: float
    ) -> bool:
        """Whether the results differ by more than rounding ever does, at sizes that the whole original may take."""
        made = max(found.difference.elements for _, _, found in subgraphs.tried)
        if self._clock.work.seconds > until or _is_too_dear(subgraphs, shapes, made):
            return False
        found = sampled(subgraphs, fed, shapes, guessed=False, kind=0)
        is_rounding = found.difference.code is Code.DIFFERS and found.difference.relative < _GROSS
        return found.differs and not is_rounding and fitted(self.request.before, shapes) is not None

    def _tried(
        self, subgraphs: SubgraphPair, fed: Mapping[str, ir.Value], trial: Trial, *, guessed: bool
    ) -> PartOutcome:
        if guessed and elements(trial.shapes) > _MANY and fitted(subgraphs.old.subgraph.model, trial.shapes) is None:
            reason = "the original part cannot be run: its operators do not fit together"
            return PartOutcome(doubt=Why(Code.NO_FIT, reason))
        before = self._clock.work.seconds
        latest = sampled(subgraphs, fed, trial.shapes, guessed=guessed)
        takes_time = self._clock.work.seconds - before > _LITTLE_TIME
        kinds = cycle(_VARYING if subgraphs.samples > 1 else (0,))
        for other in trial.quick if takes_time and trial.quick else trial.others:
            if latest.agrees:
                latest = self._at_other_sizes(subgraphs, fed, other, latest, guessed=guessed, kind=next(kinds))
        return latest

    def _at_other_sizes(
        self,
        subgraphs: SubgraphPair,
        fed: Mapping[str, ir.Value],
        others: ChosenShapes,
        first: PartOutcome,
        *,
        guessed: bool,
        kind: int,
    ) -> PartOutcome:
        """Return the finding there, if it is worse than ``first``, and not because these sizes are not declared.

        Activations of every kind were compared at the first sizes, so one ``kind`` is enough at each of the others.
        """
        is_too_dear = _is_too_dear(subgraphs, others, first.difference.elements)
        if (has_guesses(fed, others) and not guessed) or is_too_dear:
            return first
        found = sampled(subgraphs, fed, others, guessed=guessed, kind=kind)
        return found.beside_equal() if found.differs or found.original_ran else first


def _is_too_dear(subgraphs: SubgraphPair, shapes: ChosenShapes, made: int) -> bool:
    """Whether comparing a part at other sizes takes long, or is not worth it; at the first ones, many were ``made``."""
    is_shown = made > LARGEST_HELD and not subgraphs.coverage.uncovered
    return is_shown or takes_long(subgraphs.old.subgraph.model, shapes, made)
