"""Numbers and strings that operators of ai.onnx.ml distinguish: around thresholds, and what they know by name.

A tree is walked from its root to a leaf, and features are drawn so that a row takes this way: at a threshold, beside
it, or anywhere between. Elsewhere a fault in one branch would not show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bnfold import ir
from bnfold.ir.elements import TP, Array
from bnfold.ir.schemas import MACHINE_LEARNING
from bnfold.reference.forest import MEMBER, MODES, TREES, UNEQUAL, Forest, forest_of
from bnfold.verification.tolerance.floats import is_float

ROWS = 65
"""Rows of features that are tried at once; an odd number, as other batches are."""

_MISSING = 0.25
"""Of rows have a NaN at a feature on their way."""

_UNKNOWN = "none of these"
_LOOKAHEAD = 8
_TAKE_MISSING = frozenset({*TREES, "Imputer", "LabelEncoder", "Scaler"})


@dataclass(frozen=True, slots=True)
class _LearnedAsk:
    """An array of ``shape`` for a node.

    ``dtype`` is the element type of the value that is fed in the end, and ``has_missing`` whether NaN may be in it.
    """

    node: ir.Node
    shape: tuple[int, ...]
    dtype: int
    rng: np.random.Generator
    has_missing: bool

    def setting(self, name: str, default: Any = None) -> Any:
        return default if self.node.has_references else self.node.attr(name, default)


def branches_by_features(nodes: Iterable[ir.Node]) -> bool:
    """Whether a node decides by features, so that many rows have to be tried."""
    return any(node.domain == MACHINE_LEARNING and (node.op_type, 0) in _RULES for node in nodes)


def drawn_for_learned(value: ir.Value, shape: tuple[int, ...], rng: np.random.Generator) -> Array | None:
    """Return what the first operator of ai.onnx.ml that reads the value distinguishes; None if none does.

    ``rng`` is the same for all inputs of a model: the columns of a row have to take one way.
    """
    dtype, readers = value.dtype or TP.FLOAT, [node for node, _ in value.uses]
    takes_missing = is_float(dtype) and all(
        node.domain == MACHINE_LEARNING and node.op_type in _TAKE_MISSING for node in readers
    )
    return _wanted(value, _LearnedAsk(readers[0], shape, dtype, rng, takes_missing), 0) if readers else None


def _wanted(value: ir.Value | None, ask: _LearnedAsk, depth: int) -> Array | None:
    for node, slot in value.uses if value is not None and depth < _LOOKAHEAD else ():
        found = None
        if node.domain == MACHINE_LEARNING and (rule := _RULES.get((node.op_type, slot))) is not None:
            found = rule(replace(ask, node=node), depth)
        elif node.is_op("Identity", "Cast") or (node.is_op("Reshape") and slot == 0):
            found = _wanted(node.output(0), ask, depth + 1)
        elif node.is_op("Concat"):
            found = _part_of(replace(ask, node=node), slot, depth)
        if found is not None:
            return found
    return None


def _part_of(ask: _LearnedAsk, slot: int, depth: int) -> Array | None:
    """Return the columns of one operand of a Concat of columns, drawn together with the others."""
    widths = [value.shape[-1] if value is not None and value.shape else None for value in ask.node.inputs]
    widths[slot] = ask.shape[-1] if ask.shape else None
    if ask.setting("axis") not in (-1, len(ask.shape) - 1):
        return None
    known = [width for width in widths if isinstance(width, int)]
    if len(known) < len(widths):
        return None
    found = _wanted(ask.node.output(0), replace(ask, shape=(*ask.shape[:-1], sum(known))), depth + 1)
    first = sum(known[:slot])
    return None if found is None else found[..., first : first + known[slot]]


def _around_splits(ask: _LearnedAsk, _: int) -> Array | None:
    forest = forest_of(ask.node)
    if forest is None or len(ask.shape) != 2 or forest.features.max(initial=-1) >= ask.shape[1]:
        return None
    real = np.float64 if ask.dtype == TP.DOUBLE else np.float32
    return _Walks(forest, real, ask.rng, has_missing=ask.has_missing).rows(*ask.shape)


class _Walks:
    """Rows of features that take random ways through the trees."""

    def __init__(
        self, forest: Forest, real: type[np.floating[Any]], rng: np.random.Generator, *, has_missing: bool
    ) -> None:
        self._forest, self._real, self._rng, self._has_missing = forest, real, rng, has_missing
        is_open = (forest.modes == UNEQUAL) & ~forest.tracks  # where runtimes take NaN for another number
        self._complete = set(forest.features[is_open].tolist())
        self._whole = set(forest.features[forest.modes == MEMBER].tolist())

    def rows(self, count: int, features: int) -> Array:
        """Draw rows; features that a row's way does not ask for are near thresholds of any tree, or their negatives."""
        x = self._rng.standard_normal((count, features))
        for feature in range(features):
            splits = self._forest.splits[self._forest.features == feature]
            if splits.size:
                x[:, feature] = self._rng.choice(splits, count) * self._rng.choice([1.0, 1.1, 0.9, -1.0], count)
        for row in x:
            self._take(row)
        for feature in self._whole:
            x[:, feature] = np.rint(x[:, feature])
        return x

    def _take(self, row: Array) -> None:
        """Change a row so that it takes a random way in one tree."""
        forest, bounds = self._forest, dict[int, tuple[float, float]]()
        at = int(self._rng.choice(forest.roots)) if forest.roots.size else -1
        for _ in range(forest.features.size):
            if at < 0:
                break
            feature, is_true = int(forest.features[at]), bool(self._rng.random() < 0.5)
            bound = self._narrowed(bounds.get(feature, (-np.inf, np.inf)), at, is_true=is_true)
            if bound[0] > bound[1]:
                is_true = not is_true
                bound = self._narrowed(bounds.get(feature, (-np.inf, np.inf)), at, is_true=is_true)
            bounds[feature] = bound
            at = int((forest.true if is_true else forest.false)[at])
        for feature, (least, most) in bounds.items():
            row[feature] = self._between(least, most)
        possible = [feature for feature in bounds if feature not in self._complete]
        if self._has_missing and possible and self._rng.random() < _MISSING:
            row[self._rng.choice(possible)] = np.nan

    def _narrowed(self, bound: tuple[float, float], at: int, *, is_true: bool) -> tuple[float, float]:
        """Return the range of a feature in which a branch has this outcome; both ends belong to it."""
        split, mode = self._real(self._forest.splits[at]), MODES[self._forest.modes[at]].removeprefix("BRANCH_")
        least, most = bound
        if not is_true:
            mode = {"LEQ": "GT", "LT": "GTE", "GTE": "LT", "GT": "LEQ", "EQ": "NEQ", "NEQ": "EQ"}.get(mode, "NONE")
        if mode == "MEMBER":
            number = float(self._rng.choice(self._forest.members[at])) if self._forest.members[at].size else 0.0
            return max(least, number), min(most, number)
        if mode in ("LEQ", "LT", "EQ"):
            most = min(most, float(np.nextafter(split, self._real(-np.inf)) if mode == "LT" else split))
        if mode in ("GTE", "GT", "EQ"):
            least = max(least, float(np.nextafter(split, self._real(np.inf)) if mode == "GT" else split))
        return least, most

    def _between(self, least: float, most: float) -> float:
        """Return one end of a range, or a number between; an open range goes beyond the negative of its end."""
        ends = [end for end in (least, most) if np.isfinite(end)]
        if not ends or self._rng.random() < 0.3:
            low = least if np.isfinite(least) else -abs(most) - 1.0 if np.isfinite(most) else -1.0
            high = most if np.isfinite(most) else abs(low) + 1.0
            return float(np.clip(self._rng.uniform(low, max(low, high)), least, max(least, most)))
        return float(self._rng.choice(ends))


