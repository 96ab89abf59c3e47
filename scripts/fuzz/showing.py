"""How often the results of two models differ in onnxruntime, on numbers of many kinds and sizes of dynamic dims.

Inputs come in groups: as drawn, at other sizes, at the largest sizes of the original, with other defaults, with one
boolean turned, with single numbers far from the others, and at declared sizes if one of these is 0. A difference counts
if most inputs of a group show it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
from _upgrade.running import in_reference

from fuzz import distance, feeding, promises, runtime
from fuzz.feeding import Feeds

Truth = Literal["same", "shows", "does not run", "interface", "unclear"]
RUNS, FEWEST = 10, 5
SAME, DIFFERENT = 1e-4, 1e-2
"""Share of an output's scale."""
MOST_OPEN = 6
"""With more dynamic dims than these, the largest sizes are not searched."""
WORST_FIRST: tuple[Truth, ...] = ("does not run", "shows", "interface", "unclear", "same")


def truth(before: Path, after: Path, drawn: Feeds) -> Truth:
    """Return the worst finding of all groups of inputs (`WORST_FIRST`).

    ``does not run`` and ``shows``: this is so for most inputs of a group that the original runs on. ``same``: no input
    shows a difference. ``interface``: callers see the difference before a run, or a result does not have its declared
    size. ``unclear``: none of these, for instance because too few inputs run, or onnxruntime computes an operator
    wrongly.
    """
    original, changed = onnx.load(before), onnx.load(after)
    if runtime.is_disputed(original) or not original.graph.output:
        return "unclear"
    found = _compared(original, changed, drawn)
    if not found:
        return "unclear"
    if promises.are_narrower(original, changed):
        return "interface"
    return next(worst for worst in WORST_FIRST if worst in found)


def _compared(original: onnx.ModelProto, changed: onnx.ModelProto, drawn: Feeds) -> list[Truth]:
    """Compare the groups with enough inputs that run, once with 0 as an unknown size and once as declared.

    Verification does not open the sizes, so onnxruntime cannot report to it a model that does not run at them.
    """
    empty = feeding.emptied(original, drawn)
    if empty is None:
        return _in_groups(original, changed, drawn, _groups)
    sides = [feeding.opened(model) for model in (original, changed)]
    literally = _in_groups(original, changed, empty, lambda _, fed, __: [[fed] * FEWEST])
    unknown = _in_groups(sides[0], sides[1], drawn, _groups)
    return literally + ["unclear" if said == "does not run" else said for said in unknown]


Groups = Callable[[onnx.ModelProto, Feeds, Any], Iterable[Iterable[Feeds]]]


def _in_groups(original: onnx.ModelProto, changed: onnx.ModelProto, drawn: Feeds, groups: Groups) -> list[Truth]:
    if runtime.is_disputed_at(original, drawn) or promises.has_disputed_sizes(original):
        return []
    try:
        first = runtime.session(original.SerializeToString())
    except Exception:  # noqa: BLE001 - it raises what it likes
        return []
    try:
        second = runtime.session(changed.SerializeToString())
    except Exception as error:  # noqa: BLE001 - as above
        if "NOT_IMPLEMENTED" in str(error):
            return []
        second = None
    declared = promises.of_outputs(original, changed)
    said: list[Truth] = []
    for group in groups(original, drawn, first):
        found = [(_error(first, second, feeds, declared), feeds) for feeds in group]
        ran = [(error, feeds) for error, feeds in found if not np.isnan(error)]
        if len(ran) < FEWEST:
            continue
        says = _said([error for error, _ in ran])
        shown = [feeds for error, feeds in ran if error > DIFFERENT]
        said.append("unclear" if says == "shows" and _agree_in_onnx(original, changed, shown[0]) else says)
    return said


