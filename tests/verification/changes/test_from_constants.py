from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from bnfold import analysis, ir, reference
from bnfold.analysis import evaluators
from bnfold.verification import verify
from bnfold.verification.changes import from_constants
from bnfold.verification.changes.boundaries import uncovered
from tests.verification.graphs import Weights, model, single

HEAD = "(float[N,3] x) => (float[N,M] y)"
FILLED = "w = ConstantOfShape <value = {value}> (dims) y = MatMul (x, w)"
DIMS: Weights = {"dims": np.array([3, 5])}
STORED = model(f"{HEAD} {{ y = MatMul (x, w) }}", {"w": np.full((3, 5), 0.5)})


@pytest.fixture(params=[1 << 26, 4], ids=["small", "larger than what is evaluated"], autouse=True)
def _limit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluators, "LIMIT", request.param)


def fill(value: str = "float[1] {0.5}", weights: Weights | None = None, inputs: str = "") -> onnx.ModelProto:
    body = f"{HEAD.replace('x)', f'x{inputs})')} {{ {FILLED.format(value=value)} }}"
    return model(body, DIMS if weights is None else weights)


def stored(array: Any, name: str = "w") -> onnx.ModelProto:
    return model(f"{HEAD} {{ y = MatMul (x, {name}) }}", {name: array})


def differ(one: onnx.ModelProto, other: onnx.ModelProto) -> bool:
    found = [any(uncovered(ir.load(before), ir.load(after), ())) for before, after in ((one, other), (other, one))]
    assert found[0] is found[1]
    return found[0]


@pytest.mark.parametrize("name", ["w", "another"])
def test_a_fill_may_be_stored_and_the_reverse(name: str) -> None:
    assert not differ(fill(), stored(np.full((3, 5), 0.5), name))
    verdict = verify(ir.load(fill()), ir.load(stored(np.full((3, 5), 0.5), name)), depth="local")
    assert verdict.verified, verdict.reason
    assert verdict.local == ()


def test_a_fill_without_a_value_is_zero() -> None:
    body = f"{HEAD} {{ w = ConstantOfShape (dims) y = MatMul (x, w) }}"
    assert not differ(model(body, DIMS), stored(np.zeros((3, 5))))
    assert differ(model(body, DIMS), stored(-np.zeros((3, 5))))


@pytest.mark.parametrize("name", ["w", "another"])
@pytest.mark.parametrize(
    ("value", "array"),
    [
        pytest.param("float[1] {0.5}", np.where(np.arange(15) == 14, 0.25, 0.5).reshape(3, 5), id="one element"),
        pytest.param("int32[1] {0}", np.zeros((3, 5)), id="type of the same bits"),
        pytest.param("float[1] {0.5}", np.full((5, 3), 0.5), id="shape"),
        pytest.param("float[1] {0.0}", np.full((3, 5), -0.0), id="sign of zero"),
        pytest.param("float[1] {nan}", np.full((3, 5), 0.5), id="NaN"),
        pytest.param("float[2] {0.5, 0.5}", np.full((3, 5), 0.5), id="two values"),
        pytest.param("float[1] {0.5}", np.full(15, 0.5), id="rank"),
    ],
)
def test_what_is_nearly_the_fill_is_a_change(value: str, array: Any, name: str) -> None:
    assert differ(fill(value), stored(array, name))


def test_a_fill_of_nan_is_what_has_the_same_bits() -> None:
    assert not differ(fill("float[1] {nan}"), stored(np.full((3, 5), np.nan)))


@pytest.mark.parametrize("dims", [[-3, -5], [3, 2**62]])
def test_no_shape_is_no_fill(dims: list[int]) -> None:
    assert differ(fill(weights={"dims": np.array(dims)}), stored(np.full((3, 5), 0.5)))


def test_where_a_caller_may_choose_the_size_it_is_no_fill() -> None:
    assert differ(fill(inputs=", int64[2] dims"), stored(np.full((3, 5), 0.5)))


def test_what_a_caller_may_override_is_no_fill() -> None:
    overridable = stored(np.full((3, 5), 0.5), "another")
    overridable.graph.input.append(onnx.helper.make_tensor_value_info("another", 1, [3, 5]))
    assert differ(fill(), overridable)


def test_a_fill_of_an_open_size_is_none() -> None:
    body = "(float[3,N] x) => (float[3,N] y) {{ {} y = Add (x, w) }}"
    made = model(body.format("s = Shape (x) w = ConstantOfShape <value = float[1] {0.5}> (s)"), {})
    assert differ(made, model(body.format(""), {"w": np.full((3, 1), 0.5)}))
    assert differ(made, model(body.format(""), {"w": np.full((3, 5), 0.5)}))


