"""TreeEnsemble of ai.onnx.ml 5, from TreeEnsembleRegressor and TreeEnsembleClassifier, which went then.

Each function looks at a node and returns the edit, or raises Inexpressible.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import onnx

from bnfold import ir
from bnfold.converting.context import Inexpressible
from bnfold.converting.node_conversion import NodeConversion

TP = onnx.TensorProto
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
Votes = tuple[tuple[int, float], ...]
TreeEdit = Callable[[], None]


class TreeLeaf(NamedTuple):
    """A leaf: targets, each with its weight."""

    votes: Votes


class TreeBranch(NamedTuple):
    """A comparison of a feature; ``true`` and ``false`` are places in the list of the tree."""

    mode: str
    feature: int
    split: float
    nan_is_true: int
    true: int
    false: int


Tree = Sequence[TreeLeaf | TreeBranch]
"""The nodes of a tree: the root is the first one, and every other one is the child of one that is before it."""


def from_regressor(conversion: NodeConversion) -> TreeEdit:
    """Write a TreeEnsembleRegressor as TreeEnsemble."""
    node, dtype = conversion.node, _float_type(conversion)
    count, transform = int(node.attr("n_targets", 0)), _named(node, "post_transform", TRANSFORMS, "NONE")
    aggregate = _named(node, "aggregate_function", AGGREGATES, "SUM")
    if transform != "NONE" and (transform not in _OPERATORS or count < 2):
        raise Inexpressible(f"has post_transform={transform}, which runtimes compute otherwise than the text says")
    trees, base = _trees(node, "target", dtype), _base(node, count, aggregate, dtype)
    if count == 1 and any(len(leaf.votes) > 1 for tree in trees for leaf in _leaves(tree)):
        raise Inexpressible("has leaves with several votes for its only target, of which runtimes count one")
    if base and 1 < count > _always_voted(trees):
        raise Inexpressible("has a target without votes for some inputs, of which runtimes leave out the base value")
    attributes = _attributes(_single_votes(trees, aggregate) + base, dtype, count, aggregate)
    return partial(_become_trees, conversion, attributes, dtype, transform)


def from_classifier(conversion: NodeConversion) -> TreeEdit:
    """Write a TreeEnsembleClassifier as TreeEnsemble and ArgMax, if every class always has votes."""
    node, dtype = conversion.node, _float_type(conversion)
    transform = _named(node, "post_transform", TRANSFORMS, "NONE")
    if transform not in _OPERATORS:
        raise Inexpressible(f"has post_transform={transform}, and the class is that of the scores before it")
    labels = np.array(node.attr("classlabels_int64s") or node.attr("classlabels_strings") or [])
    if len(labels) < 3:
        raise Inexpressible("has less than three classes, and its text does not say how votes for two become scores")
    trees, base = _trees(node, "class", dtype), _base(node, len(labels), "SUM", dtype)
    if not base and _always_voted(trees) < len(labels):
        raise Inexpressible("has a class without votes for some inputs, which is none of those to choose from")
    attributes = _attributes(_single_votes(trees, "SUM") + base, dtype, len(labels), "SUM")
    return partial(_become_classes, conversion, attributes, dtype, labels, transform)


_OPERATORS = {"NONE": "Identity", "SOFTMAX": "Softmax", "LOGISTIC": "Sigmoid"}
"""What transforms the scores: in TreeEnsemble, onnxruntime takes the numbers of SOFTMAX and LOGISTIC for each other."""


def _always_voted(trees: Sequence[Tree]) -> int:
    """Return how many targets get a vote from some tree whichever its leaf is."""
    voted = [set.intersection(*({target for target, _ in leaf.votes} for leaf in _leaves(tree))) for tree in trees]
    return len(set[int]().union(*voted))


def _float_type(conversion: NodeConversion) -> int:
    """Return the type of the input, in which the trees compute."""
    dtype = conversion.dtype(conversion.input(0))
    if dtype not in (TP.FLOAT, TP.DOUBLE):
        raise Inexpressible("has an input of integers, which TreeEnsemble does not take")
    return dtype


def _named(node: ir.Node, name: str, known: Sequence[str], default: str) -> str:
    value = node.attr(name, default)
    if value not in known:
        raise Inexpressible(f"has {name}={value!r}, which its text does not know")
    return str(value)


def _numbers(node: ir.Node, name: str, dtype: int) -> list[float]:
    """Return numbers that are floats, or a tensor of float64 where the input is of that type."""
    tensor = node.attr(f"{name}_as_tensor")
    if tensor is None:
        return list(node.attr(name, []))
    if dtype != TP.DOUBLE:
        raise Inexpressible(f"has {name}_as_tensor, which is for inputs of float64")
    return [float(number) for number in node.graph.model.tensor(tensor).numpy().reshape(-1)]


def _trees(node: ir.Node, what: str, dtype: int) -> list[Tree]:
    """Read the trees of an operator before version 5."""
    columns = [node.attr(f"nodes_{name}", []) for name in ("treeids", "nodeids", "modes")]
    size = len(columns[0])
    columns += [node.attr("nodes_featureids", []), _numbers(node, "nodes_values", dtype)]
    columns += [node.attr("nodes_missing_value_tracks_true") or [0] * size]
    columns += [node.attr(f"nodes_{side}nodeids", []) for side in ("true", "false")]
    votes = [node.attr(f"{what}_{name}", []) for name in ("treeids", "nodeids", "ids")]
    votes.append(_numbers(node, f"{what}_weights", dtype))
    if not size or {len(column) for column in columns} != {size} or len({len(column) for column in votes}) > 1:
        raise Inexpressible("has lists of different lengths")
    cast: dict[tuple[int, int], list[tuple[int, float]]] = {}
    for tree, place, target, weight in zip(*votes, strict=True):
        cast.setdefault((tree, place), []).append((target, weight))
    rows: dict[int, dict[int, Any]] = {}
    for tree, place, *row in zip(*columns, strict=True):
        if rows.setdefault(tree, {}).setdefault(place, row) is not row or (len(rows[tree]) == 1) != (place == 0):
            raise Inexpressible("has a tree whose nodes are not listed once each, from the root on")
    return [ordered(0, partial(_row, found, tree, cast), len(found)) for tree, found in rows.items()]


def _row(rows: Mapping[int, Any], tree: int, cast: Mapping[tuple[int, int], Any], place: int) -> TreeLeaf | TreeBranch:
    if place not in rows:
        raise Inexpressible("has a branch to a node that is not there")
    mode, *numbers = rows[place]
    if mode == "LEAF":
        return TreeLeaf(tuple(cast.get((tree, place), ())))
    if mode not in MODES[:-1] or (tree, place) in cast:
        raise Inexpressible(f"has a node of mode {mode!r} which its text does not know, or with votes")
    return TreeBranch(mode, *numbers)


def ordered(root: Any, read: Callable[[Any], TreeLeaf | TreeBranch], most: int) -> Tree:
    """Return the nodes below ``root`` with places in the list for their names; ``read`` looks one up by its name.

    Raises Inexpressible for more than ``most``: nodes that lead back to themselves are no tree.
    """
    names, found = [root], list[TreeLeaf | TreeBranch]()
    for name in names:  # which grows
        entry = read(name)
        if isinstance(entry, TreeBranch):
            children = (entry.true, entry.false)
            entry = entry._replace(true=len(names), false=len(names) + 1)
            names.extend(children)
        found.append(entry)
        if len(names) > most:
            raise Inexpressible("has nodes that are no tree")
    return found


def _leaves(tree: Tree) -> list[TreeLeaf]:
    return [entry for entry in tree if isinstance(entry, TreeLeaf)]


def _single_votes(trees: Sequence[Tree], aggregate: str) -> list[Tree]:
    """Return trees whose leaves have one vote each: a tree with several is repeated, for one of them each."""
    made = list[Tree]()
    for tree in trees:
        counts = {len(leaf.votes) for leaf in _leaves(tree)}
        if max(counts) > 1 and aggregate == "AVERAGE":
            raise Inexpressible("is an average over trees whose leaves have several votes")
        if aggregate in ("MIN", "MAX") and (len(counts) > 1 or not max(counts)):
            raise Inexpressible("is an extreme over leaves of which some have no vote for a target")
        made += [[_with_vote(entry, number) for entry in tree] for number in range(max(counts) or 1)]
    return made


def _with_vote(entry: TreeLeaf | TreeBranch, number: int) -> TreeLeaf | TreeBranch:
    return entry if isinstance(entry, TreeBranch) else TreeLeaf(entry.votes[number : number + 1] or ((0, 0.0),))


def _base(node: ir.Node, count: int, aggregate: str, dtype: int) -> list[Tree]:
    """Return a tree of one leaf for each base value."""
    values = _numbers(node, "base_values", dtype)
    if values and (aggregate != "SUM" or len(values) != count):
        raise Inexpressible(f"has base values beside {aggregate}, which TreeEnsemble has not")
    return [[TreeLeaf(((target, value),))] for target, value in enumerate(values)]


def _attributes(trees: Sequence[Tree], dtype: int, count: int, aggregate: str) -> list[onnx.AttributeProto]:
    """Return the attributes of TreeEnsemble. A tree that is a leaf is a branch whose sides are both that leaf."""
    roots, rows, leaves = list[int](), list[tuple[Any, ...]](), list[tuple[int, float]]()
    for tree in trees:
        if isinstance(tree[0], TreeLeaf):
            tree = [TreeBranch("BRANCH_LEQ", 0, 0.0, 0, 1, 1), tree[0]]  # noqa: PLW2901 - the same tree in another form
        places, next_places = list[tuple[int, int]](), [len(rows), len(leaves)]
        for entry in tree:
            is_leaf = int(isinstance(entry, TreeLeaf))
            places.append((is_leaf, next_places[is_leaf]))
            next_places[is_leaf] += 1
        roots.append(len(rows))
        for entry in tree:
            if isinstance(entry, TreeLeaf):
                leaves += entry.votes
            else:
                rows.append((MODES.index(entry.mode), *entry[1:4], *places[entry.true], *places[entry.false]))
    modes, features, splits, tracks, true_leafs, trues, false_leafs, falses = zip(*rows, strict=True)
    targets, weights = zip(*leaves, strict=True)
    real = onnx.helper.tensor_dtype_to_np_dtype(dtype)
    return made(
        aggregate_function=AGGREGATES.index(aggregate),
        n_targets=count,
        tree_roots=roots,
        nodes_modes=np.array(modes, np.uint8),
        nodes_featureids=features,
        nodes_splits=np.array(splits, real),
        nodes_missing_value_tracks_true=tracks,
        nodes_trueleafs=true_leafs,
        nodes_truenodeids=trues,
        nodes_falseleafs=false_leafs,
        nodes_falsenodeids=falses,
        leaf_targetids=targets,
        leaf_weights=np.array(weights, real),
    )


def made(**attributes: Any) -> list[onnx.AttributeProto]:
    """Return attributes; an array becomes a tensor."""
    to_proto = onnx.numpy_helper.from_array
    return [
        onnx.helper.make_attribute(name, to_proto(value, name) if isinstance(value, np.ndarray) else value)
        for name, value in attributes.items()
    ]


def _become_trees(
    conversion: NodeConversion, attributes: list[onnx.AttributeProto], dtype: int, transform: str
) -> None:
    become(conversion, "TreeEnsemble", attributes)
    if dtype == TP.DOUBLE or transform != "NONE":
        output = conversion.output()
        _append_scores(conversion, conversion.divert(0, "votes"), dtype, transform, output)


def _become_classes(
    conversion: NodeConversion, attributes: list[onnx.AttributeProto], dtype: int, labels: Any, transform: str
) -> None:
    """Write the first class of the highest score, and the scores."""
    node, label, scores = conversion.node, conversion.output(), conversion.node.output(1)
    if scores is not None:
        conversion.divert(1, "unread")
    become(conversion, "TreeEnsemble", attributes)
    votes, place = conversion.divert(0, "votes"), conversion.graph.fresh(f"{conversion.label}_place")
    node.trim_outputs(1)
    conversion.append("ArgMax", [votes], place, axis=1, keepdims=0)
    conversion.append("Gather", [conversion.graph.add_constant(f"{conversion.label}_labels", labels), place], label)
    if scores is not None:
        _append_scores(conversion, votes, dtype, transform, scores)


def _append_scores(conversion: NodeConversion, votes: ir.Value, dtype: int, transform: str, output: ir.Value) -> None:
    """Add the transform; the operators before version 5 made float32 of any input."""
    if dtype == TP.DOUBLE:
        made = conversion.graph.fresh(f"{conversion.label}_float32") if transform != "NONE" else output
        conversion.append("Cast", [votes], made, to=TP.FLOAT)
        votes = made
    if votes is not output:
        conversion.append(_OPERATORS[transform], [votes], output)


def become(conversion: NodeConversion, op_type: str, attributes: list[onnx.AttributeProto]) -> None:
    """Turn the node into another one of the domain."""
    conversion.node.set_op_type(op_type)
    conversion.node.replace_attrs(attributes)
