"""Wrong rewrites, every one of which has to be found: comparing whole models, and comparing the changed part alone.

A default run tries a part of them, each of the tests another one; scripts/test_large tries all.
"""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from bnfold import ir
from bnfold.verification import verify
from tests.conftest import sample
from tests.verification.faults import Rewrite, rewrites, table

REWRITES = rewrites()
FAULTS = [
    pytest.param(rewrite, wrong, id=f"{rewrite.name}: {fault}")
    for rewrite in REWRITES
    for fault, wrong in rewrite.wrong.items()
]
RIGHT = [pytest.param(rewrite, id=rewrite.name) for rewrite in REWRITES]


def test_there_are_enough_of_them() -> None:
    assert len(FAULTS) >= 40


def test_the_list_of_them_is_up_to_date() -> None:
    assert (Path(__file__).parent / "faults" / "README.md").read_text(encoding="utf-8") == table()


@pytest.mark.parametrize("rewrite", sample(RIGHT, every=3))
def test_a_right_rewrite_passes_unannounced(rewrite: Rewrite) -> None:
    verdict = verify(ir.load(rewrite.before), ir.load(rewrite.after), depth="local", runtime="none")
    assert (verdict.status, verdict.decided_by) == ("verified", "local"), verdict.reason


@pytest.mark.parametrize("rewrite", sample(RIGHT, every=3, first=1))
def test_a_right_rewrite_passes_whole(rewrite: Rewrite) -> None:
    verdict = verify(ir.load(rewrite.before), ir.load(rewrite.after), depth="full", runtime="none")
    assert (verdict.status, verdict.decided_by) == ("verified", "float64"), verdict.reason


@pytest.mark.parametrize("rewrite", sample(RIGHT, every=3, first=2))
def test_a_right_rewrite_passes_on_its_own(rewrite: Rewrite) -> None:
    verdict = verify(ir.load(rewrite.before), ir.load(rewrite.after), cuts=rewrite.cuts, depth="local", runtime="none")
    assert (verdict.status, verdict.decided_by) == ("verified", "local"), verdict.reason


@pytest.mark.no_cover  # takes twice as long measured, and reaches no branch that other tests do not reach
@pytest.mark.parametrize(("rewrite", "wrong"), sample(FAULTS, every=5))
def test_a_fault_is_caught_whole(rewrite: Rewrite, wrong: onnx.ModelProto) -> None:
    verdict = verify(ir.load(rewrite.before), ir.load(wrong), depth="full", runtime="none")
    assert verdict.status in (("failed",) if rewrite.shows_whole else ("failed", "unverified")), verdict.reason


@pytest.mark.no_cover  # takes twice as long measured, and reaches no branch that other tests do not reach
@pytest.mark.parametrize(("rewrite", "wrong"), sample(FAULTS, every=5, first=2))
def test_a_fault_is_caught_on_its_own(rewrite: Rewrite, wrong: onnx.ModelProto) -> None:
    verdict = verify(ir.load(rewrite.before), ir.load(wrong), cuts=rewrite.cuts, depth="local", runtime="none")
    assert verdict.status == "failed", verdict.reason
    assert verdict.localised is not None
    assert verdict.localised.rewrite == rewrite.name


@pytest.mark.no_cover  # takes twice as long measured, and reaches no branch that other tests do not reach
@pytest.mark.parametrize(("rewrite", "wrong"), sample(FAULTS, every=5, first=4))
def test_a_fault_is_caught_where_no_rewrite_admits_to_it(rewrite: Rewrite, wrong: onnx.ModelProto) -> None:
    verdict = verify(ir.load(rewrite.before), ir.load(wrong), depth="local", runtime="none")
    assert verdict.status == "failed", verdict.reason
