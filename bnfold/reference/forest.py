"""Trees of ai.onnx.ml in one form, whichever operator and version stores them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bnfold import ir
from bnfold.ir.elements import Array
from bnfold.reference.attributes import resolve
from bnfold.reference.registry import Attribute, KernelDeclined, Mismatch, require

TREES = ("TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor")
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
UNEQUAL = MODES.index("BRANCH_NEQ")
MEMBER = MODES.index("BRANCH_MEMBER")
_COMPARISONS = (np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal)
_MOST_SHARED = 4
"""How many times as many nodes a forest may have if nodes with several parents are counted for each."""


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """Branches and votes, a row each. A child or root is the row of a branch, or ``~leaf``.

    The votes of a leaf are those from its place in ``starts`` up to the next place.
    """

    roots: Array
    features: Array
    modes: Array
    splits: Array
    tracks: Array
    true: Array
    false: Array
    starts: Array
    targets: Array
    weights: Array
    count: int
    aggregate: str = "SUM"
    members: Mapping[int, Array] = field(default_factory=dict)
    """By the row of a branch that tests membership."""

    def leaves(self, x: Array) -> Array:
        """Return the leaf that each row of ``x`` reaches in each tree."""
        require(self.features.max(initial=-1) < x.shape[1], f"a branch on a feature that {x.shape[1]} columns lack")
        at = np.broadcast_to(self.roots, (len(x), len(self.roots))).copy()
        for _ in range(len(self.features) + 1):
            rows, trees = np.nonzero(at >= 0)
            if not rows.size:
                return ~at
            branch = at[rows, trees]
            at[rows, trees] = np.where(
                self.are_true(branch, x[rows, self.features[branch]]), self.true[branch], self.false[branch]
            )
        raise Mismatch("its branches lead back to themselves")

    def are_true(self, branch: Array, numbers: Array) -> Array:
        """Return the outcome of each of these branches for one number each."""
        found = np.zeros(branch.shape, bool)
        modes = self.modes[branch]
        for mode, compare in enumerate(_COMPARISONS):
            of_mode = modes == mode
            if of_mode.any():
                found[of_mode] = compare(numbers[of_mode], self.splits[branch[of_mode]])
        for place in np.flatnonzero(modes == MEMBER):
            number, members = numbers[place], self.members[int(branch[place])]
            found[place] = number in members
            is_sure = found[place] or np.trunc(number) not in members
            require(is_sure, "a fraction that onnxruntime takes for a member of a set", KernelDeclined)
        missing = np.isnan(numbers)
        is_sure = (modes != UNEQUAL) | self.tracks[branch] | ~missing
        require(is_sure.all(), "a NaN at a BRANCH_NEQ, which runtimes take for another number", KernelDeclined)
        found[missing] = self.tracks[branch[missing]]
        return found

    def scores(self, leaves: Array) -> tuple[Array, Array]:
        """Return the aggregated votes for each target, and whether it had any. The order of trees is that of sums."""
        shape = (len(leaves), self.count)
        least = {"MIN": np.inf, "MAX": -np.inf}.get(self.aggregate, 0.0)
        scores, voted = np.full(shape, least), np.zeros(shape, bool)
        collect = {"MIN": np.minimum, "MAX": np.maximum}.get(self.aggregate, np.add)
        first, end = self.starts[leaves], self.starts[leaves + 1]
        for number in range(int((end - first).max(initial=0))):
            rows, trees = np.nonzero(first + number < end)
            vote = first[rows, trees] + number
            collect.at(scores, (rows, self.targets[vote]), self.weights[vote])
            voted[rows, self.targets[vote]] = True
        if self.aggregate == "AVERAGE":
            scores /= len(self.roots)
        return scores, voted


def read_forest(op: str, attrs: Mapping[str, Attribute]) -> Forest:
    """Return the trees that a node stores; base values are no part of them. Raises KernelDeclined."""
    return _read_newer(attrs) if op == "TreeEnsemble" else _read_older(op, attrs)


_KEPT: dict[bytes, Forest | None] = {}
_MOST_KEPT = 4
"""Forests that are kept by the content of their nodes: to read a large one takes longer than to evaluate it."""


def forest_of(node: ir.Node) -> Forest | None:
    """Return the trees of a node of a model; None if they cannot be read."""
    key = hashlib.blake2b(node.proto.SerializeToString()).digest()
    if key not in _KEPT:
        try:
            found = read_forest(node.op_type, {**resolve(node, {}, "float64")})
        except (KernelDeclined, KeyError, ValueError, TypeError):
            found = None
        while len(_KEPT) >= _MOST_KEPT:
            del _KEPT[next(iter(_KEPT))]
        _KEPT[key] = found
    return _KEPT[key]


def meaning_of_trees(node: ir.Node) -> object | None:
    """Return what `canonical` says of a node's trees and base values; None if they cannot be read."""
    forest = forest_of(node)
    try:
        return None if forest is None else canonical(forest, numbers_of(resolve(node, {}, "float64"), "base_values"))
    except KernelDeclined:
        return None


