"""Compare each output of two models: whether it agrees, what that rests on, and its row in the report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from bnfold.ir.elements import Array, type_name
from bnfold.verification.claims import Experiment, Feeds, NumberKind, Why
from bnfold.verification.codes import Code
from bnfold.verification.sentences import differs
from bnfold.verification.tolerance.compare import ROUNDS, Difference, compare_values, distance, magnitude, shape_of
from bnfold.verification.tolerance.floats import float_type, is_float_array
from bnfold.verification.verdict import OutputRow

BLIND = 1e-3
"""Units of roundoff. A weight that is wrong by a ten-thousandth is wrong by at least a thousand units, so an output
that moves less than this with one unit would not show it."""

LARGEST_DIFFERENCE = 1e-4
"""The largest difference, relative to the scale, that rounding weights causes in a healthy float32 network.

If the measured noise is larger, it is not believed unless the original errs as much in its own type. For other types,
the limit is in proportion to their roundoff.
"""


def largest_difference(dtype: int | None) -> float:
    """Return `LARGEST_DIFFERENCE` for values or weights of an element type.

    None for an unknown one, which is as float32.
    """
    return LARGEST_DIFFERENCE * float_type(dtype).roundoff / float_type(None).roundoff


class Compared(NamedTuple):
    """An output on one sample, or an input of a discontinuous operator.

    ``response`` is how far disturbing the new weights moved it, relative to its scale; None without new weights.
    ``is_drowned`` says that only the noise of other channels explains a large difference.
    """

    name: str
    sample: int
    difference: Difference
    dtype: int | None
    shape: tuple[int, ...]
    is_output: bool = True
    response: float | None = None
    is_drowned: bool = False

    @property
    def reacts(self) -> bool:
        """Whether the value moves enough with the new weights to show a fault in them; it may be saturated."""
        return self.response is None or self.response > BLIND * float_type(self.dtype).roundoff

    def is_in_doubt(self, rounds: int = ROUNDS) -> bool:
        """Whether more knowledge of the noise than ``rounds`` of it could change what is said of the difference."""
        return self.difference.is_in_doubt(rounds) or self.is_drowned

    @property
    def limit(self) -> float:
        """The largest difference that rounding ever causes, relative to the scale."""
        return largest_difference(self.dtype)

    def exceeds(self) -> bool:
        """Whether the difference is beyond what rounding ever causes."""
        return self.difference.relative > self.limit

    @property
    def sentence(self) -> str:
        """A sentence about the fault."""
        found = self.difference
        what = f"{'output' if self.is_output else 'value'} {self.name!r}"
        if found.fault and found.code is Code.DIFFERS:
            return f"{differs(what, found.relative, found.allowed)} (relative to its largest value)"
        return f"{what}: {found.fault}"

    @property
    def row(self) -> OutputRow:
        """The row of the report."""
        found = self.difference
        return OutputRow(
            name=self.name,
            dtype=type_name(self.dtype),
            shape=self.shape,
            scale=found.scale,
            max_abs=found.max_abs,
            rms=found.rms,
            relative=found.relative,
            ulps=found.ulps,
            allowed=found.allowed,
            same_pattern=found.same_pattern,
            fault=found.fault,
            mean=found.mean,
            beyond=found.beyond,
            code=found.code if found.fault else None,
        )


def compared(  # noqa: PLR0913 - a value, and what it is compared by
    name: str,
    sample: int,
    expected: Array,
    actual: Array,
    rounds: Sequence[Sequence[Mapping[str, Array]]],
    dtype: int | None,
    *,
    is_output: bool = True,
    new: int | None = None,
) -> Compared:
    """Compare one value; the first ``new`` draws of a round (None: all) are those of new weights."""
    draws = [[draw[name] for draw in group] for group in rounds]
    measured = compare_values(expected, actual, draws, dtype, by_channel=False)
    item = Compared(name, sample, measured, dtype, shape_of(expected), is_output, _response(actual, draws[0][:new]))
    is_drowned = (
        measured.excess <= 1
        and item.exceeds()
        and compare_values(expected, actual, draws, dtype, by_channel=True).excess > 1
    )
    return item._replace(is_drowned=is_drowned)


def _response(actual: Any, draws: Sequence[Any]) -> float | None:
    """Return the largest move of an element, relative to the largest element.

    0 for what cannot move a little (integers).
    """
    if not draws:
        return None
    if not is_float_array(actual):
        return 0.0
    moves = (distance(actual, draw).max(initial=0.0) for draw in draws if draw.shape == actual.shape)
    largest, scale = float(max(moves, default=0.0)), magnitude(actual)
    return largest / scale if scale > 0 else 0.0


def are_in_doubt(found: Sequence[Compared], rounds: int = ROUNDS) -> bool:
    """Whether more knowledge of the noise than ``rounds`` of it could change what is said of a difference."""
    return any(item.is_in_doubt(rounds) for item in found)


def first_fault(found: Sequence[Compared]) -> Compared | None:
    """Return the first value that differs, on the sample on which it differs most: that of its row in the report."""
    first = next((item for item in found if item.difference.fault), None)
    if first is None:
        return None
    return max((item for item in found if (item.name, item.is_output) == (first.name, first.is_output)), key=_severity)


def experiment(feeds: Feeds, numbers: NumberKind, found: Difference | Why, hidden: int = 0) -> Experiment:
    """Return one run of both sides, for the ledger: how the results differ, or why there are none."""
    shapes = {name: shape_of(array) for name, array in feeds.items()}
    if isinstance(found, Why):
        return Experiment(shapes, numbers, found.code, hidden=hidden, note=found.text)
    code = found.code if found.fault else Code.TESTED
    return Experiment(shapes, numbers, code, found.relative, found.allowed, hidden, found.fault)


def experiments(found: Sequence[Compared], fed: Sequence[tuple[Feeds, NumberKind]]) -> tuple[Experiment, ...]:
    """Return what was run, for the ledger: of each sample, the value that differs most.

    ``fed`` has the inputs of each sample, and the kind of their numbers.
    """
    worst: dict[int, Compared] = {}
    for item in found:
        if item.sample not in worst or _severity(item) > _severity(worst[item.sample]):
            worst[item.sample] = item
    said = {
        number: item.difference._replace(fault=item.sentence) if item.difference.fault else item.difference
        for number, item in sorted(worst.items())
    }
    return tuple(experiment(*fed[number], difference) for number, difference in said.items())


def output_rows(found: Sequence[Compared]) -> tuple[OutputRow, ...]:
    """Return one row an output: its worst sample, the result on the first sample, and the shares of all samples."""
    samples: dict[str, list[Compared]] = {}
    for item in (item for item in found if item.is_output):
        samples.setdefault(item.name, []).append(item)
    return tuple(_row(items) for items in samples.values())


def _row(items: Sequence[Compared]) -> OutputRow:
    worst, first = max(items, key=_severity), items[0].difference
    sizes = [math.prod(item.shape) for item in items]
    count = sum(sizes) or 1
    return replace(
        worst.row,
        typical=first.relative,
        typical_allowed=first.allowed,
        mean=sum(item.difference.mean * size for item, size in zip(items, sizes, strict=True) if size) / count,
        beyond=sum(item.difference.beyond * size for item, size in zip(items, sizes, strict=True)) / count,
    )


def _severity(item: Compared) -> tuple[float, float]:
    return item.difference.excess, item.difference.relative
