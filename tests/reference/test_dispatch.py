"""From a node to its definition and its kernel."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from bnfold import ir, reference
from bnfold.reference.dispatch import definition, meaning
from bnfold.reference.registry import NO_SCHEMA
from tests.reference.models import compute_all, floats, one_node
from tests.verification.graphs import model


def test_versions_follow_the_opset() -> None:
    found = [definition("", "BatchNormalization", opset) for opset in (1, 5, 6, 8, 13, 14, 20)]
    assert [one.version for one in found if one] == [1, 1, 6, 7, 9, 14, 15]


def test_defaults_are_the_float32_numbers_of_the_schema() -> None:
    batchnorm, lstm = definition("", "BatchNormalization", 15), definition("", "LSTM", 14)
    assert batchnorm is not None
    assert batchnorm.defaults["epsilon"] == float(np.float32(1e-5))
    assert lstm is not None
    assert lstm.defaults["direction"] == "forward"


def test_no_schema_and_no_such_opset() -> None:
    draft = definition("", "Affine", 7)
    assert draft is not None
    assert draft.version == NO_SCHEMA
    assert definition("", "Conv", onnx.defs.onnx_opset_version() + 1) is None


def test_stored_results_have_the_type_that_the_schema_ties_to_an_input() -> None:
    x, wide = floats(1, 2, 3).astype(np.float16), floats(2, 3)
    proto, feeds = one_node(
        "BatchNormalization", 15, [x, wide, wide, wide, np.abs(wide)], ["y", "m", "v"], training_mode=1
    )
    results = reference.evaluate(ir.load(proto), feeds, precision="stored")
    assert [value.dtype for value in results.values()] == [np.float16, np.float32, np.float32]


def test_stored_results_without_a_schema_have_the_type_of_the_first_input() -> None:
    proto, feeds = one_node("Affine", 7, [floats(1, 2).astype(np.float16)], alpha=2.0)
    assert reference.evaluate(ir.load(proto), feeds, precision="stored")["y"].dtype == np.float16


def test_every_output_is_float64_in_float64_precision() -> None:
    for value in compute_all("LayerNormalization", 17, [floats(1, 2, 3), floats(2, 3)], ("y", "mean", "inverse")):
        assert value.dtype == np.float64


def test_misfits_say_what_numpy_says_in_one_line() -> None:
    with pytest.raises(reference.Misfit) as error:
        compute_all("MatMul", 13, [floats(1, 2, 3), floats(2, 4, 5)], ("y",))
    assert "\n" not in str(error.value)
    assert error.value.op == "MatMul"


def test_operands_of_more_axes_than_numpy_takes_are_refused() -> None:
    proto, feeds = one_node("Gemm", 8, [floats(1, 2, 3), floats(2, 3, 4), floats(3, *[1] * 32, 4)], ["y"])
    with pytest.raises(reference.CannotEvaluate):
        reference.evaluate(ir.load(proto), feeds)


BODY = "= g (float[A] i) => (float[A] o) { o = Neg (i) }"
SCAN = f"Scan <body {BODY}, num_scan_inputs = 1> (x)"


@pytest.mark.parametrize(
    ("node", "one", "other", "are_same"),
    [
        (f"If <then_branch {BODY}, else_branch {BODY}> (x)", 1, 25, True),
        (f"Loop <body {BODY}> (x, x)", 13, 21, True),
        (SCAN, 9, 25, True),
        (SCAN.replace("(x)", "('', x)").replace("'", '"'), 8, 8, True),
        (SCAN, 8, 9, False),
    ],
)
def test_versions_that_differ_in_types_alone_mean_the_same(node: str, one: int, other: int, are_same: bool) -> None:
    text = f"(float[A] x) => (float[A] y) {{ y = {node} }}"
    nodes = [ir.load(model(text, {}, opset=opset)).graph.nodes[0] for opset in (one, other)]
    assert (meaning(nodes[0]) == meaning(nodes[1])) is are_same


@pytest.mark.parametrize(
    ("op_type", "opsets", "are_same"),
    [("Unheard", (13, 15), True), ("Affine", (9, 15), True), ("Gelu", (13, 19), True), ("Gelu", (19, 20), False)],
)
def test_an_operator_that_onnx_does_not_define_is_the_same_in_all_such_opsets(
    op_type: str, opsets: tuple[int, int], are_same: bool
) -> None:
    text = f"(float[A] x) => (float[A] y) {{ y = {op_type} (x) }}"
    one, other = (ir.load(model(text, {}, opset=opset)).graph.nodes[0] for opset in opsets)
    assert (meaning(one) == meaning(other)) is are_same


def test_an_operator_of_another_domain_may_be_another_one_in_each_version() -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 15, "own" : 1]> g (float[A] x) => (float[A] y) { y = own.Op (x) }'
    )
    one = ir.load(proto).graph.nodes[0]
    proto.opset_import[1].version = 2
    assert meaning(one) != meaning(ir.load(proto).graph.nodes[0])


def test_operators_without_a_schema_may_have_defaults() -> None:
    fused = definition("com.microsoft", "FusedMatMul", 1)
    assert fused is not None
    assert fused.defaults == {"transA": 0, "transB": 0, "transBatchA": 0, "transBatchB": 0, "alpha": 1.0}


@pytest.mark.parametrize(
    ("node", "version"), [("Conv (s, w)", "Conv-11"), ("Add (s, w)", "Add-14"), ("Relu (s)", "Relu-14")]
)
def test_a_sequence_is_no_array(node: str, version: str) -> None:
    """To numpy, a list of arrays is one array."""
    text = f"""<ir_version: 8, opset_import: ["": 17]> g (float[2,1,3] x) => (float[2,1,3] y)
        <float[1,1,1] w = {{1}}> {{ s = SplitToSequence (x)  y = {node} }}"""
    with pytest.raises(reference.Misfit, match=rf"{version} \(node 'y'\): it is given a sequence in place of an array"):
        reference.evaluate(ir.load(onnx.parser.parse_model(text)), {"x": np.ones((2, 1, 3), np.float32)})
