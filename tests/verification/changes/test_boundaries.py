from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest

from bnfold import analysis, ir
from bnfold.reference import constants
from bnfold.verification import verify
from bnfold.verification.changes import boundaries
from bnfold.verification.changes import unchanged as comparing
from bnfold.verification.changes.boundaries import uncovered
from bnfold.verification.changes.unchanged import unchanged
from tests.verification.graphs import model

BODY = (
    "(float[N,3] x) => (float[N,4] y) { a = Relu (x)  b = MatMul (a, W)  c = LeakyRelu <alpha = 0.2> (b)  y = Neg (c) }"
)
WEIGHTS = {"W": np.arange(12.0).reshape(3, 4)}


def changes(before: onnx.ModelProto, after: onnx.ModelProto, cuts: Sequence[ir.Cut] = ()) -> list[ir.Cut]:
    return list(uncovered(ir.load(before), ir.load(after), cuts))


def test_equal_models_have_no_changes() -> None:
    assert changes(model(BODY, WEIGHTS), model(BODY, WEIGHTS)) == []


@pytest.mark.parametrize(("value", "number"), [(0.5, 0), (0.25, 1)])
def test_what_a_tensor_in_an_attribute_is_called_means_nothing(value: float, number: int) -> None:
    before, after = (
        model("(int64[2] s) => (float[A,B] y) { f = ConstantOfShape <value = float[1] {0.5}> (s)  y = Neg (f) }", {})
        for _ in range(2)
    )
    tensor = onnx.numpy_helper.from_array(np.array([value], np.float32), "called")
    after.graph.node[0].attribute[0].t.CopyFrom(tensor)
    before.graph.node[0].attribute[0].t.CopyFrom(onnx.numpy_helper.from_array(np.array([0.5], np.float32)))
    assert len(changes(before, after)) == number


@pytest.mark.parametrize(
    ("old", "new", "made"),
    [
        ("alpha = 0.2", "alpha = 0.3", "c"),
        ("Relu (x)", "Tanh (x)", "a"),
        ("Neg (c)", "Neg (b)", "y"),
        ("Neg (c)", "Identity (c)", "y"),
    ],
)
def test_a_changed_node_becomes_a_cut(old: str, new: str, made: str) -> None:
    (cut,) = changes(model(BODY, WEIGHTS), model(BODY.replace(old, new, 1), WEIGHTS))
    assert cut.outputs == (made,)


def test_a_changed_weight_is_a_change_of_its_reader() -> None:
    (cut,) = changes(model(BODY, WEIGHTS), model(BODY, {"W": WEIGHTS["W"] * 2}))
    assert (cut.inputs, cut.outputs) == (("a",), ("b",))


def test_what_a_constant_is_called_is_no_change() -> None:
    renamed = BODY.replace("W)", "V)")
    assert changes(model(BODY, WEIGHTS), model(renamed, {"V": WEIGHTS["W"]})) == []
    (cut,) = changes(model(BODY, WEIGHTS), model(renamed, {"V": WEIGHTS["W"] + 1}))
    assert cut.outputs == ("b",)


def test_a_large_tensor_in_an_attribute_is_compared_by_content() -> None:
    def looked_up(last: int) -> onnx.ModelProto:
        proto = model("(int64[N] x) => (float[N] y) { y = ai.onnx.ml.LabelEncoder (x) }", {})
        proto.opset_import.add(domain="ai.onnx.ml", version=4)
        for name, dtype in (("keys_tensor", np.int64), ("values_tensor", np.float32)):
            table = np.arange(600).astype(dtype)
            table[-1] = last
            proto.graph.node[0].attribute.append(onnx.helper.make_attribute(name, onnx.numpy_helper.from_array(table)))
        return proto

    assert changes(looked_up(599), looked_up(599)) == []
    (cut,) = changes(looked_up(599), looked_up(1000))
    assert cut.outputs == ("y",)