def test_a_fill_of_a_computed_size_may_be_stored() -> None:
    made = model(
        f"{HEAD} {{ dims = Concat <axis = 0> (a, b) {FILLED.format(value='float[1] {0.5}')} }}",
        {"a": np.array([3]), "b": np.array([5])},
    )
    assert not differ(made, stored(np.full((3, 5), 0.5)))
    assert differ(made, stored(np.full((3, 5), 0.25)))


@pytest.mark.parametrize("operator", ["ConstantOfShape", "Identity"])
def test_a_function_may_be_called_as_an_operator_is(operator: str) -> None:
    text = f"""<ir_version: 8, opset_import: ["" : 15, "ai.onnx" : 15]>
    g (int64[2] x) => (int64[2] y) {{{{ d = Constant <value = int64[2] {{{{2, 2}}}}> () {{}} y = Add (x, w) }}}}
    <domain: "ai.onnx", opset_import: ["" : 15]> {operator} (d) => (o) {{{{ o = Neg (d) }}}}"""
    made = onnx.parser.parse_model(text.format(f"w = {operator} (d)"))
    value = ir.load(made).graph.values["w"]
    assert analysis.constant(value) is None
    tensor = from_constants.fixed(value)
    assert tensor is not None
    assert tensor.numpy().tolist() == [-2, -2]


def test_what_a_function_is_told_is_no_constant() -> None:
    text = f"""<ir_version: 8, opset_import: ["" : 15, "own" : 1]>
    g {HEAD} {{ y = own.f <a : tensor = float[1] {{2.0}}> (x) }}
    <domain: "own", opset_import: ["" : 15]> f <a> (v) => (o)
    {{ d = Constant <value = int64[2] {{3, 5}}> () w = ConstantOfShape <value : tensor = @a> (d) o = MatMul (v, w) }}"""
    (function,) = ir.load(onnx.parser.parse_model(text)).functions
    assert from_constants.fixed(function.values["d"]) is not None
    assert from_constants.fixed(function.values["w"]) is None


TWO_READERS = (
    '(float[N,3] x) => (float[N,5] y, float[N,5] z) { q = Sign (fives) y = Pad (x, q) z = Pad <mode = "edge"> (x, q) }'
)
NUMBERS: Weights = {
    "a": np.array([0, 1]), "b": np.array([0, 1, 7]), "zero": np.array([0]), "four": np.array([4]),
    "fives": np.array([0, 5, 0, 5]),
}  # fmt: skip


def test_integers_are_computed_once_in_a_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    evaluate = reference.evaluate

    def watched(model: ir.Model, feeds: Any, outputs: Any = None, **options: Any) -> Any:
        asked.extend(outputs)
        return evaluate(model, feeds, outputs, **options)

    monkeypatch.setattr(reference, "evaluate", watched)
    kept = model(
        '(float[N,3] x) => (float[N,5] y, float[N,5] z) { y = Pad (x, q) z = Pad <mode = "edge"> (x, q) }',
        {"q": np.array([0, 1, 0, 1])},
    )
    assert not [*uncovered(ir.load(model(TWO_READERS, NUMBERS)), ir.load(kept), ())]
    assert asked == ["q"]
    assert not [*uncovered(ir.load(model(TWO_READERS, NUMBERS)), ir.load(kept), ())]
    assert asked == ["q", "q"], "nothing is remembered beyond a comparison"


def test_integers_in_bodies_follow_from_constants_too() -> None:
    body = (
        "(bool c, float[N,3] x) => (float[N,M] y) {{ y = If (c) <then_branch = t () => (float[N,A] u) {{ {} }},"
        " else_branch = e () => (float[N,B] v) {{ v = Identity (x) }}> }}"
    )
    nodes = "p = Concat <axis = 0> (a, b) q = Slice (p, zero, four) u = Pad (x, q)"
    made = model(body.format(nodes), NUMBERS)
    assert not differ(made, model(body.format("u = Pad (x, q)"), {"q": np.array([0, 1, 0, 1])}))
    assert differ(made, model(body.format("u = Pad (x, q)"), {"q": np.array([0, 1, 0, 2])}))


