"""Results of If, Loop, Scan and functions that nothing reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

import bnfold
from tests.simplifying.small import operators, simplified

X = np.arange(1, 5, dtype=np.float32)


def parsed(text: str, opset: int = 13, imports: str = "") -> onnx.ModelProto:
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}{imports}]> {text}')
    onnx.checker.check_model(proto)
    return proto


def results(proto: onnx.ModelProto, **fed: Any) -> list[Any]:
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return [*session.run(None, fed)]


def reduced(before: onnx.ModelProto, *feeds: dict[str, Any]) -> onnx.ModelProto:
    """What becomes of a model: it is valid, has the same interface and results, and a second run changes nothing."""
    after, _ = simplified(before)
    onnx.checker.check_model(after)
    assert ([*after.graph.input], [*after.graph.output]) == ([*before.graph.input], [*before.graph.output])
    assert simplified(after)[0] == after
    for fed in feeds:
        for old, new in zip(results(before, **fed), results(after, **fed), strict=True):
            np.testing.assert_array_equal(old, new)
    return after


def bodies(proto: onnx.ModelProto, op_type: str) -> list[onnx.GraphProto]:
    node = next(node for node in proto.graph.node if node.op_type == op_type)
    return [attribute.g for attribute in node.attribute if attribute.type == onnx.AttributeProto.GRAPH]


def ops(graph: onnx.GraphProto) -> list[str]:
    return [node.op_type for node in graph.node]


BRANCHES = """
    g (float[N] x, bool c) => (float[N] y) <float[1] k = {3}> {
        u = Exp (x)
        OUTPUTS = If (c) <
            then_branch = t () => (float[N] p, float[N] q, float[N] r) { p = Neg (u) q = Relu (x) r = Add (q, k) },
            else_branch = e () => (float[N] s, float[N] t, float[N] v) <float[1] w = {2}> {
                s = Abs (x) t = Mul (s, x) v = Mul (x, w) }
        >
    }
"""


@pytest.mark.parametrize("opset", [11, 13, 16])
@pytest.mark.parametrize(
    ("outputs", "then", "other", "weights"),
    [
        ("a, y, b", ["Relu"], ["Abs", "Mul"], 0),
        ("y, a, b", ["Neg"], ["Abs"], 0),
        ("a, b, y", ["Relu", "Add"], ["Mul"], 1),
        ('y, "", ""', ["Neg"], ["Abs"], 0),
    ],
)
def test_branches_lose_what_nothing_reads(
    outputs: str, then: list[str], other: list[str], weights: int, opset: int
) -> None:
    feeds = [{"x": X, "c": np.array(told)} for told in (True, False)] if '""' not in outputs else []  # runs nowhere
    after = reduced(parsed(BRANCHES.replace("OUTPUTS", outputs), opset), *feeds)
    first, second = bodies(after, "If")
    assert (ops(first), ops(second)) == (then, other)
    assert len(first.output) == len(second.output) == len(after.graph.node[-1].output) == 1
    assert ("Exp" in ops(after.graph)) == ("Neg" in then)
    assert len(second.initializer) == len(after.graph.initializer) == weights


def test_an_inner_value_keeps_the_type_that_is_said_of_it() -> None:
    """What else reads it may follow from that type alone."""
    after = reduced(parsed(BRANCHES.replace("OUTPUTS", "a, y, b")), {"x": X, "c": np.array(False)})
    assert [info.name for info in bodies(after, "If")[1].value_info] == ["s"]


def test_an_if_that_nothing_reads_goes_as_a_whole() -> None:
    after = reduced(parsed(BRANCHES.replace("OUTPUTS", "a, b, d").replace("u = Exp", "y = Relu (x) u = Exp")))
    assert operators(after) == ["Relu"]


NESTED = """
    g (float[N] x, bool c) => (float[N] y) {
        d, y = If (c) <
            then_branch = t () => (float[N] p, float[N] q) {
                a, q = If (c) <
                    then_branch = tt () => (float[N] i, float[N] j) { i = Exp (x) j = Neg (x) },
                    else_branch = te () => (float[N] k, float[N] l) { k = Cos (x) l = Abs (x) }
                >
                p = Sin (a)
            },
            else_branch = e () => (float[N] r, float[N] s) { r = Abs (x) s = Relu (x) }
        >
    }
