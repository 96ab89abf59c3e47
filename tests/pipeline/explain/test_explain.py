"""Facts read off the models: right numbers, right neighbours, and small ones for big models."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from bnfold.api import inspect, optimize
from bnfold.pipeline.explain import neighbourhood, scales
from bnfold.settings import Options, VerifyOptions
from tests.conftest import MODELS
from tests.report.html.reports import report


def by_name(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in document["batchnorms"]}


def test_the_affine_is_that_of_the_stored_parameters() -> None:
    proto = onnx.load(MODELS / "dense.onnx")
    held = {tensor.name: onnx.numpy_helper.to_array(tensor).astype(np.float64) for tensor in proto.graph.initializer}
    rows = by_name(report("dense.onnx"))
    for node in proto.graph.node:
        if node.op_type == "BatchNormalization":
            scale, bias, mean, var = (held[name] for name in node.input[1:])
            epsilon = next((a.f for a in node.attribute if a.name == "epsilon"), float(np.float32(1e-5)))
            s = scale / np.sqrt(var + epsilon)
            t = bias - mean * s
            found = rows[node.name]["affine"]
            assert found["channels"] == s.size
            for block, spread in ((s, found["scale"]), (t, found["shift"])):
                assert (spread["min"], spread["max"]) == pytest.approx((block.min(), block.max()), rel=1e-12)
                assert spread["negative"] == (block < 0).sum()
                assert sum(spread["counts"]) == block.size


@pytest.mark.parametrize(
    ("model", "name", "kind"),
    [
        ("dense.onnx", "bn1_scale", "initializer"),
        ("constant_nodes.onnx", "bn1_scale", "Constant node"),
    ],
)
def test_where_parameters_come_from(model: str, name: str, kind: str) -> None:
    sources = [row["parameters"]["scale"] for row in report(model)["batchnorms"]]
    assert {"kind": kind, "name": name} in [{key: source[key] for key in ("kind", "name")} for source in sources]


def test_a_parameter_that_callers_feed() -> None:
    head = '<ir_version: 8, opset_import: ["" : 15]> g (float[2, 3, 4, 4] x, float[3] s) => (float[2, 3, 4, 4] y)'
    outcome = inspect(onnx.parser.parse_model(f"{head} {{ y = BatchNormalization (x, s, s, s, s) }}"))
    (row,) = outcome.to_json()["batchnorms"]
    assert (row["parameters"]["scale"]["kind"], row["parameters"]["scale"]["name"]) == ("input of the graph", "s")


def test_training_statistics_have_no_affine() -> None:
    (row,) = report("bn15_training.onnx")["batchnorms"]
    assert row["affine"] is None
    assert row["parameters"]["mean"]["kind"] == "initializer"


def test_a_fold_is_drawn_before_and_after() -> None:
    picture = by_name(report("dense.onnx"))["node5"]["drawing"]
    before = {node["name"]: node["role"] for node in picture["before"]["nodes"]}
    after = {node["name"]: node["role"] for node in picture["after"]["nodes"]}
    assert before == {"node3": "context", "node4": "rewritten", "node5": "batchnorm", "node6": "context"}
    assert after == {"node3": "context", "node4": "home", "node6": "context"}
    names = [node["name"] for node in picture["after"]["nodes"]]
    edges = {
        (names[edge["from"]], names[edge["to"]])
        for edge in picture["after"]["edges"]
        if min(edge["from"], edge["to"]) >= 0
    }
    assert edges == {("node3", "node4"), ("node4", "node6")}


NAMELESS = {
    "up": ("c = Conv (x, w) y = BatchNormalization (c, s, b, m, v)", ["y"]),
    "up, past an activation": ("c = Conv (x, w) r = Relu (c) y = BatchNormalization (r, s, b, m, v)", ["c_folded"]),
    "up, an activation behind": ("c = Conv (x, w) n = BatchNormalization (c, s, b, m, v) y = Relu (n)", ["n"]),
    "down": ("n = BatchNormalization (x, s, b, m, v) r = Relu (n) y = Conv (r, w)", ["y"]),
    "into two": (
        "c = Conv (x, w) d = Conv (x, u) j = Add (c, d) y = BatchNormalization (j, s, b, m, v)",
        ["c_folded", "d_folded"],
    ),
}
"""Nodes without names, and those after the fold that took the affine."""


@pytest.mark.parametrize("case", NAMELESS)
def test_what_takes_an_affine_is_marked_also_without_a_name(case: str) -> None:
    nodes, homes = NAMELESS[case]
    vectors = "float[2] s = {2, 3}, float[2] b = {0, 0}, float[2] m = {0, 0}, float[2] v = {1, 1}"
    weights = "float[2,2,1,1] w = {1, 2, 3, 4}, float[2,2,1,1] u = {4, 3, 2, 1}"
    head = '<ir_version: 8, opset_import: ["": 15]> g (float[1,2,4,4] x) => (float[1,2,4,4] y)'
    model = onnx.parser.parse_model(f"{head} <{weights}, {vectors}> {{ {nodes} }}")
    options = Options(disable=frozenset({"branch-merge"}))
    (row,) = optimize(model, options=options, verify=VerifyOptions(depth="none")).to_json()["batchnorms"]
    assert row["verdict"] == "folded"
    drawn = {node["name"]: node["role"] for node in row["drawing"]["after"]["nodes"]}
    assert sorted(name for name, role in drawn.items() if role == "home") == homes


def test_what_stays_is_drawn_once_with_where_the_search_stopped() -> None:
    picture = by_name(inspect(MODELS / "dense.onnx", options=Options(exchange="always")).to_json())["node2"]["drawing"]
    assert picture["after"] is None
    roles = {node["name"]: node["role"] for node in picture["before"]["nodes"]}
    assert (roles["node2"], roles["node3"], roles["node1"]) == ("batchnorm", "stopped", "passed")


def test_a_value_with_very_many_readers_is_a_small_drawing() -> None:
    text = "\n".join(f"  y{index} = Sin (c)" for index in range(3000))
    outputs = ", ".join(f"float[1,2] y{index}" for index in range(3000))
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 15]>\nwide (float[1,2] x) => ({outputs}, float[1,2] z)\n'
        "  <float[2] s = {2, 3}, float[2] v = {1, 1}>\n{\n  c = Sin (x)\n"
        f"{text}\n  z = BatchNormalization (c, s, s, s, v)\n}}"
    )
    (row,) = inspect(model).to_json()["batchnorms"]
    picture = row["drawing"]["before"]
    assert len(picture["nodes"]) == neighbourhood.MAX_NODES
    assert picture["left_out"] == 3002 - neighbourhood.MAX_NODES


def test_a_long_chain_does_not_take_long_to_draw() -> None:
    nodes = "\n".join(f"  c{index + 1} = Identity (c{index})" for index in range(60))
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 15]>\nlong (float[1,2] c0) => (float[1,2] z)\n'
        f"  <float[2] s = {{2, 3}}, float[2] v = {{1, 1}}>\n{{\n{nodes}\n  z = BatchNormalization (c60, s, s, s, v)\n}}"
    )
    (row,) = inspect(model).to_json()["batchnorms"]
    assert len(row["drawing"]["before"]["nodes"]) == neighbourhood.MAX_NODES
    assert len(row["search"][0]["passed"]) == 60


def test_histograms_count_every_scale_once() -> None:
    assert scales.distribution([])["zeros"] == 0
    found = scales.distribution([np.array([1e-30, 0.5, 0.0]), np.array([-2.0, 3.0, -1e30])])
    assert (sum(found["positive"]), sum(found["negative"]), found["zeros"]) == (3, 2, 1)
    assert len(found["log10_edges"]) == len(found["positive"]) + 1


@pytest.mark.parametrize("block", [[1.0], [1.0, np.nextafter(1.0, 2.0)], [-1e308, 1e308], [0.0, 5e-324]])
def test_extreme_ranges_still_count(block: list[float]) -> None:
    spread = scales.spread(np.array(block))
    assert sum(spread["counts"]) == len(block)
