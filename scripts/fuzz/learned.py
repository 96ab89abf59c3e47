"""Models of ai.onnx.ml, as converters of scikit-learn and boosted trees write them, at thresholds and categories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from fuzz.builder import Array
from fuzz.parts import nodes, pick

DOMAIN = "ai.onnx.ml"
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
FEATURES, ROWS = 3, 24
WORDS = ("a", "b", "é", "")
STORED = ("treeids", "nodeids", "modes", "featureids", "values", "missing_value_tracks_true", "truenodeids")

Rng = np.random.Generator
Tree = list[tuple[Any, ...]]
Node = Callable[["Pipeline", str, Rng], None]


class Pipeline:
    """Nodes in a row, and what their last value is called."""

    def __init__(self, version: int) -> None:
        self.version, self.last = version, "x"
        self.nodes: list[onnx.NodeProto] = []
        self.outputs: dict[str, int] = {}

    def append(
        self, op_type: str, outputs: int = 1, domain: str = DOMAIN, inputs: Sequence[str] = (), **attributes: Any
    ) -> list[str]:
        names = [f"v{len(self.nodes)}_{place}" for place in range(outputs)]
        read = [self.last, *inputs]
        self.nodes.append(helper.make_node(op_type, read, names, f"n{len(self.nodes)}", domain=domain, **attributes))
        self.last = names[-1]
        return names


def draw(seed: int) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Draw a pipeline and its inputs; the number of rows is often open."""
    rng = np.random.default_rng([seed, 41])
    version = int(rng.choice([1, 3, 3, 5]))
    p = Pipeline(version)
    x = _features(rng)
    if rng.random() < 0.3:
        x = _encoded(p, rng)
    elif rng.random() < 0.4:
        _prepared(p, rng)
    kind = pick(rng, (_trees, _trees, _trees, _linear, _linear, _nothing))
    kind(p, rng)
    if not p.outputs:
        p.outputs[p.last] = TensorProto.FLOAT
    if p.outputs[p.last] == TensorProto.FLOAT and rng.random() < 0.4:
        del p.outputs[p.last]
        p.append(str(pick(rng, ("Identity", "Neg", "Tanh"))), domain="")
        p.outputs[p.last] = TensorProto.FLOAT
    rows = pick(rng, ("n", None, ROWS))
    taken = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), [rows, x.shape[1]])
    made = [helper.make_tensor_value_info(name, kind, None) for name, kind in p.outputs.items()]
    imports = [helper.make_opsetid("", int(rng.choice([13, 15, 18, 21]))), helper.make_opsetid(DOMAIN, version)]
    graph = helper.make_graph(p.nodes, "learned", [taken], made)
    return helper.make_model(graph, opset_imports=imports, ir_version=10 if version == 5 else 8), {"x": x}


def _features(rng: Rng) -> Array:
    """Return numbers at which trees branch, their neighbours, zeros of both signs, and some NaN."""
    x = np.round(rng.normal(size=(ROWS, FEATURES)), 1).astype(np.float32)
    x = np.where(rng.random(x.shape) < 0.4, np.nextafter(x, np.float32(rng.choice([-9, 9]))), x)
    x[rng.random(x.shape) < 0.1] = -0.0
    x[rng.random(x.shape) < (0.1 if rng.random() < 0.5 else 0)] = np.nan
    return x


def _numbers(rng: Rng, count: int) -> list[float]:
    return [float(number) for number in np.round(rng.normal(size=count), 2).astype(np.float32)]


def _encoded(p: Pipeline, rng: Rng) -> Array:
    """Append an encoder of categories, and some that are unknown; return its input."""
    words = bool(rng.random() < 0.5)
    x = (
        np.array(rng.choice([*WORDS, "?"], (ROWS, FEATURES)), object)
        if words
        else rng.integers(-1, 4, (ROWS, FEATURES))
    )
    about: dict[str, Any]
    kind = "strings" if words else "int64s"
    keys: list[Any] = [*WORDS] if words else [0, 1, 2, 3]
    if rng.random() < 0.6 and p.version > 1:
        about = {f"keys_{kind}": keys, "values_floats": _numbers(rng, 4), "default_float": 0.5}
        p.append("LabelEncoder", **about)
    else:
        x = x[:, :1]
        about = {f"cats_{kind}": keys, "zeros": 1}
        p.append("OneHotEncoder", **about)
        p.append("Reshape", domain="", inputs=["wide"])
        p.nodes.insert(0, helper.make_node("Constant", [], ["wide"], value_ints=[-1, 4]))
        p.append("ArrayFeatureExtractor", inputs=["first"])
        p.nodes.insert(0, helper.make_node("Constant", [], ["first"], value_ints=[2, 0, 3]))
    return x


