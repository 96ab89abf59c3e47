"""What stands behind a verdict, in words: of one value, or of all that is open or differs; made from the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import cached_property
from itertools import chain
from operator import itemgetter

from bnfold import ir, reference
from bnfold.errors import BadSetting, BnfoldError, enumerated
from bnfold.ir.cut import SelectedValue, ValueMaps
from bnfold.ir.value import written
from bnfold.reference import callers_word
from bnfold.reference.schedule import read_by
from bnfold.settings import VerifyOptions
from bnfold.verification.changes.boundaries import changed_defaults, visible
from bnfold.verification.changes.control_flow import in_one_form
from bnfold.verification.changes.extract import Subgraph, constant_of
from bnfold.verification.changes.from_constants import are_one_constant
from bnfold.verification.changes.inlined import with_common_functions
from bnfold.verification.changes.unchanged import unchanged
from bnfold.verification.changes.unscaled import unscaled
from bnfold.verification.claims import Evidence, Experiment, NumberKind
from bnfold.verification.codes import FAILED, MEANINGS, Code
from bnfold.verification.obstacles import NotCompared
from bnfold.verification.remedies import DIFFERENCES, Remedies
from bnfold.verification.subgraphs.sides import sides_of
from bnfold.verification.tolerance.bits import same
from bnfold.verification.verdict import Explained, How, Verdict

_MOST = 10
"""Claims that are explained at once; the next line says how many more there are."""

_MOST_RUNS = 8
_FEW = 6
"""Names in a list."""

_DRAWN: Mapping[NumberKind, str] = {
    "normal": "ordinary",
    "large": "large",
    "tiny": "tiny",
    "constant": "constant",
    "at mean": "near-mean",
    "drawn": "random",
}
"""The kinds of numbers that are drawn, in words …"""

_TAKEN: Mapping[NumberKind, str] = {
    "zeros": "numbers with zeros among them",
    "far": "numbers far from those, all of one sign, or zeros",
    "recorded": "the recorded inputs",
    "as in an equal part": "the inputs of an equal part",
}
"""… and what else the inputs may be."""
_WHOLE = {"whole": "the whole models in float64", "runtime": "the whole models in a runtime"}
_STATED = {"interface": "inputs and outputs", "checker": "what onnx says of the rewritten model"}
_NEXT = "  next: "
_IS: Mapping[How, str] = {
    "same": "is right",
    "constant": "is right",
    "tested": "agrees",
    "differs": "differs",
    "open": "is open",
}
_ARE: Mapping[How, str] = {
    "same": "are right",
    "constant": "are right",
    "tested": "agree",
    "differs": "differ",
    "open": "are open",
}
_WORDS: Mapping[str, How] = {"verified": "tested", "failed": "differs", "skipped": "open"}


class ComparedModels:
    """Two models that were compared, and what their values are called in either.

    ``given`` is the rewritten model as it came. In ``after``, values have the original's names if they mean the same;
    ``scaled`` are those that a rewrite has scaled. Models whose operators are not those of ONNX have no parts that
    were compared.
    """

    def __init__(
        self,
        before: ir.Model,
        after: ir.Model,
        given: ir.Model | None = None,
        scaled: ValueMaps | None = None,
        *,
        has_parts: bool = True,
    ) -> None:
        self.before, self.after, self.given = before, after, given or after
        self.scaled, self.has_parts = scaled or {}, has_parts

    @cached_property
    def sides(self) -> tuple[ir.Model, ir.Model]:
        """The models whose parts were compared: in one form, with the same functions, scaled values under old names."""
        if not self.has_parts:
            return self.before, self.after
        before, after = with_common_functions(in_one_form(self.before, self.after), in_one_form(self.after))
        return unscaled(before, after, self.scaled)

    @cached_property
    def graphs(self) -> Sequence[Mapping[str, ir.Graph]]:
        """The graphs of both models, by path."""
        return [{graph.path: graph for graph in model.graphs()} for model in self.sides]

    @cached_property
    def renamed(self) -> dict[str, str]:
        """The original's names by those of the rewritten model's file, if they differ."""
        found = {name: before.name for (_, name), before in self.scaled.items()}
        if self.given is self.after:
            return found
        for given, graph in zip(self.given.graphs(), self.after.graphs(), strict=False):
            pairs: list[tuple[ir.Value | None, ir.Value | None]] = [
                *zip(given.inputs, graph.inputs, strict=False),
                *zip(given.outputs, graph.outputs, strict=False),
            ]
            for one, other in zip(given.nodes, graph.nodes, strict=False):
                pairs += zip(one.outputs, other.outputs, strict=False)
            names = ((own.name, common.name) for own, common in pairs if own is not None and common is not None)
            found |= {own: common for own, common in names if own != common}
        return found

    def require(self, name: str) -> None:
        """Raise BadSetting if neither model has a value of this name; the error names some that are spelled alike."""
        models = self.before, self.given
        values = {value for model in models for graph in model.graphs() for value in graph.values}
        if name in values:
            return
        nodes = [node for model in models for node in model.nodes() if node.name == name]
        made = [value.name for node in nodes for value in node.outputs if value is not None]
        near = [*dict.fromkeys(made or get_close_matches(name, values, 3, 0.5))][:3]
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        what = f"{name!r} is a node, and no value{hint}" if made else f"neither model has a value {name!r}{hint}"
        raise BadSetting("explain", what)

    def parts(self, claim: Evidence) -> tuple[Subgraph, Subgraph] | None:
        """Return what computes the values of a claim in either model; None if a model does not have it."""
        if claim.prover != "part" or not claim.outputs:
            return None
        cut = ir.Cut(claim.graph, claim.boundary, claim.outputs, claim.label)
        try:
            return sides_of(self.graphs, cut, changed_defaults(*self.sides))
        except (BnfoldError, NotCompared):
            return None


def with_explanation(verdict: Verdict, models: ComparedModels, checks: VerifyOptions) -> Verdict:
    """Return the verdict with the explanation that was asked for."""
    if checks.explain is None:
        return verdict
    explainer = _Explainer(verdict, models, checks)
    with reference.keeping_constants(models.before), reference.keeping_constants(models.after):
        found = explainer.about(checks.explain) if checks.explain else explainer.overview()
        return replace(verdict, explanation=tuple(_with_each_step_once(found)))


def _with_each_step_once(found: Iterator[Explained]) -> Iterator[Explained]:
    seen: set[str] = set()
    for each in found:
        yield replace(each, lines=tuple(it for it in each.lines if not it.startswith(_NEXT) or it not in seen))
        seen.update(each.lines)


def claims_that_count(verdict: Verdict) -> list[Evidence]:
    """Return the last evidence on each claim, without claims that are settled otherwise, as by a larger part.

    Evidence on which the verdict rests comes last, for it may have changed since it was found.
    """
    last = {(row.prover, row.graph, row.outputs): row for row in verdict.ledger}
    last |= {(row.prover, row.graph, row.outputs): row for row in verdict.local}
    counts = {row.outputs for row in verdict.local}
    is_settled = verdict.verified or any(row.status != "verified" for row in verdict.local)
    return [
        row
        for row in last.values()
        if not (is_settled and row.prover == "part" and row.status != "verified" and row.outputs not in counts)
    ]


class _Explainer:
    """Explains values, from the ledger of a verdict and from the two models."""

    def __init__(self, verdict: Verdict, models: ComparedModels, checks: VerifyOptions) -> None:
        self._verdict, self._models = verdict, models
        self._remedies = Remedies(verdict, checks, models.before)
        self._claims = claims_that_count(verdict)

    def overview(self) -> Iterator[Explained]:
        """Explain the verdict, and then each claim that is open or differs; if none is, of the first few."""
        verdict = self._verdict
        code = verdict.code
        counts = Counter(_how(row) for row in self._claims if row.prover == "part")
        listed = [_counted(counts)] if counts else []
        listed += [f"{_WHOLE[row.prover]} {_ARE[_how(row)]}" for row in self._claims if row.prover in _WHOLE]
        shown = sorted((row for row in self._claims if row.status != "verified"), key=self._urgency)
        meaning = "a part differs, but the whole models agree on the inputs that were tried"
        is_local = verdict.status == "unverified" and code in DIFFERENCES
        lines = [
            f"the verdict is {verdict.status} [{code}]: {meaning if is_local else self._meaning(code)}",
            f"  compared: {'; '.join(listed) or 'nothing, for nothing had to be computed'}",
            *_word_for(self._models.before.nodes(), self._models.after.nodes()),
            *self._next(code, next((row for row in shown if row.code is code), None)),
        ]
        yield Explained("", "", _WORDS[_status(verdict)], code, tuple(lines))
        shown = shown or sorted(self._claims, key=lambda row: -len(row.experiments))
        for row in shown[:_MOST]:
            yield self._explained("", row)
        if len(shown) > _MOST:
            more = f"{len(shown) - _MOST} more are like these; --explain VALUE explains one"
            yield Explained("", "", _WORDS[_status(verdict)], code, (more,))

    def _urgency(self, row: Evidence) -> tuple[bool, bool, bool]:
        """Return a key that sorts claims.

        Those that differ come first, parts before whole models, for a part is where a difference begins. Of what is
        open, claims of the verdict's code come first.
        """
        is_other, is_whole = row.code is not self._verdict.code, row.prover != "part"
        if row.status == "failed":
            return False, is_whole, is_other
        return True, is_other, is_whole

    def about(self, name: str) -> Iterator[Explained]:
        """Explain a value, in each graph that has one of this name."""
        own = self._models.renamed.get(name, name)
        paths = dict.fromkeys(path for each in self._models.graphs for path in each)
        places = [path for path in paths if any(value is not None for value in self._pair(path, own))]
        for path in places:
            yield from self._at(path, own, name)
        if not places:
            lines = [f"{name}: no output depends on it: it is in a branch that no run takes, or no node reads it"]
            yield Explained(name, "", "same", Code.SAME, tuple(lines), ())

    def _pair(self, path: str, name: str) -> tuple[ir.Value | None, ir.Value | None]:
        old, new = (each[path].values.get(name) if path in each else None for each in self._models.graphs)
        return old, new

    def _at(self, path: str, name: str, asked: str) -> Iterator[Explained]:
        old, new = self._pair(path, name)
        other = [f"  the rewritten model calls it {asked!r}"] if asked != name and old is not None else []
        other += self._scale(path, asked)
        where = f" in {path}" if path else ""
        how, text = self._by_itself(old, new)
        head = [f"{name}{where}: {text}", *other, *(self._rests_on(new) if how is not None else ())]
        claims = [row for row in self._claims if row.graph == path and name in row.outputs]
        parts = [row for row in claims if row.prover == "part"]
        inside = [] if claims or how is not None else self._around(old, new)
        if parts:
            yield self._explained(name, parts[-1], other)
            yield from (self._explained(name, row) for row in claims if row.prover != "part")
        elif claims:
            shown = [self._explained(name, row) for row in claims]
            yield replace(shown[0], lines=(*head, *shown[0].lines))
            yield from shown[1:]
        elif how is not None:
            yield Explained(name, path, "same" if how is Code.SAME else "constant", how, tuple(head))
        elif inside:
            side = " of the original" if new is None else " of the rewritten model" if old is None else ""
            what = "a stored number" if _is_stored(old or new) else "a value"
            first = f"{name}{where}: {what}{side} inside a part that was compared; what the part computes decides:"
            also = [
                f"  it is inside what makes {_names(row.outputs)} as well, which {_IS[_how(row)]}" for row in inside[1:]
            ]
            claim = self._explained(name, inside[0])
            yield replace(claim, graph=path, lines=(first, *other, *claim.lines, *also[:_FEW]))
        else:
            yield from self._by_whole(path, name, head)

    def _by_whole(self, path: str, name: str, head: Sequence[str]) -> Iterator[Explained]:
        """Explain a value that no part has: the whole models decide, if they were compared."""
        whole = next((row for row in self._claims if row.prover in _WHOLE), None)
        if whole is not None:
            claim = self._explained(name, whole)
            yield replace(claim, graph=path, lines=(*head, "  so the whole models decide:", *claim.lines))
            return
        verdict = self._verdict
        code = verdict.code
        lines = [*head, f"  it was not compared: {verdict.reason}", *self._next(code)]
        yield Explained(name, path, _WORDS[_status(verdict)], code, tuple(lines), ())

    def _by_itself(self, old: ir.Value | None, new: ir.Value | None) -> tuple[Code | None, str]:
        """Say why a value is right without a comparison, if it is; else what it is."""
        if self._verdict.decided_by == "structure":
            return Code.SAME, "the models differ in nothing but names, so it is the same in both"
        if old is None or new is None:
            side = "rewritten model" if old is None else "original"
            made = self._constants_of(old or new)
            text = f"a constant of the {side}, for {_names(made)}, which is the same constant in both models"
            return (Code.CONSTANT, text) if made else (None, f"only the {side} has it")
        if not self._models.has_parts:
            return None, "values inside were not compared"
        if (one := _stored(old)) is not None and (other := _stored(new)) is not None:
            text = "a constant in both models, and equal bit for bit"
            return (
                (Code.CONSTANT, text) if same(one, other) else (None, "a constant in both models, with other numbers")
            )
        if old.is_input and new.is_input:
            return Code.SAME, "an input of both models, which callers feed"
        return (Code.CONSTANT, MEANINGS[Code.CONSTANT].text) if are_one_constant(old, new) else _same_node(old, new)

    def _constants_of(self, value: ir.Value | None) -> list[str]:
        """Return the constants of both models for which a constant of one model is all that it is there for."""
        made: dict[str, None] = {}
        waiting, seen = [value], {value}
        while waiting:
            now = waiting.pop()
            if now is None or not _is_stored(now) or now.is_output or not now.consumers or not self._models.has_parts:
                return []
            for output in (output for node in now.consumers for output in node.outputs):
                old, new = (None, None) if output is None else self._pair(output.graph.path, output.name)
                if old is not None and new is not None and are_one_constant(old, new):
                    made[old.name] = None
                elif output not in seen:
                    seen.add(output)
                    waiting.append(output)
        return [*made]

    def _rests_on(self, value: ir.Value | None) -> list[str]:
        """Say whether all that an unchanged value is computed from is right."""
        if value is None or value.producer is None or self._verdict.decided_by == "structure":
            return []
        doubts, compared = [], 0
        waiting, seen = [value], {value}
        while waiting:
            now = waiting.pop()
            rows = (row for row in self._claims if row.prover == "part" and row.graph == now.graph.path)
            row = next((row for row in rows if now.name in row.outputs), None)
            reads = _read(now.producer) if now.producer is not None else []
            if row is not None:
                compared += 1
                doubts += [f"{now.name!r} {_IS[_how(row)]} [{row.code}]"] if row.status != "verified" else []
                reads = [visible(now.graph, name) for name in row.boundary]
            elif self._by_itself(self._pair(now.graph.path, now.name)[0], now)[0] is None:
                doubts.append(f"{now.name!r} was not compared by itself")
            for read in reads:
                if read is not None and read not in seen:
                    seen.add(read)
                    waiting.append(read)
        if doubts:
            more = f", and {len(doubts) - 1} more are like that" if len(doubts) > 1 else ""
            return [f"  it is right if what is in front of it is, but there {doubts[0]}{more}"]
        parts = f"; {compared} of these values had to be computed in both models" if compared else ""
        return [f"  all that is in front of it is right{parts}"]

    def _around(self, *values: ir.Value | None) -> list[Evidence]:
        """Return the claims whose part has a value inside, that with the smallest part first."""
        found = []
        for row in self._claims:
            parts = self._models.parts(row) or ()
            if any(value is not None and _has(part, value) for part, value in zip(parts, values, strict=False)):
                found.append((sum(len(part.nodes) for part in parts), row))
        return [row for _, row in sorted(found, key=itemgetter(0))]

    def _scale(self, path: str, name: str) -> list[str]:
        if (path, name) not in self._models.scaled:
            return []
        before = self._models.scaled[path, name]
        if isinstance(before, SelectedValue):
            kept, count = len(before.kept), before.constants.size
            return [
                f"  it has {kept} of the {count} channels of {before.name!r} of the original; the others are constant"
            ]
        low, high = before.factors.min(), before.factors.max()
        return [f"  it is {before.name!r} of the original, times factors from {low:.3g} to {high:.3g}"]

    def _explained(self, name: str, row: Evidence, more: Sequence[str] = ()) -> Explained:
        where = f" in {row.graph}" if row.graph else ""
        what = _names(row.outputs, quoted=False) if row.prover == "part" else {**_WHOLE, **_STATED}[row.prover]
        lines = [f"{what}{where}: {_how(row)} [{row.code}]: {self._meaning(row.code)}", *more]
        if row.prover == "part":
            lines.append(f"  where: {row.label}")
            lines.append(f"  from: {_names(row.boundary) if row.boundary else 'stored numbers alone'}")
            lines += _word_for(*(part.nodes for part in self._models.parts(row) or ()))
            lines += self._earlier(row)
        lines += [f"  on {line}" for line in _runs(row)]
        if row.faults and row.status != "failed":
            count = "none of them" if row.hidden == row.faults else f"{row.faults - row.hidden} of them"
            hidden = f"{count} would show in these results; one that would not is in {row.example}"
            shown = "each would show in these results, or in values inside"
            looked = f"{row.faults} possible fault{'s' * (row.faults != 1)} (a wrong weight, attribute, size, …)"
            lines.append(f"  tried as well: {looked}; {hidden if row.hidden else shown}")
        if row.note and row.note not in (run.note for run in row.experiments):
            lines.append(f"  found: {row.note}")
        lines += self._end_to_end(name) if row.prover != "part" else ()
        lines += self._next(row.code, row)
        return Explained(name, row.graph, _how(row), row.code, tuple(lines), (row,))

    def _earlier(self, row: Evidence) -> Iterator[str]:
        """Yield what was found of the same values before, computed from others."""
        for other in self._verdict.ledger:
            is_same = (other.prover, other.graph, other.outputs) == (row.prover, row.graph, row.outputs)
            if is_same and other.boundary != row.boundary:
                found = f"{_how(other)} [{other.code}] {other.note}".rstrip()
                yield f"  before that, from {_names(other.boundary)}: {found}"

    def _end_to_end(self, name: str) -> Iterator[str]:
        for row in self._verdict.outputs:
            if row.name == name:
                found = f"differs by {row.relative:.1e} of its largest value; {row.allowed:.1e} is allowed"
                yield f"  end to end: {name} {found}"

    def _next(self, code: Code, row: Evidence | None = None) -> list[str]:
        """Say what would close a claim, or with no ``row`` the verdict; nothing of a verdict that is verified."""
        text = "" if self._verdict.verified else self._remedies.of(code, row)
        return [f"{_NEXT}{text}"] if text else []

    def _meaning(self, code: Code) -> str:
        """Return what a code says; with a tolerance, what is allowed does not follow from rounding."""
        within = {Code.DIFFERS: "a result differs by more than the tolerance", Code.TESTED: "the results are within it"}
        return within.get(code, MEANINGS[code].text) if self._verdict.tolerance is not None else MEANINGS[code].text


def _word_for(*groups: Iterable[ir.Node]) -> list[str]:
    """Say which operators of these nodes, or of their bodies, were computed on a caller's word."""
    nodes = chain.from_iterable(groups)
    bodies = {node: [graph for body in node.bodies for graph in body.subgraphs()] for node in nodes}
    word = callers_word(chain(bodies, *(graph.nodes for graphs in bodies.values() for graph in graphs)))
    return [f"  {word}"] if word else []


