"""Real models: none of their normalisations is left after decomposing, and every changed part is verified."""

from __future__ import annotations

from pathlib import Path

import pytest

from bnfold import ir
from bnfold.converting import convert as upgrade
from bnfold.decomposing import decompose, left
from bnfold.errors import BnfoldError, MalformedModel
from bnfold.report.events import Report
from bnfold.report.reasons import Reason
from bnfold.semantics import Policy
from bnfold.verification import verify
from tests.corpus import models
from tests.decomposing.cases import OPERATORS

# Files that no runtime loads either: sizes that contradict each other, types that the operator does not take.
BROKEN = {Reason.UNREADABLE, Reason.TYPE, Reason.TYPE_UNKNOWN}


def upgraded(path: Path) -> ir.Model | None:
    model = ir.load(path)
    try:
        upgrade(model)
    except BnfoldError:
        return None
    return model


@pytest.mark.large
def test_nothing_is_left(corpus: Path) -> None:
    remaining: dict[str, list[str]] = {}
    done = 0
    for path in models(corpus, everything=True):
        model = upgraded(path)
        if model is None:
            continue
        decompose(model, {}, Report(), policy=Policy(), operators=OPERATORS)
        done += 1
        reasons = [why for _, _, why in left(model, OPERATORS)]
        if reasons:
            remaining[path.name] = reasons
    assert done > 100
    broken = tuple(reason.value for reason in BROKEN)
    assert [whys for whys in remaining.values() if not all(why.startswith(broken) for why in whys)] == []
    assert len(remaining) <= 4, remaining


@pytest.mark.large
def test_every_changed_part_is_verified(corpus: Path) -> None:
    failed: dict[str, str] = {}
    verified = 0
    for path in models(corpus, everything=True):
        before, after = upgraded(path), upgraded(path)
        if before is None or after is None:
            continue
        report = Report()
        decompose(after, {}, report, policy=Policy(), operators=OPERATORS)
        after.remove_dead_nodes()
        if not report.cuts:
            continue
        try:
            verdict = verify(before, after, cuts=report.cuts, depth="local", runtime="none")
        except MalformedModel:
            continue  # the file's own weights are not there
        verified += verdict.status == "verified"
        if verdict.status == "failed":
            failed[path.name] = verdict.reason
    assert failed == {}
    assert verified > 100