def test_what_a_caller_may_override_is_known_by_its_name() -> None:
    before = "(float[N,3] x, float[3] p, float[3] q) => (float[N,3] y) { y = Mul (x, p) }"
    weights = {"p": np.ones(3), "q": np.ones(3)}
    (cut,) = changes(model(before, weights), model(before.replace("(x, p)", "(x, q)"), weights))
    assert cut.outputs == ("y",)


EXTRA = {"r": np.array(0.5), "none": np.zeros((0, 3)), "some": np.zeros((1, 3))}
EXTRA |= {"one": np.array([1, 1]), "zero": np.zeros(4, np.int64), "k0": np.array([0]), "first": np.array([4, 3])}
EXTRA["cut"] = np.array([2, -1])
COPIES = [
    ("c = Identity (a) d = Identity (c)", 15, True),
    ("t = Constant <value = bool {1}> () c, m = Dropout (a, r) d = Identity (c)", 15, True),
    ("t = Constant <value = bool {1}> () d = Dropout (a, r, t)", 15, False),
    ("m, c = Split (a) d = Identity (c)", 15, False),
    ("d = Concat <axis = 0> (a, none)", 15, True),
    ("d = Concat <axis = 0> (a, none, none)", 15, True),
    ("d = Concat <axis = 0> (none, none)", 15, False),
    ("d = Concat <axis = 0> (a, some)", 15, False),
    ("d = Concat <axis = 0> (a, a)", 15, False),
    ("d = Relu (a)", 15, False),
    ("d = Dropout (a)", 6, False),  # which may train
    ("k, c = Dropout (a, r) d = Cast <to = 1> (c)", 15, False),
    ("d = Tile (a, one)", 15, True),
    ("d = Tile (a, first)", 15, False),
    ("d = Pad (a, zero)", 15, True),
    ("d = Pad <pads = [0, 0, 0, 0]> (a)", 10, True),
    ("d = Pad <pads = [0, 0, 0, 1]> (a)", 10, False),
    ("d = Transpose <perm = [0, 1]> (a)", 15, True),
    ("d = Transpose (a)", 15, False),
    ("u = Unsqueeze (a, k0) f = Flatten <axis = 3> (u) d = Reshape (f, first)", 15, True),
    ("u = Unsqueeze (a, k0) d = Squeeze (u)", 15, True),
    ("t = Transpose (a) d = Reshape (t, first)", 15, False),
    ("d = Flatten <axis = 2> (a)", 15, False),
    ("q = Reshape (a, cut) d = Reshape (q, first)", 15, True),
]


@pytest.mark.parametrize(
    ("between", "is_copy"),
    [
        ("u = Unsqueeze (a, k0) d = Reshape (u, s)", True),
        ("q = Reshape (a, cut) d = Reshape (q, s)", False),
        ("q = Squeeze (a, k0) d = Reshape (q, s)", False),
    ],
)
def test_a_step_that_does_not_run_at_every_size_is_no_copy(between: str, is_copy: bool) -> None:
    body = "(float[N,3] x) => (float[A,B] y) {{ a = Sqrt (x) s = Shape (x) {} y = Abs ({}) }}"
    before, after = (model(body.format(*steps), EXTRA, opset=15) for steps in (("", "a"), (between, "d")))
    assert (changes(before, after) == []) is (changes(after, before) == []) is is_copy


def test_elements_of_a_sequence_may_have_other_sizes() -> None:
    head = "(seq(float[N,M]) q) => (float[A,B] y)"
    made = "a = SequenceAt (q, zero) b = SequenceAt (q, one)"
    weights = {"zero": np.array(0), "one": np.array(1)}
    before = model(f"{head} {{ {made} s = Shape (b) r = Reshape (a, s) y = Neg (r) }}", weights)
    assert changes(before, model(f"{head} {{ {made} y = Neg (a) }}", weights)) != []


