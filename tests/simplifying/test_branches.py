"""An If whose condition is the same in every run gives way to the branch that it takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

import bnfold
from bnfold import ir
from bnfold.report.events import Report
from bnfold.simplifying import decide
from tests.simplifying.small import assert_equal, model, operators, simplified

BRANCHES = """
    then_branch = t () => (float[P] p) { p = Relu (x) },
    else_branch = e () => (float[Q] q) { a = Neg (x) q = Abs (a) }
"""


def parsed(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 15]> {text}')


def decided(proto: onnx.ModelProto, *shapes: tuple[int, ...]) -> onnx.ModelProto:
    """What becomes of a model, of which every subgraph is gone, and in which no name hides another."""
    after, report = simplified(proto)
    assert not any(node.op_type == "If" for node in after.graph.node)
    assert "If decided" in {event.rewrite.title for event in report.simplified}
    onnx.checker.check_model(after, full_check=True)
    assert_equal(proto, after, *(shapes or [(3,)]))
    return after


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("c = Identity (yes)", ["Relu"]),
        ("c = Not (yes)", ["Neg", "Abs"]),
        ("s = Shape (x)  n = Size (s)  c = Equal (n, one)", ["Relu"]),
        ("s = Shape (x)  n = Size (s)  d = Equal (n, one)  c = Not (d)", ["Neg", "Abs"]),
        ("s = Shape (w)  n = Gather (s, zero)  c = Greater (n, one)", ["Relu"]),
        ("s = Shape (w)  n = Gather (s, zero)  c = Less (n, one)", ["Neg", "Abs"]),
        ("s = Shape (w)  n = Gather (s, zero)  g = GreaterOrEqual (n, one)  c = And (g, yes)", ["Relu"]),
        ("s = Shape (w)  n = Gather (s, zero)  g = LessOrEqual (n, one)  c = Or (g, yes)", ["Relu"]),
        ("s = Shape (w)  n = Gather (s, zero)  c = Cast <to = 9> (n)", ["Relu"]),
        ("s = Shape (x)  n = Gather (s, zero)  c = Less (n, minus)", ["Neg", "Abs"]),
        ("s = Shape (x)  n = Gather (s, zero)  c = GreaterOrEqual (n, minus)", ["Relu"]),
    ],
)
def test_a_known_condition(condition: str, wanted: list[str]) -> None:
    constants = "bool yes = {1}, int64 one = {1}, int64 zero = {0}, int64 minus = {-1}, float[4] w = {1,2,3,4}"
    before = model("(float[N] x) => (float[M] y)", f"{condition}  y = If (c) <{BRANCHES}>", constants)
    assert operators(decided(before)) == wanted


@pytest.mark.parametrize(
    "condition",
    [
        "s = Shape (x)  n = Gather (s, zero)  c = Equal (n, one)",
        "s = Shape (x)  n = Gather (s, zero)  c = Greater (n, one)",
        "s = Shape (x)  n = Gather (s, zero)  c = Cast <to = 9> (n)",
        "s = Shape (x)  n = Gather (s, zero)  e = Equal (n, one)  c = And (e, yes)",
        "m = ReduceMax <keepdims = 0> (x)  c = Cast <to = 9> (m)",
    ],
)
def test_an_unknown_condition(condition: str) -> None:
    """Sizes that the file leaves open, among them that of an empty batch, and numbers."""
    constants = "bool yes = {1}, int64 one = {1}, int64 zero = {0}"
    before = model("(float[N] x) => (float[M] y)", f"{condition}  y = If (c) <{BRANCHES}>", constants)
    after, _ = simplified(before)
    assert operators(after)[-1] == "If"


def test_a_condition_that_callers_may_override() -> None:
    text = f"g (float[N] x, bool c) => (float[M] y) <bool c = {{1}}> {{ y = If (c) <{BRANCHES}> }}"
    assert operators(simplified(parsed(text))[0]) == ["If"]


def test_names_that_several_scopes_have() -> None:
    """The outer ``a``, that of each branch, and that of a graph in a branch are four values."""
    before = parsed("""
        g (float[N] x, bool c) => (float[N] y, float[N] z) <bool yes = {1}, bool no = {0}> {
            v = Neg (x)
            y = If (yes) <
                then_branch = t () => (float[N] p) {
                    b = Abs (x)
                    d = If (c) <
                        then_branch = i () => (float[N] r) { k = Exp (b) r = Add (k, v) },
                        else_branch = j () => (float[N] r) { r = Sub (b, v) }
                    >
                    p = Mul (d, b)
                },
                else_branch = e () => (float[N] p) { b = Exp (x) p = Mul (b, v) }
            >
            z = If (no) <
                then_branch = t () => (float[N] p) { p = Relu (v) },
                else_branch = e () => (float[N] p) { b = Exp (v) k = Sigmoid (b) p = Mul (k, b) }
            >
        }
    """)
    after, _ = simplified(before)
    assert sorted(operators(after)) == ["Abs", "Exp", "If", "Mul", "Mul", "Neg", "Sigmoid"]
    onnx.checker.check_model(after, full_check=True)
    for truth in (True, False):
        assert_equal(before, after, (3,), c=np.array(truth))


@pytest.mark.parametrize(
    ("branch", "left"),
    [
        ("t () => (float[N] p) { p = Identity (x) }", ["Identity"]),  # an input of the model that is its output
        ("t () => (float[N] v) { n = Relu (x) }", ["Neg"]),
        ("t () => (float[2] w) <float[2] w = {1,2}> { n = Relu (x) }", ["Identity"]),
        ("t () => (float[N] p) { p = Add (x, k) }", ["Add"]),
        ("t () => (float[N] p) <float[2] l = {3,4}> { p = Add (x, l) }", ["Add"]),
        ("t () => (float[N] y) { n = Abs (x) y = Relu (n) }", ["Abs", "Relu"]),
    ],
)
def test_what_a_branch_returns(branch: str, left: list[str]) -> None:
    """An outer value, a weight of its own, or what it makes, under the If's own name as well."""
    before = parsed(f"""
        g (float[N] x) => (float[N] y) <bool yes = {{1}}, float[2] k = {{1,2}}> {{
            v = Neg (x)
            y = If (yes) <then_branch = {branch}, else_branch = e () => (float[N] q) {{ q = Abs (x) }}>
        }}
    """)
    after = decided(before, (2,))
    assert operators(after) == left


