"""The numbers behind the report's plots: scales and positions. How they are drawn is the template's business."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WIDTH = 100.0
"""Positions across are in percent: a plot is as wide as the screen, and its letters keep their size."""
MAX_BINS, MAX_TICKS = 40, 5
MAX_STRIP = 200
"""Bars of the strip that shows a whole network."""
MAX_ROWS = 24
"""Outputs in one plot; the worst ones are shown and the table has all of them."""

TINY = 1e-17
"""What is below it, as a share of the largest value, is drawn as 0: no float64 could hold the difference."""
MAX_LISTED = 200
"""Lines of a list that is rarely opened; a page with all of them opens slowly."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a histogram; ``up`` and ``down`` are heights from the base line, ``label`` says it in words.

    ``negative`` where it stands for numbers below zero.
    """

    x: float
    width: float
    up: float
    down: float
    label: str
    negative: bool = False


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on an axis."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Histogram:
    """Bars over a base line at height ``base`` of ``height``."""

    height: float
    base: float
    bars: tuple[Bar, ...]
    ticks: tuple[Tick, ...]
    summary: str


def strip(states: Sequence[str]) -> dict[str, str]:
    """Return bars side by side, 100 wide and 20 high, as one SVG path a state.

    A bar of several is parted by their shares.
    """
    bars = min(len(states), MAX_STRIP)
    paths: dict[str, list[str]] = {}
    for bar in range(bars):
        inside = states[bar * len(states) // bars : (bar + 1) * len(states) // bars]
        top, left, wide = 0.0, bar * WIDTH / bars, 0.85 * WIDTH / bars
        for state, count in Counter(inside).items():
            high = 20 * count / len(inside)
            paths.setdefault(state, []).append(f"M{left:.2f} {top:.2f}h{wide:.2f}v{high:.2f}h-{wide:.2f}z")
            top += high
    return {state: "".join(pieces) for state, pieces in paths.items()}


def spread(values: Mapping[str, Any], name: str) -> Histogram:
    """Return the scales or shifts of one BatchNormalization."""
    counts, low, high = values["counts"], values["min"], values["max"]
    height = 56.0
    step, top = WIDTH / len(counts), max(counts)
    size = (high - low) / len(counts)
    bars = []
    for index, count in enumerate(counts):
        label = f"{low + index * size:.4g} to {low + (index + 1) * size:.4g}: {count}"
        is_below = low + (index + 0.5) * size < 0
        bars.append(Bar(index * step, step, count / top * height, 0, label, is_below))
    zero = (Tick(-low / (high - low) * WIDTH, "0"),) if low < 0 < high else ()
    return Histogram(height, height, tuple(bars), zero, f"{name} from {low:.4g} to {high:.4g}, {sum(counts)} values")


def scales(values: Mapping[str, Any]) -> Histogram | None:
    """Return |scale| over the whole model, positive above the line and negative below it; None where there is none."""
    edges, positive, negative = _merged(values["log10_edges"], values["positive"], values["negative"])
    if not positive:
        return None
    height, most = 150.0, max(positive)
    unit, step = height / (most + max(negative)), WIDTH / len(positive)
    low, high = edges[0], edges[-1]
    bars = tuple(
        Bar(
            index * step, step, up * unit, down * unit,
            f"|scale| from {10 ** edges[index]:.3g} to {10 ** edges[index + 1]:.3g}: {up} positive, {down} negative",
        )
        for index, (up, down) in enumerate(zip(positive, negative, strict=True))
    )  # fmt: skip
    ticks = tuple(Tick((at - low) / (high - low) * WIDTH, label) for at, label in _round_numbers(low, high))
    total, below = sum(positive) + sum(negative), sum(negative)
    zeros = f", {values['zeros']} zero" if values["zeros"] else ""
    summary = f"{total + values['zeros']} scale factors: {total - below} positive, {below} negative{zeros}"
    return Histogram(height, most * unit, bars, ticks, summary)


def _merged(edges: list[float], up: list[int], down: list[int]) -> tuple[list[float], list[int], list[int]]:
    """Return the bins from the first filled one to the last, joined until there are few enough to see."""
    filled = [index for index, pair in enumerate(zip(up, down, strict=True)) if any(pair)]
    if not filled:
        return [], [], []
    first, last = max(filled[0] - 1, 0), min(filled[-1] + 2, len(up))
    size = -(-(last - first) // MAX_BINS)
    starts = range(first, last, size)
    merged = [edges[start] for start in starts] + [edges[min(starts[-1] + size, len(up))]]
    return (
        merged,
        [sum(up[start : start + size]) for start in starts],
        [sum(down[start : start + size]) for start in starts],
    )


def _round_numbers(low: float, high: float) -> list[tuple[float, str]]:
    """Return powers of ten between two exponents; 2 and 5 of each too where few powers lie between."""
    steps = (1, 2, 5) if high - low < 3 else (1,)
    candidates = [
        (power + math.log10(step), step * 10.0**power)
        for power in range(math.floor(low), math.ceil(high) + 1)
        for step in steps
    ]
    return [(at, f"{value:g}") for at, value in candidates if low <= at <= high]


@dataclass(frozen=True, slots=True)
class Mark:
    """A point on a row: ``kind`` says what it stands for and how it is drawn."""

    x: float
    kind: str
    label: str


@dataclass(frozen=True, slots=True)
class PlotRow:
    """One output, or one rewrite, of an error plot."""

    name: str
    marks: tuple[Mark, ...]
    failed: bool


@dataclass(frozen=True, slots=True)
class ErrorPlot:
    """Rows on one logarithmic axis; what is 0 stands at its left end. ``left_out`` rows are only in the table."""

    rows: tuple[PlotRow, ...]
    ticks: tuple[Tick, ...]
    left_out: int

    @property
    def kinds(self) -> set[str]:
        """What the legend has to explain."""
        return {mark.kind for row in self.rows for mark in row.marks}


KINDS = {
    "error_before": "error of the original in its own precision",
    "error_after": "error of the result in its own precision",
    "relative": "largest difference between the two",
    "mean": "mean difference between the two",
    "allowed": "what is allowed",
}


def errors(rows: Sequence[Mapping[str, Any]], label: str, kinds: Sequence[str]) -> ErrorPlot | None:
    """Return the worst rows of a verdict, with the given numbers, named by key ``label``.

    None where there are no numbers, or where nothing differs.
    """
    if not any(_is_failed(row) or (number(row.get("relative")) or 0.0) > 0 for row in rows):
        return None
    numbers = [value for row in rows for kind in kinds if (value := number(row.get(kind))) is not None and value > TINY]
    if not numbers:
        return None
    low, high = math.floor(math.log10(min(numbers))) - 1, math.ceil(math.log10(max(numbers)))
    high = max(high, low + 2)

    def place(value: float) -> float:
        return (max(math.log10(value), low) - low) / (high - low) * WIDTH if value > 0 else 0.0

    worst = sorted(rows, key=lambda row: (not _is_failed(row), -(number(row.get("relative")) or 0.0)))[:MAX_ROWS]
    drawn = tuple(PlotRow(str(row[label]), _marks(row, kinds, place), _is_failed(row)) for row in worst)
    stride = -(-(high - low) // MAX_TICKS)
    ticks = tuple(
        Tick((power - low) / (high - low) * WIDTH, f"1e{power}") for power in range(low + 1, high + 1, stride)
    )
    return ErrorPlot(drawn, (Tick(0.0, "0"), *ticks), len(rows) - len(worst))


def depth(errors: Sequence[Sequence[Any]]) -> Histogram | None:
    """Return errors of values in the order in which they are made, on a logarithmic axis; None where all are zero.

    A bar stands for the largest of the values that share it; what is no number reaches to the top.
    """
    numbers = [math.inf if number(error) is None else float(error) for _, error in errors]
    finite = [error for error in numbers if TINY < error < math.inf]
    if not any(numbers):
        return None
    low = math.floor(math.log10(min(finite, default=1.0))) - 1
    high = max(math.ceil(math.log10(max(finite, default=1.0))), low + 2)
    count, height, bars = min(len(numbers), MAX_STRIP), 150.0, []
    for index in range(count):
        first, last = index * len(numbers) // count, (index + 1) * len(numbers) // count
        worst = max(range(first, last), key=numbers.__getitem__)
        share = (
            (math.log10(numbers[worst]) - low) / (high - low) if 0 < numbers[worst] < math.inf else numbers[worst] > 0
        )
        label = f"{errors[worst][0]}: {numbers[worst]:.2e}"
        bars.append(Bar(index * WIDTH / count, WIDTH / count, share * height, 0, label))
    stride = -(-(high - low) // MAX_TICKS)
    ticks = (Tick(height * (high - power) / (high - low), f"1e{power}") for power in range(low + 1, high + 1, stride))
    return Histogram(height, height, tuple(bars), tuple(ticks), f"errors of {len(numbers)} values")


def far_inside(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether every row differs by less than half of what rounding explains."""
    found = [(number(row.get("relative")), number(row.get("allowed"))) for row in rows]
    return all(value is not None and allowed is not None and value <= allowed / 2 for value, allowed in found)


def _marks(row: Mapping[str, Any], kinds: Sequence[str], place: Callable[[float], float]) -> tuple[Mark, ...]:
    found = [(kind, number(row.get(kind))) for kind in kinds]
    return tuple(Mark(place(value), kind, f"{KINDS[kind]}: {value:.2e}") for kind, value in found if value is not None)


def number(value: Any) -> float | None:
    """Return a finite number; reports write nan and inf as strings, which have no place on an axis."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _is_failed(row: Mapping[str, Any]) -> bool:
    return bool(row.get("fault")) or row.get("status") == "failed"
