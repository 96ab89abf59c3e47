"""Why equal results do not count, whether they are those of parts, of whole models or of a runtime.

This serves visibility: agreement proves something only if the results depend on what is fed, react to the new weights,
and by no more than rounding ever causes. Whether each single fault would show is asked in `coverage`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np

from bnfold.ir.elements import TP
from bnfold.verification.claims import Why
from bnfold.verification.codes import Code
from bnfold.verification.comparing.outputs import Compared
from bnfold.verification.tolerance.compare import EXACT, FLOOR, compare_values
from bnfold.verification.tolerance.floats import float_type, is_float_array

UNSEEN = Why(
    Code.NO_REACTION, "no output reacts to the new weights on these inputs, so a fault in them would not be seen"
)


def inconclusive(found: Iterable[Compared], exceeds: Callable[[Compared], bool]) -> Why | None:
    """Say why agreement proves nothing: outputs that do not react, or noise so large that it would hide a fault."""
    found = [*found]
    if not any(item.reacts for item in found):
        return UNSEEN
    item = next((item for item in found if item.is_drowned or exceeds(item)), None)
    if item is None:
        return None
    how_far = f"value {item.name!r} differs by {item.difference.relative:.2g} of its largest value"
    return Why(Code.COARSE, f"{how_far}. Rounding the new weights could cause that, and would hide a fault")


def depend_on_inputs(names: Collection[str], results: Mapping[str, Any], others: Iterable[Mapping[str, Any]]) -> bool:
    """Whether one of the results of these names is another one of other inputs."""
    return any(are_others(results[name], other[name]) for other in others for name in names)


def are_others(one: Any, other: Any) -> bool:
    """Whether two results differ by more than float64's own errors."""
    are_alike = is_float_array(one) and is_float_array(other) and one.shape == other.shape and one.size
    if are_alike and one.dtype == other.dtype == np.float64:
        with np.errstate(invalid="ignore", over="ignore"):
            moves = one - other
            scale, apart = (max(float(array.max()), -float(array.min())) for array in (one, moves))
        if np.isfinite(scale) and np.isfinite(apart):
            return apart > FLOOR * float_type(TP.DOUBLE).roundoff * scale + EXACT * scale
    return compare_values(one, other, (), TP.DOUBLE, by_channel=False).excess > 1