"""


def test_bodies_in_bodies() -> None:
    after = reduced(parsed(NESTED), *({"x": X, "c": np.array(told)} for told in (True, False)))
    (inner, outer) = bodies(after, "If")
    assert (ops(inner), ops(outer)) == (["If"], ["Relu"])
    assert [ops(body.g) for body in inner.node[0].attribute] == [["Neg"], ["Abs"]]


LOOP = """
    g (float[N] x, int64 n, bool c) => (float[N] y, float[M,N] z) <float[1] one = {1}> {
        s = Exp (x)
        t = Neg (x)
        a, y, b, d, z, e = Loop (n, c, s, x, t) <
            body = l (int64 i, bool ci, float[N] ai, float[N] yi, float[N] bi)
                => (bool co, float[N] ao, float[N] yo, float[N] bo, float[N] p, float[N] q, float[N] r) {
                CONDITION
                ao = A
                yo = Add (yi, one)
                bo = Mul (bi, ai)
                p = Cos (bi)
                q = Add (yi, yi)
                r = Identity (bo)
            }
        >
    }
"""
HANDED_ON = "co = Identity (ci)"
BY_STATE = "m = ReduceMax <keepdims = 0> (bi) co = Less (m, one)"


@pytest.mark.parametrize(
    ("condition", "first", "states"),
    [
        (HANDED_ON, "Sin (ai)", 1),  # a feeds b, and b itself: neither anything that is read
        (HANDED_ON, "Sin (bi)", 1),  # they feed each other
        (HANDED_ON, "Sin (yi)", 1),
        (BY_STATE, "Sin (ai)", 3),  # the condition needs b, and that a
        ("m = ReduceMax <keepdims = 0> (ai) co = Less (m, one)", "Sin (ai)", 2),
    ],
)
def test_a_state_goes_unless_what_is_read_needs_it(condition: str, first: str, states: int) -> None:
    before = parsed(LOOP.replace("CONDITION", condition).replace("A\n", f"{first}\n"))
    feeds = [{"x": X, "n": np.array(n), "c": np.array(told)} for n in (3, 0) for told in (True, False)]
    if condition != HANDED_ON:
        before = parsed(
            LOOP.replace(
                "CONDITION", condition.replace("co = Less (m, one)", "k = Squeeze (one) co = Less (m, k)")
            ).replace("A\n", f"{first}\n")
        )
    after = reduced(before, *feeds)
    (body,) = bodies(after, "Loop")
    assert (len(body.input), len(body.output)) == (2 + states, 2 + states)
    assert len(after.graph.node[-1].output) == states + 1
    assert ("Exp" in ops(after.graph), "Cos" in ops(body)) == (states > 1, False)


def test_a_loop_below_opset_11_keeps_a_state() -> None:
    text = """
        g (float[N] x, int64 n, bool c) => (float[M,N] z) {
            a, b, z = Loop (n, c, x, x) <
                body = l (int64 i, bool ci, float[N] ai, float[N] bi) => (bool co, float[N] ao, float[N] bo, float[N] q)
                    { co = Identity (ci) ao = Neg (bi) bo = Exp (bi) q = Abs (x) }
            >
        }
    """
    feeds = {"x": X, "n": np.array(2), "c": np.array(True)}
    assert [len(bodies(reduced(parsed(text, opset), feeds), "Loop")[0].output) for opset in (10, 13)] == [4, 2]
    lone = text.replace("bo = Exp (bi)", "bo = Exp (ai)").replace("Neg (bi)", "Neg (ai)")
    assert len(bodies(reduced(parsed(lone, 10), feeds), "Loop")[0].output) == 3


def test_lists_of_a_scan_lose_the_entries() -> None:
    before = parsed("""
        g (float[N] x, float[T,N] s, float[N,T] w) => (float[N] y, float[N,M] z) {
            e = Exp (w)
            h = Tanh (x)
            a, y, b, z = Scan <
                num_scan_inputs = 2, scan_input_axes = [1, 0], scan_input_directions = [0, 1],
                scan_output_axes = [0, 1], scan_output_directions = [0, 1],
                body = l (float[N] ai, float[N] yi, float[N] wi, float[N] si)
                    => (float[N] ao, float[N] yo, float[N] p, float[N] q)
                    { ao = Add (ai, wi) yo = Add (yi, si) p = Mul (ai, si) q = Mul (yi, si) }
            > (h, x, e, s)
        }
    """)
    rng = np.random.default_rng(0)
    fed = {"x": X, "s": rng.random((3, 4), np.float32), "w": rng.random((4, 3), np.float32)}
    after = reduced(before, fed)
    assert operators(after) == ["Scan"]
    stated = {entry.name: entry.i or [*entry.ints] for entry in after.graph.node[0].attribute if entry.name != "body"}
    assert stated == {
        "num_scan_inputs": 1, "scan_input_axes": [0], "scan_input_directions": [1], "scan_output_axes": [1],
        "scan_output_directions": [1],
    }  # fmt: skip


def test_a_scan_keeps_something_to_scan() -> None:
    before = parsed("""
        g (float[N] x, float[T,N] s) => (float[N] y) {
            y, b = Scan <num_scan_inputs = 2, scan_output_axes = [0],
                body = l (float[N] yi, float[N] si, float[N] ti) => (float[N] yo, float[N] p)
                    { yo = Add (yi, yi) p = Mul (si, ti) }
            > (x, s, s)
        }
    """)
    after = reduced(before, {"x": X, "s": np.ones((3, 4), np.float32)})
    assert len(after.graph.node[0].input) == 2
    assert "scan_output_axes" not in {entry.name for entry in after.graph.node[0].attribute}


def test_the_scan_of_opset_8_and_misfit_bodies_stay() -> None:
    """Its inputs are not those of its body, which has no batch."""
    scan = """
        g (float[1,N] x, float[1,T,N] s) => (float[1,N] y) {
            y, b = Scan <num_scan_inputs = 1,
                body = l (float[N] yi, float[N] si) => (float[N] yo, float[N] p) { yo = Add (yi, si) p = Neg (si) }
            > ("", x, s)
        }
    """
    before = parsed(scan, 8)
    assert simplified(before)[0] == before
    misfit = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 13]> ' + BRANCHES.replace("OUTPUTS", "a, y").replace("u = Exp", "u = Neg")
    )
    assert len(bodies(simplified(misfit)[0], "If")[0].output) == 3
    loop = LOOP.replace("CONDITION", HANDED_ON).replace("A\n", "Sin (ai)\n").replace("a, y, b, d, z, e", "a, y, b, z")
    few = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 13]> {loop}')
    assert len(bodies(simplified(few)[0], "Loop")[0].output) == 7


def test_an_operator_that_may_do_more_than_compute_stays() -> None:
    """It may print, or count what it is given: what it reads stays as well, and so does a node that holds it."""
    text = """
        g (float[N] x, int64 n, bool c) => (float[N] y) {
            a, b, y = Loop (n, c, x, x, x) <
                body = l (int64 i, bool ci, float[N] ai, float[N] bi, float[N] yi)
                    => (bool co, float[N] ao, float[N] bo, float[N] yo)
                    { co = Identity (ci) ao = Neg (ai) bo = Exp (bi) yo = Abs (yi) u = other.Print (ai) }
            >
        }
    """
    after, _ = simplified(parsed(text, imports=', "other": 1'))
    (body,) = bodies(after, "Loop")
    assert ops(body) == ["Identity", "Neg", "Abs", "Print"]
    unread = text.replace("a, b, y = Loop", "y = Relu (x) a, b, d = Loop")
    before = parsed(unread, imports=', "other": 1')
    assert simplified(before)[0] == before


FUNCTION = """
    g (float[N] x) => (float[N] y) {
        k = Exp (x)
        a, b = local.f (x, k)
        d, e = local.f (b, x)
        y = Relu (e)
    }
    <domain: "local", opset_import: ["": 13, "local": 1]> f (x, k) => (a, b) {
        t = Sigmoid (k) a, h = local.h (t) b = Neg (x)
    }
    <domain: "local", opset_import: ["": 13]> h (x) => (a, b) { a = Sin (x) b = Cos (x) }
