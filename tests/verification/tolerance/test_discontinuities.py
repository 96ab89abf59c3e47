from __future__ import annotations

import numpy as np
import onnx
import pytest

from bnfold import analysis, ir, reference
from bnfold.verification import verify
from bnfold.verification.end_to_end.pair import ModelPair
from bnfold.verification.tolerance.discontinuities import (
    discontinuous_inputs,
    discontinuous_slots,
    lacks_types,
    substitute,
)
from bnfold.verification.tolerance.rounding import PerturbedWeights
from tests.verification.graphs import Array, Depth, affine, along, model, numbers, single, statistics


def fold(tail: str, outputs: str, **faults: float) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    rng = numbers(9)
    stats, weight = statistics(rng, 4), single(rng.normal(size=(4, 3, 1, 1)))
    s, t = affine(stats)
    head = f"(float[N,3,H,W] x) => ({outputs})"
    steps = {"step": np.array(0.05), "zero": np.array(3, np.int8)}
    nodes = "c = Conv (x, W)  z = BatchNormalization (c, scale, B, mean, var)"
    before = model(f"{head} {{ {nodes}  {tail} }}", {"W": weight, **stats, **steps}, opset=19)
    folded = {"W": weight * along(s, 0, 4), "b": t + faults.get("shift", 0.0), **steps}
    return before, model(f"{head} {{ z = Conv (x, W, b)  {tail} }}", folded, opset=19)


TAILS = [
    pytest.param(
        "q = QuantizeLinear (z, step, zero)  y = DequantizeLinear (q, step, zero)", "float[a,b,c,d] y", id="quantised"
    ),
    pytest.param("y = ArgMax <axis = 1> (z)", "int64[a,b,c,d] y", id="argmax"),
    pytest.param("r = Floor (z)  y = Relu (r)", "float[a,b,c,d] y", id="floor"),
    pytest.param("i = Cast <to = 6> (z)  y = Cast <to = 1> (i)", "float[a,b,c,d] y", id="cast"),
    *(
        pytest.param(f"y = Cast <to = {to}> (z)", f"{name}[a,b,c,d] y", id=name)
        for to, name in enumerate(("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz"), 17)
    ),
    pytest.param("i = CastLike (z, zero)  y = Cast <to = 1> (i)", "float[a,b,c,d] y", id="cast like"),
    pytest.param("m = Neg (z)  g = Greater (z, m)  y = Where (g, z, m)", "float[a,b,c,d] y", id="greater"),
]


@pytest.mark.no_cover  # takes twice as long measured, and reaches no branch that other tests do not reach
@pytest.mark.parametrize(("tail", "outputs"), TAILS)
def test_both_sides_jump_alike(tail: str, outputs: str) -> None:
    before, after = fold(tail, outputs)
    for seed in range(3):
        verdict = verify(ir.load(before), ir.load(after), depth="full", runtime="none", seed=seed)
        assert verdict.status == "verified", verdict.reason
    assert any("discontinuous operators" in note for note in verdict.notes)


@pytest.mark.no_cover  # takes twice as long measured, and reaches no branch that other tests do not reach
@pytest.mark.parametrize(("tail", "outputs"), TAILS)
def test_a_fault_before_the_jump_is_found_there(tail: str, outputs: str) -> None:
    """Far too small to change what comes out of the jump."""
    before, after = fold(tail, outputs, shift=1e-4)
    verdict = verify(ir.load(before), ir.load(after), depth="full", runtime="none")
    assert verdict.status == "failed"
    assert "'z'" in verdict.reason or "'m'" in verdict.reason
    assert verdict.localised is not None
    assert verdict.localised.tensor == "z"


def test_a_name_inside_that_has_another_meaning_is_no_fault() -> None:
    """Who folds into a convolution may leave it the name of its output, as onnxsim does."""
    before, after = fold("q = QuantizeLinear (z, step, zero)  y = DequantizeLinear (q, step, zero)", "float[a,b,c,d] y")
    for node in after.graph.node:
        for names in (node.input, node.output):
            names[:] = ["c" if name == "z" else name for name in names]
    verdict = verify(ir.load(before), ir.load(after), depth="full", runtime="none")
    assert verdict.status != "failed", verdict.reason


