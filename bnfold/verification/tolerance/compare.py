"""The arithmetic of acceptance: how far two results are apart, and how far rounding alone can have moved them.

Both results are float64 evaluations, so their own error is about 1e-16 and what is left is the weights: those that a
rewrite made were rounded once, each by at most half a unit in the last place. What that can do to a result is
*measured*: the new weights are moved to a neighbouring number, up or down at random, the result is evaluated again
(`rounding`), and half of what it moved is the effect of half a unit.
For a linear region the mean square of such a draw is the sum of the squares of every single weight's effect, the
standard deviation of what |dy| <= u * (|W'| * |x| + |b'|) bounds in the worst case. A difference is accepted up to
`ROUNDING_FACTOR` of these deviations: true rounding errors are smaller than half a unit (about .58 of it in mean
square), and the largest of a million of them lies near five deviations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bnfold.verification.codes import Code
from bnfold.verification.tolerance.floats import F64, FloatType, float_type, rms, ulps
from bnfold.verification.verdict import TOO_FAR

ROUNDING_FACTOR = 8.0
"""Accepted deviations of the measured rounding noise."""

FLOOR = 2.0
"""Accepted units of roundoff of the scale, whatever the noise: the result's own type cannot show less."""

ROUNDS = 8
"""How often weights are disturbed anew before a difference beyond the noise is called a fault.

Outputs that move as one (a Softmax, a single logit) make one round a single draw, which one time in twenty is far too
small; more rounds only ever add to the noise, and a wrong weight is off by thousands of units.
"""

EXACT = 1e-12
"""Float64's own arithmetic, relative to the scale of the whole tensor."""

_LARGE = 1 << 20
"""Elements of a result that is compared one channel after the other."""

_HOPELESS = 1000.0
"""An excess that no luckier round would explain, so that a gross fault is reported at once …"""

_FEWEST_ROUNDS = 3
"""… but not before so many: in one or two rounds the moves of a few weights may cancel, and nothing seems allowed."""

_LARGEST = float(np.finfo(np.float64).max)

_SMALL = 1e-6
"""Of the scale: what rounding weights may cause that are of a narrower type than the result, whatever the excess is."""

_STEP = 0.5
"""They move weights by a whole unit in the last place, to stay numbers of their type; rounding moves by half."""


class Difference(NamedTuple):
    """How two arrays differ. ``excess`` is the largest ratio of difference to tolerance (over 1 is a fault).

    ``allowed`` is the largest tolerance; where something is too far, it is that of the element with the largest excess,
    so that ``relative`` is above it. ``mean`` is the mean difference in units of the scale. ``beyond`` is the share of
    elements that differ by more than the tolerance. ``elements`` counts the numbers compared, of several results those
    of the smallest. ``code`` says how results differ, if they do.
    """

    scale: float = 0.0
    max_abs: float = 0.0
    rms: float = 0.0
    ulps: float = 0.0
    allowed: float = 0.0
    excess: float = 0.0
    same_pattern: bool = True
    fault: str = ""
    elements: int = 0
    mean: float = 0.0
    beyond: float = 0.0
    code: Code = Code.OTHER_FORM

    def is_in_doubt(self, rounds: int = ROUNDS) -> bool:
        """Whether more knowledge of the noise than these ``rounds`` gave could explain the difference."""
        may_be = self.excess < _HOPELESS or self.relative < _SMALL
        return self.excess > 1 and (may_be or (rounds < _FEWEST_ROUNDS and bool(np.isfinite(self.excess))))

    @property
    def relative(self) -> float:
        """The largest difference in units of the scale."""
        return _ratio(self.max_abs, self.scale)


