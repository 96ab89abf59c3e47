from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

import bnfold
from bnfold import ir
from bnfold.converting import convert
from bnfold.errors import ConversionBlocked

Lowered = Callable[..., Any]
Text = Callable[..., str]
FOUR = "float[2, 3, 4, 8] q, float[2, 3, 5, 8] k, float[2, 3, 5, 6] v"
THREE = "float[2, 4, 24] q, float[2, 5, 24] k, float[2, 5, 18] v"


@pytest.mark.parametrize("target", [22, 17, 12, 11])
@pytest.mark.parametrize(
    ("inputs", "attributes"),
    [(FOUR, ""), (FOUR, "<is_causal = 1>"), (FOUR, "<scale = 0.3>"),
     (THREE, "<q_num_heads = 3, kv_num_heads = 3>"), (THREE, "<q_num_heads = 3, kv_num_heads = 3, is_causal = 1>")],
)  # fmt: skip
def test_plain_attention(lowered: Lowered, text: Text, inputs: str, attributes: str, target: int) -> None:
    rank = 4 if inputs == FOUR else 3
    outputs = "float[2, 3, 4, 6] y" if rank == 4 else "float[2, 4, 18] y"
    ops = lowered(text(23, inputs, f"y = Attention {attributes} (q, k, v)", outputs=outputs), target).ops
    assert len(ops) <= (7 if rank == 4 else 15)


@pytest.mark.parametrize("target", [17, 13, 11, 9])
@pytest.mark.parametrize(
    ("inputs", "node", "heads"),
    [
        (f"{FOUR}, float[4, 5] m", "Attention (q, k, v, m)", 3),
        (f"{FOUR}, bool[2, 1, 4, 5] m", "Attention <is_causal = 1> (q, k, v, m)", 3),
        ("float[2, 6, 4, 8] q, float[2, 3, 5, 8] k, float[2, 3, 5, 6] v", "Attention (q, k, v)", 6),
        ("float[b, 6, l, 8] q, float[b, 2, s, 8] k, float[b, 2, s, 6] v, float[l, s] m", "Attention (q, k, v, m)", 6),
    ],
)
def test_masks_and_shared_heads(lowered: Lowered, text: Text, inputs: str, node: str, heads: int, target: int) -> None:
    mask = np.arange(40).reshape(2, 1, 4, 5) % 5 < 4
    mask[1, 0, 2] = False  # hides everything
    outputs = f"float[2, {heads}, 4, 6] y" if "[b" not in inputs else f"float[b, {heads}, l, 6] y"
    feeds = {"m": mask} if "bool" in inputs else {}
    ops = lowered(text(23, inputs, f"y = {node}", outputs=outputs), target, feeds=feeds).ops
    assert len(ops) <= 13


@pytest.mark.parametrize("target", [17, 9])
@pytest.mark.parametrize("mask", ["", ", float[4, 7] m"])
def test_a_cache(lowered: Lowered, text: Text, mask: str, target: int) -> None:
    inputs = f"{THREE}{mask}, float[2, 3, 2, 8] p, float[2, 3, 2, 6] o"
    node = f"y, e, f = Attention <q_num_heads = 3, kv_num_heads = 3> (q, k, v, {mask[-1:]}, p, o)"
    outputs = "float[2, 4, 18] y, float[2, 3, 7, 8] e, float[2, 3, 7, 6] f"
    assert lowered(text(23, inputs, node, outputs=outputs), target).ops.count("Concat") == 2


@pytest.mark.parametrize(
    ("inputs", "node"),
    [
        (f"{FOUR}, float[4, s] m", "Attention (q, k, v, m)"),
        (FOUR, "Attention <softcap = 2.0> (q, k, v)"),
        ("float[2, 3, l, 8] q, float[2, 3, s, 8] k, float[2, 3, s, 6] v", "Attention <is_causal = 1> (q, k, v)"),
    ],
)
@pytest.mark.parametrize("target", [17, 13])
def test_other_attention_has_a_body(lowered: Lowered, text: Text, inputs: str, node: str, target: int) -> None:
    rows = "l" if ", l," in inputs else "4"
    feeds = {"m": np.ones((4, 5), np.float32)} if " m" in inputs else {}
    ops = lowered(text(23, inputs, f"y = {node}", outputs=f"float[2, 3, {rows}, 6] y"), target, feeds=feeds).ops
    assert "Attention" not in ops
    assert len(ops) > 20