def _has(part: Subgraph, value: ir.Value) -> bool:
    return value in part.stored or any(value in node.outputs for node in part.nodes)


def _read(node: ir.Node) -> list[ir.Value | None]:
    """Return what a node reads, and what its branches, or its function, return."""
    inside = [*node.bodies, *([node.called] if node.called is not None else [])]
    return [*read_by(node), *(value for graph in inside for value in graph.outputs)]


def _same_node(old: ir.Value, new: ir.Value) -> tuple[Code | None, str]:
    """Say whether the same operator computes two values from the same others."""
    if old.producer is None or new.producer is None or not unchanged(old.producer, new.producer):
        return None, "what computes it differs between the models"
    reads = [value.name for value in new.producer.inputs if value is not None and constant_of(value) is None]
    read = f"from {_names(reads)}" if reads else "from nothing else"
    return Code.SAME, f"the same operator computes it in both models, {_node(new.producer)}, {read}"


def _status(verdict: Verdict) -> str:
    return "skipped" if verdict.status == "unverified" else verdict.status


def _counted(counts: Mapping[How, int]) -> str:
    return ", ".join(
        f"{count} parts {_ARE[how]}" if count > 1 else f"1 part {_IS[how]}" for how, count in counts.items()
    )


def _how(row: Evidence) -> How:
    return "constant" if row.code is Code.CONSTANT and row.status == "verified" else _WORDS[row.status]