SHAPED = "(float[N] x) => (int64[D] y) {{ {} y = Add (s, s) }}"
TARGETS: Weights = {"t": np.array([2, 3]), "o": np.array([2, -1]), "k": np.array([0, 3]), "z": np.array([3, 2, 1])}
TARGETS |= {"w": np.ones((3, 5)), **{f"k{number}": np.array([number]) for number in (0, 1, 2, 3, 9)}}
TARGETS |= {"z2": np.array([1, 0]), "half": single(np.array(0.5)), "tenth": single(np.array(0.1))}


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ("r = Reshape (x, t) s = Shape (r)", [2, 3]),
        ("r = Reshape (x, t) e = Exp (r) n = Neg (e) s = Shape <start = 1> (n)", [3]),
        ("r = Reshape (x, t) h = Shape (r) c = ConstantOfShape (h) n = Neg (c) s = Shape (n)", [2, 3]),
        ("r = Reshape (x, t) h = Shape (r) g = Gather (h, d) s = Squeeze (g)", None),  # d is fed
        ("h = Shape (d) r = Reshape (x, h) s = Shape (r)", [1]),
        ("r = Reshape (x, t) v = Reshape (x, z) a = Add (r, v) h = Shape (a) s = Shape (h)", [3]),
        ("r = Reshape (x, o) v = Exp (r) h = Shape (v) s = Shape (h)", [2]),
        ("h = Shape (x) s = Shape (h)", [1]),
        ("r = Reshape (x, o) s = Shape (r)", None),
        ("r = Reshape (x, k) s = Shape (r)", None),
        ("r = Expand (x, t) s = Shape (r)", [2, 3]),
        ("m, r = Split (x) s = Shape (r)", None),
        ("r = Reshape (x, o) m = MatMul (r, w) h = Shape (m) s = Slice (h, k2, k9)", []),
        ("r = Reshape (x, o) h = Shape (r) s = Slice (h, k2, k9)", []),
        ("p = Reshape (x, o) r = Transpose <perm = [1, 0]> (p) h = Shape (r) s = Slice (h, k2, k9)", []),
        ("m = Mod (k9, k3) a = Add (m, k2) r = Reshape (x, o) h = Shape (r) s = Slice (h, a, k9)", []),
        ("r = Reshape (x, o) h = Shape (r) s = Slice (h, d, k9)", None),  # d is fed
        ("r = Transpose <perm = [1, 0]> (x) h = Shape (r) s = Slice (h, k1, k9)", None),
        ("h = Shape (x) s = Slice (h, k2, k9)", []),
        ("r = Reshape (x, o) h = Shape (r) g = Gather (h, z2) c = Cast <to = 6> (g) s = Slice (c, k0, k1)", None),
        ("r = Reshape (x, o) h = Shape (r) g = Gather (h, z2) c = Cast <to = 7> (g) s = Slice (c, k1, k2)", [2]),
        ("r = Reshape (x, o) h = Shape (r) a = Add (h, k2) g = Gather (a, k0) s = Mul (g, g)", [16]),
        ("r = Reshape (x, t) h = Shape (r) f = Cast <to = 1> (h) g = Mul (f, half) s = Cast <to = 7> (g)", [1, 1]),
        ("r = Reshape (x, t) h = Shape (r) f = Cast <to = 1> (h) g = Mul (f, tenth) s = Cast <to = 7> (g)", None),
    ],
)
def test_shapes_that_the_operators_tell_may_be_stored(made: str, expected: list[int] | None) -> None:
    body = SHAPED.replace("x)", "x, int64[1] d)", 1).format(made)
    value = ir.load(model(body, TARGETS, opset=15)).graph.values["s"]
    tensor = from_constants.fixed(value)
    assert (None if tensor is None else tensor.numpy().tolist()) == expected
    if expected is not None:
        before, after = model(body, TARGETS, opset=15), body.replace(made, "")
        assert not differ(before, model(after, {"s": np.array(expected, np.int64)}, opset=15))
        assert differ(before, model(after, {"s": np.array(expected or [0], np.int64) + 1}, opset=15))


def test_a_reshape_before_inputs_said_where_to_tells_no_shape() -> None:
    body = "(float[N] x) => (int64[D] y) { r = Reshape <shape = [2, 3]> (i) y = Shape (r) }"
    value = ir.load(model(body, {"i": np.array([2, 3, 1])}, opset=4)).graph.values["y"]
    assert from_constants.fixed(value) is None


SIZE = "s = Shape (x) i = Gather (s, at) b = Cast <to = 9> (i) y = Where (b, x, z) "
STATED = "b = Cast <to = 9> (i) y = Where (b, x, z) "


@pytest.mark.parametrize(
    ("declared", "at", "stated", "expected"),
    [
        ("2,N,3", 0, 2, "verified"),
        ("2,N,3", -1, 3, "verified"),
        ("2,N,3", 0, 0, "failed"),
        ("2,N,3", 1, 2, "verified"),  # nothing says that N is 2, but any size but 0 is true, and of 0 nothing is chosen
        ("2,N,3", 0, 3, "verified"),  # another size, and the same truth in every run
    ],
)
def test_a_size_that_an_input_declares_is_a_constant(declared: str, at: int, stated: int, expected: str) -> None:
    head = f"(float[{declared}] x) => (float[{declared}] y)"
    zeros: Weights = {"z": np.zeros((), np.float32)}
    before = model(f"{head} {{ {SIZE} }}", zeros | {"at": np.array(at)})
    after = model(f"{head} {{ {STATED} }}", zeros | {"i": np.array(stated)})
    for depth in ("auto", "local"):
        assert verify(ir.load(before), ir.load(after), depth=depth).status == expected