def _keys(ask: _LearnedAsk, names: tuple[str, ...], *, has_unknown: bool = True) -> Array | None:
    """Draw keys that a node knows, each as often as others, and some that it does not know."""
    stored = next(
        (found for name in names if (found := ask.setting(name)) is not None and len(_listed(ask, found))), None
    )
    known = [] if stored is None else _listed(ask, stored)
    if not known:
        return None
    is_text = isinstance(known[0], (str, bytes))
    if is_text != (ask.dtype == TP.STRING):
        return None
    if is_text:
        pool = [*known, *([_UNKNOWN, ""] if has_unknown else [])]
        return np.array(pool, object)[_places(ask, len(pool))]
    numbers = np.array(known, np.float64)
    largest = np.nanmax(np.abs(numbers), initial=0.0)
    pool = [*known, *([largest + 1, -largest - 1, *(-numbers)] if has_unknown else [])]
    return np.array(pool)[_places(ask, len(pool))]


def _listed(ask: _LearnedAsk, stored: Any) -> list[Any]:
    if isinstance(stored, list):
        return stored
    return list(ask.node.graph.model.tensor(stored).numpy().reshape(-1).tolist())


def _places(ask: _LearnedAsk, count: int) -> Array:
    """Draw places in a pool, each once before one is drawn again."""
    size = int(np.prod(ask.shape))
    turns = [ask.rng.permutation(count) for _ in range(-(-size // count))]
    return np.concatenate([np.zeros(0, np.int64), *turns])[:size].reshape(ask.shape)


def _labels(ask: _LearnedAsk, _: int) -> Array | None:
    if (classes := ask.setting("classes_strings")) is not None:  # which version 1 has
        if ask.dtype != TP.STRING:
            return np.arange(-1, len(classes) + 1)[_places(ask, len(classes) + 2)]
        return _keys(ask, ("classes_strings",))
    return _keys(ask, ("keys_strings", "keys_int64s", "keys_floats", "keys_tensor"))


def _categories(ask: _LearnedAsk, _: int) -> Array | None:
    return _keys(ask, ("cats_strings",) if ask.dtype == TP.STRING else ("cats_int64s",))


def _hot(ask: _LearnedAsk, _: int) -> Array | None:
    has_unknown = bool(ask.setting("zeros", 1))
    return _keys(ask, ("cats_strings", "cats_int64s"), has_unknown=has_unknown)


def _binary(ask: _LearnedAsk, _: int) -> Array:
    split = np.float32(ask.setting("threshold", 0.0))
    near = [split, np.nextafter(split, np.float32(np.inf)), np.nextafter(split, np.float32(-np.inf))]
    return ask.rng.choice([*near, split - 1, split + 1, -split, -abs(split) - 1], ask.shape)


def _scaled(ask: _LearnedAsk, depth: int) -> Array | None:
    """Return what the scaler turns into what is asked for behind it, or else into usual numbers."""
    wanted = _wanted(ask.node.output(0), ask, depth + 1)
    offset, scale = (np.array(ask.setting(name, []), np.float64) for name in ("offset", "scale"))
    if not offset.size or not (scale.size and scale.all()) or {offset.size, scale.size} - {1, *ask.shape[-1:]}:
        return wanted
    return offset + (ask.rng.standard_normal(ask.shape) if wanted is None else wanted) / scale


def _with_missing(ask: _LearnedAsk, depth: int) -> Array:
    """Return what is asked for behind an Imputer, with numbers among it that it replaces."""
    wanted = _wanted(ask.node.output(0), ask, depth + 1)
    found = np.array(3.0 * ask.rng.standard_normal(ask.shape) if wanted is None else wanted, np.float64)
    name = "replaced_value_float" if is_float(ask.dtype) else "replaced_value_int64"
    found[ask.rng.random(ask.shape) < _MISSING] = ask.setting(name, 0)
    return found


def _with_zero_rows(ask: _LearnedAsk, _: int) -> Array:
    """Return numbers of both signs, and rows of zeros, which have no norm to divide by."""
    numbers = ask.rng.standard_normal(ask.shape)
    numbers[ask.rng.random(ask.shape[:1]) < 0.1] = 0.0
    return numbers


def _columns(ask: _LearnedAsk, _: int) -> Array | None:
    value = ask.node.input(0)
    size = value.shape[-1] if value is not None and value.shape else None
    return ask.rng.integers(0, size, ask.shape) if isinstance(size, int) and size else None


_RULES: dict[tuple[str, int], Callable[[_LearnedAsk, int], Array | None]] = {
    **{(name, 0): _around_splits for name in TREES},
    ("ArrayFeatureExtractor", 1): _columns,
    ("Binarizer", 0): _binary,
    ("CategoryMapper", 0): _categories,
    ("Imputer", 0): _with_missing,
    ("LabelEncoder", 0): _labels,
    ("Normalizer", 0): _with_zero_rows,
    ("OneHotEncoder", 0): _hot,
    ("Scaler", 0): _scaled,
}