def test_a_result_that_is_returned_twice() -> None:
    before = parsed("""
        g (float[N] x) => (float[N] y, float[N] z) <bool yes = {1}> {
            y, z = If (yes) <
                then_branch = t () => (float[N] p, float[N] p) { p = Relu (x) },
                else_branch = e () => (float[N] q, float[N] r) { q = Abs (x) r = Neg (x) }
            >
        }
    """)
    assert operators(decided(before)) == ["Relu", "Identity"]


def test_nested_ifs_of_which_shapes_in_a_branch_decide() -> None:
    before = parsed("""
        g (float[N,3] x, bool c) => (float[M,K] y) <int64 one = {1}, int64 three = {3}> {
            y = If (c) <
                then_branch = t () => (float[N,3] p) {
                    a = Neg (x)
                    s = Shape (a)
                    n = Gather (s, one)
                    e = Equal (n, three)
                    p = If (e) <
                        then_branch = i () => (float[N,3] r) { r = Relu (a) },
                        else_branch = j () => (float[N,3] r) { r = Exp (a) }
                    >
                },
                else_branch = e () => (float[N,3] q) { q = Abs (x) }
            >
        }
    """)
    after, _ = simplified(before)
    (left,) = after.graph.node
    assert [node.op_type for node in left.attribute[0].g.node] == ["Neg", "Relu"]
    for truth in (True, False):
        assert_equal(before, after, (2, 3), c=np.array(truth))


