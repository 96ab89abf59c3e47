from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import bnfold
from bnfold import ir
from bnfold.verification import verify
from bnfold.verification.claims import Evidence, NumberKind
from bnfold.verification.inputs.drawing import SAMPLE_KINDS, DrawnFeeds, random_feeds
from bnfold.verification.subgraphs.pairs import SubgraphPair
from bnfold.verification.subgraphs.trials import PartOutcome
from tests.verification.graphs import affine, along, model, numbers, single, statistics

BN = "BatchNormalization"


def check(before: onnx.ModelProto, after: onnx.ModelProto, *cuts: ir.Cut) -> list[Evidence]:
    verdict = verify(ir.load(before), ir.load(after), cuts=cuts, depth="local", runtime="none")
    return list(verdict.local[: len(cuts)])


def fold(inside: str) -> tuple[onnx.ModelProto, onnx.ModelProto, onnx.ModelProto]:
    """Before, after, and wrong after, of a Conv → BatchNormalization; ``inside`` wraps the nodes given as {nodes}."""
    rng = numbers(5)
    stats, weight = statistics(rng, 4), single(rng.normal(size=(4, 3, 1, 1)))
    s, t = affine(stats)
    plain = inside.replace("{nodes}", f"c = Conv (x, W)  z = {BN} (c, scale, B, mean, var)")
    folded = inside.replace("{nodes}", "z = Conv (x, W, b)")
    right = {"W": weight * along(s, 0, 4), "b": t}
    wrong = {**right, "b": t + 1e-3}
    return model(plain, {"W": weight, **stats}), model(folded, right), model(folded, wrong)


def test_a_custom_operator_leaves_the_parts_to_be_compared() -> None:
    head = "(float[N,3,H,W] x) => (float[N,4,H,W] y) { {nodes}  y = com.example.Secret (z) }"
    before, after, wrong = (_with_domain(proto) for proto in fold(head))
    cut = ir.Cut("", ("x",), ("z",), "fold")
    verdict = verify(ir.load(before), ir.load(after), cuts=[cut], runtime="none")
    assert (verdict.status, verdict.decided_by) == ("verified", "local")
    assert "Secret" in f"{verdict.reason}{verdict.notes}"
    assert verify(ir.load(before), ir.load(wrong), cuts=[cut], runtime="none").status == "failed"


@pytest.mark.parametrize("place", ["z", "x"])
def test_an_unknown_operator_of_the_default_domain_leaves_the_parts_to_be_compared(place: str) -> None:
    head = "(float[N,3,H,W] x) => (float[N,4,H,W] y) { {nodes}  y = Unheard <a = 1> (z) }"
    if place == "x":
        head = "(float[N,3,H,W] v) => (float[N,4,H,W] z) { x = Unheard <a = 1> (v)  {nodes} }"
    before, after, wrong = fold(head)
    after.opset_import[0].version = wrong.opset_import[0].version = 15
    cut = ir.Cut("", ("x",), ("z",), "fold")
    for result, status in ((after, "verified"), (wrong, "failed")):
        assert verify(ir.load(before), ir.load(result), cuts=[cut], runtime="none").status == status
    next(node for node in after.graph.node if node.op_type == "Unheard").attribute[0].i = 2
    assert verify(ir.load(before), ir.load(after), cuts=[cut], runtime="none").status == "unverified"


def _with_domain(proto: onnx.ModelProto) -> onnx.ModelProto:
    proto.opset_import.add(domain="com.example", version=1)
    return proto


def test_a_changed_custom_operator_cannot_be_verified() -> None:
    body = "(float[N,3] x) => (float[N,3] y) { y = com.example.Secret <a = 1> (x) }"
    before, after = _with_domain(model(body, {})), _with_domain(model(body.replace("1", "2"), {}))
    verdict = verify(ir.load(before), ir.load(after), runtime="none")
    assert (verdict.status, verdict.decided_by) == ("unverified", "nothing")
    assert "Secret" in f"{verdict.reason}{verdict.notes}"
    assert verdict.local[0].status == "skipped"


def test_around_a_random_operator_the_models_are_compared() -> None:
    head = "(float[N,3,H,W] x) => (float[N,4,H,W] y) { {nodes}  r = RandomNormalLike (z)  y = Add (z, r) }"
    before, after, wrong = fold(head)
    verdict = verify(ir.load(before), ir.load(after), runtime="none")
    assert (verdict.status, verdict.decided_by) == ("verified", "float64")
    assert verify(ir.load(before), ir.load(wrong), runtime="none").status == "failed"


BODY = (
    "(bool k, float[N,3,H,W] x) => (float[N,4,H,W] y) { y = If (k)"
    " <then_branch = t () => (float[N,4,H,W] z) { {nodes} },"
    " else_branch = e () => (float[N,4,H,W] v) { v = Conv (x, E) }> }"
)


@pytest.mark.parametrize("depth", ["full", "local"])
def test_folds_in_a_body_whose_weights_are_outside(depth: Any) -> None:
    before, after, wrong = fold(BODY)
    for proto in (before, after, wrong):
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((4, 3, 1, 1), np.float32), "E"))
    path = next(graph.path for graph in ir.load(before).graphs() if "z" in graph.values)
    cuts = [ir.Cut(path, ("x",), ("z",), "fold in the branch")]
    verdict = verify(ir.load(before), ir.load(after), cuts=cuts, depth=depth, runtime="none", seed=1)
    assert verdict.status == "verified", verdict.reason
    if depth == "local":
        assert verify(ir.load(before), ir.load(wrong), cuts=cuts, depth=depth, runtime="none").status == "failed"


def test_folds_in_a_function() -> None:
    rng = numbers(6)
    stats = statistics(rng, 3)
    s, t = affine(stats)

    def in_function(nodes: str) -> onnx.ModelProto:
        return onnx.parser.parse_model(
            '<ir_version: 8, opset_import: ["" : 15, "own" : 1]> g (float[N,3] x) => (float[N,3] y) { y = own.f (x) }'
            f'<domain: "own", opset_import: ["" : 15]> f (p) => (q) {{ {nodes} }}'
        )

    def constants(**arrays: Any) -> str:
        rows = {name: ", ".join(repr(float(item)) for item in array) for name, array in arrays.items()}
        return "  ".join(f"{name} = Constant <value = float[3] {{{row}}}> ()" for name, row in rows.items())

    before = in_function(f"{constants(**stats)}  q = {BN} (p, scale, B, mean, var)")
    after = in_function(f"{constants(s=single(s), t=single(t))}  m = Mul (p, s)  q = Add (m, t)")
    wrong = in_function(f"{constants(s=single(s), t=single(t))}  m = Mul (p, s)  q = Sub (m, t)")
    cut = ir.Cut("own::f", ("p",), ("q",), "fold in the function")
    # Right at rank 2 only. That every call has it the body does not say, but the whole model does.
    assert check(before, after, cut)[0].status == "skipped"
    assert check(before, wrong, cut)[0].status == "failed"
    assert verify(ir.load(before), ir.load(after), cuts=[cut], runtime="none").status == "verified"