def numbers_of(attrs: Mapping[str, Attribute], name: str) -> Array:
    """Return floats that are stored as a list, or as a tensor of float64."""
    stored = attrs.get(f"{name}_as_tensor")
    return np.asarray(attrs.get(name, []) if stored is None else stored, np.float64).reshape(-1)


def _integers(attrs: Mapping[str, Attribute], name: str, size: int | None = None) -> Array:
    found = np.asarray(attrs.get(name, []), np.int64).reshape(-1)
    require(size in (None, found.size), f"{name} has {found.size} numbers in place of {size}")
    return found


def _tracks(attrs: Mapping[str, Attribute], size: int) -> Array:
    given = _integers(attrs, "nodes_missing_value_tracks_true")
    require(given.size in (0, size) and np.isin(given, (0, 1)).all(), "nodes_missing_value_tracks_true does not fit")
    return given.astype(bool) if given.size else np.zeros(size, bool)


def _read_newer(attrs: Mapping[str, Attribute]) -> Forest:
    """Read a TreeEnsemble."""
    modes = np.asarray(attrs["nodes_modes"]).reshape(-1).astype(np.int64)
    size = modes.size
    require(((modes >= 0) & (modes < len(MODES))).all(), "a mode that its text does not know")
    targets = _integers(attrs, "leaf_targetids")
    weights = np.asarray(attrs["leaf_weights"], np.float64).reshape(-1)
    splits = np.asarray(attrs["nodes_splits"], np.float64).reshape(-1)
    require(targets.size == weights.size and splits.size == size, "lists of different lengths")
    sides = []
    for side in ("true", "false"):
        places = _integers(attrs, f"nodes_{side}nodeids", size)
        are_leaves = _integers(attrs, f"nodes_{side}leafs", size)
        most = np.where(are_leaves != 0, targets.size, size)
        require(((places >= 0) & (places < most)).all(), "a child that is not there")
        sides.append(np.where(are_leaves != 0, ~places, places))
    roots = _integers(attrs, "tree_roots")
    require(((roots >= 0) & (roots < size)).all(), "a root that is not there")
    true, false = sides
    is_leaf = (true[roots] == false[roots]) & (true[roots] < 0)  # which is how a tree of one node is stored
    return Forest(
        np.where(is_leaf, true[roots], roots),
        _features(attrs, size),
        modes,
        splits,
        _tracks(attrs, size),
        true,
        false,
        np.arange(targets.size + 1),
        *_votes(targets, weights, int(attrs.get("n_targets", 0))),
        _entry(AGGREGATES, attrs.get("aggregate_function", 1)),
        _members(attrs, modes),
    )


def _entry(table: tuple[str, ...], place: Any) -> str:
    require(0 <= int(place) < len(table), f"{place} is none of {', '.join(table)}")
    return table[int(place)]


def transform_of(op: str, attrs: Mapping[str, Attribute]) -> str:
    """Return the name of a node's post_transform."""
    if op == "TreeEnsemble":
        return _entry(TRANSFORMS, attrs.get("post_transform", 0))
    name = str(attrs.get("post_transform", "NONE"))
    require(name in TRANSFORMS, f"post_transform {name!r} is not in the operator text")
    return name


def _features(attrs: Mapping[str, Attribute], size: int) -> Array:
    found = _integers(attrs, "nodes_featureids", size)
    require((found >= 0).all(), "a feature below 0")
    return found


def _votes(targets: Array, weights: Array, count: int) -> tuple[Array, Array, int]:
    require(((targets >= 0) & (targets < count)).all(), f"a vote for none of the {count} targets")
    return targets, weights, count


