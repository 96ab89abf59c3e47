"""Trees of ai.onnx.ml in both forms: the same numbers and classes in onnxruntime, or a reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import bnfold
from bnfold import ir
from bnfold.errors import BadSetting, ConversionBlocked

TP = onnx.TensorProto
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
NODES = ("treeids", "nodeids", "modes", "featureids", "values", "missing_value_tracks_true", "truenodeids")
FEATURES = 3
UNCHECKED = bnfold.VerifyOptions(depth="none")


def grow(rng: np.random.Generator, rows: list[Any], depth: int) -> int:
    """Append a node and what is below it; return its place. A leaf is None."""
    place = len(rows)
    rows.append(None)
    if depth and rng.random() < 0.8:
        true, false = (grow(rng, rows, depth - 1) for _ in range(2))
        split = float(np.float32(round(rng.normal(), 1)))
        rows[place] = (str(rng.choice(MODES)), int(rng.integers(FEATURES)), split, int(rng.integers(2)), true, false)
    return place


def forest(rng: np.random.Generator, what: str, targets: int, *, several: bool, depth: int = 4) -> dict[str, Any]:
    """Draw the attributes of two trees for every target; with ``several``, each leaf has a vote for all targets."""
    nodes, votes = [], []
    for tree in range(2 * targets):
        rows: list[Any] = []
        grow(rng, rows, depth)
        for place, row in enumerate(rows):
            nodes.append((tree, place, *(row or ("LEAF", 0, 0.0, 0, 0, 0))))
            cast = () if row else range(targets) if several else (tree % targets,)
            votes += [(tree, place, target, float(np.float32(rng.normal()))) for target in cast]
    attributes = {
        f"nodes_{name}": list(column)
        for name, column in zip((*NODES, "falsenodeids"), zip(*nodes, strict=True), strict=True)
    }
    names = ("treeids", "nodeids", "ids", "weights")
    return attributes | {
        f"{what}_{name}": list(column) for name, column in zip(names, zip(*votes, strict=True), strict=True)
    }


def regressor(
    rng: np.random.Generator, *, targets: int = 2, several: bool = False, depth: int = 4, **more: Any
) -> onnx.ModelProto:
    attributes = forest(rng, "target", targets, several=several, depth=depth) | {"n_targets": targets}
    return model("TreeEnsembleRegressor", ["y"], attributes | more, [("y", TP.FLOAT, ["n", targets])])


def classifier(rng: np.random.Generator, labels: list[Any], *, several: bool = False, **more: Any) -> onnx.ModelProto:
    attributes = forest(rng, "class", len(labels), several=several)
    is_text = isinstance(labels[0], str)
    attributes |= {"classlabels_strings" if is_text else "classlabels_int64s": labels}
    outputs = [("label", TP.STRING if is_text else TP.INT64, ["n"]), ("y", TP.FLOAT, ["n", len(labels)])]
    return model("TreeEnsembleClassifier", ["label", "y"], attributes | more, outputs)


def model(op_type: str, names: list[str], attributes: dict[str, Any], outputs: list[Any]) -> onnx.ModelProto:
    """Return a model of opset 15 and version 3 of the domain; its input has the type of tensors among them."""
    is_double = any(isinstance(value, onnx.TensorProto) for value in attributes.values())
    node = helper.make_node(op_type, ["x"], names, "trees", domain="ai.onnx.ml", **attributes)
    x = helper.make_tensor_value_info("x", TP.DOUBLE if is_double else TP.FLOAT, ["n", FEATURES])
    graph = helper.make_graph([node], "g", [x], [helper.make_tensor_value_info(*output) for output in outputs])
    imports = [helper.make_opsetid("", 15), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def in_float64(source: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model for an input of float64, with its numbers as tensors of that type."""
    attributes = {entry.name: helper.get_attribute_value(entry) for entry in source.graph.node[0].attribute}
    for name in [name for name in attributes if name.endswith(("_values", "_weights"))]:
        attributes[f"{name}_as_tensor"] = onnx.numpy_helper.from_array(np.array(attributes.pop(name), np.float64))
    outputs = [
        (out.name, out.type.tensor_type.elem_type, [dim.dim_value or "n" for dim in out.type.tensor_type.shape.dim])
        for out in source.graph.output
    ]
    return model(source.graph.node[0].op_type, list(source.graph.node[0].output), attributes, outputs)