"""


def test_a_function_loses_what_no_call_reads() -> None:
    after = reduced(parsed(FUNCTION, imports=', "local": 1'), {"x": X})
    function = after.functions[0]
    assert ([*function.input], [*function.output], len(function.node)) == (["x"], ["b"], 1)
    assert operators(after) == ["f", "f", "Relu"]


def test_what_one_call_reads_stays_for_all() -> None:
    text = FUNCTION.replace("y = Relu (e)", "y = Add (e, a)")
    after = reduced(parsed(text, imports=', "local": 1'), {"x": X})
    assert [[*function.output] for function in after.functions] == [["a", "b"], ["a"]]
    few = FUNCTION.replace("a, b = local.f (x, k)", "a, b = local.f (x, k) i = local.f (k)").replace(
        "Relu (e)", "Add (i, e)"
    )
    assert [*reduced(parsed(few, imports=', "local": 1')).functions[0].output] == ["a", "b"]


def test_a_call_that_nothing_reads_goes() -> None:
    text = FUNCTION.replace("y = Relu (e)", "y = Relu (x)")
    assert operators(reduced(parsed(text, imports=', "local": 1'), {"x": X})) == ["Relu"]
    printing = text.replace("b = Neg (x)", "b = Neg (x) u = other.Print (k)").replace(
        '"local": 1]> f', '"local": 1, "other": 1]> f'
    )
    before = parsed(printing, imports=', "local": 1, "other": 1')
    assert operators(simplified(before)[0]) == ["Exp", "f", "f", "Relu"]


def test_functions_of_one_name_stay() -> None:
    before = parsed(FUNCTION, imports=', "local": 1')
    before.functions.append(before.functions[0])
    assert [*simplified(before)[0].functions[0].output] == ["a", "b"]


def test_it_may_be_left_out_by_name_and_training_graphs_stay() -> None:
    from bnfold import ir
    from bnfold.report.events import Report
    from bnfold.simplifying import remove_unread

    before = parsed(NESTED)
    loaded, report = ir.load(before.SerializeToString()), Report()
    assert not remove_unread(loaded, report, disabled=frozenset({"unread-result"}))
    assert not report.simplified
    assert remove_unread(loaded, report)
    assert {
        (event.rewrite.title, event.name) for event in report.simplified if event.rewrite.name == "unread-result"
    } == {("unread result of If", "d"), ("unread result of If", "a")}


NORMALISED = """
    g (float[N,2,4,4] x, bool c) => (float[N,2,4,4] y) <float[2] o = {1, 2}, float[2] z = {0, 1}> {
        d, y = If (c) <
            then_branch = t () => (float[N,2,4,4] p, float[N,2,4,4] q) {
                p = Exp (x) r = Relu (x) q = BatchNormalization (r, o, z, z, o) },
            else_branch = e () => (float[N,2,4,4] s, float[N,2,4,4] u) {
                s = BatchNormalization (x, o, z, z, o) u = Abs (x) }
        >
    }