def test_small_dims_are_tried_first_and_declared_ones_decide() -> None:
    """Equal only where SAME padding comes to nothing, as at the declared size of 8, but not at small odd ones."""
    rng = numbers(7)
    weight = single(rng.normal(size=(2, 3, 2, 2)))
    head = "(float[N,3,8,8] x) => (float[N,2,4,4] y)"
    before = model(f'{head} {{ y = Conv <strides = [2,2], auto_pad = "SAME_UPPER"> (x, W) }}', {"W": weight})
    after = model(f"{head} {{ y = Conv <strides = [2,2]> (x, W) }}", {"W": weight})
    assert check(before, after, ir.Cut("", ("x",), ("y",), "padding"))[0].status == "verified"
    for proto in (before, after):
        for axis in (2, 3):
            proto.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = f"d{axis}"
            proto.graph.output[0].type.tensor_type.shape.dim[axis].Clear()
    assert check(before, after, ir.Cut("", ("x",), ("y",), "padding"))[0].status == "failed"


def test_weights_named_in_a_cut_are_not_fed() -> None:
    before, after, wrong = fold("(float[N,3,H,W] x) => (float[N,4,H,W] z) { {nodes} }")
    cut = ir.Cut("", ("x", "W", "scale", "b"), ("z",), "fold")
    assert check(before, after, cut)[0].status == "verified"
    assert check(before, wrong, cut)[0].status == "failed"


@pytest.mark.parametrize(
    ("cut", "words"),
    [
        (ir.Cut("nowhere", ("x",), ("z",), "fold"), "no graph 'nowhere'"),
        (ir.Cut("", ("x",), ("gone",), "fold"), "'gone'"),
    ],
)
def test_a_cut_that_does_not_exist_is_skipped_with_a_reason(cut: ir.Cut, words: str) -> None:
    before, after, _ = fold("(float[N,3,H,W] x) => (float[N,4,H,W] z) { {nodes} }")
    (row,) = check(before, after, cut)
    assert row.status == "skipped"
    assert words in row.note


def test_a_weight_and_a_bias_that_cancel_do_not_hide_their_noise() -> None:
    """One output element a channel, from two weights of which each draw may undo the other."""
    rng = numbers(8)
    channels = 500
    stats = statistics(rng, channels)
    weight = single(rng.normal(size=(channels, 1, 3, 3)))
    s, t = affine(stats)
    head = f"(float[1,{channels},1,1] x) => (float[1,{channels},1,1] y)"
    attrs = f"<group = {channels}, pads = [1,1,1,1]>"
    before = model(f"{head} {{ c = Conv {attrs} (x, W)  y = {BN} (c, scale, B, mean, var) }}", {"W": weight, **stats})
    after = model(f"{head} {{ y = Conv {attrs} (x, W, b) }}", {"W": weight * along(s, 0, 4), "b": t})
    for seed in range(3):
        verdict = verify(ir.load(before), ir.load(after), depth="local", runtime="none", seed=seed)
        assert verdict.status == "verified", verdict.reason


def test_another_tool_may_give_an_inner_name_another_meaning() -> None:
    """The Conv keeps the name of its output though it now makes what the BatchNormalization made."""
    rng = numbers(9)
    stats, weight = statistics(rng, 4), single(rng.normal(size=(4, 3, 1, 1)))
    s, t = affine(stats)
    head, tail = "(float[N,3,H,W] x) => (float[N,4,H,W] y)", "y = com.example.Secret (r)"
    plain = f"{head} {{ c = Conv (x, W)  z = {BN} (c, scale, B, mean, var)  r = Relu (z)  {tail} }}"
    folded = f"{head} {{ c = Conv (x, W, b)  r = Relu (c)  {tail} }}"
    before = _with_domain(model(plain, {"W": weight, **stats}))
    after = _with_domain(model(folded, {"W": weight * along(s, 0, 4), "b": t}))
    wrong = _with_domain(model(folded, {"W": weight * along(s, 0, 4), "b": t + 1e-3}))
    verdict = verify(ir.load(before), ir.load(after), runtime="none")
    assert (verdict.status, verdict.decided_by) == ("verified", "local"), verdict.reason
    assert verify(ir.load(before), ir.load(wrong), runtime="none").status == "failed"


def test_another_tool_may_give_the_inner_names_of_layer_after_layer_another_meaning() -> None:
    """Folded one behind the other: each Conv keeps the name of its output, each Relu its meaning."""
    rng = numbers(9)
    head, tail = "(float[N,4,H,W] x) => (float[N,4,H,W] y)", "y = com.example.Secret (r2)"
    plain, folded = "", ""
    weights: dict[str, Any] = {}
    changed: dict[str, Any] = {}
    for layer, source in enumerate(("x", "r0", "r1")):
        stats, weight = statistics(rng, 4), single(rng.normal(size=(4, 4, 1, 1)))
        s, t = affine(stats)
        plain += f"c{layer} = Conv ({source}, W{layer})  z{layer} = {BN} (c{layer}, "
        plain += (
            ", ".join(f"{name}{layer}" for name in ("scale", "B", "mean", "var")) + f")  r{layer} = Relu (z{layer})  "
        )
        folded += f"c{layer} = Conv ({source}, W{layer}, b{layer})  r{layer} = Relu (c{layer})  "
        weights |= {f"W{layer}": weight} | {f"{name}{layer}": value for name, value in stats.items()}
        changed |= {f"W{layer}": weight * along(s, 0, 4), f"b{layer}": t}
    before = ir.load(_with_domain(model(f"{head} {{ {plain} {tail} }}", weights)))
    for fault, status in ((0, "verified"), (1e-3, "failed")):
        after = _with_domain(model(f"{head} {{ {folded} {tail} }}", changed | {"b1": changed["b1"] + fault}))
        verdict = verify(before, ir.load(after), runtime="none")
        assert verdict.status == status, verdict.reason