def compare_values(
    expected: Any, actual: Any, rounds: Sequence[Sequence[Any]], dtype: int | None, *, by_channel: bool
) -> Difference:
    """Return the difference of two results, floats within what the draws explain.

    Lists (sequences) element by element.
    """
    if isinstance(expected, list) or isinstance(actual, list):
        return _compare_lists(expected, actual, dtype)
    expected, actual = _in_floats(expected), _in_floats(actual)
    kind = float_type(dtype)
    # What is computed counts, not what is declared: a file may call a float an integer, a complex or a 4-bit number.
    # Floats of a byte and less come from a Cast, which is discontinuous: they are compared exactly.
    floats = all(array.dtype.kind == "f" and array.dtype.itemsize > 1 for array in (expected, actual))
    if not floats or expected.shape != actual.shape:
        return difference(expected, actual, kind, None)
    drawn = [[_in_floats(draw) for draw in draws] for draws in rounds]
    usable = [[draw for draw in draws if draw.shape == actual.shape] for draws in drawn]
    allowed = tolerance(expected, actual, usable, kind, by_channel=by_channel)
    return difference(expected, actual, kind, allowed, detailed=not by_channel)


def size_of(value: Any) -> int:
    """Return how many numbers an array has, or all arrays of a sequence."""
    return sum(map(size_of, value)) if isinstance(value, list) else int(np.size(value))


def shape_of(value: Any) -> tuple[int, ...]:
    """Return the shape of an array; of a sequence, whose arrays may be of several, how many it has."""
    return (len(value),) if isinstance(value, list) else np.shape(value)


def _in_floats(value: Any) -> npt.NDArray[Any]:
    """Return complex numbers as two floats each, along an axis of their own; anything else as it is."""
    array = np.asarray(value)
    return np.stack([array.real, array.imag], axis=-1) if array.dtype.kind == "c" else array


def _compare_lists(expected: Any, actual: Any, dtype: int | None) -> Difference:
    if not (isinstance(expected, list) and isinstance(actual, list)) or len(expected) != len(actual):
        return Difference(fault="one is no sequence, or they are sequences of two lengths", excess=np.inf)
    parts = [compare_values(old, new, (), dtype, by_channel=False) for old, new in zip(expected, actual, strict=True)]
    return max(parts, key=lambda part: part.excess, default=Difference())


def difference(
    expected: npt.NDArray[Any],
    actual: npt.NDArray[Any],
    kind: FloatType,
    tolerance: F64 | None,
    *,
    detailed: bool = True,
) -> Difference:
    """Compare two arrays of any type; floats within ``tolerance`` (see `tolerance`), everything else exactly.

    ``rms``, ``ulps``, ``mean`` and ``beyond`` are left out where they are not wanted (``detailed``).
    """
    expected, actual = np.asarray(expected), np.asarray(actual)
    if expected.shape != actual.shape:
        fault = f"shape {expected.shape} became {actual.shape}"
        return Difference(same_pattern=False, fault=fault, excess=np.inf, beyond=1.0)
    if expected.dtype != actual.dtype:
        fault = f"element type {expected.dtype} became {actual.dtype}"
        return Difference(same_pattern=False, fault=fault, excess=np.inf, beyond=1.0)
    if tolerance is None or not _numeric(expected):
        return _exact(expected, actual)
    found = None if detailed else _by_channel(expected, actual, kind, tolerance)
    if found is not None:
        return found
    delta, finite = _apart(expected, actual)
    pattern = "" if finite is None else pattern_fault(expected, actual)
    counted = expected if finite is None else np.where(finite, expected, 0.0)
    scale = magnitude(counted)
    # Of those that share a tolerance, the largest counts.
    shared = tuple(axis for axis, dim in enumerate(tolerance.shape) if dim == 1)
    largest = delta.max(axis=shared, keepdims=True, initial=0.0)
    with np.errstate(all="ignore"):
        excess = np.where(largest > 0, np.where(np.isposinf(tolerance), 1.0, largest / tolerance), 0.0)
        excess = np.where(np.isnan(excess), np.inf, excess)  # an unknown effect allows no error
        mean = float(delta.mean()) if detailed and delta.size else 0.0
    worst = float(excess.max(initial=0.0))
    is_too_far = worst > 1 and not pattern
    return Difference(
        scale=scale,
        max_abs=float(largest.max(initial=0.0)),
        rms=rms(delta) if detailed else 0.0,
        ulps=ulps(delta, np.abs(counted), scale, kind) if detailed else 0.0,
        allowed=_ratio(float(tolerance.flat[excess.argmax()] if is_too_far else tolerance.max(initial=0.0)), scale),
        excess=np.inf if pattern else worst,
        same_pattern=not pattern,
        fault=pattern or ("" if worst <= 1 else TOO_FAR),
        code=Code.OTHER_FORM if pattern else Code.DIFFERS,
        mean=_ratio(mean, scale),
        beyond=_share_beyond(expected, actual, delta, tolerance) if detailed and (pattern or worst > 1) else 0.0,
    )


