"""What was done, to which node, and why not: typed events, and their JSON form.

The names in the JSON form are stable; others build on them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Literal, NamedTuple

from bnfold.errors import brief, printable
from bnfold.ir.cut import Cut, ScaledValue, SelectedValue
from bnfold.report.growth import Growth
from bnfold.report.other_events import ChannelEvent, EqualizeEvent, RewriteCount, SimplifyEvent, counted
from bnfold.report.reasons import Declined, Reason, SearchTrace, obstacles, reason_to_json, sentence
from bnfold.report.rewrites import CHANNELS, CONSTANT_STORED, Rewrite, conversion
from bnfold.report.totals import Totals, changed, size
from bnfold.semantics import Repair

FoldResult = Literal["folded", "exchanged", "decomposed", "upgraded", "kept", "removed"]
SCHEMA = "bnfold-report/1"
AFFINES = "affines (Mul, Add, …)"
"""BatchNormalizations that are written as arithmetic: the event's mode is ``spelled-out``."""

IN_WORDS = {
    "exchanged": "replaced",
    "upgraded": "converted",
    "spelled-out": "affine",
    "respelled": "converted",
    "spelled_out": "decomposed",
    "witness": "runtime",
}
"""Names that the JSON form keeps, and the words that people read in their place."""


@dataclass(slots=True, eq=False)
class BatchNormEvent:
    """What became of one BatchNormalization.

    One that is written as arithmetic has the mode ``spelled-out`` and version 0; its name and value are the last
    node's. ``detail`` names the nodes in the way, ``brief`` is why it is left, with operators instead of names.
    """

    name: str
    graph: str
    version: int
    mode: str
    verdict: FoldResult = "kept"
    into: tuple[str, ...] = ()
    reason: Reason | None = None
    detail: str = ""
    brief: str = ""
    direction: str = ""
    value: str = ""
    operators: tuple[str, ...] = ()
    attempts: tuple[SearchTrace, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """Which BatchNormalization: its graph and the value it makes, which no rewrite renames."""
        return self.graph, self.value

    @property
    def is_affine(self) -> bool:
        """Whether it is written as Mul and Add, so that no node of the operator BatchNormalization is meant."""
        return self.mode == "spelled-out"

    @property
    def word(self) -> str:
        """What became of it, as people read it."""
        return "left" if self.reason is not None or self.verdict == "kept" else in_words(self.verdict)

    @property
    def is_left(self) -> bool:
        """Whether it is still there."""
        return self.verdict in ("kept", "upgraded")

    def __str__(self) -> str:
        """One line, for logs: the BatchNormalization, what became of it, and where it went or why not."""
        why = f"{self.reason.code}: {self.why}" if self.reason is not None else ", ".join(self.into)
        return printable(f"BatchNormalization {self.name} {self.word}{f': {why}' if why else ''}")

    @property
    def why(self) -> str:
        """Why it is left, as a sentence that names the nodes in the way."""
        return sentence(self.reason.value, self.detail) if self.reason is not None else ""

    def decline(self, refusal: Declined) -> None:
        """Note why it is left."""
        self.reason, self.detail = refusal.reason, obstacles(refusal) or refusal.detail
        self.brief = obstacles(refusal, named=False) or refusal.reason.value
        self.attempts = refusal.attempts

    def fold(
        self,
        direction: str,
        into: tuple[str, ...],
        operators: tuple[str, ...],
        passed: tuple[str, ...],
        *,
        exchanged: bool = False,
    ) -> None:
        """Note that it is folded into the nodes labelled ``into``, or just taken out where there are none.

        What leaves an Add in its place is ``exchanged``.
        """
        self.verdict = "exchanged" if exchanged else "folded" if into else "removed"
        self.direction, self.into, self.operators = direction, into, operators
        self.reason, self.detail = None, ""
        self.attempts = (SearchTrace(direction, passed),)

    def absorb(self, into: tuple[str, ...], operators: tuple[str, ...]) -> None:
        """Note that the Add in its place went into the nodes labelled ``into``."""
        self.into = tuple(dict.fromkeys((*self.into, *into)))
        self.operators = tuple(dict.fromkeys((*self.operators, *operators)))
        self.verdict = "folded" if self.into else "removed"

    def to_json(self) -> dict[str, Any]:
        """Return the row of the report's ``batchnorms``."""
        return {
            "name": self.name,
            "graph": self.graph,
            "version": self.version,
            "mode": self.mode,
            "verdict": self.verdict,
            "into": list(self.into),
            "reason": reason_to_json(self.reason, self.detail),
            "value": self.value,
            "direction": self.direction,
            "operators": list(self.operators),
            "search": [_attempt_to_json(attempt) for attempt in self.attempts],
        }


_NAMED = 3
"""Layers that a line names."""


def _change(before: int, after: int) -> str:
    return f"{before} → {after}" if before != after else f"{before} (unchanged)"


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return a report's JSON form with every text in it, keys included, as ``change`` makes it."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {map_texts(key, change): map_texts(item, change) for key, item in value.items()}
    return [map_texts(item, change) for item in value] if isinstance(value, list | tuple) else value


def dumps(document: Any, *, indent: int | None = None) -> str:
    """Return JSON that every program can parse.

    Bytes of a file's name that are no UTF-8 are half a surrogate pair in Python, which strict parsers refuse.
    """
    valid = map_texts(document, lambda text: text.encode("utf-8", "backslashreplace").decode("utf-8"))
    return json.dumps(valid, indent=indent, allow_nan=False)


def state(row: Mapping[str, Any]) -> str:
    """Return what became of a BatchNormalization, from its row.

    What has a reason is left, whatever became of its opset.
    """
    return "left" if row["reason"] or row["verdict"] == "kept" else in_words(row["verdict"])


def in_words(name: str) -> str:
    """Return the word for people in place of a name of the JSON form."""
    return IN_WORDS.get(name, name)


def _attempt_to_json(attempt: SearchTrace) -> dict[str, Any]:
    return {
        "direction": attempt.direction,
        "passed": list(attempt.passed),
        "stopped_at": attempt.stopped_at,
        "reason": reason_to_json(attempt.reason, attempt.detail),
    }


class NormalizationRow(NamedTuple):
    """How many there were and are, and where those that are gone went."""

    name: str
    before: int
    after: int
    where: str

    @property
    def sentence(self) -> str:
        """The row as a line."""
        if not self.before and not self.after:
            return f"no {self.name} in the model"
        return f"{self.name} {self.before} → {self.after}{f': {self.where}' if self.where else ''}"


def _destinations(events: Sequence[BatchNormEvent]) -> str:
    """Return where those that are gone went: the operators that they were folded into, how many went otherwise."""
    homes = Counter(operator for event in events if event.verdict == "folded" for operator in event.operators)
    parts = ["folded into " + ", ".join(f"{count} {name}" for name, count in homes.most_common())] if homes else []
    fates: dict[FoldResult, str] = {"exchanged": " by an Add", "decomposed": "", "removed": ""}
    counts = Counter(event.verdict for event in events)
    return ", ".join(
        [*parts, *(f"{counts[fate]} {in_words(fate)}{what}" for fate, what in fates.items() if counts[fate])]
    )


@dataclass(slots=True, eq=False)
class Report:
    """Everything that happened in one run, in the order in which it did.

    Attributes:
        batchnorms: One event for each BatchNormalization: name, graph, version, mode, what became of it, and why not.
        repairs: Decisions about what the file left open, or said wrongly.
        notes: Anything else that a user should know.
        equalized: What became of the channels behind each layer, where equalising was asked for.
        channels: Layers that lost channels which compute nothing.
        simplified: What simplifying did to which node.
        folding: What else was rewritten, each time: folds, merges, decompositions.
        wrong_rewrites: Simplifications that were left out because the result differed, which is a bug of bnfold.
        lifted: Constant nodes that became initializers.
        conversion: What the conversion of the opset made of each operator's nodes; empty without one.
        lowest: The lowest opset that the model can be converted to, and what is in the way below; None if not asked.
        opset_before: Version of the default domain in the file.
        opset_after: The same in the result.
        ir_before: IR version of the file.
        ir_after: IR version of the result.
        has_opset: Whether the model as a whole has an opset; of an OpenVINO IR each layer has its own.
        before: Nodes by operator, bytes of weights, inputs and outputs of the model as it came.
        after: The same of the result.
        frozen: Initializers that callers could override, and no longer can.
        fixed: The shape that an input had and has, by the name of the input, where it was asked for.
        runtime: Whether a runtime loads the model as it came, where that was asked for.
        latency: What runs of both models took, where that was asked for, as `Latency.to_json` has it.
        growth: Bytes that folding and simplifying added to the weights.
        size_before: Bytes of the files that the model came in; None for one in memory.
        names_before: Every name of a value in the model as it came.
        redefined: Those that mean something else by now.
        removed_names: Values that are gone.
        renamed: Values that have a new name, by the old one.
        made_by: The name of the rewrite, by the label of its boundary.
        scaled: By the graph and the name of a value that is another one by factors, or that has some of its channels:
            its old name, and the factors or the selection.
    """

    batchnorms: list[BatchNormEvent] = field(default_factory=list)
    repairs: list[Repair] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    equalized: list[EqualizeEvent] = field(default_factory=list)
    channels: list[ChannelEvent] = field(default_factory=list)
    simplified: list[SimplifyEvent] = field(default_factory=list)
    folding: list[Rewrite] = field(default_factory=list)
    wrong_rewrites: list[Rewrite] = field(default_factory=list)
    lifted: int = 0
    conversion: list[dict[str, Any]] = field(default_factory=list)
    lowest: dict[str, Any] | None = None
    opset_before: int = 0
    opset_after: int = 0
    ir_before: int = 0
    ir_after: int = 0
    has_opset: bool = True
    before: Totals = field(default_factory=Totals)
    after: Totals = field(default_factory=Totals)
    frozen: list[str] = field(default_factory=list)
    fixed: dict[str, tuple[str, str]] = field(default_factory=dict)
    runtime: Mapping[str, Any] | None = None
    latency: Mapping[str, Any] | None = None
    growth: Growth = field(default_factory=Growth)
    size_before: int | None = None
    names_before: Collection[str] = ()
    redefined: set[str] = field(default_factory=set)
    removed_names: list[str] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)
    scaled: dict[tuple[str, str], ScaledValue | SelectedValue] = field(default_factory=dict)
    made_by: dict[str, str] = field(default_factory=dict)
    _cuts: dict[str, tuple[Cut, ...]] = field(default_factory=dict)
    _all_cuts: dict[Cut, None] = field(default_factory=dict)

    def lose_channels(self, event: ChannelEvent) -> None:
        """Note that a layer lost channels, perhaps once more."""
        self.folding.append(CHANNELS)
        for place, earlier in enumerate(self.channels):
            if (earlier.name, earlier.graph) == (event.name, event.graph):
                self.channels[place] = event._replace(before=earlier.before)
                return
        self.channels.append(event)

    def means_the_same(self, *names: str) -> bool:
        """Whether values of these names are in the file, and mean the same there."""
        return all(name in self.names_before and name not in self.redefined for name in names)

    def add_cuts(self, cuts: Iterable[Cut]) -> None:
        """Note the boundaries of rewrites."""
        for cut in cuts:
            self._all_cuts[cut] = None
            for name in (*cut.inputs, *cut.outputs):
                self._cuts[name] = (*self._cuts.get(name, ()), cut)

    def retire(self, names: Sequence[str], wider: Cut, rewrite: Rewrite) -> None:
        """Retire the values ``names``, which are gone or changed.

        Rewrites whose boundary they were are now inside ``wider``, that of ``rewrite``.
        """
        self.made_by[wider.label] = rewrite.name
        for name in names:
            for cut in self._cuts.pop(name, ()):
                self._all_cuts.pop(cut, None)
        self.add_cuts([wider])

    def drop_cuts(self, changed: Collection[tuple[str, str]]) -> None:
        """Drop the boundaries at values of ``changed``, by graph and name, around which something else changed."""
        for cut in [*self._all_cuts] if changed else ():
            if any((cut.graph, name) in changed for name in (*cut.inputs, *cut.outputs)):
                del self._all_cuts[cut]

    @property
    def cuts(self) -> tuple[Cut, ...]:
        """The boundaries that are valid in the model before and in the one after."""
        return tuple(self._all_cuts)

    def count(self, verdict: FoldResult) -> int:
        return sum(event.verdict == verdict for event in self.batchnorms)

    def __repr__(self) -> str:
        return f"<Report {brief(f'{self.versions}; {self.became}')}>"

    def _repr_html_(self) -> str:
        """Return the report for notebooks: the model before and after, and what became of each BatchNormalization."""
        from bnfold.report.notebook import table

        before, after = self.before, self.after
        counts = [
            *([("opset", self.opset_before, self.opset_after)] if self.has_opset else []),
            *(("IR version", self.ir_before, self.ir_after), ("nodes", before.nodes, after.nodes)),
            *((name, *pair) for name, pair in changed(before, after).items()),
            ("weights", size(before.weights), size(after.weights)),
        ]
        events = sorted(self.batchnorms, key=lambda event: not event.is_left)  # what needs attention comes first
        became = ((event.name, event.word, event.why or ", ".join(event.into)) for event in events)
        head = ("BatchNormalization", "becomes", "where, or why not")
        return table(("what", "before", "after"), counts) + table(head, became)

    @property
    def versions(self) -> str:
        """Opset and IR version before and after, as a line."""
        opset = f"opset {_change(self.opset_before, self.opset_after)}, " if self.has_opset else ""
        return f"{opset}IR version {_change(self.ir_before, self.ir_after)}"

    @property
    def became(self) -> str:
        """What became of the BatchNormalizations, as a line."""
        return "; ".join(row.sentence for row in self.normalizations)

    @property
    def left(self) -> int:
        """How many nodes of BatchNormalization are still there."""
        return sum(event.is_left for event in self.batchnorms if not event.is_affine)

    @property
    def normalizations(self) -> list[NormalizationRow]:
        """A row for the operator BatchNormalization, and one for affines, if there are any."""
        events = [event for event in self.batchnorms if not event.is_affine]
        affines = [event for event in self.batchnorms if event.is_affine]
        counts = self.before.batchnorms, self.after.batchnorms
        rows = [NormalizationRow("BatchNormalization", *counts, _destinations(events))]
        if affines:
            left = sum(event.is_left for event in affines)
            rows.append(NormalizationRow(AFFINES, len(affines), left, _destinations(affines)))
        return rows

    @property
    def _simplifying(self) -> Iterator[Rewrite]:
        yield from (event.rewrite for event in self.simplified)
        yield from repeat(CONSTANT_STORED, self.lifted)

    @property
    def rewrites(self) -> list[RewriteCount]:
        """Every rewrite that was made, and how often; each says how equal its result is."""
        converted = (
            (conversion(row["operator"], decomposed=is_new), row["spelled_out" if is_new else "respelled"])
            for row in self.conversion
            for is_new in (False, True)
        )
        others = (rewrite for rewrite, count in converted for _ in range(count))
        return counted([*others, *self.folding, *self._simplifying])

    def simplifications(self, most: int | None = None) -> str:
        """Say how often each simplification was made, the most frequent first."""
        rows = counted(self._simplifying)
        shown = [f"{row.rewrite.title} ×{row.count}" for row in rows[:most]]  # noqa: RUF001
        more = len(rows) - len(shown)
        return ", ".join([*shown, *([f"{more} more kind{'s' if more > 1 else ''}"] if more else [])])

    @property
    def nodes(self) -> str:
        """Nodes before and after and the simplifications, as a line; empty if nothing was simplified."""
        made = self.simplifications()
        return f"nodes {_change(self.before.nodes, self.after.nodes)}: {made}" if made else ""

    @property
    def narrowed(self) -> str:
        """How many channels layers lost that compute nothing, and what that saves, as a line; empty if none did."""
        if not self.channels:
            return ""
        before, after = sum(row.before for row in self.channels), sum(row.after for row in self.channels)
        named = ", ".join(f"{row.name} {row.change}" for row in self.channels[:_NAMED])
        more = f", {len(self.channels) - _NAMED} more layers" if len(self.channels) > _NAMED else ""
        saved = f"weights {size(self.before.weights)} → {size(self.after.weights)}"
        return printable(f"channels {_change(before, after)}: {named}{more}; {saved}")

    @property
    def grown(self) -> str:
        """Say that the weights grew, and why; empty if they did not."""
        return self.growth.sentence(self.before.weights, self.after.weights, self.simplified)

    @property
    def loading(self) -> str:
        """Whether a runtime loads the model as it came; empty if none was asked."""
        if self.runtime is None:
            return ""
        name, loads, reason = (self.runtime[key] for key in ("name", "loads", "reason"))
        if loads:
            return f"{name} loads the model"
        return f"{name} {'could not look at' if loads is None else 'does not load'} the model: {reason}"

    @property
    def unloadable(self) -> str:
        """The same if it does not load, or the runtime could not look; else empty."""
        return "" if self.runtime is None or self.runtime["loads"] else self.loading

    def to_json(self) -> dict[str, Any]:
        """Return the report without what only the caller knows (files, hashes, verification)."""
        return {
            "schema": SCHEMA,
            "opset": {"before": self.opset_before, "after": self.opset_after},
            "ir_version": {"before": self.ir_before, "after": self.ir_after},
            "batchnorms": [event.to_json() for event in self.batchnorms],
            "repairs": [repair.to_json() for repair in self.repairs],
            "notes": list(self.notes),
            "equalized": [event.to_json() for event in self.equalized],
            "channels": [event.to_json() for event in self.channels],
            "simplified": [event.to_json() for event in self.simplified],
            "rewrites": [row.to_json() for row in self.rewrites],
            "wrong_rewrites": [{"name": each.name, "title": each.title} for each in self.wrong_rewrites],
            "lifted": self.lifted,
            "conversion": [dict(row) for row in self.conversion],
            "lowest": self.lowest,
            "frozen": list(self.frozen),
            "fixed": {name: {"before": old, "after": new} for name, (old, new) in self.fixed.items()},
            "operators": {"before": dict(self.before.operators), "after": dict(self.after.operators)},
            "weights": {"before": self.before.weights, "after": self.after.weights},
            "growth": {**self.growth.to_json(), "note": self.grown},
            "names": {"removed": sorted(self.removed_names), "renamed": dict(sorted(self.renamed.items()))},
        }