@pytest.mark.parametrize("depth", ["auto", "full", "local"])
def test_a_value_inside_that_differs_accuses_nobody_where_nothing_made_of_it_does(depth: Any) -> None:
    """As onnxoptimizer folds: ``c`` means what ``z`` did, and that the epsilon is another one would show nowhere."""
    rng = numbers(9)
    weights = {"W": rng.normal(size=(2, 5, 2, 3)), "b": rng.normal(size=2), "k": np.ones(1), **statistics(rng, 2)}
    head = "(float[N,5,3,4] x) => (float[N,2,2,2] y)"
    before = model(f"{head} {{ c = Conv (x, W, b)  z = {BN} (c, scale, B, mean, var)  y = Add (z, k) }}", weights)
    factor = "d = Add (var, e)  r = Sqrt (d)  f = Div (scale, r)  g = Unsqueeze (f, axes)  V = Mul (W, g)"
    shift = "m = Sub (b, mean)  n = Mul (m, f)  o = Add (n, B)"
    for epsilon, failed in ((1e-5, False), (0.5, True)):
        stored = {**weights, "e": np.array(epsilon), "axes": np.array([1, 2, 3])}
        after = model(f"{head} {{ {factor}  {shift}  c = Conv (x, V, o)  y = Add (c, k) }}", stored)
        verdict = verify(ir.load(before), ir.load(after), depth=depth, runtime="none")
        assert (verdict.status == "failed") == failed, verdict.reason


def test_a_name_that_callers_read_keeps_its_meaning() -> None:
    body = "(float[N,3] x) => (float[N,3] y, float[N,3] z) { {made}  z = com.example.Secret (x) }"
    before = _with_domain(model(body.replace("{made}", "y = Exp (x)"), {}))
    after = _with_domain(model(body.replace("{made}", "y = Neg (x)"), {}))
    assert verify(ir.load(before), ir.load(after), runtime="none").status == "failed"


def test_a_rank_that_only_a_reader_suggests_is_a_guess() -> None:
    """BatchNormalization takes any rank; what it was spelled out as takes one, and the model says nowhere which."""
    rng = numbers(7)
    stats = statistics(rng, 4)
    s, t = (array.reshape(4, 1) for array in affine(stats))
    head = "(float[N,4] p, int64[R] dims) => (float[A,B,C] y)"
    before = model(f"{head} {{ x = Reshape (p, dims)  u = Neg (x)  y = {BN} (u, scale, B, mean, var) }}", stats)
    after = model(f"{head} {{ x = Reshape (p, dims)  u = Neg (x)  m = Mul (u, s)  y = Add (m, t) }}", {"s": s, "t": t})
    (row,) = check(before, after, ir.Cut("", ("u",), ("y",), "decompose"))
    assert row.status == "verified", row
    wrong = model(f"{head} {{ x = Reshape (p, dims)  u = Neg (x)  m = Mul (u, s)  y = Add (m, t) }}", {"s": -s, "t": t})
    (row,) = check(before, wrong, ir.Cut("", ("u",), ("y",), "decompose"))
    assert row.status == "failed", row


def test_what_is_the_same_at_rank_2_only_is_not_acquitted() -> None:
    """Where nothing tells the rank, the rewritten region has to run at the ranks at which the original does."""
    stats = statistics(numbers(9), 4)
    s, t = affine(stats)
    head = "(float[N,4] p, int64[R] dims) => (float[A,B] z)"
    before = model(
        f"{head} {{ x = Reshape (p, dims)  u = Neg (x)  y = {BN} (u, scale, B, mean, var)  z = Flatten (y) }}", stats
    )
    row_of = "<int64[1] two = {2}, int64[1] end = {99}, int64[1] all = {-1}>"
    sides = "sh = Shape (u)  sides = Slice (sh, two, end)  wrong = Add (sides, sides)"
    column = f"{sides}  column = Concat <axis = 0> (all, wrong)"
    spelled = (
        f"{column}  a = Reshape (s, column)  b = Reshape (t, column)  m = Mul (u, a)  y = Add (m, b)  z = Flatten (y)"
    )
    after = model(f"{head} {row_of} {{ x = Reshape (p, dims)  u = Neg (x)  {spelled} }}", {"s": s, "t": t})
    (row,) = check(before, after, ir.Cut("", ("u",), ("y",), "decompose"))
    assert (row.status, row.note.split(" only,")[0]) == ("skipped", "it is equivalent for some input shapes")


def test_the_rank_of_a_result_may_tell_that_of_the_input() -> None:
    """A rewrite is right or wrong for the rank that the declared one of the output leaves, and no other."""
    stats = statistics(numbers(9), 4)
    s, t = (array.reshape(4, 1) for array in affine(stats))
    bodies = f"y = {BN} (u, scale, B, mean, var)", "m = Mul (u, s)  y = Add (m, t)"
    for shape, status in (("[A,B,C]", "verified"), ("[A,B,C,D]", "failed")):
        head = f"(float[N,4] p, int64[R] dims) => (float{shape} y)"
        before = model(f"{head} {{ x = Reshape (p, dims)  u = Neg (x)  {bodies[0]} }}", stats)
        after = model(f"{head} {{ x = Reshape (p, dims)  u = Neg (x)  {bodies[1]} }}", {"s": s, "t": t})
        (row,) = check(before, after, ir.Cut("", ("u",), ("y",), "decompose"))
        assert row.status == status, row


@pytest.mark.parametrize(
    ("start", "status", "note"),
    [(9, "failed", "differs by more"), (1 << 40, "skipped", "its outputs are empty at the tested shapes")],
)
def test_an_output_without_elements_acquits_nobody(start: int, status: str, note: str) -> None:
    """Behind so many rows there is nothing at small sizes, and the last of these is behind every size that is tried."""
    head = f"(float[N,5] x) => (float[M,5] y) <int64[1] start = {{{start}}}, int64[1] end = {{{2**62}}}>"
    before, after = (model(f"{head} {{ c = {node} (x)  y = Slice (c, start, end) }}", {}) for node in ("Relu", "Neg"))
    (row,) = check(before, after, ir.Cut("", ("x",), ("y",), "rewrite"))
    assert row.status == status
    assert note in row.note


