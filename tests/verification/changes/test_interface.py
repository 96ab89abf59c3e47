from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import bnfold
from bnfold import ir
from bnfold.ir.elements import type_name
from bnfold.verification import Verdict, verify
from bnfold.verification.changes.interface import idle_inputs, interface_fault, narrowed, unread
from tests.verification.graphs import Depth, model, numbers, statistics

DEPTHS: tuple[Depth, ...] = ("auto", "full", "local")
BODY = "(float[N,3] x) => (float[N,3] y, float[N,3] z) { y = Relu (x)  z = Neg (x) }"
DEFAULT = {"k": np.array([2.0]), "q": np.array([2.0])}
LISTED = "(float[N,3] x, float[1] k) => (float[N,3] y) { y = Mul (x, k) }"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("float[N,3] y, ", "", "only the first has 'y'"),
        ("x)", "q)", "different inputs: only the first has 'x'; only the second has 'q'"),
        ("float[N,3] y, float[N,3] z", "float[N,3] z, float[N,3] y", "another order"),
        ("float[N,3] x", "double[N,3] x", "type float and is of type double"),
        ("float[N,3] x", "seq(float[N,3]) x", "type float and is of type sequence of float"),
        ("float[N,3] x", "float[N,4] x", "shape ['N', 3]"),
        ("float[N,3] x", "float[N,3,1] x", "shape"),
    ],
)
def test_differences_are_named(old: str, new: str, words: str) -> None:
    before, after = ir.load(model(BODY, {})), ir.load(model(BODY.replace(old, new), {}))
    assert words in interface_fault(before, after)
    verdict = verify(before, after)
    assert (verdict.status, verdict.decided_by) == ("failed", "interface")
    assert words in verdict.reason


def compared(before: str, after: str, weights: dict[str, Any] | None = None, **options: Any) -> Verdict:
    old, new = (ir.load(model(body, weights or {})) for body in (before, after))
    return verify(old, new, runtime="none", **options)


def test_an_input_that_takes_one_size_only_is_another_interface() -> None:
    verdict = compared(BODY, BODY.replace("N,3] x", "1,3] x"))
    assert (verdict.status, verdict.decided_by) == ("failed", "interface")
    assert "took the shape ['N', 3] and takes only [1, 3]" in verdict.reason
    assert [row.relative for row in verdict.outputs] == [0, 0]  # what differs beside the declaration is told, too
    assert compared(BODY.replace("N,3] x", "7,3] x"), BODY).verified


def test_an_input_that_is_declared_without_elements_takes_one_size_only() -> None:
    """Exporters write 0 for a dynamic size, but a runtime that reads the file takes no other one."""
    verdict = compared(BODY, BODY.replace("N,3] x", "0,3] x"))
    assert (verdict.status, verdict.decided_by) == ("failed", "interface")
    assert "took the shape ['N', 3] and takes only [0, 3]" in verdict.reason
    assert compared(BODY.replace("N,3] x", "0,3] x"), BODY).verified


def test_an_input_whose_rank_was_open_is_another_interface() -> None:
    before, after = ir.load(model(BODY, {})), ir.load(model(BODY, {}))
    kind = before.graph.inputs[0].type
    assert kind is not None
    kind.tensor_type.ClearField("shape")
    assert "took the shape of any rank" in narrowed(before, after)
    assert not narrowed(after, before)


def test_outputs_may_be_declared_more_exactly_but_not_wrongly() -> None:
    body = "(float[4,3] x) => (float[N,3] y, float[N,3] z) { y = Relu (x)  z = Neg (x) }"
    assert compared(body, body.replace("N,3] y", "4,3] y")).verified
    verdict = compared(body, body.replace("N,3] y", "5,3] y"))
    assert (verdict.status, verdict.decided_by) == ("failed", "interface")
    assert "is declared with the shape [5, 3], and has the shape [4, 3]" in verdict.reason


