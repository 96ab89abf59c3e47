"""Functions that only one of two models has: their nodes are compared one by one, whether or not they can be run."""

from __future__ import annotations

import onnx
import onnx.inliner
import pytest

from bnfold import ir
from bnfold.verification import Verdict, verify
from bnfold.verification.changes.inlined import with_common_functions

HEAD = '<ir_version: {ir}, opset_import: ["" : {opset}, "my" : 1, "own" : 1]>'
CALLS = "g (float[2,3] x) => (float[2,3] y) {{ h = my.F (x)  y = my.F (h) }}"
IMPORTS = '<domain: "my", opset_import: ["" : {inner}, "own" : 1]>'
CUSTOM = "F (a) => (o) {{ t = own.Secret <k = 1> (a)  o = Relu (t) }}"


def parsed(calls: str, *functions: str, opset: int = 15, inner: int = 15, ir_version: int = 8) -> onnx.ModelProto:
    """A model of text, with functions that import ``inner``."""
    parts = [f"{HEAD} {calls}", *(f"{IMPORTS} {function}" for function in functions)]
    return onnx.parser.parse_model("\n".join(parts).format(opset=opset, inner=inner, ir=ir_version))


def inlined(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model as onnx inlines it."""
    return onnx.inliner.inline_local_functions(proto)


def compared(before: onnx.ModelProto, after: onnx.ModelProto) -> Verdict:
    """The verdict on the parts alone."""
    return verify(ir.load(before), ir.load(after), depth="local", runtime="none")


def under_other_names(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model with other names for all values inside."""
    for node in proto.graph.node:
        for names in (node.input, node.output):
            names[:] = [name if name in ("x", "y", "") else f"other_{name}" for name in names]
    return proto


def called_otherwise(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model with another name for its function."""
    proto.functions[0].name = "G"
    for node in proto.graph.node:
        node.op_type = "G"
    return proto


@pytest.mark.parametrize("change", [inlined, called_otherwise, lambda proto: under_other_names(inlined(proto))])
def test_functions_that_are_only_inlined_or_renamed_change_nothing(change: object) -> None:
    assert callable(change)
    before, after = parsed(CALLS, CUSTOM), change(parsed(CALLS, CUSTOM))
    for one, other in ((before, after), (after, before)):
        verdict = compared(one, other)
        assert (verdict.status, verdict.local) == ("verified", ()), verdict.reason


@pytest.mark.parametrize(
    ("place", "op_type", "status"),
    [(0, "Hidden", "unverified"), (1, "Sigmoid", "unverified"), (3, "Sigmoid", "failed")],
)
def test_a_fault_beside_inlining_is_no_sameness(place: int, op_type: str, status: str) -> None:
    after = inlined(parsed(CALLS, CUSTOM))
    after.graph.node[place].op_type = op_type
    assert compared(parsed(CALLS, CUSTOM), after).status == status


@pytest.mark.parametrize("fault", ["k", "wiring"])
def test_custom_operators_count_with_their_attributes_and_wiring(fault: str) -> None:
    after = inlined(parsed(CALLS, CUSTOM))
    if fault == "k":
        after.graph.node[0].attribute[0].i = 2
    else:
        after.graph.node[2].input[0] = "x"
    assert compared(parsed(CALLS, CUSTOM), after).status == "unverified"


@pytest.mark.parametrize("value", [2, 3])
def test_attributes_are_those_of_the_call_and_the_defaults_of_the_function(value: int) -> None:
    calls = "g (float[2,3] x) => (float[2,3] y) {{ h = my.F (x)  y = my.F <k = 3> (h) }}"
    function = "F <k : int = 2> (a) => (o) {{ o = own.Secret <k : int = @k, rest : int = @rest> (a) }}".replace(
        ", rest : int = @rest", ""
    )
    expected = (
        f"g (float[2,3] x) => (float[2,3] y) {{{{ h = own.Secret <k = {value}> (x)  y = own.Secret <k = 3> (h) }}}}"
    )
    assert compared(parsed(calls, function), parsed(expected)).verified is (value == 2)


def test_an_attribute_that_a_call_leaves_out_is_left_out() -> None:
    function = "F <k> (a) => (o) {{ o = own.Secret <k : int = @k> (a) }}"
    calls = "g (float[2,3] x) => (float[2,3] y) {{ y = my.F (x) }}"
    assert compared(parsed(calls, function), parsed(calls.replace("my.F", "own.Secret"))).verified


def test_what_a_function_hands_on_is_a_copy() -> None:
    calls = "g (float[2,3] x) => (float[2,3] y) {{ h, k = my.F (x)  y = own.Secret (h, k) }}"
    after = calls.replace("h, k = my.F (x)", "k = own.Deep (x)").replace("(h, k)", "(x, k)")
    assert compared(parsed(calls, "F (a) => (a, o) {{ o = own.Deep (a) }}"), parsed(after)).verified


def test_an_input_that_a_call_leaves_out_is_left_out_inside() -> None:
    calls = "g (float[2,3] x) => (float[2,3] y) {{ y = my.F (x) }}"
    after = 'g (float[2,3] x) => (float[2,3] y) {{ y = own.Secret (x, "", x) }}'
    assert compared(parsed(calls, "F (a, b) => (o) {{ o = own.Secret (a, b, a) }}"), parsed(after)).verified


BRANCHED = (
    "F (c, a) => (o) {{ t = own.Secret (a)  o = If (c) <then_branch = p () => (q) {{ r = own.Deep (t)  q = Neg (r) }},"
    " else_branch = s () => (u) {{ u = Abs (t) }}> }}"
)
BRANCHED_CALLS = "g (bool c, float[2,3] x) => (float[2,3] y) {{ h = my.F (c, x)  y = my.F (c, h) }}"


@pytest.mark.parametrize("op_type", ["Neg", "Ceil"])
def test_bodies_are_inlined_with_what_they_read(op_type: str) -> None:
    before, after = (parsed(BRANCHED_CALLS, BRANCHED) for _ in range(2))
    after = inlined(after)
    branch = next(each.g for each in after.graph.node[-1].attribute if each.name == "then_branch")
    branch.node[-1].op_type = op_type
    assert compared(before, after).verified is (op_type == "Neg")


def test_functions_inside_functions_are_inlined_too() -> None:
    outer = "G (a) => (o) {{ b = my.F (a)  o = Neg (b) }}"
    calls = "g (float[2,3] x) => (float[2,3] y) {{ h = my.G (x)  y = my.F (h) }}"
    before = parsed(calls, CUSTOM, outer)
    for function in before.functions:
        function.opset_import.add(domain="my", version=1)
    assert compared(before, inlined(before)).verified
    only_inner = parsed(calls.replace("y = my.F (h)", "t = own.Secret <k = 1> (h)  y = Relu (t)"), outer)
    only_inner.functions[0].CopyFrom(
        onnx.parser.parse_function(
            '<domain: "my", opset_import: ["" : 15, "own" : 1]>'
            " G (a) => (o) { t = own.Secret <k = 1> (a)  b = Relu (t)  o = Neg (b) }"
        )
    )
    assert compared(before, only_inner).verified


def test_functions_of_another_opset_are_inlined_where_their_operators_are_of_one_version() -> None:
    before = parsed(CALLS, CUSTOM, inner=14)
    after = inlined(parsed(CALLS, CUSTOM))
    assert compared(before, after).verified
    is_older = parsed(CALLS, CUSTOM, opset=13, inner=15)
    assert with_common_functions(ir.load(is_older), ir.load(after))[0].functions


def test_equal_functions_stay() -> None:
    before, after = ir.load(parsed(CALLS, CUSTOM)), ir.load(parsed(CALLS, CUSTOM))
    assert with_common_functions(before, after) == (before, after)


@pytest.mark.parametrize("nodes", ["r = own.Deep (t)  q = Ceil (r)", "r = Unknown (t)  q = Ceil (r)"])
def test_a_branch_that_cannot_be_run_leaves_its_if_open(nodes: str) -> None:
    calls = (
        "g (bool c, float[2,3] t) => (float[2,3] y) {{ y = If (c) <then_branch = p () => (q) {{ NODES }},"
        " else_branch = s () => (u) {{ u = Abs (t) }}> }}"
    )
    before, after = (parsed(calls.replace("NODES", text)) for text in (nodes.replace("Ceil", "Neg"), nodes))
    for node in before.graph.node[0].attribute[0].g.node:  # other names, so that the If is compared as a whole
        node.input[:], node.output[:] = (
            [name if name in ("t", "q") else f"other_{name}" for name in names] for names in (node.input, node.output)
        )
    after.graph.node[0].attribute[0].g.node[1].output[0] = after.graph.node[0].attribute[0].g.output[0].name = "v"
    assert compared(before, after).status == "unverified"


@pytest.mark.parametrize(("axis", "status"), [(2, "verified"), (1, "failed")])
def test_a_name_as_an_inliner_gives_it_may_be_of_another_value(axis: int, status: str) -> None:
    """One call is inlined and the other one is not, so that values inside them are numbered in another order."""
    plain = "F (a) => (o) {{ t = Neg (a)  o = ReduceMax <axes = [2], keepdims = 1> (t) }}"
    calls = "g (float[3,4,2] x) => (float[a,b,c] y) {{ h = my.G (x)  y = my.F (h) }}"
    nested = """G (a) => (o) {{ m = Mul (a, a)  r = Sqrt (m)  s = Sign (a)  n = Mul (r, s)  t__2 = Neg (n)
        u = ReduceMax <axes = [AXIS], keepdims = 1> (t__2)  o = Tanh (u) }}"""
    before = parsed(calls, plain, "G (a) => (o) {{ u = my.F (a)  o = Tanh (u) }}")
    after = parsed(
        """g (float[3,4,2] x) => (float[a,b,c] y) {{ h = my.G (x)  t__1 = Neg (h)
        y = ReduceMax <axes = [2], keepdims = 1> (t__1) }}""",
        nested.replace("AXIS", str(axis)),
    )
    assert compared(before, after).status == status