def test_the_one_batch_that_a_reshape_takes_is_found() -> None:
    """At other sizes than the declared ones some other batch may fit it, too, and mixes up what is a channel."""
    batch, channels, height, width = 6, 7, 2, 3
    scale = np.arange(1.0, channels + 1)
    weight = single(numbers(31).normal(size=(channels, 1, 1, 1, 1)))
    dims = np.array([batch, channels, height, 1, width])
    weights = {"W": weight, "s": along(scale, 1, 4), "dims": dims}
    head = f"(float[N,{channels},{height},{width}] x) => (float[A,{channels},{height},1,{width}] y)"
    conv = f"Conv <group = {channels}> (r, W)"
    before = model(f"{head} {{ a = Mul (x, s)  r = Reshape (a, dims)  y = {conv} }}", weights)
    after, wrong = (
        model(f"{head} {{ r = Reshape (x, dims)  y = {conv} }}", {**weights, "W": folded})
        for folded in (single(weight * along(scale, 0, 5)), weight)
    )
    cut = ir.Cut("", ("x",), ("y",), "fold")
    assert [check(before, side, cut)[0].status for side in (after, wrong)] == ["verified", "failed"]


@pytest.mark.parametrize("dims", ["N,5,7", "4,5,M"])
def test_digits_that_the_original_loses_are_no_fault_of_the_rewritten_model(dims: str) -> None:
    """A large shift that a mean takes out again."""
    head = f"(double[{dims}] x) => (double[{dims}] y) <double[1] shift = {{1e6}}, double[1] off = {{1.000001}}>"
    right = "m = ReduceMean (x)  y = Sub (x, m)"
    before = model(f"{head} {{ a = Add (x, shift)  m = ReduceMean (a)  y = Sub (a, m) }}", {})
    after, wrong = (
        model(f"{head} {{ {nodes} }}", {}) for nodes in (right, f"{right.replace('y', 'z')}  y = Mul (z, off)")
    )
    cut = ir.Cut("", ("x",), ("y",), "dead shift")
    assert [check(before, side, cut)[0].status for side in (after, wrong)] == ["verified", "failed"]


def test_digits_that_only_the_new_weights_lose_explain_nothing() -> None:
    """Rounding numbers that cancel explains any difference; the original has none of them."""
    head = "(float[N,5] x) => (float[N,5] y)"
    before = model(f"{head} {{ y = Neg (x) }}", {})
    large = {"there": np.array(1e8, np.float32), "back": np.array(1e8 + 8, np.float32)}
    after = model(f"{head} {{ h = Add (x, there)  k = Sub (h, back)  y = Neg (k) }}", large)
    (row,) = check(before, after, ir.Cut("", ("x",), ("y",), "rewrite"))
    assert row.status == "skipped"
    assert "too much to compare it" in row.note


def test_two_rows_at_which_statistics_coincide_acquit_nobody() -> None:
    """The squares of what two numbers are off their mean are one number, and so is the mean of these."""
    head = "(float[N,5] x) => (float[N,5] y)"
    common = "m = ReduceMean <axes = [0]> (x)  c = Sub (x, m)  q = Mul (c, c)  v = ReduceMean <axes = [0]> (q)"
    before, after = (model(f"{head} {{ {common}  y = Add (c, {name}) }}", {}) for name in "vq")
    (row,) = check(before, after, ir.Cut("", ("x",), ("y",), "rewrite"))
    assert row.status == "failed"


def test_a_difference_at_other_sizes_does_not_count_where_the_declared_ones_do_not_run() -> None:
    weights = {"s": along(np.arange(1.0, 8.0), 1, 4), "dims": np.array([4, 7, 9, 1])}
    head = "(float[N,7,5,9] x) => (float[A,7,9,1] y)"
    before = model(f"{head} {{ a = Mul (x, s)  r = Reshape (a, dims)  y = Relu (r) }}", weights)
    after = model(f"{head} {{ r = Reshape (x, dims)  a = Mul (r, s)  y = Relu (a) }}", weights)
    (row,) = check(before, after, ir.Cut("", ("x",), ("y",), "move"))
    assert (row.status, row.note.split(",")[0]) == ("skipped", "it does not run at the declared sizes")


def test_an_element_type_is_part_of_a_value() -> None:
    body = "(float[N,5] x) => (float[N,5] y) { n = Cast <to = 6> (x)  y = Cast <to = TYPE> (n) }"
    before, after = (model(body.replace("TYPE", kind), {}) for kind in ("1", "7"))
    (row,) = check(before, after, ir.Cut("", ("n",), ("y",), "rewrite"))
    assert (row.status, row.note) == ("failed", "element type float64 became int64")


def test_a_difference_at_other_sizes_than_the_declared_ones_is_answered_at_those() -> None:
    """SAME padding comes to nothing at the declared width of 2, whatever the open height is."""
    weight = single(numbers(19).normal(size=(2, 3, 1, 2)))
    head = "(float[N,3,H,2] x) => (float[N,2,H,1] y)"
    conv = 'y = Conv <auto_pad = "SAME_LOWER", strides = [1, 2]>'
    before = model(f"{head} {{ a = Add (x, t)  {conv} (a, W) }}", {"W": weight, "t": along(np.full(3, 0.5), 1, 4)})
    bias = 0.5 * weight.astype(np.float64).sum(axis=(1, 2, 3))
    after, wrong = (model(f"{head} {{ {conv} (x, W, b) }}", {"W": weight, "b": b}) for b in (bias, bias + 1e-3))
    cut = ir.Cut("", ("x",), ("y",), "fold")
    assert [check(before, side, cut)[0].status for side in (after, wrong)] == ["verified", "failed"]


@pytest.mark.parametrize("seed", range(40))
def test_regions_of_few_elements_are_tried_more_than_once(seed: int) -> None:
    """Six numbers are all negative before a Relu once in 64 draws."""
    head = "(float[3,2] x) => (float[3,2] y)"
    before, after = (
        ir.load(model(f"{head} {{ {nodes} }}", {})) for nodes in ("y = Relu (x)", "h = Tanh (x)  y = Relu (h)")
    )
    cut = ir.Cut("", ("x",), ("y",), "rewrite")
    assert verify(before, after, cuts=[cut], depth="local", runtime="none", seed=seed).status == "failed"