def _members(attrs: Mapping[str, Attribute], modes: Array) -> dict[int, Array]:
    """Return the sets by the branches that test them; a NaN ends each set."""
    rows = np.flatnonzero(modes == MEMBER)
    stored = np.asarray(attrs.get("membership_values", []), np.float64).reshape(-1)
    ends = np.flatnonzero(np.isnan(stored))
    require(ends.size == rows.size and (not stored.size or ends[-1:] == stored.size - 1), "as many sets as branches")
    return {int(row): np.unique(part[:-1]) for row, part in zip(rows, np.split(stored, ends + 1), strict=False)}


def _read_older(op: str, attrs: Mapping[str, Attribute]) -> Forest:
    """Read a TreeEnsembleRegressor or a TreeEnsembleClassifier."""
    what = "class" if op.endswith("Classifier") else "target"
    trees, ids = _integers(attrs, "nodes_treeids"), _integers(attrs, "nodes_nodeids")
    size = trees.size
    require(ids.size == size > 0, "no nodes, or lists of different lengths")
    names = list(attrs.get("nodes_modes", []))
    require(len(names) == size, "lists of different lengths")
    table = {name: mode for mode, name in enumerate((*MODES[:-1], "LEAF"))}
    require(table.keys() >= set(names), "a mode that its text does not know")
    modes = np.array([table[name] for name in names], np.int64)
    is_leaf = modes == len(MODES) - 1
    find = _Places(trees, ids)
    features, splits = _features(attrs, size), numbers_of(attrs, "nodes_values")
    require(splits.size == size, "lists of different lengths")
    code = np.where(is_leaf, ~(np.cumsum(is_leaf) - 1), np.cumsum(~is_leaf) - 1)
    below = [find(trees[~is_leaf], _integers(attrs, f"nodes_{side}nodeids", size)[~is_leaf]) for side in _SIDES]
    parents = np.bincount(np.concatenate(below), minlength=size)
    require((parents <= 1).all(), "a node with two parents")
    roots = np.flatnonzero(parents == 0)
    require(np.unique(trees).size == roots.size == np.unique(trees[roots]).size, "a tree without one root")
    voting = [_integers(attrs, f"{what}_{name}") for name in ("treeids", "nodeids", "ids")]
    weights = numbers_of(attrs, f"{what}_weights")
    require({each.size for each in voting} == {weights.size}, "lists of different lengths")
    voters = find(voting[0], voting[1])
    require(is_leaf[voters].all(), "a vote of a branch")
    order = np.argsort(~code[voters], kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(~code[voters], minlength=int(is_leaf.sum())))])
    labels = attrs.get("classlabels_int64s") or attrs.get("classlabels_strings") or []
    count = len(labels) if what == "class" else int(attrs.get("n_targets", 0))
    votes = np.diff(starts)
    require(
        what == "class" or count != 1 or votes.max(initial=0) < 2,
        "several votes of a leaf for the only target, of which runtimes count one",
        KernelDeclined,
    )
    require(
        count != 1 or votes.all() or attrs.get("aggregate_function") not in ("MIN", "MAX"),
        "an extreme over leaves of which some have no vote, which runtimes take for 0",
        KernelDeclined,
    )
    return Forest(
        code[roots],
        features[~is_leaf],
        modes[~is_leaf],
        splits[~is_leaf],
        _tracks(attrs, size)[~is_leaf],
        code[below[0]],
        code[below[1]],
        starts,
        *_votes(voting[2][order], weights[order], count),
        _named(attrs.get("aggregate_function", "SUM")),
    )


_SIDES = ("true", "false")


def _named(name: Attribute) -> str:
    require(name in AGGREGATES, f"aggregate_function {name!r} is not in the operator text")
    return str(name)


class _Places:
    """Where the node of a tree is in the lists."""

    def __init__(self, trees: Array, ids: Array) -> None:
        self._trees, self._ids = np.unique(trees), np.unique(ids)
        keys = self._keys(trees, ids)
        self._order = np.argsort(keys, kind="stable")
        self._sorted = keys[self._order]
        require((np.diff(self._sorted) > 0).all(), "two nodes of one name")

    def _keys(self, trees: Array, ids: Array) -> Array:
        places = [
            np.minimum(np.searchsorted(known, given), known.size - 1)
            for known, given in ((self._trees, trees), (self._ids, ids))
        ]
        require((self._trees[places[0]] == trees).all() and (self._ids[places[1]] == ids).all(), "a node is not there")
        return np.asarray(places[0] * self._ids.size + places[1])

    def __call__(self, trees: Array, ids: Array) -> Array:
        keys = self._keys(trees, ids)
        at = np.minimum(np.searchsorted(self._sorted, keys), self._sorted.size - 1)
        require((self._sorted[at] == keys).all(), "a node is not there")
        return np.asarray(self._order[at])


