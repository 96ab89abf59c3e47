"""What was compared has to react to what differs, or the verdict is not *verified*."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from bnfold import ir
from bnfold.errors import Unsupported
from bnfold.verification import Verdict, verify
from bnfold.verification.coverage.record import Coverage, same_place
from tests.verification.graphs import Depth, Weights, model, numbers

DEPTHS: tuple[Depth, ...] = ("auto", "full", "local")


def verdict(before: onnx.ModelProto, after: onnx.ModelProto, depth: Depth) -> Verdict:
    return verify(ir.load(before), ir.load(after), depth=depth, runtime="none")


def both(body: str, weights: Weights, changed: Weights) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    return model(body, weights), model(body, {**weights, **changed})


TABLE = numbers(3).normal(size=(1000, 4))


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("row", [0, 500, 999])
def test_a_changed_row_of_a_table_is_read(row: int, depth: Depth) -> None:
    other = TABLE.copy()
    other[row] = 1e6
    before, after = both("(int64[N,L] i) => (float[N,L,4] y) { y = Gather (T, i) }", {"T": TABLE}, {"T": other})
    assert verdict(before, after, depth).status == "failed"
    assert verdict(before, before, depth).status == "verified"


def test_rows_that_no_sample_can_reach_are_not_verified() -> None:
    """One index, and 1,000 rows of which any may be wrong where all were rewritten."""
    before = model(
        "(int64[1] i) => (float[1,4] y) { h = Gather (T, i)  y = Mul (h, s) }", {"T": TABLE, "s": np.ones(4)}
    )
    after = model("(int64[1] i) => (float[1,4] y) { y = Gather (T, i) }", {"T": TABLE * (1 + 2.0**-40)})
    assert verdict(before, after, "full").status != "failed"


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_weight_behind_a_factor_of_zero_shows_nowhere(depth: Depth) -> None:
    body = "(float[N,3] x) => (float[N,3] y) { z = Add (x, m)  s = Mul (z, k)  y = Add (s, x) }"
    weights = {"m": np.array([1.0, 2.0, 3.0]), "k": np.array([1.0, 0.0, 1.0])}
    before, after = both(body, weights, {"m": np.array([1.0, 7.0, 3.0])})
    assert verdict(before, after, depth).status != "verified"


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_bound_that_nothing_reaches_is_not_verified(depth: Depth) -> None:
    body = "(float[N,3] x) => (float[N,3] y) { t = Tanh (x)  y = Clip (t, low, high) }"
    weights = {"low": np.array(-30.0), "high": np.array(40.0)}
    assert verdict(*both(body, weights, {"high": np.array(50.0)}), "full").status == "unverified"
    assert verdict(*both(body, weights, {"high": np.array(50.0)}), depth).status != "verified"
    assert verdict(*both(body, weights, {"high": np.array(0.5)}), depth).status == "failed"


@pytest.mark.parametrize("depth", DEPTHS)
def test_an_end_far_out_is_not_verified(depth: Depth) -> None:
    body = "(float[N,h] x) => (float[N,k] y) { y = Slice (x, start, end, axis) }"
    weights = {"start": np.array([0]), "end": np.array([5000]), "axis": np.array([1])}
    assert verdict(*both(body, weights, {"end": np.array([4000])}), depth).status != "verified"
    endless = {**weights, "end": np.array([2**31 - 1])}
    assert verdict(*both(body, endless, {"end": np.array([2**63 - 1])}), depth).status == "verified"


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_branch_that_is_not_taken_is_compared(depth: Depth) -> None:
    body = (
        "(float[N,3] x) => (float[N,3] y) <bool on = {1}> { y = If (on) <then_branch = t () => (float[N,3] p)"
        " { p = Neg (x) }, else_branch = e () => (float[N,3] q) { q = LeakyRelu <alpha = 0.1> (x) }> }"
    )
    assert verdict(model(body, {}), model(body.replace("0.1", "0.2"), {}), depth).status != "verified"


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_new_branch_that_is_not_taken_is_not_verified(depth: Depth) -> None:
    head = "(float[N,3] x) => (float[N,3] y) <bool on = {1}>"
    after = (
        f"{head} {{ y = If (on) <then_branch = t () => (float[N,3] p) {{ p = Neg (x) }},"
        " else_branch = e () => (float[N,3] q) { q = Abs (x) }> }"
    )
    assert verdict(model(f"{head} {{ y = Neg (x) }}", {}), model(after, {}), depth).status == "unverified"


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_weight_that_callers_read_is_compared(depth: Depth) -> None:
    """Nobody else does, or only a BatchNormalization whose scale is zero."""
    stats = {"scale": np.zeros(3), "B": np.ones(3), "var": np.ones(3), "mean": np.zeros(3), "k": np.zeros(3)}
    nodes = "n = BatchNormalization (x, scale, B, mean, var)  y = Add (n, x)"
    body = f"(float[N,3] x) => (float[N,3] y, float[3] mean, float[3] k) {{ {nodes} }}"
    for name in ("mean", "k"):
        before, after = both(body, stats, {name: np.array([7.0, 0.0, 0.0])})
        assert verdict(before, after, depth).status == "failed"


@pytest.mark.parametrize("depth", ["auto", "local"])
def test_an_attribute_of_what_has_no_counterpart_may_move(depth: Depth) -> None:
    """From an attribute to an input, as between versions; bounds that nothing reaches are the same on both sides."""
    head = "(float[N,3] x) => (float[N,3] y)"
    before = model(f"{head} {{ y = Clip <min = 0.0, max = 1e30> (x) }}", {}, opset=6)
    after, lost = (
        model(f"{head} {{ y = Clip ({names}) }}", {"low": np.array(0.0), "high": np.array(1e30)}, opset=13)
        for names in ("x, low, high", "x, low")
    )
    assert verdict(before, after, depth).status == "verified"
    assert verdict(before, lost, depth).status == "unverified"


@pytest.mark.parametrize("depth", DEPTHS)
def test_sizes_that_are_all_declared_settle_what_only_others_would_show(depth: Depth) -> None:
    body = "(float[2,3,4] x) => (float[6,4] y) { y = Reshape (x, t) }"
    before, after = both(body, {"t": np.array([6, 4])}, {"t": np.array([-1, 4])})
    assert verdict(before, after, depth).status == "verified"


@pytest.mark.parametrize("depth", ["auto", "local"])
@pytest.mark.parametrize(
    ("old", "new", "opset"),
    [
        ("y = Tanh <consumed_inputs = [0]> (x)", "y = Tanh (x)", 1),
        ("y = Dropout <is_test = 1> (x)", "y = Dropout (x)", 1),
        ("y = Dropout <ratio = 0.3> (x)", "y = Dropout (x)", 7),
        ("y = Dropout <ratio = 0.3> (x)", "h = Constant <value_float = 0.3> ()  y = Dropout (x, h)", 10),
        ("h = Constant <value_float = 0.3> ()  y = Dropout (x, h)", "y = Identity (x)", 13),
    ],
)
def test_what_no_version_reads_need_not_show(old: str, new: str, opset: int, depth: Depth) -> None:
    head = "(float[4,3] x) => (float[4,3] y)"
    before, after = model(f"{head} {{ {old} }}", {}, opset=opset), model(f"{head} {{ {new} }}", {}, opset=15)
    found = verdict(before, after, depth)
    assert found.verified, found.reason


def test_what_a_dropout_drops_in_training_has_to_show() -> None:
    head = "(float[4,3] x) => (float[4,3] y)"
    drop = "h = Constant <value_float = 0.0> ()  t = Constant <value = bool {1}> ()  y = Dropout (x, h, t)"
    before, after = (model(f"{head} {{ {body} }}", {}, opset=13) for body in (drop, "y = Identity (x)"))
    assert not verdict(before, after, "local").verified


def test_sizes_that_the_rewritten_model_alone_tells_are_not_all_there_can_be() -> None:
    """Reshaped by its third size, N has to be 10; as it was, the third size has to."""
    body = (
        '(float[N,2,H,7] x) => (float[?,?] y, float[?,?] z) { a = Resize <mode = "linear", '
        'coordinate_transformation_mode = "asymmetric"> (x, none, scales)  b = Concat <axis = 3> (a, a)  '
        "s = Shape (b)  d = Gather (s, i)  t = Concat <axis = 0> (d, r)  v = Reshape (b, t)  "
        "y, z = Split <axis = 1> (v, p) }"
    )
    scales = {"none": np.zeros(0), "scales": np.array([1, 1, 2, 1.5])}
    weights = {**scales, "r": np.array([-1]), "p": np.array([216, 184])}
    before, after = (ir.load(model(body, {**weights, "i": np.array([i])}, opset=17)) for i in (0, -2))
    assert not verify(before, after, depth="local", runtime="none").verified


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize(("kept", "status"), [("far", "verified"), ("farther", "unverified")])
def test_one_of_equal_constants_stands_for_the_other(kept: str, status: str, depth: Depth) -> None:
    """No number reaches these bounds; one need not if it is what it was, under a name that both have."""
    weights = {"low": 0, "high": 10**9, "far": 10**9, "farther": 10**9 + 1}

    def of(source: str, high: str, least: str) -> onnx.ModelProto:
        body = f"""(int64[N] x) => (int64[N] y) {{
            h = Identity (x)
            c = Clip ({source}, low, {high})
            y = Min ({least}, farther)
        }}"""
        return model(body, {name: np.array(number) for name, number in weights.items()})

    assert verdict(of("h", "high", "c, far"), of("x", kept, "far, c"), depth).status == status


@pytest.mark.parametrize("depth", ["auto", "full"])
@pytest.mark.parametrize("defaults", [(), ("low", "high")], ids=["fed", "defaults"])
def test_bounds_that_callers_feed_may_be_crossed(defaults: tuple[str, ...], depth: Depth) -> None:
    head = "(float[N,3] x, float low, float high) => (float[N,3] y)"
    orders = ("y = Clip (x, low, high)", "z = Max (x, low)  y = Min (z, high)", "z = Min (x, high)  y = Max (z, low)")
    weights = {name: np.array({"low": -0.5, "high": 0.5}[name]) for name in defaults}
    before, right, wrong = (model(f"{head} {{ {nodes} }}", weights) for nodes in orders)
    assert verdict(before, right, depth).status == "verified"
    assert verdict(before, wrong, depth).status == "failed"


@pytest.mark.parametrize("high", [0.25, 6.0, 100.0])
@pytest.mark.parametrize("depth", ["auto", "full"])
def test_a_bound_that_callers_feed_may_cross_a_constant(depth: Depth, high: float) -> None:
    head = "(float[N,3] x, float low) => (float[N,3] y)"
    orders = ("y = Clip (x, low, high)", "z = Max (x, low)  y = Min (z, high)", "z = Min (x, high)  y = Max (z, low)")
    before, right, wrong = (model(f"{head} {{ {nodes} }}", {"high": np.array(high)}) for nodes in orders)
    assert verdict(before, right, depth).status == "verified"
    assert verdict(before, wrong, depth).status == "failed"


@pytest.mark.parametrize(
    "made", ["Mul (low, w)", "Div (low, w)", "Sub (w, low)", "Sub (low, w)", "Neg (low)", "Add (w, low)"]
)
@pytest.mark.parametrize("factor", [0.75, -2.0])
def test_a_bound_that_is_computed_from_what_callers_feed_may_cross_the_largest_number(made: str, factor: float) -> None:
    text = "(float[N,3] x, float low) => (float[N,3] y) {{ b = {}  m = ReduceMax <keepdims = 0> (x)  {} }}"
    orders = ("y = Clip (x, b, m)", "z = Max (x, b)  y = Min (z, m)", "z = Min (x, m)  y = Max (z, b)")
    before, right, wrong = (model(text.format(made, order), {"w": np.array(factor)}) for order in orders)
    assert verdict(before, right, "auto").status == "verified"
    assert verdict(before, wrong, "auto").status == "failed"


@pytest.mark.parametrize("depth", DEPTHS)
def test_words_of_a_fill_of_another_size(depth: Depth) -> None:
    body = """(float[N] x) => (float[a,b] y) {
        f = ConstantOfShape <value = string[1] {"a"}> (dims)  e = Equal (f, word)  c = Cast <to = 1> (e)
        s = ReduceSum <keepdims = 0> (x)  y = Add (c, s)
    }"""
    before, after = (model(body, {"dims": np.array([2, size])}, opset=19) for size in (4, 5))
    for proto in (before, after):
        word = onnx.numpy_helper.from_array(np.array("a", dtype=object), "word")
        proto.graph.initializer.append(word)
    assert verdict(before, after, depth).status == "failed"


@pytest.mark.parametrize("depth", DEPTHS)
def test_what_is_chosen_from_a_default_need_not_be_read(depth: Depth) -> None:
    head = "(float[N,6] x, float[8,6] T) => (float[M,6] y)"
    nodes = "s = Shape (x)  n = Gather (s, zero)  r = Range (zero, n, one)  t = {} y = Add (x, t)"
    weights = {"T": np.ones((8, 6)), "zero": np.array(0), "one": np.array(1)}
    before, after = (model(f"{head} {{ {nodes.format(way)} }}", weights) for way in ("Gather (T, r)", "Identity (T)"))
    assert verdict(before, after, depth).status == "failed"
    assert verdict(before, before, depth).status == "verified"


@pytest.mark.parametrize("depth", DEPTHS)
def test_infinities_that_both_constants_have_are_compared_without_a_warning(depth: Depth) -> None:
    head = "(float[2,3] x) => (float[2,3] y)"
    old, new = (model(f"{head} {{ y = Min (x, c) }}", {"c": np.array([np.inf, 0.0, last])}) for last in (0.5, -0.5))
    assert verify(ir.load(old), ir.load(new), depth=depth, runtime="none").status == "failed"


def test_a_graph_that_is_not_there() -> None:
    """A part whose control flow was written in one form has graphs that the whole model does not have."""
    branch = "then_branch = t () => (float p) { p = Neg (x) }, else_branch = e () => (float q) { q = Abs (x) }"
    whole = ir.load(model(f"(float x, bool c) => (float y) {{ y = If (c) <{branch}> }}", {}))
    part = ir.load(model("(float x) => (float y) { y = Neg (x) }", {}))
    inner = next(graph for graph in whole.graphs() if "p" in graph.values)
    with pytest.raises(Unsupported, match="not there as it was"):
        same_place(part, inner.values["p"])


@pytest.mark.parametrize("is_cut_short", [False, True])
def test_what_there_was_no_time_to_look_for_is_not_said_to_be_hidden(
    is_cut_short: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Coverage, "is_cut_short", property(lambda _: is_cut_short))
    body = "(float[3,4] x) => (float[3,4] y) { y = Clip (x, low) }"
    pair = [ir.load(model(body, {"low": np.array(low)})) for low in (-1e9, -2e9)]
    verdict = verify(*pair, runtime="none", depth="local")
    assert verdict.status == "unverified"
    assert ("there was no time to find out" in verdict.reason) == is_cut_short
