"""What has no effect on any result asks for no evidence; what has one, and is otherwise alike, still does."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from bnfold import ir
from bnfold.verification import verify
from tests.verification.graphs import Depth, Weights, model

PLAIN = "(float[N,3] x) => (float[N,3] y)"
LIKE = {"w": np.array(3.0)}
SUM = "s = Add (x, one)  q = SequenceConstruct (x, s)  n = SequenceLength (q)  f = Cast <to = 1> (n)  y = Mul (x, f)"
HOT = {"at": np.array([2, 0]), "depth": np.array([3]), "values": np.array([-1.0, 2.0])}
HOT_ROWS = np.array([[0, 0, 2], [2, 0, 0]], np.float32)
MASKED = "m = Mul (x, w)  a = Add (m, x)  y = Where (mask, x, a)"
FILL = "s = Size (x)  f = Cast <to = 1> (s)  z = Sub (f, {minus})  a = Add (x, z)  y = Max (a, x)"


def status(before: onnx.ModelProto, after: onnx.ModelProto) -> str:
    return str(verify(ir.load(before), ir.load(after), runtime="none").status)


@pytest.mark.parametrize(
    ("head", "old", "new", "wrong", "weights"),
    [
        pytest.param(
            PLAIN,
            "m = Mean (x, x)  y = CastLike (m, w)",
            "m = Mean (x, x)  y = Cast <to = 1> (m)",
            "m = Mean (x, x)  i = Cast <to = 6> (m)  y = Cast <to = 1> (i)",
            LIKE,
            id="a value that is read for its type",
        ),
        pytest.param(
            PLAIN,
            SUM,
            "y = Mul (x, two)",
            "y = Mul (x, one)",
            {"one": np.array(1.0), "two": np.array(2.0)},
            id="members of a sequence that are counted",
        ),
        pytest.param(
            "(float[N] x) => (float[2,3] y, float[N] z)",
            "h = OneHot (at, depth, values)  y = Relu (h)  z = Neg (x)",
            "y = Identity (rows)  z = Neg (x)",
            "y = Identity (others)  z = Neg (x)",
            {**HOT, "rows": HOT_ROWS, "others": HOT_ROWS + np.eye(2, 3, dtype=np.float32)},
            id="floats that are computed from constants",
        ),
        pytest.param(
            PLAIN,
            MASKED,
            "y = Identity (x)",
            "m = Mul (x, w)  y = Add (m, x)",
            {"w": np.array(2.0), "mask": np.array([[True]])},
            id="an operand that is never chosen",
        ),
        pytest.param(
            PLAIN,
            "m = Mul (x, w)  y = Where (mask, m, m)",
            "y = Mul (x, w)",
            "m = Mul (x, w)  y = Where (mask, m, x)",
            {"w": np.array(2.0), "mask": np.array([[False]])},
            id="a choice between two values that are the same",
        ),
        pytest.param(
            PLAIN,
            "a = Add (x, zeros)  y = Min (a, x)",
            "y = Min (x, x)",
            "a = Add (x, half)  y = Min (a, x)",
            {"zeros": np.zeros((1, 1)), "half": np.full((1, 1), -0.5)},
            id="zeros that are added",
        ),
        pytest.param(
            "(float[2,3] x) => (float[2,3] y)",
            FILL.format(minus="six"),
            "y = Max (x, x)",
            FILL.format(minus="five"),
            {"six": np.array(6.0), "five": np.array(5.0)},
            id="a zero that is computed from sizes",
        ),
        pytest.param(
            "(float[2,1,W] x) => (float[2,1,V] y)",
            "s = Shape (x)  n = Gather (s, one)  r = Range (zero, n, one)  t = Gather (table, r)"
            "  a = Add (x, t)  b = Mul (a, two)  y = MaxPool <kernel_shape = [2]> (b)",
            "a = Mul (x, two)  b = Add (a, first)  y = MaxPool <kernel_shape = [2]> (b)",
            "a = Mul (x, two)  b = Add (a, second)  y = MaxPool <kernel_shape = [2]> (b)",
            {
                "zero": np.array(0),
                "one": np.array(1),
                "two": np.array(2.0),
                "table": np.array([[[1.5]], [[2.5]]]),
                "first": np.array([[[3.0]]]),
                "second": np.array([[[5.0]]]),
            },
            id="rows beyond a size that never changes",
        ),
        pytest.param(
            "(float[2,3,4,V] x) => (float[2,3,4,V] y)",
            "s = Shape (x)  n = Gather (s, zero)  r = Range (zero, n, one)  i = Reshape (r, column)"
            "  t = GatherND (table, i)  y = Max (x, t)",
            "y = Max (x, first)",
            "y = Max (x, others)",
            {
                "zero": np.array(0),
                "one": np.array(1),
                "column": np.array([-1, 1]),
                "table": np.arange(36.0).reshape(3, 3, 4, 1) - 30,
                "first": np.arange(24.0).reshape(2, 3, 4, 1) - 30,
                "others": np.arange(24.0).reshape(2, 3, 4, 1) - 2,
            },
            id="tuples that never change",
        ),
    ],
)
def test_what_has_no_effect(head: str, old: str, new: str, wrong: str, weights: Weights) -> None:
    before, after, fault = (model(f"{head} {{ {body} }}", weights, opset=18) for body in (old, new, wrong))
    assert status(before, after) == "verified"
    assert status(before, fault) != "verified"


def test_a_mask_that_callers_feed_may_choose_anything() -> None:
    weights = {"w": np.array(2.0)}
    before = model(f"{PLAIN[:-1]}) {{ {MASKED} }}".replace("x)", "x, bool[1,1] mask)", 1).replace("))", ")"), weights)
    after = model(PLAIN.replace("x)", "x, bool[1,1] mask)", 1) + " { y = Identity (x) }", weights)
    for each in (before, after):
        each.graph.initializer.append(onnx.numpy_helper.from_array(np.array([[True]]), "mask"))
    assert status(before, after) != "verified"


TURNS = """(float[2,3] x, int64 n) => (float[2,3] y) {{
    {made}
    {d} = Loop (n, yes, m) <body = turn (int64 i, bool go, float[2,3] state) => (bool on, float[2,3] sum) {{
        on = {on}
        sum = Add (state, two)
    }}>
    y = Relu ({d})
}}"""


@pytest.mark.parametrize(
    ("d", "on", "expected"),
    [("e", "Identity (go)", "verified"), ("e", "Not (go)", "failed"), ("d", "Not (go)", "failed")],
)
def test_a_loop_that_hands_on_its_condition(d: str, on: str, expected: str) -> None:
    weights = {"two": np.array(2.0), "yes": np.array(True)}
    before = model(TURNS.format(made="m = Mul (x, two)", d="d", on="Identity (go)"), weights, opset=18)
    after = model(TURNS.format(made="m = Add (x, x)", d=d, on=on), weights, opset=18)
    assert status(before, after) == expected


CALLS = """<ir_version: 8, opset_import: ["": 18, "own": 1]>
g (float[2,3] x) => (float[2,3] y) {{ y = own.Block <ratio = {ratio}, alpha = {alpha}> (x) }}
<domain: "own", opset_import: ["": 18]>
Block <ratio, alpha> (a) => (c) {{ b = Dropout <ratio = @ratio> (a)  c = Elu <alpha = @alpha> (b) }}"""


@pytest.mark.parametrize(("ratio", "alpha", "expected"), [(0.25, 2.0, "verified"), (0.5, 3.0, "failed")])
def test_an_attribute_that_a_function_does_not_use(ratio: float, alpha: float, expected: str) -> None:
    """Outside training, a Dropout of opset 13 has no ratio."""
    old = CALLS.replace("18", "11").format(ratio=0.5, alpha=2.0)
    new = CALLS.replace("18", "11").format(ratio=ratio, alpha=alpha)
    before, after = map(onnx.parser.parse_model, (old, new))
    assert status(before, after) == expected


TENTH = "a = Mul (tenth, ten)  g = Ceil (a)  y = Mul (x, g)"
SUMMED = "a = Add (tenth, fifth)  g = Equal (a, third)  c = Cast <to = 1> (g)  y = Max (x, c)"
HUGE = "a = Mul (huge, huge)  g = IsInf (a)  c = Cast <to = 1> (g)  y = Max (x, c)"
STEPS = {"tenth": 0.1, "fifth": 0.2, "third": 0.3, "ten": 10.0, "two": 2.0, "zero": 0.0, "huge": 1e30}


@pytest.mark.parametrize("depth", ["auto", "full", "local"])
@pytest.mark.parametrize(("old", "new"), [(TENTH, "Mul (x, two)"), (SUMMED, "Max (x, zero)"), (HUGE, "Max (x, zero)")])
def test_constants_that_rounding_decides_are_not_one_constant(old: str, new: str, depth: Depth) -> None:
    """In float32, a tenth times ten is 1, as the sum of the others is three tenths; in float64, neither is."""
    weights = {name: np.array(number) for name, number in STEPS.items()}
    before, after = (model(f"{PLAIN} {{ {body} }}", weights, opset=17) for body in (old, f"y = {new}"))
    assert not verify(ir.load(before), ir.load(after), runtime="none", depth=depth).verified