def run(proto: onnx.ModelProto, rng: np.random.Generator) -> list[Any]:
    onnx.checker.check_model(proto, full_check=True)
    dtype = helper.tensor_dtype_to_np_dtype(proto.graph.input[0].type.tensor_type.elem_type)
    x = np.round(rng.normal(size=(50, FEATURES)), 1).astype(np.float32).astype(dtype)
    x[rng.random(x.shape) < 0.1] = np.nan
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(None, {"x": x}))


def there_and_back(source: onnx.ModelProto) -> None:
    """Convert to version 5 of the domain, and down again with the opset."""
    newer = bnfold.convert(source, opset=21, ml_opset=5, verify=UNCHECKED)
    assert {node.op_type for node in newer.to_proto().graph.node if node.domain} == {"TreeEnsemble"}
    results = [run(source, np.random.default_rng(0)), run(newer.to_proto(), np.random.default_rng(0))]
    if source.graph.input[0].type.tensor_type.elem_type == TP.FLOAT:
        older = bnfold.convert(newer.to_proto(), opset=15, verify=UNCHECKED).to_proto()
        assert {node.op_type for node in older.graph.node if node.domain} == {"TreeEnsembleRegressor"}
        assert ([entry.version for entry in older.opset_import if entry.domain], older.ir_version) == ([2], 8)
        results.append(run(older, np.random.default_rng(0)))
    for after in results[1:]:
        for left, right in zip(results[0], after, strict=True):
            if left.dtype.kind == "f":
                np.testing.assert_allclose(right, left, rtol=1e-5, atol=1e-5)
            else:
                np.testing.assert_array_equal(right, left)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("several", [False, True])
def test_regressors(seed: int, aggregate: str, *, several: bool) -> None:
    source = regressor(np.random.default_rng(seed), several=several, aggregate_function=aggregate)
    if several and aggregate == "AVERAGE":
        with pytest.raises(ConversionBlocked, match="is an average over trees whose leaves have several votes"):
            bnfold.convert(source, opset=21, ml_opset=5, verify=UNCHECKED)
    else:
        there_and_back(source)


@pytest.mark.parametrize(
    "more", [{"base_values": [0.5, -2.0]}, {"post_transform": "SOFTMAX"}, {"post_transform": "LOGISTIC"}]
)
@pytest.mark.parametrize("depth", [0, 3])
@pytest.mark.parametrize("wide", [False, True])
def test_what_is_added_to_the_votes(more: dict[str, Any], depth: int, *, wide: bool) -> None:
    source = regressor(np.random.default_rng(7), depth=depth, **more)
    there_and_back(in_float64(source) if wide else source)


@pytest.mark.parametrize("labels", [[7, 3, 5], ["a", "b", "c", "d"]])
@pytest.mark.parametrize("more", [{}, {"post_transform": "SOFTMAX"}, {"post_transform": "LOGISTIC"}])
@pytest.mark.parametrize(("several", "wide"), [(False, False), (True, False), (True, True)])
def test_classifiers(labels: list[Any], more: dict[str, Any], *, several: bool, wide: bool) -> None:
    source = classifier(np.random.default_rng(3), labels, several=several, **more)
    there_and_back(in_float64(source) if wide else source)
    del source.graph.output[1]
    there_and_back(source)


DRAWN = np.random.default_rng(1)
OF_ONE = regressor(DRAWN, targets=1, post_transform="LOGISTIC")
ONE_LEAF = regressor(DRAWN, targets=1, depth=0)
for column in ONE_LEAF.graph.node[0].attribute:
    if column.name.startswith("target_"):
        column.ints.extend(column.ints)
        column.floats.extend(column.floats)