def test_a_shape_that_only_the_rewritten_model_tells_is_tried() -> None:
    """An operator in front of which inference knows nothing; the reshape relies on the six rows that come out."""
    body = "(float[6,4] x) => (float[A,B] y) <int64[2] dims = {{6, 4}}> {{ h = {head} (x)  {tail} }}"
    before = model(body.format(head="com.example.Old", tail="y = Neg (h)"), {})
    after = model(body.format(head="com.example.Old", tail="n = Neg (h)  y = Reshape (n, dims)"), {})
    after.graph.value_info.append(onnx.helper.make_tensor_value_info("h", 1, [6, 4]))
    wrong = onnx.ModelProto.FromString(after.SerializeToString())
    wrong.graph.node[1].op_type = "Abs"
    cut = ir.Cut("", ("h",), ("y",), "upgrade")
    rows = [check(_with_domain(before), _with_domain(side), cut)[0] for side in (after, wrong)]
    assert [row.status for row in rows] == ["verified", "failed"]


def test_a_boundary_that_another_rewrite_made_is_none() -> None:
    """A fold left the value under a new name; fed there, the rewritten region would miss what the fold moved behind."""
    weights = {"p": along(np.array([2.0, -3.0, 0.5]), 1, 3), "q": along(np.array([0.5, 1.5, -1.0]), 1, 3)}
    head = "(float[N,3,L] x) => (float[N,3,L] y)"
    before = model(f"{head} {{ a = Mul (x, p)  u = Neg (a)  y = Mul (u, q) }}", weights)
    both = weights["p"] * weights["q"]
    after, wrong = (
        model(f"{head} {{ u_folded = Neg (x)  y = Mul (u_folded, both) }}", {"both": factor})
        for factor in (both, -both)
    )
    cut = ir.Cut("", ("u_folded",), ("y",), "decompose")
    assert [check(before, side, cut)[0].status for side in (after, wrong)] == ["verified", "failed"]


def test_a_boundary_that_only_the_rewritten_model_reads_is_none() -> None:
    """A fold gave one reader's name to the value itself, and the other reader the inverse: each side reads another."""
    weights = {"p": along(np.array([2.0, -3.0, 0.5]), 1, 3), "q": along(np.array([0.5, 1.5, -1.0]), 1, 3)}
    head = "(float[N,3,L] x) => (float[N,3,L] y, float[N,3,L] u)"
    before = model(f"{head} {{ a = Tanh (x)  u = Mul (a, p)  y = Mul (a, q) }}", weights)
    ratio = weights["q"] / weights["p"]
    after, wrong = (
        model(f"{head} {{ a = Tanh (x)  u = Mul (a, p)  y = Mul (u, r) }}", {"p": weights["p"], "r": factor})
        for factor in (ratio, -ratio)
    )
    for boundaries in (("u",), ("a", "u")):
        cut = ir.Cut("", boundaries, ("y",), "decompose")
        assert [check(before, side, cut)[0].status for side in (after, wrong)] == ["verified", "failed"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("y, z = Split <axis = 0> (x)", "y, z = Split <axis = 0> (x, twos)"),
        ("y = Expand (x, target)  z = Neg (x)", "y = Identity (x)  z = Neg (x)"),
    ],
)
def test_where_one_batch_fits_others_are_tried(old: str, new: str) -> None:
    weights = {"twos": np.array([2, 2]), "target": np.array([4, 3])}
    head = "(float[N,3] x) => (float[A,3] y, float[B,3] z)"
    before, after = (model(f"{head} {{ {nodes} }}", weights, opset=15) for nodes in (old, new))
    row = check(before, after, ir.Cut("", ("x",), ("y",), "batch"))[0]
    assert row.status == "failed"


def test_a_reader_of_another_boundary_is_accused_beyond_what_nobody_can_compute() -> None:
    """Where neither makes the other, both stay boundaries: their makers need not be evaluated."""
    domains = '<ir_version: 8, opset_import: ["": 15, "custom": 1]>'
    head = f"{domains} g (float[2,3] x) => (float[2,3] y, float[2,3] a, float[2,3] b)"
    before, after = (
        onnx.parser.parse_model(f"{head} {{ a = custom.Foo (x)  b = custom.Bar (x)  y = Neg ({read}) }}")
        for read in ("a", "b")
    )
    assert check(before, after, ir.Cut("", ("a", "b"), ("y",), "reads"))[0].status == "failed"


def test_weights_computed_in_their_own_type_are_as_right_as_the_original() -> None:
    """Another tool's bias: (b - mean) · s + B in float32, where terms cancel. A hundred such roundings are wrong."""
    bias, mean, shift = (np.float32(number) for number in (-1.1512809, -0.2670175, 0.8495088))
    s = np.float32(0.8777578) / np.sqrt(np.float32(0.92641735) + np.float32(1e-3))
    weight = np.array([-0.6339283, -1.478098], np.float32).reshape(1, 2, 1, 1)
    stats = {"scale": 0.8777578, "B": shift, "mean": mean, "var": 0.92641735}
    head = "(float[3,2,3,3] x) => (float[3,1,3,3] y)"
    before = model(
        f"{head} {{ c = Conv (x, W, b)  y = {BN} <epsilon = 0.001> (c, scale, B, mean, var) }}",
        {"W": weight, "b": bias.reshape(1)} | {name: np.array([number], np.float32) for name, number in stats.items()},
    )
    folded = (bias - mean) * s + shift
    sides = [
        model(f"{head} {{ y = Conv (x, W, b) }}", {"W": weight * s, "b": np.array([folded + off], np.float32)})
        for off in (0, 1e-5)
    ]
    cut = ir.Cut("", ("x",), ("y",), "fold")
    assert [check(before, side, cut)[0].status for side in sides] == ["verified", "failed"]


@pytest.mark.parametrize("cuts", [[ir.Cut("", ("x", "b"), ("y",), "fold")], []], ids=["a boundary", "found"])
def test_a_default_that_changes_is_compared_as_it_is(cuts: list[ir.Cut]) -> None:
    """Fed other numbers, both models make the same of them."""
    sides = []
    for number in (1.0, 1.0, 2.0):
        proto = model("(float[2,3] x) => (float[2,3] y) { y = Add (x, b) }", {"b": np.full(3, number, np.float32)})
        proto.graph.input.append(onnx.helper.make_tensor_value_info("b", 1, [3]))
        sides.append(proto)
    before, *others = sides
    found = [verify(ir.load(before), ir.load(side), cuts=cuts, depth="local", runtime="none") for side in others]
    assert [verdict.status for verdict in found] == ["verified", "failed"]