def _prepared(p: Pipeline, rng: Rng) -> None:
    """Append scalers and what fills missing numbers."""
    p.append("Imputer", imputed_value_floats=_numbers(rng, FEATURES), replaced_value_float=float("nan"))
    if rng.random() < 0.7:
        p.append("Scaler", offset=_numbers(rng, FEATURES), scale=_numbers(rng, pick(rng, (1, FEATURES)) and FEATURES))
    if rng.random() < 0.3:
        p.append("Normalizer", norm="L2")
    elif rng.random() < 0.2:
        p.append("Binarizer", threshold=0.1)


def _nothing(p: Pipeline, rng: Rng) -> None:
    """Append nothing, or a Scaler: encoders are a model, too."""
    if rng.random() < 0.5:
        p.append("Scaler", offset=_numbers(rng, 1), scale=_numbers(rng, 1))


def _labels(p: Pipeline, rng: Rng, ints: str) -> dict[str, Any]:
    """Return the names of three classes; strings, or integers in an attribute called ``ints``."""
    p.outputs["label"] = TensorProto.STRING if rng.random() < 0.5 else TensorProto.INT64
    return {"classlabels_strings": ["q", "a", "é"]} if p.outputs["label"] == TensorProto.STRING else {ints: [7, 3, 5]}


def _named(p: Pipeline) -> None:
    """Call the first output of the last node ``label``, and list its second one."""
    p.nodes[-1].output[0] = "label"
    p.outputs[p.last] = TensorProto.FLOAT


def _linear(p: Pipeline, rng: Rng) -> None:
    if rng.random() < 0.5:
        targets = int(rng.integers(1, 3))
        p.append(
            "LinearRegressor",
            coefficients=_numbers(rng, 3 * targets),
            intercepts=_numbers(rng, targets),
            targets=targets,
        )
        return
    after = str(pick(rng, ("NONE", "SOFTMAX", "LOGISTIC")))
    labels = _labels(p, rng, "classlabels_ints")
    p.append(
        "LinearClassifier",
        2,
        coefficients=_numbers(rng, 9),
        intercepts=_numbers(rng, 3),
        post_transform=after,
        **labels,
    )
    _named(p)


def _trees(p: Pipeline, rng: Rng) -> None:
    """Append trees: with targets, with classes, or of version 5."""
    forest = [_tree(rng, int(rng.integers(1, 4))) for _ in range(int(rng.integers(1, 5)))]
    targets, total = int(rng.integers(1, 4)), str(pick(rng, ("SUM", "SUM", "AVERAGE", "MIN", "MAX")))
    if p.version == 5:
        codes = {"AVERAGE": 0, "SUM": 1, "MIN": 2, "MAX": 3}
        p.append("TreeEnsemble", n_targets=targets, aggregate_function=codes[total], **_newer(forest, targets))
    elif rng.random() < 0.5:
        votes = _older(forest, "target", targets)
        base: dict[str, Any] = {"base_values": _numbers(rng, targets)} if rng.random() < 0.4 else {}
        p.append("TreeEnsembleRegressor", n_targets=targets, aggregate_function=total, **votes, **base)
    else:
        after = str(pick(rng, ("NONE", "SOFTMAX")))
        labels = _labels(p, rng, "classlabels_int64s")
        p.append("TreeEnsembleClassifier", 2, post_transform=after, **_older(forest * 3, "class", 3), **labels)
        _named(p)