@pytest.mark.parametrize("step", ["Transpose <perm: ints = @p>", "Pad <pads: ints = @p>"])
def test_an_attribute_of_the_caller_is_not_known(step: str) -> None:
    text = f"""<ir_version: 8, opset_import: ["" : 10, "own" : 1]>
    g (float[4,3] x) => (float[A,B] y) {{ y = own.f <p = [0, 1]> (x) }}
    <domain: "own", opset_import: ["" : 10]> f <p> (v) => (w) {{ t = {step} (v)  w = Neg (t) }}"""
    before, after = onnx.parser.parse_model(text), onnx.parser.parse_model(text.replace("Neg (t)", "Neg (v)"))
    assert changes(before, after) != []


@pytest.mark.parametrize(("between", "opset", "is_copy"), COPIES)
def test_what_is_handed_on_is_what_it_was(between: str, opset: int, is_copy: bool) -> None:
    """Most of what simplifiers take out."""
    head = "(float[4,3] x) => (float[N,M] y)"
    before = model(f"{head} {{ a = Sqrt (x) {between} y = Abs (d) }}", EXTRA, opset=opset)
    after = model(f"{head} {{ a = Sqrt (x) y = Abs (a) }}", {}, opset=opset)
    assert (changes(before, after) == []) is (changes(after, before) == []) is is_copy


def test_another_value_is_no_copy() -> None:
    body = "(float[N,3] x) => (float[N,3] y) {{ a = Sqrt (x) b = Exp (x) c = Identity ({of}) y = Abs ({read}) }}"
    before = model(body.format(of="a", read="c"), {})
    assert [cut.outputs for cut in changes(before, model(body.format(of="b", read="c"), {}))] == [("c",)]
    assert [cut.outputs for cut in changes(before, model(body.format(of="b", read="b"), {}))] == [("y",)]
    assert changes(before, model(body.format(of="b", read="a"), {})) == [], "nothing reads c"


def test_a_function_may_be_called_identity() -> None:
    text = """<ir_version: 8, opset_import: ["" : 15, "ai.onnx" : 15]>
    g (float[N,3] x) => (float[N,3] y) { a = Sqrt (x) b = Identity (a) y = Abs (b) }
    <domain: "ai.onnx", opset_import: ["" : 15]> Identity (v) => (w) { w = Neg (v) }"""
    before, after = onnx.parser.parse_model(text), onnx.parser.parse_model(text.replace("y = Abs (b)", "y = Abs (a)"))
    assert changes(before, after) != []


def test_integers_that_follow_from_constants_are_what_they_are() -> None:
    """Who pads by what old exporters compute and who stores it do the same."""
    head = "(float[N,3] x, int64[4] i) => (float[N,5] y)"
    made = f"{head} {{ p = Concat <axis = 0> (a, b) q = Slice (p, zero, four) y = Pad (x, q) }}"
    weights = {"a": [0, 1], "b": [0, 1, 7], "zero": [0], "four": [4]}
    stored = {name: np.array(numbers) for name, numbers in weights.items()}
    kept, other = ({"q": np.array([0, 1, 0, wide])} for wide in (1, 2))
    assert changes(model(made, stored), model(f"{head} {{ y = Pad (x, q) }}", kept)) == []
    assert changes(model(made, stored), model(f"{head} {{ y = Pad (x, q) }}", other)) != []
    assert changes(model(made, stored), model(f"{head} {{ y = Pad (x, i) }}", {})) != []
    overridable = with_input(model(made, stored), "a")
    assert changes(overridable, model(f"{head} {{ y = Pad (x, q) }}", kept)) != []


TWICE = (
    "(float[N,3] x, float[3] p, float[3] q) => (float[N,M] y)"
    " { a = Relu (x) b = Relu (x) c = MatMul (a, V) d = MatMul (b, W) y = Concat <axis = 1> (c, d) }"
)
WIDE = {"V": np.arange(12.0).reshape(3, 4), "W": np.arange(12.0).reshape(3, 4)}
ONCE = TWICE.replace("b = Relu (x) ", "").replace("d = MatMul (b, W) ", "").replace("(c, d)", "(c, c)")


