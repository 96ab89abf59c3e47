"""A model that grows says so: by how much, what stores the bytes, and which option leaves that out."""

from __future__ import annotations

import pytest

from bnfold.report.events import Report
from bnfold.report.growth import Growth
from bnfold.report.other_events import SimplifyEvent
from bnfold.report.rewrites import RESULT_STORED
from bnfold.report.totals import Totals


def stored(operator: str, growth: int, saved: int = 1) -> SimplifyEvent:
    return SimplifyEvent(RESULT_STORED, "n", "", operator, "x", growth, saved)


def grown(before: int, after: int, growth: Growth | None = None, *events: SimplifyEvent) -> str:
    report = Report(before=Totals({}, before), after=Totals({}, after), simplified=[*events])
    report.growth = growth or Growth()
    return report.grown


@pytest.mark.parametrize(("before", "after"), [(0, 0), (0, 1000), (5000, 4000), (200_000, 201_500), (1000, 2000)])
def test_next_to_nothing_is_not_told(before: int, after: int) -> None:
    assert grown(before, after, Growth(simplifying=after - before), stored("Tile", 500)) == ""


def test_results_are_named_with_their_bytes_and_nodes() -> None:
    events = stored("ConstantOfShape", 8000, 2), stored("ConstantOfShape", 4000), stored("Tile", -900)
    assert grown(43_000, 55_000, Growth(simplifying=12_000), *events) == (
        "the weights grew by 28 %, from 43.0 kB to 55.0 kB: results of ConstantOfShape are stored "
        "(12.0 kB for 3 nodes); --max-growth 0 leaves this out"
    )


def test_most_operators_are_counted_only() -> None:
    events = [stored(name, 1000 + at) for at, name in enumerate(("Tile", "Cos", "Sin", "Mul", "Neg"))]
    text = grown(50_000, 55_000, Growth(simplifying=5000), *events)
    assert "results of Neg, Mul, Sin and 2 more operators are stored (5.0 kB for 5 nodes)" in text


def test_folding_and_conversion_are_told_apart() -> None:
    assert grown(9000, 29_000, Growth(folding=15_000)) == (
        "the weights grew by 222 %, from 9.0 kB to 29.0 kB: folding stores weights that nodes share or compute "
        "(15.0 kB), constants of operators that were converted or replaced (5.0 kB); --max-growth 0 leaves this out"
    )


def test_no_advice_is_given_that_does_not_help() -> None:
    converted = grown(9000, 29_000)
    assert converted.endswith("constants of operators that were converted or replaced (20.0 kB)")
    allowed = grown(9000, 29_000, Growth(simplifying=20_000, limit=20_000), stored("Tile", 20_000))
    assert allowed.endswith("results of Tile are stored (20.0 kB for 1 node)")


def test_a_share_is_left_out_where_sizes_say_more() -> None:
    assert grown(16, 360_000, Growth(simplifying=359_984)).startswith("the weights grew from 16 bytes to 360.0 kB")
    assert grown(0, 5000).startswith("the weights grew from 0 bytes to 5.0 kB")


def test_what_is_left_of_a_limit() -> None:
    assert Growth().left() is None
    assert Growth(folding=-300, simplifying=100, limit=50).left() == 250
    assert Growth(folding=80, limit=50).left() == -30


def test_the_report_has_it() -> None:
    report = Report(before=Totals({}, 1000), after=Totals({}, 9000), growth=Growth(2000, 6000))
    assert report.to_json()["growth"] == {"folding": 2000, "simplifying": 6000, "note": report.grown}