def _tree(rng: Rng, depth: int) -> Tree:
    """Return the nodes of a tree, the root first: of each the mode, feature, split, track and children, or a weight."""
    rows: Tree = []

    def grow(left: int) -> int:
        place = len(rows)
        rows.append(())
        if left and (not place or rng.random() < 0.85):
            about = (int(rng.integers(len(MODES))), int(rng.integers(FEATURES)), *_numbers(rng, 1))
            about = (*about[:2], round(about[2], 1))
            rows[place] = (*about, int(rng.integers(2)) or int(about[0] == 5), grow(left - 1), grow(left - 1))
        else:
            rows[place] = (*_numbers(rng, 1),)
        return place

    grow(depth)
    return rows


def _older(forest: Sequence[Tree], what: str, targets: int) -> dict[str, Any]:
    """Return the attributes of a forest before version 5."""
    stored, votes = [], []
    for number, tree in enumerate(forest):
        for place, row in enumerate(tree):
            is_leaf = len(row) == 1
            about = ("LEAF", 0, 0.0, 0, 0, 0) if is_leaf else (MODES[row[0]], *row[1:])
            stored.append((number, place, *about))
            votes += [(number, place, number % targets, row[0])] if is_leaf else []
    columns = zip((*STORED, "falsenodeids"), zip(*stored, strict=True), strict=True)
    leaves = zip(("treeids", "nodeids", "ids", "weights"), zip(*votes, strict=True), strict=True)
    return {f"nodes_{name}": [*column] for name, column in columns} | {f"{what}_{name}": [*it] for name, it in leaves}


def _newer(forest: Sequence[Tree], targets: int) -> dict[str, Any]:
    """Return the attributes of a forest of version 5, which numbers nodes and leaves apart."""
    rows, leaves, roots = list[Any](), list[Any](), list[int]()
    for number, tree in enumerate(forest):
        roots.append(len(rows))
        places: dict[int, tuple[int, int]] = {}
        for place, row in enumerate(tree):
            kept = leaves if len(row) == 1 else rows
            places[place] = (int(len(row) == 1), len(kept))
            kept.append((number % targets, row[0]) if len(row) == 1 else row)
        for at in range(roots[-1], len(rows)):
            *about, true, false = rows[at]
            rows[at] = (*about, *places[true], *places[false])
    modes, features, splits, tracks, true_leafs, trues, false_leafs, falses = zip(*rows, strict=True)
    owners, weights = zip(*leaves, strict=True)
    as_tensor = numpy_helper.from_array
    return {
        "tree_roots": roots, "nodes_modes": as_tensor(np.array(modes, np.uint8)), "nodes_featureids": features,
        "nodes_splits": as_tensor(np.array(splits, np.float32)), "nodes_missing_value_tracks_true": tracks,
        "nodes_trueleafs": true_leafs, "nodes_truenodeids": trues, "nodes_falseleafs": false_leafs,
        "nodes_falsenodeids": falses, "leaf_targetids": owners,
        "leaf_weights": as_tensor(np.array(weights, np.float32)),
    }  # fmt: skip


def is_learned(model: onnx.ModelProto) -> bool:
    """Whether a node of the model is of ai.onnx.ml."""
    return any(node.domain == DOMAIN for node in model.graph.node)


def change_learned(model: onnx.ModelProto, rng: Rng) -> None:
    """Change one number, category or kind of branch that an operator of ai.onnx.ml has learned."""
    lists = {AttributeProto.FLOATS: "floats", AttributeProto.INTS: "ints", AttributeProto.STRINGS: "strings"}
    found = [entry for node in nodes(model) if node.domain == DOMAIN for entry in node.attribute if entry.type in lists]
    entry = pick(rng, found)
    if entry is None:
        return
    held = getattr(entry, lists[entry.type])
    at = int(rng.integers(len(held)))
    if entry.type == AttributeProto.FLOATS:
        held[at] = float(pick(rng, (held[at] + 1, -held[at], np.nextafter(np.float32(held[at]), np.float32(9)))))
    elif entry.type == AttributeProto.INTS:
        held[at] += int(pick(rng, (-1, 1)))
    else:
        held[at] = str(pick(rng, MODES) if entry.name == "nodes_modes" else pick(rng, WORDS)).encode()