def test_a_fault_behind_the_jump_is_found() -> None:
    before, _ = fold("r = Floor (z)  y = Relu (r)", "float[a,b,c,d] y")
    _, after = fold("r = Floor (z)  y = Abs (r)", "float[a,b,c,d] y")
    assert verify(ir.load(before), ir.load(after), depth="full", runtime="none").status == "failed"


def test_a_jump_that_was_changed_itself_is_found() -> None:
    before, _ = fold("y = ArgMax <axis = 1> (z)", "int64[a,b,c,d] y")
    _, after = fold("y = ArgMax <axis = 1, select_last_index = 1> (z)", "int64[a,b,c,d] y")
    twice = "y1 = Concat <axis = 1> (z, z)  y = ArgMax <axis = 1{}> (y1)"
    before, _ = fold(twice.format(""), "int64[a,b,c,d] y")
    _, after = fold(twice.format(", select_last_index = 1"), "int64[a,b,c,d] y")
    assert verify(ir.load(before), ir.load(after), depth="full", runtime="none").status == "failed"


def test_stand_ins_are_read_by_jumping_operators_only() -> None:
    _, after = fold("r = Floor (z)  y = Add (r, z)", "float[a,b,c,d] y")
    loaded = ir.load(after)
    copy, names = substitute(loaded, ["z"])
    assert set(names) == {"z"}
    consumers = {node.op_type: [value.name for value in node.inputs if value] for node in copy.graph.nodes}
    assert consumers["Floor"] == [names["z"]]
    assert consumers["Add"] == ["r", "z"]
    assert [value.name for node in loaded.graph.nodes for value in node.inputs if value].count("z") == 2


def test_values_without_a_counterpart_are_told_apart() -> None:
    before, _ = fold("y = Floor (z)", "float[a,b,c,d] y")
    _, after = fold("w = Identity (z)  y = Floor (w)", "float[a,b,c,d] y")
    assert discontinuous_inputs(ir.load(before), ir.load(after)) == ([], ["w"])
    assert discontinuous_inputs(ir.load(after), ir.load(before)) == (["z"], [])


def test_values_inside_bodies_cannot_be_held_captured_ones_can() -> None:
    body = (
        "(bool k, float[N] x) => (float[N] y) { h = Exp (x)  y = If (k)"
        " <then_branch = t () => (float[N] u) { a = Floor (h)  b = Sin (a)  u = Ceil (b) },"
        " else_branch = e () => (float[N] v) { v = Neg (h) }> }"
    )
    loaded = ir.load(model(body, {}))
    assert discontinuous_inputs(loaded, loaded) == (["h"], ["b"])
    for seed in range(4):
        verdict = verify(loaded, loaded, runtime="none", seed=seed)
        assert verdict.status == "verified", verdict.reason
    assert any("could not be replaced" in note for note in verdict.notes)


def test_integers_do_not_jump() -> None:
    loaded = ir.load(model("(int64[N] x) => (bool[N] y) { a = Abs (x)  y = Equal (a, x) }", {}))
    analysis.infer_shapes(loaded)
    assert discontinuous_inputs(loaded, loaded) == ([], [])


@pytest.mark.parametrize(("target", "slots"), [("1", ()), ("10", ()), ("6", (0,)), ("9", (0,)), ("19", (0,))])
def test_casts_jump_unless_they_stay_floats(target: str, slots: tuple[int, ...]) -> None:
    loaded = ir.load(model(f"(float[N] x) => (float[N] y) {{ y = Cast <to = {target}> (x) }}", {}))
    assert discontinuous_slots(loaded.graph.nodes[0]) == slots


