"""What the templates ask of one report: its rows, its status, its sentence, its counts."""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from bnfold.errors import printable
from bnfold.report.advice import Advice
from bnfold.report.events import map_texts, state

STATES = ("left", "folded", "replaced", "removed", "decomposed", "converted")

ReportDocument = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PageRow:
    """A BatchNormalization as the page shows it.

    ``anchor`` is unique on the page; ``body`` is what stands inside, where that is not written where the row stands.
    """

    anchor: str
    event: Mapping[str, Any]
    advice: Advice | None
    drawn: bool
    body: str | None = None

    @property
    def state(self) -> str:
        """What the filter calls it."""
        return state(self.event)

    @property
    def words(self) -> str:
        """What the search looks in."""
        reason = self.event["reason"] or {}
        parts = [self.event["name"], self.event["graph"], *self.event["into"], *self.event.get("operators", ())]
        return " ".join([*parts, reason.get("code", ""), reason.get("text", ""), reason.get("detail", "")]).lower()


@dataclass(frozen=True, slots=True)
class ModelPage:
    """One report on the page; ``document`` holds a ``message`` and no events where there is no report."""

    anchor: str
    document: ReportDocument
    rows: tuple[PageRow, ...]
    left_out: int

    @property
    def status(self) -> str:
        """In a word: what verification or the folder's run says of the model."""
        verdict = self.document.get("verify")
        return str(self.document.get("status") or (verdict["status"] if verdict else "not verified"))

    @property
    def trouble(self) -> str:
        """Why there is no report, or no proof: the error, or the verdict's reason; empty if all is well."""
        verdict = self.document.get("verify")
        doubt = verdict["reason"] if verdict and verdict["status"] in ("failed", "unverified") else ""
        return str(self.document.get("message") or doubt)

    @property
    def became(self) -> str:
        """The BatchNormalizations before and after."""
        before, after = self.counts
        return f"BatchNormalization {short(before)} → {short(after)}"

    @property
    def sentence(self) -> str:
        """The work done, in one line."""
        opset, states = self.document["opset"], self.states
        nodes = [sum(self.document["operators"][when].values()) for when in ("before", "after")]
        found = len(self.strip)
        became = ", ".join(f"{count} {name}" for name, count in states.items()) or "nothing to fold"
        converted = f"opset {opset['before']} → {opset['after']}" if len({*opset.values()}) > 1 else ""
        named = f"{found} BatchNormalization{'' if found == 1 else 's'}: {became}"
        return "; ".join(filter(None, (named, converted, f"{nodes[0]} → {nodes[1]} nodes")))

    @property
    def counts(self) -> tuple[int | None, int | None]:
        """BatchNormalizations before and after; None where they are not known."""
        known = self.document.get("counts")
        if known is not None:
            return known["before"], known["after"]
        if "operators" not in self.document:
            return None, None
        before, after = (self.document["operators"][when].get("BatchNormalization", 0) for when in ("before", "after"))
        return before, after

    @property
    def strip(self) -> list[str]:
        """The state of each BatchNormalization, in the order of the graph."""
        return [state(event) for event in self.document.get("batchnorms", ())]

    @property
    def packed(self) -> str:
        """The bodies of all rows, as base64 of deflated JSON; empty where each stands in its row."""
        bodies = [row.body for row in self.rows if row.body is not None]
        return packed(bodies) if bodies else ""

    @property
    def title(self) -> str:
        source = self.document.get("input")
        return str(source["path"]) if source else "model"

    @property
    def name(self) -> str:
        """The title without its folder."""
        return PurePath(self.title).name

    @property
    def channels(self) -> list[dict[str, Any]]:
        """The layers that lost channels, and how many they have left."""
        return [*self.document.get("channels", ())]

    @property
    def rewrites(self) -> list[dict[str, Any]]:
        """The rewrites with how often they were made, the most frequent first, and how equal their results are."""
        return [*self.document.get("rewrites", ())]

    @property
    def states(self) -> dict[str, int]:
        counts = Counter(map(state, self.document.get("batchnorms", ())))
        return {name: counts[name] for name in STATES if counts[name]}

    @property
    def reasons(self) -> list[tuple[str, int]]:
        """Reason codes with how often they stand, the most frequent first."""
        known = self.document.get("counts")
        rows = (event["reason"] for event in self.document.get("batchnorms", ()))
        codes = known["reasons"] if known else Counter(reason["code"] for reason in rows if reason)
        return Counter(codes).most_common()


def as_model(document: ReportDocument) -> ModelPage:
    """Return one report with what can be said of it, without its rows."""
    return ModelPage("m0", map_texts(document, printable), (), 0)


def packed(bodies: Sequence[str]) -> str:
    """Return what stands inside rows, as base64 of deflated JSON."""
    return b64encode(zlib.compress(json.dumps(bodies).encode())).decode()


def short(value: Any) -> str:
    """Return a number with the digits that matter; ``-`` where there is none."""
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