@pytest.mark.parametrize(("declared", "status"), [("a,b,1", "failed"), ("a,6,c", "verified"), ("4,b,c", "verified")])
def test_a_size_that_only_some_inputs_give_an_output_may_not_be_declared(declared: str, status: str) -> None:
    body = "(float[N,6] x) => (float[a,b,c] y) { r = Reshape (x, t)  y = Neg (r) }"
    protos = [model(it, {"t": np.array([4, 6, -1])}) for it in (body, body.replace("a,b,c", declared))]
    assert verify(*map(ir.load, protos), runtime="none").status == status


@pytest.mark.parametrize(("size", "status"), [("2", "failed"), ("0", "verified"), ("M", "verified")])
def test_an_output_without_elements_is_of_no_other_size(size: str, status: str) -> None:
    body = "(float[N,A,B] x) => (float[N,M,B] y) <float[0,1] none = {}> { y = Add (x, none) }"
    assert compared(body, body.replace("N,M,B", f"N,{size},B")).status == status


@pytest.mark.parametrize("depth", DEPTHS)
def test_an_output_of_any_size_is_not_of_one(depth: Depth) -> None:
    assert compared(BODY, BODY.replace("N,3] y", "1,3] y"), depth=depth).status == (
        "unverified" if depth == "local" else "failed"
    )


@pytest.mark.parametrize("declared", ["M,3] y", "] y"])
def test_a_size_that_nothing_tells_is_not_proven_by_parts(declared: str) -> None:
    body = BODY.replace("N,3] y", declared)
    assert compared(body, body.replace(declared, "1,3] y"), depth="local").status == "unverified"
    body = body.replace("N,3] x", "1,3] x")
    assert compared(body, body.replace(declared, "1,3] y"), depth="local").verified


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize(("size", "status"), [("1", "unverified"), ("2", "verified")])
def test_a_size_in_a_rank_that_was_not_guessed_is_not_proven(size: str, status: str, depth: Depth) -> None:
    """Four axes are, where nothing tells how many there are."""
    head = "(float[N] x) => (float[{}] y)"
    nodes = "{ y = BatchNormalization (x, k, k, k, k) }"
    dims = {"1": "A,2,C,D,1", "2": "A,2,C,D,E"}[size]
    before, after = (model(f"{head.format(shape)} {nodes}", {"k": np.ones(2)}) for shape in ("A,2,C,D,E", dims))
    for proto in (before, after):
        proto.graph.input[0].type.tensor_type.ClearField("shape")
    assert verify(ir.load(before), ir.load(after), runtime="none", depth=depth).status == status


@pytest.mark.parametrize("depth", DEPTHS)
def test_inputs_keep_their_order(depth: Depth) -> None:
    body = "(float[N,3] x, float[N,3] z) => (float[N,3] y) { y = Sub (x, z) }"
    verdict = compared(body, body.replace("x, float[N,3] z)", "z, float[N,3] x)"), depth=depth)
    assert (verdict.status, verdict.decided_by) == ("failed", "interface")
    assert "the inputs are in another order: ['x', 'z'] became ['z', 'x']" in verdict.reason


def test_a_default_that_can_no_longer_be_overridden() -> None:
    verdict = compared(LISTED, LISTED.replace(", float[1] k)", ")"), DEFAULT)
    assert (verdict.status, verdict.decided_by) == ("failed", "interface")
    assert "callers can no longer feed 'k', which had a default" in verdict.reason


def test_a_default_that_callers_must_feed_now() -> None:
    before, after = ir.load(model(LISTED, DEFAULT)), ir.load(model(LISTED, {}))
    assert "can no longer feed 'k', which had a default" in narrowed(before, after)
    assert not narrowed(after, before)


@pytest.mark.parametrize("depth", ["auto", "full", "local"])
@pytest.mark.parametrize("product", ["Mul (x, q)", "Mul (k, x)"])
def test_other_values_than_the_default_are_compared(product: str, depth: str) -> None:
    verdict = compared(LISTED, LISTED.replace("Mul (x, k)", product), DEFAULT, depth=depth)
    assert verdict.status == ("failed" if "q" in product else "verified")