def canonical(forest: Forest, base: Array) -> object:
    """Return a value that two forests share only if they are the same function, whatever order and names they have.

    Trees that branch alike count as one that has the votes of all. What all leaves vote for counts as the vote of a
    tree without branches, and so do ``base`` values that are added to a sum. Raises KernelDeclined for more nodes than
    a tree has.
    """
    votes: dict[bytes, list[Array]] = {}
    leaves_of: dict[bytes, int] = {}
    for root in forest.roots:
        shape, leaves = _branches(forest, int(root))
        first, end = forest.starts[leaves], forest.starts[leaves + 1]
        cast = np.repeat(first - np.concatenate([[0], np.cumsum(end - first)[:-1]]), end - first) + np.arange(
            (end - first).sum()
        )
        rows = np.stack(
            [np.repeat(np.arange(leaves.size), end - first), forest.targets[cast], forest.weights[cast]], axis=1
        )
        votes.setdefault(shape, []).append(rows)
        leaves_of[shape] = leaves.size
    if base.size:
        own = np.stack([np.zeros(base.size), np.arange(base.size), base], axis=1)
        votes.setdefault(b"base" if forest.aggregate != "SUM" else b"", []).append(own)
    constant = votes.pop(b"", [])
    varying: dict[tuple[bytes, int], bytes] = {}
    for shape, parts in votes.items():
        rows = np.concatenate(parts)
        for target in np.unique(rows[:, 1]):
            own = rows[rows[:, 1] == target]
            if forest.aggregate in ("SUM", "AVERAGE"):
                own = own[own[:, 2] != 0]
            own = own[np.lexsort(own.T[::-1])]
            if shape != b"base" and (same := _same_for_all(own, leaves_of[shape])) is not None:
                constant.append(same)
            else:
                varying[shape, int(target)] = own.tobytes()
    rows = np.concatenate([*constant, np.zeros((0, 3))])
    if forest.aggregate in ("SUM", "AVERAGE"):
        rows = rows[rows[:, 2] != 0]
    found = {**varying, (b"", 0): rows[np.lexsort(rows.T[::-1])].tobytes()}
    trees = len(forest.roots) if forest.aggregate == "AVERAGE" else 0
    return forest.count, forest.aggregate, trees, found


def _same_for_all(votes: Array, leaves: int) -> Array | None:
    """Return the votes of one leaf if all leaves of a tree have the same for a target; else None."""
    if len(votes) % leaves:
        return None
    each = votes.reshape(leaves, -1, 3)
    is_same = (each[:, :, 0] == np.arange(leaves)[:, None]).all() and (each[:, :, 2] == each[:1, :, 2]).all()
    return each[0] if is_same else None


def _branches(forest: Forest, root: int) -> tuple[bytes, Array]:
    """Return the branches of one tree level by level, as bytes, and its leaves in that order.

    A branch that leads to one leaf on both sides is that leaf.
    """
    level, parts, leaves, total = np.array([root]), list[bytes](), list[Array](), 0
    while level.size:
        level = _collapsed(forest, level)
        leaves.append(~level[level < 0])
        at = level[level >= 0]
        total += level.size
        most = _MOST_SHARED * (forest.features.size + forest.starts.size)
        require(total <= most, "nodes that have several parents", KernelDeclined)
        columns = (forest.features[at], forest.modes[at], forest.splits[at] + 0.0, forest.tracks[at])
        if at.size:
            parts += [(level < 0).tobytes(), *(column.tobytes() for column in columns)]
            parts += [forest.members[int(branch)].tobytes() for branch in at[columns[1] == MEMBER]]
        level = np.stack([forest.true[at], forest.false[at]], axis=1).reshape(-1)
    return b"|".join(parts), np.concatenate(leaves)


def _collapsed(forest: Forest, level: Array) -> Array:
    at = np.where(level >= 0, level, 0)
    if not forest.true.size:
        return level
    is_one = (level >= 0) & (forest.true[at] == forest.false[at]) & (forest.true[at] < 0)
    return np.where(is_one, forest.true[at], level)
