"""Both models' control flow in one form: a branch that is taken in every run stands where its If stood."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from bnfold import ir
from bnfold.verification.changes.control_flow import in_one_form

CONSTANTS = "bool yes = {1}, int64 one = {1}, int64 zero = {0}, int64[2] both = {0,1}, int64[1] first = {0}"
BRANCHES = "then_branch = t () => (float[P,Q] p) { p = Relu (x) }, else_branch = e () => (float[R,S] q) { q = Neg (x) }"


def loaded(body: str, head: str = "(float[N,4] x, bool c) => (float[M,K] y)") -> ir.Model:
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 15]> g {head} <{CONSTANTS}> {{ {body} }}')
    return ir.load(proto.SerializeToString())


WITHOUT = loaded("y = Relu (x)")


def operators(model: ir.Model) -> list[str]:
    return [node.op_type for node in model.graph.nodes if node.op_type in ("Relu", "Neg", "If")]


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("d = Identity (yes)", "Relu"),
        ("d = Not (yes)", "Neg"),
        ("s = Shape (x)  n = Gather (s, one)  d = Cast <to = 9> (n)", "Relu"),
        ("s = Shape (x)  n = Gather (s, one)  d = Less (n, one)", "Neg"),
        ("s = Shape (x)  n = Size (s)  d = Equal (n, one)", "Neg"),
        ("s = Shape (x)  r = Gather (s, both)  n = Gather (r, one)  d = Greater (n, one)", "Relu"),
        (
            "s = Shape <start = 1> (x)  r = Concat <axis = 0> (s, first)  n = Gather (r, zero)  d = Equal (n, one)",
            "Neg",
        ),
        ("s = Shape (x)  n = Gather (s, zero)  d = Greater (n, one)", "If"),
        ("s = Shape (x)  r = Concat <axis = 0> (s, s)  n = ReduceMax <keepdims = 0> (r)  d = Greater (n, one)", "If"),
        ("s = Shape (x)  e = Equal (s, both)  n = Gather (e, one)  d = Not (n)", "Relu"),
        ("s = Shape (x)  e = Equal (s, both)  n = Gather (e, zero)  d = Not (n)", "If"),
        ("s = Shape (x)  n = Gather (s, first)  r = Slice (s, n, both)  f = Gather (r, zero)  d = Equal (f, f)", "If"),
        ("d = Not (c)", "If"),
    ],
)
def test_which_branch(condition: str, wanted: str) -> None:
    model = loaded(f"{condition}  y = If (d) <{BRANCHES}>")
    assert operators(in_one_form(model, WITHOUT)) == [wanted]
    assert operators(model) == ["If"]


def test_names_and_what_is_captured() -> None:
    model = loaded("""
        v = Neg (x)
        y = If (yes) <
            then_branch = t () => (float[N,4] p) <float[1] w = {3}> {
                b = Add (v, w)
                p = If (c) <
                    then_branch = i () => (float[N,4] r) { k = Exp (b)  r = Mul (k, v) },
                    else_branch = j () => (float[N,4] b) { k = Exp (v)  b = Mul (k, x) }
                >
            },
            else_branch = e () => (float[N,4] p) { b = Abs (x)  p = Identity (b) }
        >
    """)
    flat = in_one_form(model, WITHOUT)
    assert [node.op_type for node in flat.graph.nodes] == ["Neg", "Add", "If"]
    for truth in (True, False):
        fed = {"x": np.ones((2, 4), np.float32), "c": np.array(truth)}
        one, other = ([*ReferenceEvaluator(each.proto).run(None, fed)] for each in (model, flat))
        np.testing.assert_array_equal(one[0], other[0])


def test_an_identity_behind_control_flow() -> None:
    model = loaded(f"r = If (c) <{BRANCHES}>  y = Identity (r)")
    assert [(node.op_type, [*node.proto.output]) for node in in_one_form(model, WITHOUT).graph.nodes] == [("If", ["y"])]


@pytest.mark.parametrize(
    "branch",
    [
        "t () => (float[P,Q] p) { p = Relu (nowhere) }",
        "t () => (float[P,Q] p, float[P,Q] p) { p = Relu (x) }",
    ],
)
def test_a_damaged_branch_stays(branch: str) -> None:
    model = loaded(f"y = If (yes) <then_branch = {branch}, else_branch = e () => (float[R,S] q) {{ q = Neg (x) }}>")
    assert in_one_form(model, WITHOUT) is model


def test_an_if_that_both_models_have_stays() -> None:
    """Both of its branches are to be compared then, also the one that is not taken."""
    model = loaded(f"y = If (yes) <{BRANCHES}>")
    assert in_one_form(model, model) is model
    assert in_one_form(model) is model


def test_what_was_in_a_branch_shows_which_one_another_if_takes() -> None:
    """The LSTM takes three axes; it is in a branch that is taken in every run."""
    text = """
        <ir_version: 8, opset_import: ["": 15]> g (float[N,4,M] x, bool c) => (float[P] y)
        <bool yes = {1}, int64 two = {2}, int64[1] zero = {0}> {
            a = If (c) <
                then_branch = t () => (float[A] p) <int64[1] last = {-1}> { p = Squeeze (x, last) },
                else_branch = e () => (float[B] q) { q = Identity (x) }
            >
            s = Shape (a)  n = Size (s)  d = Equal (n, two)
            b = If (d) <
                then_branch = u () => (float[D] r) { r = Relu (a) },
                else_branch = v () => (float[E] f) <int64[1] one = {1}> { f = Unsqueeze (a, one) }
            >
            y = If (yes) <
                then_branch = g () => (float[F] i) { j = Unsqueeze (b, zero)  k, i = LSTM <hidden_size = 2> (j, w, o) },
                else_branch = h () => (float[G] l) { l = Neg (b) }
            >
        }
    """
    proto = onnx.parser.parse_model(text)
    for name, sizes in (("w", [1, 8, 4]), ("o", [1, 8, 2])):
        proto.graph.initializer.append(numpy_helper.from_array(np.ones(sizes, np.float32), name))
    assert operators(in_one_form(ir.load(proto.SerializeToString()), WITHOUT)) == ["If", "Relu"]