def compared(source: str, target: int, sizes: dict[str, int] | None = None) -> list[str]:
    """Lower a model, compare with onnx's reference, for onnxruntime takes no short mask; return the operators."""
    proto = onnx.parser.parse_model(source)
    rng, feeds = np.random.default_rng(0), dict[str, Any]()
    for value in proto.graph.input:
        dims = [dim.dim_value or (sizes or {}).get(dim.dim_param, 0) for dim in value.type.tensor_type.shape.dim]
        drawn = rng.normal(size=dims)
        is_bool = value.type.tensor_type.elem_type == onnx.TensorProto.BOOL
        feeds[value.name] = drawn > 0 if is_bool else drawn.astype(np.float32)
    expected = np.asarray(next(iter(ReferenceEvaluator(proto).run(None, feeds))))
    made = bnfold.convert(proto, opset=target, verify=bnfold.VerifyOptions(depth="none")).to_proto()
    onnx.checker.check_model(made, full_check=True)
    actual = np.asarray(onnxruntime.InferenceSession(made.SerializeToString()).run(None, feeds)[0])
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)
    return [node.op_type for node in made.graph.node]


@pytest.mark.parametrize("target", [23, 17, 13, 9])
@pytest.mark.parametrize(
    ("inputs", "operands"),
    [
        (f"{FOUR}, float[4, 3] m", "(q, k, v, m)"),
        (f"{FOUR}, bool[2, 1, 4, 2] m", "(q, k, v, m)"),
        (f"{FOUR}, float[4, 1] m, float[2, 3, 2, 8] p, float[2, 3, 2, 6] o", "(q, k, v, m, p, o)"),
    ],
)
def test_a_mask_for_the_first_keys_hides_the_others(text: Text, inputs: str, operands: str, target: int) -> None:
    """So says version 24; version 23 demands a mask for all of them."""
    source = text(24, inputs, f"y, e, f = Attention {operands}", outputs="float[2, 3, 4, 6] y")
    assert len(compared(source, target)) < 16


@pytest.mark.parametrize("target", [23, 17, 13, 12])
@pytest.mark.parametrize("width", [5, 3])
def test_a_mask_of_open_sizes_is_filled_when_it_runs(text: Text, width: int, target: int) -> None:
    source = text(24, f"{FOUR}, float[4, w] m", "y = Attention (q, k, v, m)", outputs="float[2, 3, 4, 6] y")
    assert "Pad" in compared(source, target, {"w": width})


@pytest.mark.parametrize(("opset", "width"), [(23, 3), (23, 7), (24, 7)])
def test_a_mask_that_does_not_fit_is_refused(text: Text, opset: int, width: int) -> None:
    source = text(opset, f"{FOUR}, float[4, {width}] m", "y = Attention (q, k, v, m)", outputs="float[2, 3, 4, 6] y")
    with pytest.raises(ConversionBlocked, match=f"has a mask for {width} keys, and 5 keys"):
        convert(ir.load(onnx.parser.parse_model(source)), 17)


def test_heads_without_elements_have_no_scale(text: Text) -> None:
    source = text(23, "float[2, 1, 4, 0] q", "y = Attention (q, q, q)", outputs="float[2, 1, 4, 0] y")
    made = convert(ir.load(onnx.parser.parse_model(source)), 17)
    assert made.after == 17


def test_what_a_step_added_before_it_refused_is_gone(text: Text) -> None:
    """Step 24 would pad the mask, which no Pad below 11 does; the function body stands for it."""
    source = text(24, f"{FOUR}, float[4, w] m", "y = Attention (q, k, v, m)", outputs="float[2, 3, 4, 6] y")
    model = ir.load(onnx.parser.parse_model(source))
    convert(model, 12)
    unread = [node for node in model.graph.nodes if all(value is None or value.is_unread for value in node.outputs)]
    assert {node.op_type for node in unread} <= {"Constant"}  # of the body: axes that became attributes