def _share_beyond(expected: npt.NDArray[Any], actual: npt.NDArray[Any], delta: F64, tolerance: F64) -> float:
    """Return the share of elements that differ by more than the tolerance; NaN and infinities have none."""
    is_finite = np.isfinite(expected) & np.isfinite(actual)
    is_same = (expected == actual) | (np.isnan(expected) & np.isnan(actual))
    is_beyond = np.where(is_finite, (delta > 0) & ~(delta <= tolerance), ~is_same)
    return float(is_beyond.mean())


def _by_channel(
    expected: npt.NDArray[Any], actual: npt.NDArray[Any], kind: FloatType, tolerance: F64
) -> Difference | None:
    """Compare large arrays one channel after the other, for large temporaries take most of the time.

    Return None for others, and if something differs by more than the ``tolerance``: then more has to be said.
    """
    is_by_channel = tolerance.ndim == expected.ndim > 2 and tolerance.size == tolerance.shape[1] == expected.shape[1]
    if expected.size < _LARGE or not is_by_channel:
        return None
    pairs = ((np.s_[:, place], tolerance[:, place]) for place in range(expected.shape[1]))
    found = [difference(expected[at], actual[at], kind, allowed, detailed=False) for at, allowed in pairs]
    if any(channel.fault for channel in found):
        return None
    scale, largest, excess = (
        max(column) for column in zip(*((c.scale, c.max_abs, c.excess) for c in found), strict=True)
    )
    return Difference(scale, largest, allowed=_ratio(float(tolerance.max()), scale), excess=excess)


def tolerance(
    expected: npt.NDArray[Any],
    actual: npt.NDArray[Any],
    rounds: Sequence[Sequence[npt.NDArray[Any]]],
    kind: FloatType,
    *,
    by_channel: bool,
) -> F64:
    """Say how far each element of ``actual`` may lie from ``expected``.

    ``rounds`` are ``actual``, new weights disturbed.

    Axes along which all are alike may be of size 1.

    A round has one result for each group of weights that was disturbed; effects of groups add up in squares, the
    largest round counts. They stray around ``actual``, never around ``expected``: a fault must not widen its own
    tolerance.
    The noise of an element is pooled with that of its channel (axis 1) or of the whole tensor, because a few draws can
    cancel at a single element; the larger of the two counts, so elements that see large activations keep their own.
    """
    expected = np.asarray(expected, np.float64)
    axes = tuple(axis for axis in range(expected.ndim) if axis != 1) if by_channel and expected.ndim > 1 else None
    size = _largest(expected, axes)
    floor: F64 = FLOOR * kind.roundoff * size + EXACT * size.max(initial=0.0)
    if not any(rounds):
        return floor
    moves = [[distance(np.asarray(actual, np.float64), draw) for draw in draws] for draws in rounds]
    # In units of the largest move: one beyond 1e154 has no square.
    largest = max((float(move.max(initial=0.0)) for group in moves for move in group), default=0.0)
    if not largest:
        return floor
    unit = min(largest, _LARGEST)
    squares = [np.square(np.stack(group) / unit).sum(axis=0) for group in moves if group]
    square = np.max(squares, axis=0) * _STEP**2
    pooled = square.mean(axis=axes, keepdims=True) if square.size else square
    with np.errstate(over="ignore"):
        total: F64 = ROUNDING_FACTOR * np.sqrt(np.maximum(square, pooled)) * unit + floor
    return total