@pytest.mark.parametrize(
    ("nodes", "axis", "is_known"),
    [
        ("h = MatMul (x, w)  r = Tanh (h)", -1, True),
        ("h = MatMul (x, w)  b = Add (one, h)  r = Tanh (b)", -1, True),
        ("h = MatMul (x, x)  r = Add (h, bias)", -1, True),
        ("h = Tanh (x)  r = Add (h, one)", -1, False),
        ("h = MatMul (x, w)  r = Tanh (h)", 1, True),
        ("r = MatMul (x, x)", -1, False),
    ],
)
def test_sizes_that_weights_state_are_constants(nodes: str, axis: int, is_known: bool) -> None:
    weights = {"w": np.ones((6, 6)), "one": np.ones(1), "bias": np.ones(6), "at": np.array([axis])}
    text = f"(float[N,L] x) => (float[K,M] y) {{ {nodes}  s = Shape (r)  g = Gather (s, at)  y = Expand (r, g) }}"
    stored = text.replace("s = Shape (r)  g = Gather (s, at)", "")
    for size in (6, 5):
        changed = changes_of(model(text, weights), model(stored, {**weights, "g": np.array([size])}))
        assert bool(changed) is not (is_known and size == 6)


def changes_of(before: onnx.ModelProto, after: onnx.ModelProto) -> list[ir.Cut]:
    return [*uncovered(ir.load(before), ir.load(after), ())]


@pytest.mark.parametrize("by_sizes", [False, True])
def test_a_comparison_of_constants_of_any_size_is_one(by_sizes: bool) -> None:
    body = "(float[99] x) => (float[99] y) { h = Less (peak, lowest)  y = Where (h, peak, x) }"
    peak, lowest = np.where(np.arange(99) == 7, -np.inf, 0.0), np.array(np.finfo(np.float32).min)
    weights: Weights = {"peak": single(peak), "lowest": single(lowest)}
    proto = ir.load(model(body, weights))
    found = from_constants.fixed(proto.graph.values["h"], by_sizes=by_sizes)
    assert found is not None
    assert np.flatnonzero(found.numpy()).tolist() == [7]


TAKEN = "then_branch = t () => (int64[1] u) { u = Neg (two) }, else_branch = e () => (int64[1] v) { v = Abs (two) }"


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("c = Equal (two, two)", [-2]),
        ("s = Shape (x)  g = Gather (s, two)  c = Equal (g, two)", [2]),
        ("c = Less (x, x)", None),
    ],
)
def test_a_branch_that_is_always_taken_has_its_constants(condition: str, expected: list[int] | None) -> None:
    text = f"(float[N,3,7] x) => (float[M] y) {{ {condition}  z = If (c) <{TAKEN}>  y = Reshape (x, z) }}"
    read = ir.load(model(text, {"two": np.array([2])}))
    held = from_constants.fixed(read.graph.values["z"])
    assert (None if held is None else held.numpy().tolist()) == expected


@pytest.mark.parametrize("depth", ["auto", "full", "local"])
def test_an_if_that_decides_itself_is_a_fault(depth: Any) -> None:
    head = "(float[2] x) => (float[2] y) { s = Size (x)  c = Equal (s, two)"
    either = "<then_branch = t () => (bool u) { u = Not (c) }, else_branch = e () => (bool v) { v = Identity (c) }>"
    end = "w = Where (%s, x, x)  y = Neg (w) }"
    right = model(f"{head}  d = If (c) {either}  {end % 'd'}", {"two": np.array(2)})
    wrong = model(f"{head}  k = If (k) {either}  {end % 'k'}", {"two": np.array(2)})
    verdict = verify(ir.load(right), ir.load(wrong), depth=depth, runtime="none")
    assert verdict.status == "failed"
    assert "depend on themselves" in verdict.reason


def test_what_a_thousand_ifs_decide_is_not_followed() -> None:
    either = "<then_branch = t () => (bool u) {{ u = Not ({0}) }}, else_branch = e () => (bool v) {{ v = Abs ({0}) }}>"
    row = " ".join(f"c{i + 1} = If (c{i}) {either.format(f'c{i}')}" for i in range(1000))
    loaded = ir.load(
        model(f"(float[2] x) => (bool c1000) {{ s = Size (x)  c0 = Equal (s, two)  {row} }}", {"two": np.array(2)})
    )
    assert from_constants.fixed(loaded.graph.values["c1000"]) is None
