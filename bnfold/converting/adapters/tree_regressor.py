"""TreeEnsembleRegressor, which all versions of ai.onnx.ml before 5 have, from TreeEnsemble."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx

from bnfold.converting.adapters.tree_ensemble import (
    AGGREGATES,
    MODES,
    TRANSFORMS,
    Tree,
    TreeBranch,
    TreeEdit,
    TreeLeaf,
    become,
    made,
    ordered,
)
from bnfold.converting.context import Inexpressible
from bnfold.converting.node_conversion import NodeConversion

TP = onnx.TensorProto


def to_regressor(conversion: NodeConversion) -> TreeEdit:
    """Write a TreeEnsemble as TreeEnsembleRegressor."""
    node, dtype = conversion.node, conversion.dtype(conversion.input(0))
    if dtype != TP.FLOAT:
        raise Inexpressible("computes in float64 or float16, and before version 5 all trees make float32")
    if (transform := _at(TRANSFORMS, int(node.attr("post_transform", 0)))) in ("SOFTMAX", "LOGISTIC"):
        raise Inexpressible(f"has post_transform={transform}, which onnxruntime takes for another one")
    tensor = node.graph.model.tensor
    reals = [tensor(node.attr(name)).numpy() for name in ("nodes_splits", "leaf_weights")]
    if any(array.dtype != np.float32 for array in reals):
        raise Inexpressible("has splits or weights of another type than its input")
    splits, weights = ([float(number) for number in array] for array in reals)
    modes = tensor(node.attr("nodes_modes")).numpy().tolist()
    if any(mode >= MODES.index("BRANCH_MEMBER") for mode in modes):
        raise Inexpressible("compares with the members of a set, which came with version 5")
    tracks = node.attr("nodes_missing_value_tracks_true") or [0] * len(modes)
    sides = [
        zip(node.attr(f"nodes_{side}leafs"), node.attr(f"nodes_{side}nodeids"), strict=True)
        for side in ("true", "false")
    ]
    names = [MODES[mode] for mode in modes]
    branches = [*map(TreeBranch, names, node.attr("nodes_featureids"), splits, tracks, *sides)]
    leaves = [TreeLeaf((vote,)) for vote in zip(node.attr("leaf_targetids"), weights, strict=True)]
    trees = [
        ordered((0, root), lambda place: _at(leaves if place[0] else branches, place[1]), 2 * len(branches) + 1)
        for root in node.attr("tree_roots")
    ]
    attributes = made(
        n_targets=int(node.attr("n_targets", 0)),
        aggregate_function=_at(AGGREGATES, int(node.attr("aggregate_function", 1))),
        post_transform=transform,
    )
    return partial(become, conversion, "TreeEnsembleRegressor", attributes + _older(trees))


def _at(table: Sequence[Any], place: int) -> Any:
    if not 0 <= place < len(table):
        raise Inexpressible("has a place that is in none of its lists")
    return table[place]


def _older(trees: Sequence[Tree]) -> list[onnx.AttributeProto]:
    """Return the attributes of nodes and leaves, a row for each."""
    entries = [(tree, place, entry) for tree, nodes in enumerate(trees) for place, entry in enumerate(nodes)]
    rows = [(t, p, *(entry if isinstance(entry, TreeBranch) else _LEAF)) for t, p, entry in entries]
    votes = [(t, p, *vote) for t, p, entry in entries if isinstance(entry, TreeLeaf) for vote in entry.votes]
    columns = dict(zip(_NODES, zip(*rows, strict=True), strict=True))
    return made(**columns, **dict(zip(_VOTES, zip(*votes, strict=True), strict=True)))


_LEAF = ("LEAF", 0, 0.0, 0, 0, 0)
_NODES = [
    *(f"nodes_{name}" for name in ("treeids", "nodeids", "modes", "featureids", "values")),
    *("nodes_missing_value_tracks_true", "nodes_truenodeids", "nodes_falsenodeids"),
]
_VOTES = [f"target_{name}" for name in ("treeids", "nodeids", "ids", "weights")]
