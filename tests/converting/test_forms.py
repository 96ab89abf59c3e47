"""Nodes in the form of another version than their file's, and what the older form of an operator demands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import bnfold
from bnfold import ir, reference
from bnfold.ir.forms import fits, fitting_versions
from bnfold.verification import verify

Text = Callable[..., str]
Converted = Callable[..., Any]

IMAGE = "float[1, 2, 3, 4] x"


def constant(name: str, values: str) -> str:
    return f"{name} = Constant <value = {values}> () "


def converted(source: str, target: int) -> bnfold.Outcome:
    """What the whole command makes of a model, verified in float64, and taken by onnx's checker."""
    outcome = bnfold.upgrade(onnx.parser.parse_model(source), target_opset=target)
    onnx.checker.check_model(outcome.to_proto(), full_check=True)
    return outcome


@pytest.mark.parametrize(
    ("opset", "inputs", "body", "output", "meant"),
    [
        (6, "float[2, 3] x", 'y = Cast <to = "DOUBLE"> (x)', "double[2, 3] y", "Cast-1"),
        (9, "float[2, 3] x", 'y = Cast <to = "INT32"> (x)', "int32[2, 3] y", "Cast-1"),
        (
            6,
            "float[2, 3] x",
            constant("n", "float {2.0}") + constant("a", "float {0.0}") + "y = Tile (x, n, a)",
            "float[4, 3] y",
            "Tile-1",
        ),
        (1, "float[2, 3] x", constant("r", "int64[2] {2, 1}") + "y = Tile (x, r)", "float[4, 3] y", "Tile-6"),
    ],
)
def test_the_form_of_another_version_is_read_as_that_and_verified(
    text: Text, opset: int, inputs: str, body: str, output: str, meant: str
) -> None:
    outcome = converted(text(opset, inputs, body, outputs=output), 15)
    assert outcome.verdict is not None
    assert outcome.verdict.status == "verified"
    (repair,) = [repair for repair in outcome.report.repairs if repair.kind in ("earlier-form", "later-form")]
    assert f"read as {meant}" in repair.text


@pytest.mark.parametrize("target", [11, 12])
@pytest.mark.parametrize(
    "body",
    [
        constant("s", "float[4] {1.0, 1.0, 2.0, 2.0}") + 'y = Resize <mode = "nearest"> (x, , s)',
        constant("s", "int64[4] {1, 2, 6, 8}") + 'y = Resize <mode = "linear"> (x, , , s)',
    ],
)
def test_a_resize_gets_the_empty_inputs_that_older_versions_demand(text: Text, body: str, target: int) -> None:
    outcome = converted(text(13, IMAGE, body, outputs="float[1, 2, 6, 8] y"), target)
    assert outcome.verdict is not None
    assert outcome.verdict.status == "verified"


@pytest.mark.parametrize(("axis", "counted"), [(-1, -1), (-2, 1), (-3, 0)])
def test_axes_of_an_output_that_has_one_more(text: Text, axis: int, counted: int) -> None:
    """The default, which is -1, is what version 9 says as well."""
    known = constant("d", "int64[1] {10}") + constant("v", "float[2] {0.0, 1.0}")
    body = f"{known} y = OneHot <axis = {axis}> (x, d, v)"
    outcome = converted(text(11, "int64[2, 2] x", body, outputs="float[a, b, c] y"), 9)
    assert outcome.verdict is not None
    assert outcome.verdict.status == "verified"
    (node,) = [node for node in ir.load(outcome.to_proto()).nodes() if node.op_type == "OneHot"]
    assert node.attr("axis", -1) == counted


@pytest.mark.parametrize("opset", [10, 12, 13])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_an_upsample_beyond_its_last_version_is_evaluated_as_that(text: Text, opset: int, mode: str) -> None:
    scales = constant("s", "float[4] {1.0, 1.0, 2.0, 2.0}")
    source = text(opset, IMAGE, f'{scales} y = Upsample <mode = "{mode}"> (x, s)', outputs="float[1, 2, 6, 8] y")
    outcome = converted(source, 15)
    assert outcome.verdict is not None
    assert outcome.verdict.status == "verified"


def test_a_node_that_fits_no_version_is_not_unchanged_across_opsets(text: Text, tmp_path: Path) -> None:
    """Neither side can be evaluated, so that the same bytes at two opsets prove nothing."""
    paths = [tmp_path / name for name in ("before.onnx", "after.onnx")]
    for path, opset in zip(paths, (6, 13), strict=True):
        source = text(opset, "float[2, 3] x", 'y = Cast <to = "NOTHING"> (x)', outputs="double[2, 3] y")
        onnx.save(onnx.parser.parse_model(source), path)
    assert verify(*paths, runtime="none").status == "unverified"
    assert verify(paths[0], paths[0], runtime="none").status == "verified"


def test_forms_are_what_the_schemas_say(text: Text) -> None:
    (node,) = ir.load(onnx.parser.parse_model(text(6, "float[2, 3] x", 'y = Cast <to = "DOUBLE"> (x)'))).graph.nodes
    assert fits(node, 1)
    assert not fits(node, 6)
    assert list(fitting_versions(node, 6, 15)) == [1]


@pytest.mark.parametrize(("opset", "bias", "stated", "told"), [
    (1, "float[4]", "", ["later-form"]), (6, "float[1]", "", ["later-form"]), (6, "float[4]", "<broadcast = 1>", []),
    (1, "float[3, 4]", "", []),
])  # fmt: skip
def test_a_gemm_that_broadcasts_without_saying_so_is_read_as_later_ones(
    opset: int, bias: str, stated: str, told: list[str]
) -> None:
    graph = f"g (float[3, 5] a, float[5, 4] b, {bias} c) => (float[3, 4] y) {{ y = Gemm {stated} (a, b, c) }}"
    proto = onnx.parser.parse_model(f'<ir_version: 3, opset_import: ["" : {opset}]> {graph}')
    outcome = bnfold.upgrade(proto)
    assert outcome.verified
    assert [repair.kind for repair in outcome.report.repairs if repair.node] == told
    dims = [dim.dim_value for dim in proto.graph.input[2].type.tensor_type.shape.dim]
    feeds = {"a": np.ones((3, 5)), "b": np.ones((5, 4)), "c": np.full(dims, 2.0)}
    assert (reference.evaluate(ir.load(outcome.to_proto()), feeds)["y"] == 7).all()


def test_an_upsample_that_shrinks_says_so() -> None:
    body = "g (float[1, 1, 4, 4] x) => (float[1, 1, 2, 2] y) <float[4] s = {1, 1, 0.5, 0.5}> { y = Upsample (x, s) }"
    outcome = bnfold.upgrade(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 9]> {body}'))
    assert outcome.status == "unverified"
    assert outcome.verdict is not None
    assert "scales [1.0, 1.0, 0.5, 0.5] go below 1, and Upsample only enlarges" in outcome.verdict.reason