def test_a_default_that_is_read_in_one_of_two_places() -> None:
    body = "(float[N,3] x, float[1] k) => (float[N,3] y) { a = Mul (x, k)  y = Add (a, k) }"
    assert compared(body, body.replace("Add (a, k)", "Add (a, q)"), DEFAULT).status == "failed"


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("beside", ["z = Neg (x)", "z = Add (x, k)"], ids=["nowhere", "somewhere"])
def test_a_default_that_one_branch_read(beside: str, depth: Depth) -> None:
    """Fed where the other branch is taken, it would not show."""
    branches = (
        "then_branch = t () => (float[N,1] p) { p = Add (x, k) }, else_branch = e () => (float[N,1] n) { n = Neg (x) }"
    )
    head = "(float[N,1] x, bool c, float[1] k) => (float[N,1] y, float[N,1] z)"
    body = f"{head} {{ y = If (c) <{branches}>  {beside} }}"
    for seed in range(3):
        assert compared(
            body, body.replace("p = Add (x, k)", "p = Add (x, q)"), DEFAULT, depth=depth, seed=seed
        ).status == ("failed")


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("taken", [True, False])
def test_a_default_that_one_branch_read_where_a_default_chooses_it(taken: bool, depth: Depth) -> None:
    branches = (
        "then_branch = t () => (float[N,1] p) { p = Add (x, k) }, else_branch = e () => (float[N,1] n) { n = Neg (x) }"
    )
    head = "(float[N,1] x, bool c, float[1] k) => (float[N,1] y, float[N,1] z)"
    body = f"{head} {{ y = If (c) <{branches}>  z = Add (x, k) }}"
    weights = {**DEFAULT, "c": np.array(taken)}
    assert compared(body, body.replace("p = Add (x, k)", "p = Add (x, q)"), weights, depth=depth).status == "failed"


def test_a_default_that_fits_alone_is_no_longer_read() -> None:
    """Of a Reshape's target others may not fit, and then nothing shows that its default was no constant."""
    body = "(float[2,3] x, int64[2] s) => (float[a,b] y) { y = Reshape (x, s) }"
    weights = {"s": np.array([6, 1]), "t": np.array([6, 1])}
    assert compared(body, body, weights).verified
    verdict = compared(body, body.replace("(x, s)", "(x, t)"), weights, inputs={"x": (2, 3)})
    assert verdict.status != "verified"


def test_what_was_frozen_is_declared_and_exempt_in_its_own_run() -> None:
    proto = model(LISTED.replace("float[1] k", "float[3] k"), {"k": np.ones(3), "q": np.ones(1)})
    weights = {name: np.ones(3, np.float32) for name in "sbmv"}
    proto.graph.node[0].output[0] = "m_"
    proto.graph.node.append(onnx.helper.make_node("BatchNormalization", ["m_", *weights], ["y"]))
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in weights.items())
    outcome = bnfold.fold(proto, overridable="freeze")
    assert outcome.verdict is not None
    assert outcome.verdict.verified
    assert outcome.report.frozen == ["k"]
    assert "as asked, callers can no longer feed the weights that were also inputs (1)" in outcome.report.notes
    assert not bnfold.fold(proto).report.frozen


def test_open_and_unknown_dims_do_not_clash() -> None:
    before = ir.load(model(BODY, {}))
    assert not interface_fault(before, ir.load(model(BODY.replace("N,3] y", "7,3] y"), {})))
    assert not interface_fault(before, before)


def test_weights_that_stop_being_inputs_are_no_difference_before_ir_version_4() -> None:
    weights = {"W": np.ones((3, 2))}
    old = model("(float[N,3] x, float[3,2] W) => (float[N,2] y) { y = MatMul (x, W) }", weights, opset=9, ir_version=3)
    new = model("(float[N,3] x) => (float[N,2] y) { y = MatMul (x, W) }", weights, opset=9, ir_version=4)
    assert not interface_fault(ir.load(old), ir.load(new))
    verdict = verify(ir.load(old), ir.load(new), runtime="none")
    assert verdict.verified
    assert "constants that are no longer listed as inputs: W" in verdict.notes


