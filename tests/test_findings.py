"""Every finding of the past that no other test has is replayed, and a little of every mode of scripts/fuzz is run."""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzz.campaign import Campaign, Totals

from tests.conftest import ROOT

FINDINGS = ROOT / "tests" / "findings"
FEW = {
    "bytes": 120,
    "graphs": 20,
    "upgrade": 40,
    "convert": 40,
    "fold": 25,
    "affines": 25,
    "optimize": 25,
    "decompose": 40,
    "sizes": 40,
    "verify": 12,
    "faults": 12,
}


@pytest.mark.no_cover  # takes twice as long measured, and reaches no branch that other tests do not reach
@pytest.mark.parametrize(
    "mode", [pytest.param(mode, marks=[pytest.mark.large] * (mode in ("verify", "faults"))) for mode in FEW]
)
def test_past_findings_and_a_few_more(mode: str, tmp_path: Path) -> None:
    """One process for all of a mode: to start one takes longer than most of them."""
    with Campaign(mode, corpus=tmp_path / "corpus", keep=tmp_path / "found") as campaign:
        found = {place.name: campaign.replay(place) for place in sorted((FINDINGS / mode).glob("*/"))}
        assert {name: error for name, error in found.items() if error} == {}
        campaign.totals = Totals()
        campaign.run(seconds=float("inf"), count=FEW[mode], seed=0)
    totals = campaign.totals
    assert totals.findings == {}
    assert totals.executions == FEW[mode]
    assert totals.refused < FEW[mode], "what refuses everything shows nothing"
    assert totals.compared or mode == "bytes"
    assert len(list((tmp_path / "corpus").iterdir())) == len(totals.behaviours - {""})


def test_every_past_finding_is_of_a_mode() -> None:
    kept = {place.parent.name for place in FINDINGS.glob("*/*/")}
    assert kept
    assert kept <= set(FEW)