@pytest.mark.parametrize("copy", ["y = Identity (s)", "i = Identity (s) y = Dropout (i)"])
def test_what_is_copied_may_be_made_in_place_of_the_copy(copy: str) -> None:
    """As exporters name the outputs."""
    head = "(float[N,3] x) => (float[N,3] y, float[N,3] z)"
    before = model(f"{head} {{ s = Softmax <axis = 1> (x) {copy} z = Neg (x) }}", {})
    for made, is_same in (
        ("y = Softmax <axis = 1> (x)", True),
        ("s = Softmax <axis = 1> (x) y = Softmax <axis = 1> (x)", True),
        ("y = Softmax <axis = 0> (x)", False),
        ("y = Softmax <axis = 1> (z)", False),
        ("y = Tanh (x)", False),
    ):
        found = changes(before, model(f"{head} {{ z = Neg (x) {made} }}", {}))
        assert [cut.outputs for cut in found] == ([] if is_same else [("y",)])


@pytest.mark.parametrize(
    ("made", "instead"),
    [
        *[
            (f"s = {node}", f"y = {node}")
            for node in ("RandomNormalLike (x)", "Dropout (x, r, t)", "com.microsoft.Gelu (x)")
        ],
        ("m, s = MaxPool <kernel_shape = [1]> (x)", "y = MaxPool <kernel_shape = [1]> (x)"),
    ],
)
def test_what_may_be_something_else_is_not_made_in_place_of_a_copy(made: str, instead: str) -> None:
    head = "(float[N,3,4] x, float r, bool t) => (float[N,M,L] y)"
    before, after = (model(f"{head} {{ {nodes} }}", {}) for nodes in (f"{made} y = Identity (s)", instead))
    assert [cut.outputs for cut in changes(before, after)] == [("y",)]


def test_of_what_is_made_twice_either_may_be_read() -> None:
    assert changes(model(TWICE, WIDE), model(ONCE, {"V": WIDE["V"]})) == []
    assert changes(model(TWICE, WIDE), model(TWICE.replace("(b, W)", "(a, W)"), WIDE)) == []
    assert changes(model(TWICE, WIDE), model(TWICE.replace("(b, W)", "(b, V)"), WIDE)) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("b = Relu (x)", "b = Abs (x)"),
        ("a = Relu (x) b = Relu (x)", "a = Celu <alpha = 1.0> (x) b = Celu <alpha = 0.5> (x)"),
        ("a = Relu (x) b = Relu (x)", "a = Mul (x, p) b = Mul (x, q)"),
        ("a = Relu (x) b = Relu (x)", "a = Mul (x, p) b = Mul (p, x)"),
        ("a = Relu (x) b = Relu (x)", "a = RandomNormalLike (x) b = RandomNormalLike (x)"),
        ("a = Relu (x) b = Relu (x)", "t = Greater (x, x) a = Dropout (x, r, t) b = Dropout (x, r, t)"),
        ("a = Relu (x) b = Relu (x)", "a, m = TopK (x, k) n, b = TopK (x, k)"),
        (
            "a = Relu (x) b = Relu (x)",  # of which the first trains
            "a, m, v, s, w = BatchNormalization (x, p, q, p, q) b = BatchNormalization (x, p, q, p, q)",
        ),
        ("a = Relu (x) b = Relu (x)", "a = com.microsoft.Gelu (x) b = com.microsoft.Gelu (x)"),
    ],
)
def test_what_is_not_sure_to_be_the_same_twice_is_a_change(old: str, new: str) -> None:
    before, after = TWICE.replace(old, new), TWICE.replace(old, new).replace("(b, W)", "(a, W)")
    assert [cut.outputs for cut in changes(model(before, WIDE), model(after, WIDE))] == [("d",)]


def test_two_weights_that_differ_are_not_the_same_twice() -> None:
    weights = {**WIDE, "W": WIDE["W"] + np.eye(3, 4)}
    assert changes(model(TWICE, weights), model(ONCE, {"V": WIDE["V"]})) != []
    signed = {"V": np.zeros((3, 4)), "W": -np.zeros((3, 4))}
    assert changes(model(TWICE, signed), model(ONCE, {"V": signed["V"]})) != []