def distance(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> F64:
    """Say how far the elements of two arrays are apart; 0 where one of them is not finite."""
    return _apart(one, other)[0]


def _apart(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> tuple[F64, npt.NDArray[np.bool_] | None]:
    """Return their `distance`, and where both are finite: None for everywhere, which takes half as long to find out."""
    with np.errstate(all="ignore"):  # beyond all numbers is beyond any tolerance
        apart: F64 = np.subtract(other, one, dtype=np.float64)
        apart = np.abs(apart, out=apart if apart.ndim else None)
    if np.isfinite(apart.max(initial=0.0)):
        return apart, None
    finite = np.isfinite(one) & np.isfinite(other)
    return np.where(finite, apart, 0.0), None if finite.all() else finite


def magnitude(values: npt.NDArray[Any]) -> float:
    """Return the largest finite number, whatever its sign; 0 where there is none."""
    return float(_largest(values, None).max(initial=0.0))


def _largest(values: npt.NDArray[Any], axes: tuple[int, ...] | None) -> F64:
    """Return the largest finite magnitude along ``axes``, which stay as 1."""
    wide = values if values.dtype.kind == "f" else np.abs(values).astype(np.float64)
    # Of each end by itself: of 0 and -0 the maximum may be -0, and what is divided by that is no excess.
    largest, smallest = (np.abs(find(axis=axes, keepdims=True, initial=0.0)) for find in (wide.max, wide.min))
    ends: F64 = np.maximum(largest, smallest, dtype=np.float64)
    if np.isfinite(ends).all():
        return ends
    return _largest(np.where(np.isfinite(wide), wide, 0.0), axes)


def pattern_fault(expected: npt.NDArray[Any], actual: npt.NDArray[Any]) -> str:
    """Return where the NaN or the (signed) infinities of the two differ: a sentence, or an empty string."""
    for name, test in (("NaN", np.isnan), ("+inf", np.isposinf), ("-inf", np.isneginf)):
        before, after = test(expected), test(actual)
        if not np.array_equal(before, after):
            moved = int(np.count_nonzero(before != after))
            return f"{name} in {int(before.sum())} elements, in {int(after.sum())} after; {moved} places differ"
    return ""


def _exact(expected: npt.NDArray[Any], actual: npt.NDArray[Any]) -> Difference:
    different = expected != actual
    if _has_nan(expected) and _has_nan(actual):
        different &= ~(np.isnan(expected) & np.isnan(actual))
    count = int(np.count_nonzero(different))
    scale = largest = mean = 0.0
    if _numeric(expected) and _numeric(actual):
        wide = expected.astype(np.float64)
        scale = magnitude(wide)
        if count:
            delta = distance(wide, actual.astype(np.float64))
            largest, mean = float(delta.max()), _ratio(float(delta.mean()), scale)
    fault = f"{count} of {expected.size} elements differ, and none may" if count else ""
    beyond, excess = count / max(expected.size, 1), np.inf if count else 0.0
    found = Difference(scale, largest, excess=excess, fault=fault, code=Code.NOT_EQUAL)
    return found._replace(mean=mean, beyond=beyond)


def _has_nan(array: npt.NDArray[Any]) -> bool:
    """Whether the type may: of most floats of a byte and less, and of bfloat16, numpy does not know what they are."""
    return array.dtype.kind in "fV"


def _numeric(array: npt.NDArray[Any]) -> bool:
    return array.dtype.kind in "fiubV"


def _ratio(value: float, scale: float) -> float:
    if value == 0:
        return 0.0
    return value / scale if scale > 0 else float("inf")
