"""Whether a rewritten model is right, by onnxruntime, and by onnx where onnxruntime does not take the original."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
from _upgrade.running import attempt, in_reference
from fuzz import distance, runtime, showing
from fuzz.builder import Array

from _referee.tasks import draw_feeds

Judgement = Literal["right", "wrong", "loads nowhere", "unclear"]
WORDS: Mapping[showing.Truth, Judgement] = {
    "same": "right", "shows": "wrong", "interface": "wrong", "does not run": "loads nowhere", "unclear": "unclear",
}  # fmt: skip


def judge(original: Path, right: Path | None, result: Path, drawn: Mapping[str, Array]) -> Judgement:
    """Compare the result with the original; where that does not decide, with the ``right`` result, if there is one.

    What says of the right result that it is wrong as well decides nothing. Nothing decides where a model makes much of
    one rounding; and that a result loads nowhere is no news where the original loads nowhere either.
    """
    for before in filter(None, (original, right)):
        feeds = drawn or draw_feeds(before)
        for look in (_in_onnxruntime, _in_onnx):
            judgement = look(before, result, feeds)
            if judgement == "amplified" or (judgement == "loads nowhere" and not _loads(original)):
                return "unclear"
            if judgement == "right" or (
                judgement != "unclear" and (right is None or look(before, right, feeds) != judgement)
            ):
                return judgement
    return "unclear"


def _in_onnxruntime(before: Path, after: Path, feeds: Mapping[str, Array]) -> Judgement | Literal["amplified"]:
    try:
        truth = showing.truth(before, after, feeds)
        if truth == "shows" and _amplifies_rounding(_runner(before), feeds):
            return "amplified"
    except Exception:  # noqa: BLE001 - of a damaged model
        return "unclear"
    return WORDS[truth]


def _in_onnx(before: Path, after: Path, feeds: Mapping[str, Array]) -> Judgement | Literal["amplified"]:
    """Judge by onnx's checker and its evaluator: these know operators and types that onnxruntime does not."""
    if _is_valid(before) and not _loads(after):
        return "loads nowhere"
    expected, found = (attempt(_evaluator(path, feeds)) for path in (before, after))
    if isinstance(expected, Exception) or isinstance(found, Exception):  # it lacks operators
        return "unclear"
    pairs = [(np.asarray(one), np.asarray(two)) for one, two in zip(expected, found, strict=False)]
    errors = [distance.relative(one, two) for one, two in pairs]
    if not errors or len(expected) != len(found):
        return "unclear"
    if max(errors) > showing.DIFFERENT:
        return "amplified" if _amplifies_rounding(lambda fed: in_reference(onnx.load(before), fed), feeds) else "wrong"
    return "right" if max(errors) < showing.SAME else "unclear"


def _amplifies_rounding(run: Callable[[dict[str, Array]], Sequence[Any]], feeds: Mapping[str, Array]) -> bool:
    """Whether floats that are fed differ by one rounding, and the original's outputs by more than a right result's."""
    moved = {
        name: np.nextafter(array, np.inf, dtype=array.dtype) if array.dtype.kind == "f" else array
        for name, array in feeds.items()
    }
    expected, found = (attempt(partial(run, dict(fed))) for fed in (feeds, moved))
    if isinstance(expected, Exception) or isinstance(found, Exception):
        return False
    pairs = [(np.asarray(one), np.asarray(two)) for one, two in zip(expected, found, strict=True)]
    return any(distance.relative(one, two) > showing.DIFFERENT for one, two in pairs)


def _runner(path: Path) -> Callable[[dict[str, Array]], Sequence[Any]]:
    """Return what runs a model in onnxruntime."""
    session = runtime.session(path)
    return lambda fed: session.run(None, fed)


def _loads(path: Path) -> bool:
    return _is_valid(path) or runtime.opened(path) is not None


def _is_valid(path: Path) -> bool:
    """Whether onnx's checker takes the model."""
    return not isinstance(attempt(partial(onnx.checker.check_model, str(path), full_check=True)), Exception)


def _evaluator(path: Path, feeds: Mapping[str, Array]) -> Any:
    return lambda: in_reference(onnx.load(path), dict(feeds))