def test_defaults_that_callers_may_override_are_not_the_same_twice() -> None:
    before = with_input(model(TWICE, WIDE), "W")
    after = with_input(model(ONCE, WIDE), "W")
    assert [cut.outputs for cut in changes(before, after)] == [("y",)]


def test_a_twin_that_is_another_in_the_rewritten_model_is_a_change() -> None:
    after = model(ONCE.replace("a = Relu (x)", "a = Abs (x)"), {"V": WIDE["V"]})
    assert [cut.outputs for cut in changes(model(TWICE, WIDE), after)] == [("a",)]
    assert verify(ir.load(model(TWICE, WIDE)), ir.load(after)).status == "failed"


def test_branches_are_not_looked_into_for_what_is_made_twice() -> None:
    branch = (
        "a = If (c) <then_branch = t () => (float[N,3] u) { u = Neg (x) },"
        " else_branch = e () => (float[N,3] v) { v = Abs (x) }>"
    )
    other = branch.replace("a =", "b =").replace("Neg", "Exp").replace("(float[N,3] u) { u", "(float[N,3] w) { w")
    body = f"(bool c, float[N,3] x) => (float[N,3] y) {{ {branch} {other} y = Add (a, b) }}"
    assert [cut.outputs for cut in changes(model(body, {}), model(body.replace("(a, b)", "(a, a)"), {}))] == [("y",)]


