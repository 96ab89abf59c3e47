"""What a verdict says: a plain sentence first, numbers after it. Command line, pages and Python all print these."""

from __future__ import annotations

from collections.abc import Sequence

from bnfold.verification.codes import Code
from bnfold.verification.verdict import OutputRow

_NAMED = 8  # in a list of names


def agree(rows: Sequence[OutputRow], samples: int, where: str = "float64", more: str = "") -> str:
    """Return how well the outputs of two whole models agree: on ordinary numbers, if one of several samples has these.

    A sample is one set of inputs; ``more`` says more about them.
    """
    count = f"{number_of(samples)}{more}"
    worst, how_counted = max(rows, key=lambda row: row.relative, default=None), f"relative; {where}, {count}"
    if worst is None or not worst.relative:
        return f"outputs are identical ({where}, {count})"
    if worst.is_decided_by_rounding:
        inside = max(row.inside or 0.0 for row in rows)
        return (
            f"outputs differ by up to {worst.relative:.2g} ({how_counted}), for rounding decides at Round, ArgMax and "
            f"the like; where those read the original's values, they agree to {inside:.1e}. "
            f"Rounding the new weights allows {worst.allowed:.1e}."
        )
    typical = max(rows, key=lambda row: row.typical)
    if samples < 2 or not typical.typical:
        return _agree(worst.relative, worst.allowed, how_counted)
    return _agree(
        typical.typical, typical.typical_allowed, f"relative; {where}", f"on all {count}, on ordinary numbers "
    )


def agree_within(rows: Sequence[OutputRow], count: int, where: str, tolerance: float | str) -> str:
    """Return how well the outputs of two models agree in ``where``, within a tolerance or that of a type's name."""
    worst = max(rows, key=lambda row: row.relative / (row.allowed or 1.0), default=None)
    if worst is None or not worst.relative:
        return f"outputs are identical ({where}, {number_of(count)})"
    how = f"relative; {where}, {number_of(count)}"
    of_type = f"Rounding to {tolerance} explains" if isinstance(tolerance, str) else "The tolerance allows"
    return f"outputs agree to {worst.relative:.2g} ({how}). {of_type} {worst.allowed:.2g}."


def number_of(samples: int) -> str:
    """Return how many samples there are, in words."""
    return f"{samples} sample{'s' * (samples != 1)}"


def stress(rows: Sequence[OutputRow], samples: int) -> str:
    """Return the largest difference on all samples, if some are not typical; else an empty text."""
    worst = max(rows, key=lambda row: row.relative, default=None)
    if worst is None or samples < 2 or worst.relative == max(row.typical for row in rows):
        return ""
    how = f"relative; float64, all {samples} samples: some are very large, tiny or constant"
    return _agree(worst.relative, worst.allowed, how)


def _agree(relative: float, allowed: float, how: str, which: str = "") -> str:
    return f"outputs agree {which}to {relative:.1e} ({how}). Rounding the new weights allows {allowed:.1e}."


def parts_agree(count: int, kind: str, whole: str = "") -> str:
    """Return that each changed part agrees; ``whole`` says how the whole models agreed in a runtime."""
    if not count:
        return f"nothing that is computed has changed{f', and the whole model was run in {whole}' if whole else ''}"
    checked = f"{'1 ' + kind if count == 1 else f'each of {count} {kind}s'} was checked in float64"
    if whole:
        return f"{checked}, and the whole model was run in {whole}"
    return f"{checked}, and the rest is unchanged"


def runtime_agrees(relative: float, allowed: float, unit: float) -> str:
    """Return how well the outputs of two models agree in a runtime; ``unit`` is one rounding of their type.

    What is less than that is no accuracy of either model: the elements that differ are small beside the largest one.
    """
    if not relative:
        return "outputs are identical"
    if relative < unit:
        return f"outputs agree to less than one rounding of their largest number (rounding allows {allowed:.1e})"
    return f"outputs agree to {relative:.1e} (rounding allows {allowed:.1e})"


def fate(row: OutputRow) -> str:
    """Return whether an output agrees, and how closely: on a typical sample, if that shows a difference."""
    if row.fault and row.code is not Code.DIFFERS:
        return f"{row.name}: {row.fault}"
    if row.fault:
        return differs(row.name, row.relative, row.allowed)
    if not row.relative:
        return f"{row.name} is identical"
    if row.is_decided_by_rounding:
        return (
            f"{row.name} differs by {row.relative:.2g} from end to end, where rounding decides at a Round or the like"
        )
    relative, allowed = (row.typical, row.typical_allowed) if row.typical else (row.relative, row.allowed)
    return f"{row.name} agrees to {relative:.2g}, {allowed:.2g} allowed"


def spread(row: OutputRow) -> str:
    """Return the mean error of an output, and how many of its elements are too far off; empty if it is identical."""
    if not (row.mean or row.beyond):
        return ""
    beyond = f", {100 * row.beyond:.3g} % of its elements beyond" if row.beyond else ""
    return f"; {row.mean:.2g} on average{beyond}"


def differs(name: str, relative: float, allowed: float) -> str:
    """Return how far an output is off, with as many digits as show that this is more than is allowed."""
    digits = next((count for count in range(2, 18) if f"{relative:.{count}g}" != f"{allowed:.{count}g}"), 2)
    return f"{name} differs by {relative:.{digits}g}, {allowed:.{digits}g} allowed"


def listed(names: Sequence[str]) -> str:
    """Return names in a row, the first few if there are many."""
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