"""


def test_what_is_reported_follows_a_body_that_has_another_path() -> None:
    outcome = bnfold.optimize(parsed(NORMALISED), target_opset=15)
    assert outcome.verified
    assert {(event.graph, event.value) for event in outcome.report.batchnorms} == {
        ("d.then_branch", "q"), ("d.else_branch", "s"),
    }  # fmt: skip
    assert bnfold.optimize(outcome.to_proto(), target_opset=15).to_proto() == outcome.to_proto()


@pytest.mark.parametrize(
    "text",
    [BRANCHES.replace("OUTPUTS", "a, y, b"), NESTED, LOOP.replace("CONDITION", HANDED_ON).replace("A\n", "Sin (ai)\n")],
)
def test_the_result_is_verified(text: str) -> None:
    outcome = bnfold.optimize(parsed(text), target_opset="keep")
    assert outcome.verified, outcome.verdict and outcome.verdict.summary
    assert "unread-result" in {event.rewrite.name for event in outcome.report.simplified}


def test_what_folding_or_storing_leaves_unread_goes_too() -> None:
    """The size of a result is known, so that nothing reads the result any more."""
    text = """
        g (float[4] x, bool c) => (float[4] y) {
            d, y0 = If (c) <
                then_branch = t () => (float[4] p, float[4] q) { p = Exp (x) q = Neg (x) },
                else_branch = e () => (float[4] r, float[4] s) { r = Cos (x) s = Abs (x) }
            >
            k = Mul (d, d)
            w = Mul (k, k)
            e = Expand (y0, t2)
            y = Relu (e)
        }
    """.replace("e = Expand (y0, t2)", "s = Shape (w) e = Expand (y0, s)")
    before = parsed(text)
    outcome = bnfold.optimize(before, target_opset="keep")
    assert [ops(body) for body in bodies(outcome.to_proto(), "If")] == [["Neg"], ["Abs"]]
    assert bnfold.optimize(outcome.to_proto(), target_opset="keep").to_proto() == outcome.to_proto()