def test_what_is_made_twice_is_looked_for_in_a_few_steps_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two chains of diamonds have 2 to the power of 60 ways; those of twice the length need more than 100 steps."""
    monkeypatch.setattr(comparing, "_MANY", 100)
    steps = 60
    chains = " ".join(f"{side}{n} = Add ({side}{n - 1}, {side}{n - 1})" for n in range(1, steps) for side in "ab")
    head = "(float[N,3] x) => (float[N,3] y)"
    before = f"{head} {{ a0 = Relu (x) b0 = Relu (x) {chains} y = Mul (a{steps - 1}, b{steps - 1}) }}"
    after = before.replace(f", b{steps - 1})", f", a{steps - 1})")
    assert changes(model(before, {}), model(after, {})) == []
    longer = (
        chains + " " + " ".join(f"{side}{n} = Neg ({side}{n - 1})" for n in range(steps, 2 * steps) for side in "ab")
    )
    before = f"{head} {{ a0 = Relu (x) b0 = Relu (x) {longer} y = Mul (a{2 * steps - 1}, b{2 * steps - 1}) }}"
    assert changes(model(before, {}), model(before.replace(f", b{2 * steps - 1})", f", a{2 * steps - 1})"), {})) != []


def test_a_new_opset_changes_only_operators_with_a_new_meaning() -> None:
    body = BODY.replace("Relu (x)", "Softmax <axis = 1> (x)", 1)
    assert changes(model(BODY, WEIGHTS, opset=13), model(BODY, WEIGHTS, opset=14)) == []
    cuts = changes(model(body, WEIGHTS, opset=12), model(body, WEIGHTS, opset=13))
    assert [cut.outputs for cut in cuts] == [("a",)]


def test_what_a_cut_contains_is_not_reported_again() -> None:
    after = model(BODY.replace("alpha = 0.2", "alpha = 0.3"), WEIGHTS)
    assert changes(model(BODY, WEIGHTS), after, [ir.Cut("", ("a",), ("c",), "known")]) == []
    assert changes(model(BODY, WEIGHTS), after, [ir.Cut("", ("x",), ("a",), "elsewhere")]) != []


def test_boundaries_reach_back_to_what_both_models_have() -> None:
    fused = BODY.replace("b = MatMul", "q = MatMul").replace("(b)", "(q)")
    (cut,) = changes(model(BODY, WEIGHTS), model(fused, WEIGHTS))
    assert (cut.inputs, cut.outputs) == (("a",), ("c",))


def test_a_boundary_value_that_depends_on_another_is_computed_where_feeding_it_shows_a_difference() -> None:
    before = "(float[N,3] x) => (float[N,3] y, float[N,3] b) { a = Relu (x)  b = Neg (a)  y = Add (a, b) }"
    after = before.replace("Add (a, b)", "Sub (a, a)")
    (cut,) = changes(model(before, {}), model(after, {}))
    assert set(cut.inputs) == {"a", "b"}
    verdict = verify(ir.load(model(before, {})), ir.load(model(after, {})), depth="local")
    assert verdict.verified, verdict.reason


def test_changes_inside_a_body_are_found() -> None:
    body = (
        "(bool c, float[N,3] x) => (float[N,3] y) { y = If (c) <then_branch = t () => (float[N,3] u) { u = Neg (x) },"
        " else_branch = e () => (float[N,3] v) { v = Abs (x) }> }"
    )
    assert changes(model(body, {}), model(body, {})) == []
    (cut,) = changes(model(body, {}), model(body.replace("Abs", "Exp"), {}))
    assert cut.graph
    assert cut.outputs == ("v",)


def test_an_output_that_became_a_weight_is_a_change() -> None:
    constant = "(float[N,3] x) => (float[N,4] y) { a = Relu (x) }"
    cuts = changes(model(BODY, WEIGHTS), model(constant, {"y": np.ones((1, 4))}))
    assert [cut.outputs for cut in cuts] == [("y",)]


BRANCHES = (
    "(bool c, float[N,3] x) => (float[N,3] y) { y = If (c) <then_branch = t () => (float[N,3] u) { u = Neg (x) },"
    " else_branch = e () => (float[N,3] v) { v = Abs (x) }> }"
)


def test_a_body_without_a_counterpart_is_a_change_of_its_node() -> None:
    (cut,) = changes(model("(bool c, float[N,3] x) => (float[N,3] y) { y = Neg (x) }", {}), model(BRANCHES, {}))
    assert (cut.graph, cut.outputs) == ("", ("y",))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x1 = Neg (a)", "x1 = Neg (b)"),  # what a body reads
        ("float[3] a, float[3] b)", "float[3] b, float[3] a)"),  # the order in which it is given it
        ("float[3] x1, float[3] x2", "float[3] x2, float[3] x1"),  # and gives back
        ("x1 = Neg (a)", "h = Neg (a)"),  # then x1 is a value of the main graph
    ],
)
def test_how_a_body_is_called_is_part_of_its_node(old: str, new: str) -> None:
    text = (
        "(float[3] p, float[3] q) => (float[3] y, float[3] z) { x1 = Relu (p)"
        " y, z = Loop <body = step (int64 i, bool g, float[3] a, float[3] b) => (bool m, float[3] x1, float[3] x2)"
        " { m = Identity (g) x1 = Neg (a) x2 = Abs (b) }> (trips, on, x1, q) }"
    )
    weights = {"trips": np.array(2), "on": np.array(True)}
    assert changes(model(text, weights), model(text, weights)) == []
    assert changes(model(text, weights), model(text.replace(old, new), weights)) != []


@pytest.mark.parametrize(("old", "new"), [("> (p, s)", "> (s, p)"), ("k: float = 0.5", "k: float = 0.7")])
def test_how_a_function_is_called_is_a_change_of_its_calls(old: str, new: str) -> None:
    text = (
        '<ir_version: 9, opset_import: ["" : 15, "own" : 1]> g (float[N] x) => (float[N] y) { y = own.f (x, x) }'
        '<domain: "own", opset_import: ["" : 15]> f <k: float = 0.5> (p, s) => (r)'
        " { c = Constant <value_float: float = @k> () d = Sub (p, s) r = Mul (d, c) }"
    )
    before = onnx.parser.parse_model(text)
    assert changes(before, onnx.parser.parse_model(text)) == []
    (cut,) = changes(before, onnx.parser.parse_model(text.replace(old, new)))
    assert (cut.graph, cut.outputs) == ("", ("y",))


def with_input(proto: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """The initializer as a default that callers may override."""
    proto.graph.input.append(onnx.helper.make_tensor_value_info(name, 1, [3, 4]))
    return proto


def with_sparse(value: float) -> onnx.ModelProto:
    proto = model(BODY, {})
    values = onnx.numpy_helper.from_array(np.array([1.0, value], np.float32), "W")
    places = onnx.numpy_helper.from_array(np.array([1, 7]), "places")
    proto.graph.sparse_initializer.append(onnx.helper.make_sparse_tensor(values, places, [3, 4]))
    return proto


WORDS = "(string[N] x) => (bool[N] y) { w = Constant <value_strings = [WORD]> ()  y = Equal (x, w) }"


@pytest.mark.parametrize(
    ("before", "after", "made"),
    [
        (with_input(model(BODY, WEIGHTS), "W"), with_input(model(BODY, {"W": WEIGHTS["W"] * 2}), "W"), "b"),
        (with_sparse(2.0), with_sparse(3.0), "b"),
        (model(WORDS.replace("WORD", '"a"'), {}), model(WORDS.replace("WORD", '"b"'), {}), "y"),
        (model("(float[N] x) => (float[1] k) { y = Neg (x) }", {"k": np.ones(1)}), None, "k"),
    ],
    ids=["a default", "a sparse weight", "words", "a weight that is an output"],
)
def test_what_is_stored_is_compared_wherever_it_is(
    before: onnx.ModelProto, after: onnx.ModelProto | None, made: str
) -> None:
    other = after or model("(float[N] x) => (float[1] k) { y = Neg (x) }", {"k": np.zeros(1)})
    assert changes(before, before) == []
    assert made in [cut.outputs[0] for cut in changes(before, other)]


def test_what_is_read_outside_a_cut_as_well_is_compared_by_itself() -> None:
    """The cut says that y is the same; z reads a value inside it."""
    text = "(float[N] x) => (float[N] y, float[N] z) { a = Relu (x)  b = Abs (a)  y = Neg (b)  z = Exp (a) }"
    cut = ir.Cut("", ("x",), ("y",), "known")
    after = model(text.replace("Relu", "Tanh"), {})
    assert [found.outputs for found in changes(model(text, {}), after, [cut])] == [("a",)]


def test_integers_that_nodes_make_are_no_boundary() -> None:
    """Fed instead of made, n0 would be anything, and both targets could mean the same."""
    text = (
        "(float[N,2,6] x) => (float[A,B,C] y) { c = Neg (x)  s = Shape (c)  n0 = Gather (s, zero)"
        "  t = Concat <axis = 0> (n0, two, rest)  y = Reshape (c, t) }"
    )
    weights = {"zero": np.array([0]), "two": np.array([2]), "rest": np.array([-1])}
    before, after = (
        ir.load(model(body, weights)) for body in (text, text.replace("(n0, two, rest)", "(rest, two, n0)"))
    )
    for side in (before, after):
        analysis.infer_shapes(side)
    assert [(cut.inputs, cut.outputs) for cut in uncovered(before, after, ())] == [(("c",), ("t",))]
    assert verify(before, after, depth="local", runtime="none").status == "failed"


@pytest.mark.parametrize("op", ["Flatten", "Identity"])
def test_nodes_that_only_move_elements_in_circles_end(op: str) -> None:
    before, after = (
        model(f"(float[N,4] x) => (float[N,4] y) {{ f = {op} ({read})  y = Neg (f) }}", {}) for read in "xf"
    )
    verdict = verify(ir.load(before), ir.load(after), depth="local", runtime="none")
    assert verdict.status == "failed"
    assert "depend on themselves" in verdict.reason


@pytest.mark.parametrize("axis", [1, 7])
def test_an_axis_that_there_is_not_is_a_change_of_constants_as_well(axis: int) -> None:
    """No runtime takes it, so it makes no constant that could be compared where it is read."""
    weights = {"q": np.array([7, -9], np.int8), "s": np.array([0.5, 0.25])}
    body = "(float[N,2] x) => (float[N,2] y) {{ w = DequantizeLinear <axis = {}> (q, s)  y = Mul (x, w) }}"
    before, after = (model(body.format(place), weights) for place in (0, axis))
    verdict = verify(ir.load(before), ir.load(after), depth="local", runtime="none")
    assert verdict.status != "verified", verdict.reason


def test_one_change_says_that_models_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []

    def watched(old: ir.Node, new: ir.Node) -> bool:
        compared.append(new.op_type)
        return unchanged(old, new)

    monkeypatch.setattr(boundaries, "unchanged", watched)
    before, after = ir.load(model(BODY, WEIGHTS)), ir.load(model(BODY.replace("Relu", "Tanh", 1), WEIGHTS))
    found = uncovered(before, after, ())
    assert next(found).outputs == ("a",)
    assert compared == ["Tanh"]
    del found
    assert constants.CONSTANTS.of(before) is constants.CONSTANTS.of(after) is None


def test_attributes_of_one_text_are_not_compared_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("their text is the same")

    monkeypatch.setattr(comparing, "_attributes", never)
    assert changes(model(BODY, WEIGHTS), model(BODY, WEIGHTS)) == []


CAPTURED = (
    "(bool c, float[N,3] x) => (float[N,4] y) {{ a = Relu (x)  b = MatMul (a, W)  r = Relu (b)"
    " y = If (c) <then_branch = t () => (float[N,4] u) {{ m = Mul (r, {}) u = Neg (m) }},"
    " else_branch = e () => (float[N,4] v) {{ v = Abs (r) }}> }}"
)


@pytest.mark.parametrize(("second", "status"), [("q", "verified"), ("p", "failed")])
def test_a_branch_is_cut_at_the_outer_values_that_it_reads(second: str, status: str) -> None:
    """Otherwise, all that is in front of a Loop would be computed for each change in its body."""
    weights = {**WEIGHTS, "q": np.array(2.0), "p": np.array(2.5)}
    before = model(CAPTURED.format("q"), weights)
    after = model(CAPTURED.format(second).replace("m = Mul (r, q)", "m = Add (r, r)"), weights)
    (cut,) = changes(before, after)
    assert (cut.inputs, cut.outputs) == (("r",), ("m",))
    assert verify(ir.load(before), ir.load(after), depth="local", runtime="none").status == status


def test_a_circle_of_a_function_that_nothing_calls_is_no_fault() -> None:
    text = '<ir_version: 8, opset_import: ["" : 13, "own" : 1]> g (float[N] x) => (float[N] y) { y = Neg (x) }'
    circle = ' <domain: "own", opset_import: ["" : 13]> f (a) => (o) { o = Neg (b)  b = Neg (o) }'
    before, after = (ir.load(onnx.parser.parse_model(each)) for each in (text, text + circle))
    verdict = verify(before, after)
    assert verdict.status == "unverified"
    assert "no valid ONNX" in verdict.reason, "the checker sorts the nodes of functions that nothing calls, too"


def test_a_sequence_is_computed_and_not_drawn() -> None:
    before = """(float[7,5] x) => (float[A,5] y) { q = SplitToSequence <axis = 0> (x)  d = Slice (x, i, j, i)
        s = SequenceInsert (q, d)  y = SequenceAt (s, k) }"""
    weights = {"i": np.array([0]), "j": np.array([1]), "k": np.array(-1)}
    old, new = (model(body, weights) for body in (before, before.replace("Slice (x, i, j, i)", "Identity (x)")))
    verdict = verify(ir.load(old), ir.load(new), depth="local", runtime="none")
    assert (verdict.status, "shape (1, 5) became (7, 5)" in verdict.reason) == ("failed", True), verdict.reason