def test_types_have_names() -> None:
    assert [type_name(code) for code in (1, 10, None, 99)] == ["float", "float16", "unknown", "type 99"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("{ y = Relu (gone)  z = Neg (x) }", "nothing makes the value 'gone'"),
        ("{ z = Neg (x) }", "nothing makes the value 'y'"),
        ("{ y = Upsample <scales = [2.0, 2.0]> ()  z = Neg (x) }", "node 'y' (Upsample) lacks a required input"),
        ("{ y = Add (x, )  z = Neg (x) }", "node 'y' (Add) lacks a required input"),
        (
            "{ y = Relu (x)  z = Neg (x)  k = Shape (x)  , i = TopK <axis = 0> (x, k) }",
            "node 'i' (TopK) has no name for a required output",
        ),
    ],
)
def test_what_no_runtime_can_compute_is_never_verified(body: str, words: str) -> None:
    head = "(float[N,3] x) => (float[N,3] y, float[N,3] z)"
    whole, broken = (
        ir.load(model(f"{head} {nodes}", {}, opset=7)) for nodes in ("{ y = Relu (x)  z = Neg (x) }", body)
    )
    for depth in DEPTHS:
        verdict = verify(whole, broken, depth=depth, runtime="none")
        assert (verdict.status, words in verdict.reason) == ("failed", True), verdict.reason
        verdict = verify(broken, broken, depth=depth, runtime="none")
        assert (verdict.status, words in verdict.reason) == ("unverified", True), verdict.reason


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_default_that_is_gone_and_something_else_wrong(depth: Depth) -> None:
    before = model(LISTED, {"k": DEFAULT["k"]})
    after = model("(float[N,3] x) => (float[N,3] y) { y = Add (x, q) }", {"q": DEFAULT["q"]})
    assert verify(ir.load(before), ir.load(after), depth=depth, runtime="none").status == "failed"


def test_a_rewritten_model_that_a_runtime_refuses_for_its_types_has_failed() -> None:
    body = "(float[2,3] x) => (float[2,3] y) { one = Constant <value_int = 1> ()  y = Identity (x) }"
    right, wrong = (ir.load(model(text, {}, opset=17)) for text in (body, body.replace("}", " z = Add (x, one) }")))
    verdict = verify(right, wrong, depth="local", runtime="none")
    assert verdict.status == "failed"
    assert "input 1 of node 'z' (Add) is of type int64" in verdict.reason
    assert verify(wrong, wrong, depth="local").verified


def test_what_only_we_read_has_failed() -> None:
    """``spatial=0`` over parameters for channels: as MXNet wrote it, and refused by runtimes."""
    stats = statistics(numbers(0), 3)
    body = "(float[N,3,4,4] x) => (float[N,3,4,4] y) { y = BatchNormalization<spatial = %d> (x, scale, B, mean, var) }"
    right, wrong = (ir.load(model(body % spatial, stats, opset=7)) for spatial in (1, 0))
    verdict = verify(right, wrong, depth="local", runtime="none")
    assert verdict.status == "failed"
    assert "spatial=0" in verdict.reason
    assert verify(wrong, wrong, depth="local", runtime="none").verified
    assert verify(wrong, right, depth="local", runtime="none").verified


def test_of_an_input_that_is_an_output_both_declarations_count() -> None:
    """IR version 3 lists the weight as an input; without that listing, only the output still says what it is."""
    weight = onnx.numpy_helper.from_array(np.zeros((2, 3), np.float32), "w")
    listed = onnx.helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, None)
    made = onnx.helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, [])
    graph = onnx.helper.make_graph([], "g", [listed], [made], [weight])
    before = onnx.helper.make_model(graph, ir_version=3, opset_imports=[onnx.helper.make_opsetid("", 9)])
    after = onnx.ModelProto.FromString(before.SerializeToString())
    del after.graph.input[:]
    assert verify(ir.load(before), ir.load(after), runtime="none").status != "failed"