BASE = regressor(DRAWN, aggregate_function="MAX", base_values=[1.0, 2.0])
ZERO = regressor(DRAWN, post_transform="SOFTMAX_ZERO")
TWO = classifier(DRAWN, [0, 1])
UNVOTED = classifier(DRAWN, [0, 1, 2])
del UNVOTED.graph.node[0].attribute[:]
UNVOTED.graph.node[0].attribute.extend(classifier(DRAWN, [0, 1]).graph.node[0].attribute)
next(entry for entry in UNVOTED.graph.node[0].attribute if entry.name == "classlabels_int64s").ints.append(2)
INTEGERS = regressor(DRAWN)
INTEGERS.graph.input[0].type.tensor_type.elem_type = TP.INT64


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (OF_ONE, "post_transform=LOGISTIC, which runtimes compute otherwise"),
        (ONE_LEAF, "leaves with several votes for its only target, of which runtimes count one"),
        (ZERO, "post_transform=SOFTMAX_ZERO, which runtimes compute otherwise"),
        (BASE, "base values beside MAX, which TreeEnsemble has not"),
        (TWO, "less than three classes"),
        (UNVOTED, "a class without votes for some inputs"),
        (INTEGERS, "an input of integers, which TreeEnsemble does not take"),
    ],
)
def test_what_has_no_newer_form(source: onnx.ModelProto, why: str) -> None:
    with pytest.raises(ConversionBlocked, match=why):
        bnfold.convert(source, opset=21, ml_opset=5, verify=UNCHECKED)
    assert ir.load(bnfold.convert(source, opset=21, verify=UNCHECKED).to_proto()).opset("ai.onnx.ml") == 3


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("nodes_modes", np.array([6], np.uint8), "compares with the members of a set"),
        ("post_transform", 1, "post_transform=SOFTMAX, which onnxruntime takes for another one"),
        ("nodes_splits", np.array([0.5]), "computes in float64 or float16"),
    ],
)
def test_what_has_no_older_form_stays(name: str, value: Any, why: str) -> None:
    """The domain keeps its version, and IR version 10 with it, unless another version is asked for."""
    real = np.float64 if name == "nodes_splits" else np.float32
    attributes: dict[str, Any] = {
        "nodes_modes": np.zeros(1, np.uint8),
        "nodes_splits": np.ones(1, real),
        "leaf_weights": np.ones(2, real),
        **{key: [0] for key in ("tree_roots", "nodes_featureids", "nodes_truenodeids")},
        **{key: [1] for key in ("nodes_trueleafs", "nodes_falseleafs", "nodes_falsenodeids")},
        "n_targets": 1,
        "leaf_targetids": [0, 0],
        name: value,
    }
    for key, array in attributes.items():
        attributes[key] = onnx.numpy_helper.from_array(array) if isinstance(array, np.ndarray) else array
    node = helper.make_node("TreeEnsemble", ["x"], ["y"], "trees", domain="ai.onnx.ml", **attributes)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(real))
    infos = [helper.make_tensor_value_info(info, kind, ["n", 1]) for info in ("x", "y")]
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 5)]
    source = helper.make_model(
        helper.make_graph([node], "g", infos[:1], infos[1:]), opset_imports=imports, ir_version=10
    )
    outcome = bnfold.convert(source, opset=15, verify=UNCHECKED)
    assert ir.load(outcome.to_proto()).opset("ai.onnx.ml") == 5
    assert outcome.report.ir_after == 10
    assert any(
        "ai.onnx.ml stays at version 5: TreeEnsemble 'trees': " in note and why in note for note in outcome.report.notes
    )
    with pytest.raises(ConversionBlocked, match=why):
        bnfold.convert(source, ml_opset=3, verify=UNCHECKED)


def test_other_operators_of_the_domain_follow_if_they_have_the_form() -> None:
    text = '<ir_version: 10, opset_import: ["": 21, "ai.onnx.ml": 5]> g (float[2] x) => (float[2] y)'
    scaled = "s = ai.onnx.ml.Scaler <offset = [1.0], scale = [2.0]> (x)"
    source = onnx.parser.parse_model(
        f"{text} {{ {scaled} y = ai.onnx.ml.LabelEncoder <keys_floats = [1.0], values_floats = [2.0]> (s) }}"
    )
    outcome = bnfold.convert(source, opset=15, verify=UNCHECKED)
    assert (ir.load(outcome.to_proto()).opset("ai.onnx.ml"), outcome.report.ir_after) == (2, 8)
    with pytest.raises(ConversionBlocked, match=r"LabelEncoder .*has another form in version 1"):
        bnfold.convert(source, ml_opset=1, verify=UNCHECKED)


def test_the_version_has_to_be_known() -> None:
    with pytest.raises(BadSetting, match="99 is newer than the installed onnx knows: 1 to "):
        bnfold.Options(ml_opset=99)