def _runs(row: Evidence) -> Iterator[str]:
    """Yield a line for all experiments of the same sizes that found the same, in order."""
    groups: dict[tuple[object, ...], list[Experiment]] = {}
    for run in row.experiments:
        groups.setdefault((tuple(run.shapes.items()), run.found, run.note), []).append(run)
    for alike in [*groups.values()][:_MOST_RUNS]:
        first, worst = alike[0], max(alike, key=lambda run: run.relative)
        kinds = _numbers([run.numbers for run in alike])
        shapes = ", ".join(f"{name} {written(shape)}" for name, shape in [*first.shapes.items()][:_FEW])
        yield f"{kinds}{f', {shapes}' if shapes else ''}: {_found(worst, has_numbers=row.prover != 'part')}"
    if len(groups) > _MOST_RUNS:
        left = [run for alike in [*groups.values()][_MOST_RUNS:] for run in alike]
        agreed = sum(run.found is Code.TESTED for run in left)
        yield f"other sizes: {len(left)} more comparisons, of which {agreed} agree"


def _numbers(kinds: Sequence[NumberKind]) -> str:
    """Return the kinds of numbers in words: ordinary, large and tiny numbers."""
    others = [*dict.fromkeys(_TAKEN[kind] for kind in kinds if kind in _TAKEN)]
    drawn = [*dict.fromkeys(_DRAWN[kind] for kind in kinds if kind in _DRAWN)]
    return enumerated([*([f"{enumerated(drawn)} numbers"] if drawn else []), *others])


def _found(run: Experiment, *, has_numbers: bool) -> str:
    """Say what an experiment found; ``has_numbers`` says that its note has how far results differ."""
    how_far = f"{run.relative:.1e} of the largest value; {run.allowed:.1e} is allowed"
    if run.found is Code.TESTED:
        return f"agree to {how_far}" if run.relative else "are equal"
    if run.found in FAILED:
        return f"{run.note or MEANINGS[run.found].text}{f' ({how_far})' if run.relative and not has_numbers else ''}"
    return f"no result that counts: {run.note}"


def _names(names: Collection[str], *, quoted: bool = True) -> str:
    listed = [repr(name) if quoted else name for name in [*names][:_FEW]]
    more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
    return f"{', '.join(listed)}{more}"


def _node(node: ir.Node) -> str:
    return f"{node.op_type} {node.name!r}" if node.name else node.op_type


def _is_stored(value: ir.Value | None) -> bool:
    return value is not None and constant_of(value) is not None


def _stored(value: ir.Value) -> ir.Tensor | None:
    return None if value.is_input and value.tensor is None else constant_of(value)