def test_a_default_that_nothing_reads_may_go_but_is_missed() -> None:
    """No result changes by that; a caller who feeds it is refused all the same."""
    body = "(float[3] x, float[3] k) => (float[3] y) { y = Neg (x) }"
    before = ir.load(model(body, {"k": np.ones(3)}))
    after = ir.load(model(body.replace(", float[3] k", ""), {}))
    assert (narrowed(before, after), idle_inputs(before, after)) == ("", ["k"])
    verdict = verify(before, after, runtime="none")
    assert (verdict.status, verdict.decided_by) == ("unverified", "interface")
    assert "can no longer feed k, which nothing reads" in verdict.reason
    wrong = ir.load(model(body.replace(", float[3] k", "").replace("Neg", "Abs"), {}))
    assert verify(before, wrong, runtime="none").status == "failed"


@pytest.mark.parametrize(
    ("is_first", "body", "is_read"),
    [
        (True, "c = Equal (two, two)", False),
        (False, "c = Equal (two, two)", True),
        (True, "s = ReduceSum (x)  r = Squeeze (s)  c = Less (r, r)", True),
    ],
)
def test_an_input_of_a_branch_that_is_never_taken_is_not_read(is_first: bool, body: str, is_read: bool) -> None:
    first, second = ("Neg (x)", "Mul (x, k)") if is_first else ("Mul (x, k)", "Neg (x)")
    before = (
        f"{LISTED.split('{', 1)[0]} {{ {body}  y = If (c) <then_branch = t () => (float[A,B] p) {{ p = {first} }},"
        f" else_branch = e () => (float[A,B] q) {{ q = {second} }}> }}"
    )
    after = f"{LISTED.split('{', 1)[0]} {{ y = Neg (x) }}"
    weights = {"k": np.array([1.0]), "two": np.array(2)}
    old, new = (ir.load(model(text, weights)) for text in (before, after))
    assert unread(old, new, ()) == (["k"] if is_read else [])


def test_a_dead_node_reads_nothing() -> None:
    before = LISTED.replace("y = Mul (x, k)", "d = Neg (k)  y = Neg (x)")
    old, new = (ir.load(model(text, DEFAULT)) for text in (before, before.replace("d = Neg (k)", "")))
    assert unread(old, new, ()) == []
    assert unread(ir.load(model(LISTED, DEFAULT)), old, ()) == ["k"]


def test_a_dead_node_of_a_body_reads_nothing() -> None:
    other = "else_branch = e () => (float[A,B] q) { q = Abs (x) }"
    branches = f"then_branch = t () => (float[A,B] p) {{ %s p = Neg (x) }}, {other}"
    head = LISTED.split("{", 1)[0].replace("float[1] k", "float[1] k, bool c")
    before = f"{head} {{ z = If (c) <{branches % ''}>  y = Mul (z, k) }}"
    after = f"{head} {{ y = If (c) <{branches % 'd = Neg (k)'}> }}"
    old, new = (ir.load(model(text, {"k": np.array([1.0])})) for text in (before, after))
    assert unread(old, new, ()) == ["k"]
    assert verify(old, new, runtime="none").status != "verified"


def test_a_false_type_of_a_sequences_element_may_be_corrected() -> None:
    body = "(float[2] x) => (float16[1] y) { s = SplitToSequence (x) y = SequenceAt (s, i) }"
    before, after, other = (
        ir.load(model(body.replace("float16", kind), {"i": np.array(0)})) for kind in ("float16", "float", "double")
    )
    assert interface_fault(before, after) == ""
    assert "was of type float and is of type double" in interface_fault(before, other)


def test_a_size_of_0_that_nothing_is_known_of_may_not_be_declared() -> None:
    """Exporters write it for an unknown size, and onnxruntime takes it at its word behind an If."""
    body = "(float[N,3] x) => (float[a,3] y) { y = NonZero (x) }".replace("float[a,3] y", "int64[2,a] y")
    assert compared(body, body.replace("2,a", "2,0"), depth="local").status == "unverified"
    assert compared(body.replace("2,a", "2,0"), body.replace("2,a", "2,0"), depth="local").verified


def test_what_neither_model_can_be_computed_for_is_said_of_the_original() -> None:
    body = "(float[2,3] x) => (float[a,b] y) { y = Add (x, ) }"
    verdict = verify(ir.load(model(body, {})), ir.load(model(body, {})), runtime="none")
    assert verdict.status == "unverified"
    assert verdict.reason == "neither model can be computed: of the original, node 'y' (Add) lacks a required input"