def test_what_a_function_decides() -> None:
    before = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 15, "own": 1]> g (float[N] x) => (float[N] y) { y = own.f (x) }
        <domain: "own", opset_import: ["": 15]> f (x) => (y) {
            yes = Constant <value = bool {1}> ()
            y = If (yes) <
                then_branch = t () => (float[N] p) { a = Neg (x) p = Relu (a) },
                else_branch = e () => (float[N] q) { q = Abs (x) }
            >
        }
    """)
    after, _ = simplified(before)
    assert [node.op_type for node in after.functions[0].node] == ["Neg", "Relu"]
    assert_equal(before, after, (3,))


def batch_norm(name: str, source: str) -> str:
    return f"{name} = BatchNormalization ({source}, s, b, m, v)"


WEIGHTS: dict[str, Any] = {
    "W": np.random.default_rng(1).normal(size=(4, 3, 1)).astype(np.float32),
    "s": np.array([1, 2, 3, 4], np.float32),
    "b": np.array([0.5, -1, 2, 0], np.float32),
    "m": np.array([1, 0, -1, 2], np.float32),
    "v": np.array([1, 2, 0.5, 3], np.float32),
}


def test_what_was_in_a_branch_folds() -> None:
    """A BatchNormalization in the branch, beside a Conv outside; of the other branch's nothing is left."""
    proto = parsed(f"""
        g (float[N,3,L] x) => (float[N,4,L] y) <bool yes = {{1}}> {{
            c = Conv (x, W)
            y = If (yes) <
                then_branch = t () => (float[N,4,L] p) {{ {batch_norm("n", "c")}  p = Relu (n) }},
                else_branch = e () => (float[N,4,L] q) {{ {batch_norm("o", "c")}  q = Abs (o) }}
            >
        }}
    """)
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in WEIGHTS.items())
    outcome = bnfold.optimize(proto)
    assert outcome.status == "verified"
    assert operators(outcome.to_proto()) == ["Conv", "Relu"]
    assert outcome.report.simplifications() == "If decided ×1"  # noqa: RUF001
    assert sorted(event.verdict for event in outcome.report.batchnorms) == ["folded", "removed"]


def test_without_simplification_an_if_stays() -> None:
    proto = model("(float[N] x) => (float[M] y)", f"y = If (yes) <{BRANCHES}>", "bool yes = {1}")
    assert operators(bnfold.optimize(proto, no_simplify=True).to_proto()) == ["If"]
    assert operators(bnfold.optimize(proto).to_proto()) == ["Relu"]


INNER = "then_branch = i () => (float[N] y) { y = Relu (x) }, else_branch = j () => (float[N] r) { r = Neg (x) }"


@pytest.mark.parametrize(
    "text",
    [
        "then_branch = t () => (float[N] p) { p = Relu (nowhere) }",  # a value that nothing makes
        "then_branch = t () => (float[N] p) <float[2] k = {3,4}> { p = Add (x, k) }",  # hides a name
        f"then_branch = t () => (float[N] p) {{ p = If (d) <{INNER}> }}",
    ],
)
def test_a_branch_that_cannot_move(text: str) -> None:
    """It has a name of the graph around it, or one in it has the name that the result gets; or it is damaged."""
    before = parsed(f"""
        g (float[N] x, bool d) => (float[N] y) <bool yes = {{1}}, float[2] k = {{1,2}}> {{
            y = If (yes) <{text}, else_branch = e () => (float[N] q) {{ q = Abs (x) }}>
        }}
    """)
    loaded = ir.load(before.SerializeToString())
    decide(loaded, Report())
    assert [node.op_type for node in loaded.graph.nodes] == ["If"]


def test_a_rank_that_a_reader_takes_decides() -> None:
    """As in silero-vad: an LSTM takes three axes, so that what it reads was never given one more before."""
    body = """
        a = If (c) <
            then_branch = t () => (float[P,Q] p) <int64[1] last = {-1}> { p = Squeeze (x, last) },
            else_branch = e () => (float[R,S,T] q) { q = Identity (x) }
        >
        s = Shape (a)  r = Size (s)  e = Equal (r, two)  n = Not (e)
        b = If (n) <
            then_branch = u () => (float[U,V,W] f) <int64[1] one = {1}> { f = Unsqueeze (a, one) },
            else_branch = v () => (float[X,Y] g) { g = Identity (a) }
        >
        d = Unsqueeze (b, zero)  h, i, j = LSTM <hidden_size = 2> (d, w, v)  y = Abs (i)
    """
    numbers = "int64[1] zero = {0}, int64 two = {2}"
    before = model("(float[N,3,M] x, bool c) => (float[A,B,C] y)", body, numbers)
    rng = np.random.default_rng(0)
    for name, shape in (("w", (1, 8, 3)), ("v", (1, 8, 2))):
        before.graph.initializer.append(numpy_helper.from_array(rng.normal(size=shape).astype(np.float32), name))
    after, report = simplified(before)
    assert operators(after) == ["If", "Unsqueeze", "LSTM", "Abs"]
    assert [event.name for event in report.simplified if event.rewrite.title == "If decided"] == ["b"]
    assert_equal(before, after, (2, 3, 1), c=np.array(True))
    outcome = bnfold.optimize(before)
    assert outcome.status == "verified", outcome.verdict