def test_old_casts_name_their_type() -> None:
    loaded = ir.load(model('(float[N] x) => (int32[N] y) { y = Cast <to = "INT32"> (x) }', {}, opset=5))
    assert discontinuous_slots(loaded.graph.nodes[0]) == (0,)


def test_a_foreign_operator_of_the_same_name_is_not_known_to_jump() -> None:
    proto = model("(float[N] x) => (float[N] y) { y = own.Floor (x) }", {})
    proto.opset_import.add(domain="own", version=1)
    assert discontinuous_slots(ir.load(proto).graph.nodes[0]) == ()


def test_what_only_a_body_reads_of_a_held_value_is_held() -> None:
    """Copies of the model with disturbed weights find the stand-in, although no node of the main graph reads it."""
    text = (
        "(bool c, float[4] x) => (float[4] v, float[4] y) { v = Neg (x)  b = If (c)"
        " <then_branch = t () => (float[4] p) { p = Floor (v) }, else_branch = e () => (float[4] q) { q = Abs (v) }>"
        "  y = Mul (b, w) }"
    )
    before, after = (ir.load(model(text, {"w": np.array([0.3, 0.7, 1.1, number])})) for number in (1.7, 1.9))
    assert verify(before, after, depth="full", runtime="none").status == "failed"


@pytest.mark.parametrize("depth", ["auto", "full", "local"])
def test_who_quantizes_earlier_may_keep_a_name_for_what_is_quantized(depth: Depth) -> None:
    """As onnxruntime does in front of what moves elements: ``p`` was a float of any size, now it is one of 256."""
    pair = "{} = QuantizeLinear ({}, s, z)  {} = DequantizeLinear ({}, s, z)"
    body = f"(float[2,3,6,6] x) => (float[2,3,3,3] y) {{ {{}}  {pair.format('q', 'p', 'd', 'q')}  y = Neg (d) }}"
    pool = "p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]>"
    weights = {"s": np.array(0.02), "z": np.array(100, np.uint8), "off": np.array(0.05)}
    early = f"{pair.format('a', 'x', 'b', 'a')}  {pool} (b)"
    before, after, wrong = (
        ir.load(model(body.replace("{}", nodes), weights))
        for nodes in (f"{pool} (x)", early, early.replace("(b)", "(c)").replace("  p", "  c = Add (b, off)  p"))
    )
    assert verify(before, after, depth=depth, runtime="none").status != "failed"
    assert verify(before, wrong, depth=depth, runtime="none").status == "failed"


def test_what_follows_from_constants_is_not_held() -> None:
    """Each model has its own, and of what is fed nobody knows that it is constant."""
    step: dict[str, Array] = {"w": single(np.ones(3)), "step": single(np.array(0.05)), "zero": np.array(3, np.int8)}
    nodes = "{ v = Identity (w) q = QuantizeLinear (v, step, zero) y = DequantizeLinear (q, step, zero) }"
    net = ir.load(model(f"(float[3] x) => (float[3] y) {nodes}", step))
    assert discontinuous_inputs(net, net) == ([], [])


def test_what_is_rounded_has_one_type_in_both_models() -> None:
    """A third of three times a half ties in float32, and not in float64; the files do not declare which it is."""
    text = "(float[N,3] x) => (float[N,3] y) {{ a = Mul (x, third)  b = Mul (a, three)  c = Round (b)  y = {} }}"
    weights = {"third": np.array(1 / 3), "three": np.array(3.0), "minus": np.array(-1.0)}
    before, after = (ir.load(model(text.format(end), weights)) for end in ("Neg (c)", "Mul (c, minus)"))
    assert lacks_types(before)
    assert lacks_types(after)
    pair = ModelPair(before, after, PerturbedWeights(before, after), reference.evaluate)
    assert pair.watched == ["b"]
    assert before.graph.values["b"].dtype == after.graph.values["b"].dtype == onnx.TensorProto.FLOAT
    stood_for = substitute(after, ["b"])[0].graph.values["b@before"]
    assert stood_for.dtype == onnx.TensorProto.FLOAT