def _agree_in_onnx(original: onnx.ModelProto, changed: onnx.ModelProto, feeds: Feeds) -> bool:
    """Whether onnx's own evaluation finds no difference, so that rounding in onnxruntime makes the one that shows."""
    try:
        expected, found = (in_reference(model, dict(feeds)) for model in (original, changed))
    except Exception:  # noqa: BLE001 - it raises what it likes
        return False
    pairs = zip(expected, found, strict=True)
    return all(distance.relative(np.asarray(one), np.asarray(two)) < SAME for one, two in pairs)


def _said(errors: Sequence[float]) -> Truth:
    if np.mean(np.array(errors) == np.inf) > 0.5:
        return "does not run"
    if max(errors) == BROKEN:
        return "interface"
    return "shows" if np.mean(np.array(errors) > DIFFERENT) > 0.5 else "same" if max(errors) < SAME else "unclear"


def _names(values: Any) -> list[str]:
    return [value.name for value in values]


def _groups(model: onnx.ModelProto, drawn: Feeds, session: Any) -> Iterator[Iterator[Feeds]]:
    rng = np.random.default_rng(0)
    stored = {tensor.name for tensor in model.graph.initializer}
    left = {name: array for name, array in drawn.items() if name not in stored}
    yield (feeding.numbers(drawn if number % 5 == 4 else left, rng) for number in range(RUNS))
    yield ({**feeding.numbers(left, rng), **feeding.other_defaults(model, rng)} for _ in range(RUNS))
    if any(array.dtype.kind == "f" and not array.ndim for array in left.values()):
        for far in (feeding.FAR, -feeding.FAR):
            yield (feeding.far(feeding.numbers(left, rng), far) for _ in range(RUNS))
    for flags in feeding.turned(left):
        yield (feeding.numbers(flags, rng) for _ in range(RUNS))
    if feeding.open_dims(model, left):
        for flags in feeding.turned(left):
            yield (feeding.resized(model, flags, rng, empty=not runtime.disputes_empty(model)) for _ in range(RUNS))
        yield (feeding.resized(model, left, rng, empty=not runtime.disputes_empty(model)) for _ in range(RUNS))
        longest = _longest(model, left, session)
        yield (feeding.numbers(left, rng, longest) for _ in range(RUNS))


def _longest(model: onnx.ModelProto, drawn: Feeds, session: Any) -> Mapping[str, list[int]]:
    """Return the shapes of inputs where each dynamic dim in turn is as large as the original accepts."""
    shapes = {name: [*array.shape] for name, array in drawn.items()}
    for places in [*feeding.open_dims(model, drawn).values()][:MOST_OPEN]:
        name, axis = places[0]
        size = shapes[name][axis]
        for larger in range(3 * size + 4, size, -1):
            tried = {other: [*shape] for other, shape in shapes.items()}
            for other, place in places:
                tried[other][place] = larger
            if _runs(session, feeding.numbers(drawn, np.random.default_rng(0), tried)):
                shapes = tried
                break
    return shapes


def _runs(session: Any, feeds: Feeds) -> bool:
    try:
        session.run(None, feeds)
    except Exception:  # noqa: BLE001 - it raises what it likes
        return False
    return True


BROKEN = 1e9
"""In place of an error, for a result without its declared size."""


def _error(first: Any, second: Any, feeds: Feeds, declared: promises.Told) -> float:
    """Return the largest error of outputs, in their scale; infinite if only the original runs, NaN if it does not."""
    names = _names(first.get_outputs())
    try:
        expected = first.run(names, feeds)
    except Exception:  # noqa: BLE001 - it raises what it likes
        return float("nan")
    try:
        found = second.run(names, feeds) if second is not None else None
    except Exception:  # noqa: BLE001 - as above
        found = None
    if found is None:
        return float("inf")
    if any(promises.is_broken(declared[name], np.shape(array)) for name, array in zip(names, found, strict=True)):
        return BROKEN
    pairs = zip(expected, found, strict=True)
    return max((distance.relative(np.asarray(one), np.asarray(two)) for one, two in pairs), default=0.0)