def test_constants_that_a_later_ir_version_lets_callers_override_are_the_same() -> None:
    body = "(float[2,3] x, float[3] b) => (float[2,3] y) { y = Add (x, b) }"
    before, after = (model(body, {"b": np.ones(3, np.float32)}) for _ in range(2))
    before.ir_version = 3
    after.graph.node[0].op_type = "Sum"
    assert verify(ir.load(before), ir.load(after), depth="local", runtime="none").status == "verified"


def test_places_that_mean_the_same_at_one_size_are_tried_at_another() -> None:
    """The last but one of four is the third."""
    before, after = (
        model("(float[N,3,H,W] x) => (float[A,B,C,D] y) { y = Gather <axis = 3> (x, i) }", {"i": np.array([place])})
        for place in (-2, 2)
    )
    assert verify(ir.load(before), ir.load(after), depth="local", runtime="none").status == "failed"


def test_a_result_that_the_runtime_does_not_open_is_not_verified_by_parts() -> None:
    """It takes no more padding than a window is wide, though none of it is read."""
    pytest.importorskip("onnxruntime")
    pool = "AveragePool <kernel_shape = [2, 2], strides = [2, 2], pads = {}>"
    body = f"(float[1,2,8,8] x) => (float[1,2,5,5] y) {{{{ y = {pool} (x) }}}}"
    before, after = (ir.load(model(body.format(pads), {})) for pads in ("[1, 1, 1, 1]", "[1, 1, 1, 2]"))
    assert verify(before, after, depth="local", runtime="none").verified
    verdict = verify(before, after, depth="local")
    assert verdict.status == "failed"
    assert "loads the original, but not the rewritten model" in verdict.reason


def test_what_is_dequantized_is_not_fed() -> None:
    """Other numbers would be clipped where they are quantized once more."""
    body = (
        "(float[1,4] x) => (float[4,1] y) { q = QuantizeLinear (x, s, z)  d = DequantizeLinear (q, s, z)  {} }",
        "t = Transpose (d)  y = Neg (t)",
        "t = Transpose (d)  r = QuantizeLinear (t, s, z)  e = DequantizeLinear (r, s, z)  y = Neg (e)",
    )
    weights = {"s": np.array(0.01), "z": np.array(3, np.int8)}
    before, after = (ir.load(model(body[0].replace("{}", nodes), weights, opset=13)) for nodes in body[1:])
    verdict = verify(before, after, depth="local", runtime="none")
    assert verdict.verified, verdict.reason


def test_sizes_that_only_the_rewritten_model_tells_do_not_acquit_it() -> None:
    """Without the second ReduceMean it runs on one row alone, on which both are the same; the original takes more."""
    head = "(float[N,C] x, float[3] v) => (float[A,B] y, float[A] n, float[A] w)"
    weights = {"s": np.array([-1.0, 0.5, 2.0]), "b": np.ones(3), "m": np.zeros(3), "k": np.array(0.9)}
    before = model(f"{head} {{ y, n, w = BatchNormalization <training_mode = 1> (x, s, b, m, v) }}", weights, opset=17)
    nodes = """
        mean = ReduceMean <axes = [0]> (x)  kept = Mul (m, k)  flat = Squeeze (mean, axes)  added = Mul (flat, rest)
        n = Add (kept, added)  c = Sub (x, mean)  q = Mul (c, c)  kept2 = Mul (v, k)  flat2 = Squeeze (q, axes)
        added2 = Mul (flat2, rest)  w = Add (kept2, added2)  e = Add (q, epsilon)  d = Sqrt (e)  f = Div (s, d)
        g = Mul (c, f)  y = Add (g, b)
    """
    weights |= {"axes": np.array([0]), "rest": np.array(1 - np.float32(0.9)), "epsilon": np.array(1e-5)}
    after = model(f"{head} {{ {nodes} }}", weights, opset=17)
    for proto in (before, after):
        for size in proto.graph.input[0].type.tensor_type.shape.dim:
            size.Clear()
        for info in (proto.graph.input[1], *proto.graph.output):
            info.type.tensor_type.ClearField("shape")
    verdict = verify(ir.load(before), ir.load(after), depth="local", runtime="none")
    assert verdict.status == "failed", verdict.reason


def test_a_table_that_the_rewritten_model_takes_whole_tells_no_size() -> None:
    """The first sizes that are tried are beyond its rows."""
    nodes = "s = Shape (x)  n = Gather (s, two)  r = Range (zero, n, one)  t = {} y = Sub (x, t)"
    weights = {"T": np.ones((4, 6)), "zero": np.array(0), "one": np.array(1), "two": np.array(2)}
    for size, status in (("N", "failed"), ("?", "unverified")):
        head = f"(float[3,2,{size},6] x) => (float[3,2,?,6] y)"
        ways = "Gather (T, r)", "Identity (T)"
        before, after = (ir.load(model(f"{head} {{ {nodes.format(way)} }}", weights)) for way in ways)
        assert verify(before, after, depth="local", runtime="none").status == status


