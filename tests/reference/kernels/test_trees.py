"""Tree ensembles of all versions, against onnxruntime: at thresholds, at their neighbours, and at NaN."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from bnfold import ir, reference
from tests.reference.models import Array
from tests.reference.witness import Case, disagreements

TP = onnx.TensorProto
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
FEATURES = 3
DRAWS = range(6)
EXTREMES = ("MIN", "MAX")


def tree(rng: np.random.Generator, modes: int, depth: int) -> list[list[Any]]:
    """Return the nodes of a tree: mode, feature, split, track, true, false; of leaves the mode alone."""
    rows: list[list[Any]] = []

    def grow(left: int) -> int:
        place = len(rows)
        rows.append([])
        if left and rng.random() < 0.85:
            split = float(np.float32(round(rng.normal(), 1)))
            mode = int(rng.integers(modes))
            track = 1 if mode >= 5 else int(rng.integers(2))
            rows[place] = [mode, int(rng.integers(FEATURES)), split, track, grow(left - 1), grow(left - 1)]
        return place

    grow(depth)
    return rows


def older(rng: np.random.Generator, what: str, count: int, *, trees: int = 6, votes: int = 1, **more: Any) -> Any:
    """Return attributes of an operator before version 5; the leaves have ``votes``, and all classes get some."""
    names = ("treeids", "nodeids", "modes", "featureids", "values", "missing_value_tracks_true")
    columns: dict[str, list[Any]] = {f"nodes_{name}": [] for name in (*names, "truenodeids", "falsenodeids")}
    columns |= {f"{what}_{name}": [] for name in ("treeids", "nodeids", "ids", "weights")}
    positive, depth = more.pop("positive", False), more.pop("depth", 3)
    for number in range(trees):
        for place, row in enumerate(tree(rng, 6, depth)):
            mode, *rest = row or ["LEAF", 0, 0.0, 0, 0, 0]
            entries = (number, place, MODES[mode] if row else mode, *rest)
            for name, entry in zip(list(columns)[:8], entries, strict=True):
                columns[name].append(entry)
            for vote in range(0 if row else votes):
                weight = float(np.float32(rng.normal()))
                target = (number + vote) % count
                cast = (number, place, target, abs(weight) if positive else weight)
                for name, entry in zip(list(columns)[8:], cast, strict=True):
                    columns[name].append(entry)
    return columns | more


def newer(rng: np.random.Generator, count: int, dtype: Any, *, trees: int = 6, **more: Any) -> dict[str, Any]:
    """Return attributes of TreeEnsemble."""
    rows, leaves, roots, members = list[Any](), list[Any](), list[int](), list[float]()
    for number in range(trees):
        nodes = tree(rng, 7, 3)
        nodes = nodes if nodes[0] else [[0, 0, 0.0, 0, 1, 1], []]
        places, first = dict[int, tuple[int, int]](), len(rows)
        for place, node in enumerate(nodes):
            places[place] = (0, len(rows)) if node else (1, len(leaves))
            (rows if node else leaves).append(node or (number % count, float(np.float32(rng.normal()))))
        roots.append(first)
        for at in range(first, len(rows)):
            mode, *rest, true, false = rows[at]
            rows[at] = (mode, *rest, *places[true], *places[false])
            if mode == 6:
                rows[at] = (mode, FEATURES - 1, *rest[1:], *places[true], *places[false])
                members += [float(rng.integers(-3, 4)) for _ in range(rng.integers(1, 4))] + [np.nan]
    modes, features, splits, tracks, true_leafs, trues, false_leafs, falses = zip(*rows, strict=True)
    targets, weights = zip(*leaves, strict=True)
    tensor = onnx.numpy_helper.from_array
    made = {"membership_values": tensor(np.array(members, dtype))} if members else {}
    return (
        made
        | more
        | {
            "n_targets": count,
            "tree_roots": roots,
            "nodes_modes": tensor(np.array(modes, np.uint8)),
            "nodes_featureids": features,
            "nodes_splits": tensor(np.array(splits, dtype)),
            "nodes_missing_value_tracks_true": tracks,
            "nodes_trueleafs": true_leafs,
            "nodes_truenodeids": trues,
            "nodes_falseleafs": false_leafs,
            "nodes_falsenodeids": falses,
            "leaf_targetids": targets,
            "leaf_weights": tensor(np.array(weights, dtype)),
        }
    )


def features(rng: np.random.Generator, rows: int = 60, *, missing: float = 0.1) -> Array:
    """Return numbers at which trees branch, their neighbours, zeros of both signs, and some NaN."""
    x = np.round(rng.normal(size=(rows, FEATURES)), 1).astype(np.float32)
    toward = np.where(rng.random(x.shape) < 0.5, np.inf, -np.inf).astype(np.float32)
    x = np.where(rng.random(x.shape) < 0.4, np.nextafter(x, toward), x)
    x = np.where(rng.random(x.shape) < 0.2, np.rint(2 * x), x)
    x[rng.random(x.shape) < 0.05] = -0.0
    x[rng.random(x.shape) < missing] = np.nan
    return x


def case(op: str, version: int, x: Array, attrs: dict[str, Any]) -> Case:
    outputs = ("label", "y") if op.endswith("Classifier") else ("y",)
    node = helper.make_node(op, ["x"], outputs, "trees", domain="ai.onnx.ml", **attrs)
    info = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
    graph = helper.make_graph([node], "g", [info], [onnx.ValueInfoProto(name=name) for name in outputs])
    imports = [helper.make_opsetid("", 21 if version == 5 else 15), helper.make_opsetid("ai.onnx.ml", version)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10 if version == 5 else 8), {"x": x}


def wide(attrs: dict[str, Any]) -> dict[str, Any]:
    """Store floats as tensors of float64."""
    found = dict(attrs)
    for name in [name for name in attrs if name.endswith(("_values", "_weights"))]:
        found[f"{name}_as_tensor"] = onnx.numpy_helper.from_array(np.array(found.pop(name), np.float64))
    return found


def agree(cases: list[Case], folder: Path) -> None:
    wrong, compared = disagreements(cases, folder)
    assert not wrong
    assert compared == len(cases)


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_regressors(aggregate: str, tmp_path: Path) -> None:
    """One target and several, one vote and several, base values, versions 1 and 3, and float64."""
    cases = []
    for seed in DRAWS:
        rng = np.random.default_rng(seed)
        for targets, votes in ((1, 1), (2, 1), (3, 3)):
            more: dict[str, Any] = {"n_targets": targets, "aggregate_function": aggregate}
            more |= {"base_values": rng.normal(size=targets).astype(np.float32).tolist()} if seed % 2 else {}
            attrs, x = older(rng, "target", targets, votes=votes, **more), features(rng)
            cases += [case("TreeEnsembleRegressor", version, x, attrs) for version in (1, 3)]
            cases.append(case("TreeEnsembleRegressor", 3, x.astype(np.float64), wide(attrs)))
            cases.append(case("TreeEnsembleRegressor", 3, x.astype(np.float64), attrs))
    agree(cases, tmp_path)


@pytest.mark.parametrize("transform", ["SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"])
def test_transforms_of_several_targets(transform: str, tmp_path: Path) -> None:
    cases = []
    for seed in DRAWS:
        rng = np.random.default_rng(seed)
        attrs = older(rng, "target", 3, post_transform=transform, n_targets=3)
        cases.append(case("TreeEnsembleRegressor", 3, features(rng), attrs))
    agree(cases, tmp_path)


@pytest.mark.parametrize("targets", [1, 2])
def test_probit(targets: int, tmp_path: Path) -> None:
    """Approximated as runtimes do, to 2e-3 of what the name says; of what is no probability it is NaN."""
    rng = np.random.default_rng(5)
    attrs = older(rng, "target", targets, n_targets=targets, trees=targets, post_transform="PROBIT")
    attrs["target_weights"] = [float(np.float32(rng.uniform(-0.2, 1.2))) for _ in attrs["target_weights"]]
    agree([case("TreeEnsembleRegressor", 3, features(rng), attrs)], tmp_path)


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC"])
@pytest.mark.parametrize("labels", [[4, 7, 5], ["a", "b", "c", "d"]])
def test_classifiers(transform: str, labels: list[Any], tmp_path: Path) -> None:
    cases = []
    for seed in DRAWS:
        rng = np.random.default_rng(seed)
        kind = "classlabels_strings" if isinstance(labels[0], str) else "classlabels_int64s"
        more: dict[str, Any] = {kind: labels, "post_transform": transform}
        more |= {"base_values": [float(np.float32(rng.normal())) for _ in labels]} if seed % 2 else {}
        attrs = older(rng, "class", len(labels), votes=len(labels), **more)
        x = features(rng)
        integers = np.round(3 * features(rng, missing=0)).astype(np.int64)
        cases += [case("TreeEnsembleClassifier", version, x, attrs) for version in (1, 3)]
        cases.append(case("TreeEnsembleClassifier", 3, x.astype(np.float64), wide(attrs)))
        cases += [case("TreeEnsembleClassifier", 3, integers.astype(kind), attrs) for kind in (np.int64, np.int32)]
    agree(cases, tmp_path)


@pytest.mark.parametrize(("transform", "positive"), [("NONE", True), ("LOGISTIC", False)])
@pytest.mark.parametrize("labels", [[7, 3], ["no", "yes"]])
def test_two_classes_by_the_votes_for_one(transform: str, positive: bool, labels: list[Any], tmp_path: Path) -> None:
    cases = []
    for seed in DRAWS:
        rng = np.random.default_rng(seed)
        kind = "classlabels_strings" if isinstance(labels[0], str) else "classlabels_int64s"
        more: dict[str, Any] = {kind: labels, "post_transform": transform, "positive": positive}
        more |= {"base_values": [0.25]} if seed % 2 else {}
        attrs = older(rng, "class", 1, **more)
        attrs["class_weights"] = [weight / 4 for weight in attrs["class_weights"]]
        cases.append(case("TreeEnsembleClassifier", 3, features(rng), attrs))
    agree(cases, tmp_path)


@pytest.mark.parametrize("aggregate", range(4))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tree_ensemble_of_version_5(aggregate: int, dtype: Any, tmp_path: Path) -> None:
    """All modes, sets included, and trees of one leaf."""
    cases = []
    for seed in DRAWS:
        rng = np.random.default_rng(seed)
        for targets in (1, 2):
            attrs = newer(rng, targets, dtype, aggregate_function=aggregate)
            x = features(rng)
            x[:, -1] = np.rint(2 * x[:, -1])  # the only feature that is looked for in sets
            cases.append(case("TreeEnsemble", 5, x.astype(dtype), attrs))
    agree(cases, tmp_path)


def test_votes_that_runtimes_do_not_count_are_declined(tmp_path: Path) -> None:
    """Of several votes of a leaf for the only target they count one; a leaf without a vote is 0 in an extreme."""
    rng = np.random.default_rng(0)
    several = older(rng, "target", 1, votes=2, n_targets=1)
    without = {aggregate: older(rng, "target", 1, n_targets=1, aggregate_function=aggregate) for aggregate in EXTREMES}
    for attrs in without.values():
        for name in ("treeids", "nodeids", "ids", "weights"):
            del attrs[f"target_{name}"][0]
        attrs["target_weights"] = [
            abs(weight) * (-1) ** (attrs is without["MAX"]) for weight in attrs["target_weights"]
        ]
    for attrs, why in [(several, "several votes of a leaf"), *((attrs, "no vote") for attrs in without.values())]:
        model, feeds = case("TreeEnsembleRegressor", 3, features(rng), attrs)
        with pytest.raises(reference.CannotEvaluate, match=why):
            reference.evaluate(ir.load(model), feeds)
    apart = older(rng, "target", 2, votes=2, n_targets=2)
    agree([case("TreeEnsembleRegressor", 3, features(rng), apart)], tmp_path)
