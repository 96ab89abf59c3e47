"""Positions on axes: in order, inside, and with what has no place on them left out."""

from __future__ import annotations

from typing import Any

import pytest

from bnfold.report.html import plots


def verdict_row(**values: Any) -> dict[str, Any]:
    return {
        "name": "y",
        "relative": 1e-7,
        "allowed": 1e-6,
        "error_before": None,
        "error_after": None,
        "fault": "",
        **values,
    }


def test_error_marks_stand_in_the_order_of_their_numbers() -> None:
    row = verdict_row(error_before=1e-5, error_after=3e-5)
    kinds = ("error_before", "error_after", "relative", "allowed")
    drawn = plots.errors([row], "name", kinds)
    assert drawn is not None
    places = {mark.kind: mark.x for mark in drawn.rows[0].marks}
    assert sorted(places, key=places.__getitem__) == ["relative", "allowed", "error_before", "error_after"]
    assert all(0 < place <= 100 for place in places.values())
    assert drawn.kinds == set(kinds)


def test_zero_stands_at_the_left_end_and_nan_nowhere() -> None:
    rows = [verdict_row(relative=1e-9), verdict_row(relative=0.0, error_after="nan")]
    drawn = plots.errors(rows, "name", ("relative", "error_after", "allowed"))
    assert drawn is not None
    assert {mark.kind: mark.x for mark in drawn.rows[1].marks}["relative"] == 0
    assert drawn.kinds == {"relative", "allowed"}


def test_failed_rows_come_first_and_the_rest_is_counted() -> None:
    rows = [verdict_row(name=f"y{index}", relative=index * 1e-9) for index in range(40)]
    rows.append(verdict_row(name="bad", relative=0.0, fault="differs"))
    drawn = plots.errors(rows, "name", ("relative", "allowed"))
    assert drawn is not None
    assert (drawn.rows[0].name, drawn.rows[0].failed, drawn.rows[1].name) == ("bad", True, "y39")
    assert drawn.left_out == 41 - len(drawn.rows)


def test_without_numbers_there_is_no_plot() -> None:
    assert plots.errors([verdict_row(relative=0.0, allowed="inf")], "name", ("relative", "allowed")) is None
    assert plots.scales({"log10_edges": [0.0, 1.0], "positive": [0], "negative": [0], "zeros": 3}) is None


@pytest.mark.parametrize("spacing", [0.05, 0.25])
def test_joined_bins_keep_every_count(spacing: float) -> None:
    count = 160
    values: dict[str, Any] = {
        "log10_edges": [-4 + spacing * index for index in range(count + 1)],
        "positive": [index % 7 for index in range(count)],
        "negative": [index % 3 for index in range(count)],
        "zeros": 2,
    }
    drawn = plots.scales(values)
    assert drawn is not None
    up, down = sum(values["positive"]), sum(values["negative"])
    assert drawn.summary == f"{up + down + 2} scale factors: {up} positive, {down} negative, 2 zero"
    unit = sum(bar.up for bar in drawn.bars) / up
    assert sum(bar.down for bar in drawn.bars) == pytest.approx(unit * down)
    assert max(bar.x + bar.width for bar in drawn.bars) == pytest.approx(100)
    assert all(0 <= tick.at <= 100 for tick in drawn.ticks)


def test_a_strip_has_a_bar_each_and_shares_bars_of_many() -> None:
    few = plots.strip(["left", "folded", "left"])
    assert {state: path.count("M") for state, path in few.items()} == {"left": 2, "folded": 1}
    many = plots.strip(["left", "folded"] * 1000)
    assert {state: path.count("M") for state, path in many.items()} == {"left": 200, "folded": 200}
    assert "v10.00h" in many["left"]


def test_far_inside_is_half_of_what_is_allowed() -> None:
    assert plots.far_inside([{"relative": 1e-8, "allowed": 1e-6}])
    assert not plots.far_inside([{"relative": 1e-8, "allowed": 1e-6}, {"relative": 6e-7, "allowed": 1e-6}])
    assert not plots.far_inside([{"relative": "nan", "allowed": 1e-6}])


def test_one_value_is_one_bar() -> None:
    drawn = plots.spread({"min": 2.0, "max": 2.0, "counts": [5]}, "scale")
    assert [(bar.x, bar.width, bar.up) for bar in drawn.bars] == [(0, 100, drawn.height)]


def test_negative_numbers_have_a_colour_and_zero_a_line() -> None:
    drawn = plots.spread({"min": -1.0, "max": 3.0, "counts": [1, 1, 1, 1]}, "scale")
    assert [bar.negative for bar in drawn.bars] == [True, False, False, False]
    assert [(tick.at, tick.label) for tick in drawn.ticks] == [(25, "0")]
    assert plots.spread({"min": 1.0, "max": 3.0, "counts": [1, 1]}, "scale").ticks == ()