@pytest.mark.parametrize(("most", "expected"), [(10 << 20, [2, 1]), (1 << 20, [2])])
def test_sizes_at_which_a_region_makes_much_of_little_are_left_out(
    most: int, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch larger than the sides that an operator names would make hundreds of millions of elements.

    Two rows are compared; if they make very many elements and show all faults, no other sizes are.
    """
    channels, filters, side, grown_side = 4, 8, 9, 361
    monkeypatch.setattr("bnfold.verification.subgraphs.verifier.LARGEST_HELD", most)
    batches: list[int] = []
    attempt = SubgraphPair.attempt

    def counted(subgraphs: SubgraphPair, feeds: DrawnFeeds, numbers: NumberKind, *, guessed: bool) -> PartOutcome:
        batches.append(len(feeds["x"]))
        return attempt(subgraphs, feeds, numbers, guessed=guessed)

    monkeypatch.setattr(SubgraphPair, "attempt", counted)
    head = f"(float[N,{channels},{side},{side}] x) => (float[N,{filters},U,V] y)"
    grown = f"ConvTranspose <strides = [2, 2], output_shape = [{grown_side}, {grown_side}]>"
    cut_out = "Slice (c, starts, ends, axes)"
    rng = numbers(0)
    weight, stats = rng.normal(0.0, 1.0, (channels, filters, 3, 3)), statistics(rng, filters)
    places = {"starts": np.array([1, 1]), "ends": np.full(2, grown_side - 1), "axes": np.array([2, 3])}
    s, t = affine(stats)
    before = f"{head} {{ c = {grown} (x, W)  d = {cut_out}  y = {BN} (d, scale, B, mean, var) }}"
    after = f"{head} {{ c = {grown} (x, W, b)  y = {cut_out} }}"
    verdict = verify(
        ir.load(model(before, {"W": weight, **stats, **places})),
        ir.load(model(after, {"W": weight * along(s, 1, 4), "b": t, **places})),
        cuts=[ir.Cut("", ("x",), ("y",), "fold")],
        depth="local",
    )
    assert verdict.verified, verdict.reason
    assert list(dict.fromkeys(batches)) == expected


def test_an_index_that_means_the_same_at_one_size_only_is_found() -> None:
    """Row 2 of four is row -2; that there are fewer rows than three tells nothing."""
    body = "(float[N,5] x) => (float[1,5] y) { y = Gather (x, i) }"
    before, after = (ir.load(model(body, {"i": np.array([index])})) for index in (2, -2))
    assert verify(before, after, depth="local", runtime="none").status == "failed"


def test_a_weight_that_is_drowned_by_nan_is_not_verified() -> None:
    body = "(float[N,2,4] x) => (float[N,2,4] z) { y = Add (x, b)  z = Sqrt (y) }"
    before, after = (model(body, {"b": single(np.array([[far], [2]]))}) for far in (-1e9, -2e9))
    (row,) = check(before, after, ir.Cut("", ("x",), ("z",), "fold"))
    assert row.status == "skipped"
    assert "NaN or infinite" in row.note


def test_a_variance_is_positive_whatever_else_it_is() -> None:
    body = f"(float[N,2,4] x, float[2] v) => (float[N,2,4] y) {{ d = {BN} (x, v, v, v, w)  y = {BN} (d, s, b, m, v) }}"
    stats = {"s": [1, 1], "b": [1, 0], "m": [0, 0], "w": [1, 1]}
    loaded = ir.load(model(body, {name: single(np.asarray(numbers)) for name, numbers in stats.items()}))
    drawn = [random_feeds(loaded, {"x": (2, 2, 4), "v": (2,)}, seed, 0)["v"] for seed in range(8)]
    assert min(array.min() for array in drawn) > 0


def test_what_is_a_constant_on_one_side_is_not_fed_on_the_other() -> None:
    head = "(float[3] a, float[4,3] x) => (float[4,3] y) {{ v = {} y = Add (x, v) }}"
    before = model(head.format("Mul (h, k)").replace("{ v", "{ n = Sub (a, a) h = Exp (n) v"), {"k": np.arange(3.0)})
    for factor, status in ((1.0, "verified"), (1.5, "failed")):
        after = model(head.format("Identity (w)"), {"w": factor * np.arange(3.0)})
        (row,) = check(before, after, ir.Cut("", ("x", "v"), ("y",), "Add"))
        assert row.status == status


def test_numbers_of_rank_0_are_as_exact_as_others() -> None:
    head = "(float x, float a, float b) => (float y, float z) {{ {} z = Reciprocal (x) }}"
    before = model(head.format("u = Add (a, k) v = Add (u, b) y = Sub (v, x)"), {"k": np.array(0.0)})
    after = model(head.format("v = Add (a, b) y = Sub (v, x)"), {})
    verdict = verify(ir.load(before), ir.load(after), runtime="none", samples=10)
    assert verdict.verified
    assert max(row.relative for row in verdict.outputs) == max(row.relative for row in verdict.local) == 0


SUMS = "(float[1] x, float[3,1,2,2] a) => (float[1] y, float[3,1,2,2] z) {{ s = Neg (x) r = Neg (a) {} }}"


def test_an_epsilon_that_rounding_takes_away_accuses_nobody_where_all_is_zero() -> None:
    before = model(SUMS.format("u = Add (s, k) y = Add (u, x) v = Add (r, k) z = Add (v, a)"), {"k": np.array([1e-16])})
    after = model(SUMS.format("y = Add (s, x) z = Add (r, a)"), {})
    cuts = [ir.Cut("", ("s", "x"), ("y",), "scalar"), ir.Cut("", ("r", "a"), ("z",), "one channel")]
    assert [row.status for row in check(before, after, *cuts)] == ["verified", "verified"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("u = Add (s, k) y = Div (x, u)", "y = Div (x, s)"),  # nothing by nothing
        ("u = Add (s, k) t = Log (u) y = Add (t, x)", "t = Log (s) y = Add (t, x)"),
        ("u = Add (s, l) y = Add (u, x)", "y = Add (s, x)"),  # not beside 1
    ],
)
def test_an_epsilon_that_keeps_from_a_pole_or_shows_is_missed(old: str, new: str) -> None:
    rest = " z = Neg (r)"
    before = model(SUMS.format(old + rest), {"k": np.array([1e-16]), "l": np.array([1e-5])})
    (row,) = check(before, model(SUMS.format(new + rest), {}), ir.Cut("", ("s", "x"), ("y",), "epsilon"))
    assert row.status == "failed"


@pytest.mark.parametrize(
    ("target", "status"), [([0, 1, -1, 6], "verified"), ([0, 1, 5, 6], "failed"), ([0, 6, -1, 1], "failed")]
)
def test_a_size_that_a_slice_takes_needs_no_other_end(target: list[int], status: str) -> None:
    """A later end, or another step, takes the same of one size: that it would not show is no doubt."""
    nodes = """s = Shape (r)  w = Slice (s, three, four, zero, one)  t = Concat <axis = 0> (first, w, six)
        z = Reshape (r, t)"""
    head = "(float[N,6,1,W] x) => (float[N,1,W,6] y) { r = Relu (x)  {nodes}  y = Neg (z) }"
    sizes = {"zero": 0, "one": 1, "three": 3, "four": 4, "six": 6}
    old = {**{name: np.array([size]) for name, size in sizes.items()}, "first": np.array([0, 1])}
    before = model(head.replace("{nodes}", nodes), old)
    after = model(head.replace("{nodes}", "z = Reshape (r, target)"), {"target": np.array(target)})
    assert check(before, after, ir.Cut("", ("r",), ("z",), "size"))[0].status == status


@pytest.mark.parametrize(("end", "status"), [(2**63 - 1, "verified"), (5, "failed")])
def test_a_slice_that_takes_all_there_is_does_so_along_any_axis(end: int, status: str) -> None:
    """Without it as well, whatever axis it names."""
    head = "(float[N,4,L] x) => (float[N,4,M] y)"
    part = {"zero": np.array([0]), "one": np.array([1]), "two": np.array([2])}
    taken = "c = Relu (x)  {0}  y = Slice ({1}, zero, two, one)"
    before = taken.format("a = Slice (c, start, end, axis)", "a")
    gone = {"start": np.array([0]), "end": np.array([end]), "axis": np.array([0])}
    both = (
        model(f"{head} {{ {before} }}", {**part, **gone}),
        model(f"{head} {{ {taken.format('', 'c')} }}", part),
    )
    assert verify(*map(ir.load, both), depth="local", runtime="none").status == status


@pytest.mark.parametrize(("wrong", "status"), [(1.0, "verified"), (1 + 1e-4, "failed")])
def test_where_a_result_saturates_large_activations_are_drawn_smaller(wrong: float, status: str) -> None:
    """Beside sums of thousands, rounding decides what is left of a small one, and Erf ends at 1."""
    head = "(float[N,64,H,W] x) => (float[N,2048,H,W] y) {{ {} }}"
    weight = single(numbers(3).normal(size=(2048, 64, 1, 1)))
    before = model(
        head.format("c = Conv (x, W)  d = Div (c, k)  y = Erf (d)"), {"W": weight, "k": single(np.array(2**0.5))}
    )
    folded = weight / float(single(np.array(2**0.5))) * wrong
    after = model(head.format("d = Conv (x, W)  y = Erf (d)"), {"W": folded})
    assert check(before, after, ir.Cut("", ("x",), ("y",), "fold"))[0].status == status


def test_numbers_of_every_kind_at_the_first_sizes_and_of_one_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attempt, seen = SubgraphPair.attempt, list[tuple[int, ...]]()

    def noted(self: SubgraphPair, feeds: DrawnFeeds, numbers: NumberKind, *, guessed: bool) -> PartOutcome:
        seen.append(feeds["x"].shape)
        return attempt(self, feeds, numbers, guessed=guessed)

    monkeypatch.setattr(SubgraphPair, "attempt", noted)
    head = "(float[N,64,H,W] x) => (float[a,b,c,d] y)"
    strided = "kernel_shape = [2,2], strides = [2,2]"
    before = model(f"{head} {{ h = Relu (x)  y = MaxPool <{strided}> (h) }}", {})
    after = model(f"{head} {{ h = MaxPool <{strided}> (x)  y = Relu (h) }}", {})
    assert [row.status for row in check(before, after, ir.Cut("", ("x",), ("y",), "moved"))] == ["verified"]
    first, *others = dict.fromkeys(seen)
    assert seen.count(first) == len(SAMPLE_KINDS)
    assert others
    assert all(seen.count(other) == 1 for other in others)


ENDS = {
    "zero": np.array([0, 0]),
    "end": np.array([-4, -4]),
    "z": np.array([0]),
    "e": np.array([-4]),
    "one": np.array([1]),
}


@pytest.mark.parametrize(("far", "status"), [(-4, "verified"), (-5, "failed")])
def test_a_slice_that_is_empty_at_small_sizes_is_compared_at_larger_ones(far: int, status: str) -> None:
    """Both axes have to be longer than what is left out, at once."""
    head = "(float[a,b] x) => (float[c,d] y)"
    before = model(f"{head} {{ u = Relu (x) v = Slice (u, zero, end) y = Neg (v) }}", ENDS)
    text = f"{head} {{ u = Relu (x) t = Slice (u, z, e, z) v = Slice (t, z, far, one) y = Neg (v) }}"
    verdict = verify(ir.load(before), ir.load(model(text, {**ENDS, "far": np.array([far])})), depth="local")
    assert verdict.status == status, verdict.reason


def test_a_value_that_is_empty_in_every_run_is_equal_without_a_comparison() -> None:
    """What is left of a shape beyond its last size, as PyTorch exports it; a lower opset writes the Slice otherwise."""
    shape = "t = Transpose <perm = [1, 0, 2]> (x) s = Shape (t)"
    nodes = f"m = Mod (k, l) {shape} v = Slice (s, m, f) y = Concat <axis = 0> (v, s)"
    constants = {"k": np.array([7]), "l": np.array([4]), "f": np.array([2**63 - 1])}
    before = model(f"(float[2,3,4] x) => (int64[n] y) {{ {nodes} }}", constants)
    outcome = bnfold.convert(before, opset=9, verify=bnfold.VerifyOptions(depth="local"))
    assert outcome.verified, outcome.verdict


@pytest.mark.parametrize(("size", "status"), [(5, "verified"), (4, "failed")])
def test_what_only_gives_sizes_that_are_the_same_in_every_run_is_not_computed(
    monkeypatch: pytest.MonkeyPatch, size: int, status: str
) -> None:
    from bnfold.reference.work import Work

    computed: list[str] = []
    add = Work.add

    def noted(self: Work, node: ir.Node, *given: Any) -> None:
        computed.append(node.op_type)
        add(self, node, *given)

    monkeypatch.setattr(Work, "add", noted)
    head = "(float[N,3,5,5] x, float[N,20] z) => (float[N,A,B] y)"
    sizes = "c = Conv (x, w)  s = Shape (c)  g = Gather (s, two)  t = Concat <axis = 0> (b, g, rest)"
    rows = "n = Shape (z)  b = Gather (n, zero)"
    weights = {"w": np.ones((4, 3, 1, 1)), "two": np.array([2]), "zero": np.array([0]), "rest": np.array([-1])}
    before = model(f"{head} {{ {rows}  {sizes}  y = Reshape (z, t) }}", weights)
    given = {"k": np.array([size, -1]), "zero": np.array([0])}
    after = model(
        f"{head} {{ {rows}  t = Concat <axis = 0> (b, k)  r = Reshape (z, t)  m = Neg (r)  y = Neg (m) }}", given
    )
    verdict = verify(ir.load(before), ir.load(after), depth="local", runtime="none")
    assert verdict.status == status, verdict.reason
    assert "Conv" not in computed
    assert "Reshape" in computed
