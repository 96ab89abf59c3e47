"""If, Loop and Scan: captured values, carried values, scanned values."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from bnfold import ir, reference
from tests.reference.models import Array, floats

X = floats(1, 4, 3)


def run(text: str, **feeds: Array) -> dict[str, Array]:
    return reference.evaluate(ir.load(onnx.parser.parse_model(text)), feeds)


IF = """
    <ir_version: 8, opset_import: ["": 17]>
    g (bool c, float[4,3] x) => (float[4,3] y)
    <float[3] w = {1, 2, 3}>
    {
        a = Mul (x, w)
        y = If (c) <
            then_branch = t () => (float[4,3] ty) { ty = Add (a, w) },
            else_branch = e () => (a)
            { unused = Neg (a) }
        >
    }
"""


def test_if_captures_and_returns_outer_values() -> None:
    scaled = X.astype(float) * [1, 2, 3]
    np.testing.assert_array_equal(run(IF, c=np.array(1, bool), x=X)["y"], scaled + np.array([1, 2, 3]))
    np.testing.assert_array_equal(run(IF, c=np.array([0], bool), x=X)["y"], scaled)


LOOP = """
    <ir_version: 8, opset_import: ["": 17]>
    g (int64 n, bool go, float[3] x) => (float[3] last, float[k,3] all)
    <float[3] step = {{1, 2, 3}}>
    {{
        last, all = Loop ({trips}, {condition}, x) <
            body = b (int64 i, bool c, float[3] v) => (bool keep, float[3] next, float[3] scan)
            <float limit = {{4}}>
            {{
                next = Add (v, step)
                scan = Mul (next, step)
                f = CastLike (i, limit)
                keep = Less (f, limit)
            }}
        >
    }}
"""


@pytest.mark.parametrize(
    ("trips", "condition", "n", "go", "rounds"),
    [
        ("n", '""', 3, False, 3),
        ("n", '""', 9, False, 5),
        ("n", "go", 3, True, 3),
        ("n", "go", 9, True, 5),
        ('""', "go", 0, True, 5),
    ],
)
def test_loop(trips: str, condition: str, n: int, go: bool, rounds: int) -> None:
    x, step = X[0].astype(float), np.array([1.0, 2, 3])
    results = run(LOOP.format(trips=trips, condition=condition), n=np.array(n), go=np.array(go), x=X[0])
    np.testing.assert_allclose(results["last"], x + rounds * step, rtol=1e-15)
    np.testing.assert_allclose(results["all"], [(x + (k + 1) * step) * step for k in range(rounds)], rtol=1e-15)


def test_a_loop_without_a_turn_stacks_nothing_of_the_declared_shape() -> None:
    results = run(LOOP.format(trips="n", condition="go"), n=np.array(3), go=np.array(0, bool), x=X[0])
    np.testing.assert_array_equal(results["last"], X[0])
    assert results["all"].shape == (0, 3)
    assert results["all"].dtype == np.float64


def test_loops_that_say_nothing_for_certain_are_refused() -> None:
    unknown = LOOP.replace("float[3] scan)", "float[K] scan)")
    assert unknown != LOOP
    with pytest.raises(reference.CannotEvaluate, match="no iteration"):
        run(unknown.format(trips="n", condition="go"), n=np.array(3), go=np.array(0, bool), x=X[0])
    with pytest.raises(reference.CannotEvaluate, match="neither a trip count"):
        run(LOOP.format(trips='""', condition='""'), n=np.array(3), go=np.array(1, bool), x=X[0])


SCAN = """
    <ir_version: 8, opset_import: ["": {opset}]>
    g ({kind} h, {kind} x) => ({kind} last, {kind} all)
    <float[3] w = {{1, 2, 3}}>
    {{
        last, all = Scan {first} x) <
            {attrs},
            body = b (float[3] s, float[3] e) => (float[3] next, float[3] out)
            {{ m = Mul (e, w)  next = Add (s, m)  out = Identity (next) }}
        >
    }}
"""


def test_scan_backwards_over_another_axis() -> None:
    attrs = "num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1], scan_output_axes = [1]"
    text = SCAN.format(opset=17, kind="float[a,b]", first="(h,", attrs=attrs)
    results = run(text.replace("float[a,b] h", "float[3] h"), h=X[0], x=X[1:].copy())
    steps = (X[1:].astype(float) * np.array([[1.0], [2], [3]]))[:, ::-1]
    expected = X[0][:, None] + steps.cumsum(1)
    np.testing.assert_allclose(results["all"], expected, rtol=1e-15)
    np.testing.assert_allclose(results["last"], expected[:, -1], rtol=1e-15)


def test_scan_reverses_outputs() -> None:
    plain = SCAN.format(opset=17, kind="float[a,b]", first="(h,", attrs="num_scan_inputs = 1")
    turned = SCAN.format(
        opset=17, kind="float[a,b]", first="(h,", attrs="num_scan_inputs = 1, scan_output_directions = [1]"
    )
    one, other = (run(text.replace("float[a,b] h", "float[3] h"), h=X[0], x=X[1:]) for text in (plain, turned))
    np.testing.assert_array_equal(one["all"], other["all"][::-1])


def test_scan_8_has_a_batch() -> None:
    text = SCAN.format(opset=8, kind="float[a,b,c]", first='("", h,', attrs="num_scan_inputs = 1, directions = [1]")
    x, h = floats(2, 2, 4, 3), floats(3, 2, 3)
    results = run(text.replace("float[a,b,c] h", "float[2,3] h"), h=h, x=x)
    expected = h[:, None] + (x[:, ::-1].astype(float) * [1, 2, 3]).cumsum(1)
    np.testing.assert_allclose(results["all"], expected, rtol=1e-15)
    np.testing.assert_allclose(results["last"], expected[:, -1], rtol=1e-15)


def test_a_branch_that_is_not_taken_may_be_unsupported() -> None:
    text = IF.replace("unused = Neg (a)", "unused = ImageDecoder (a)").replace("ty = Add (a, w)", "ty = Bernoulli (a)")
    np.testing.assert_array_equal(run(text, c=np.array(0, bool), x=X)["y"], X.astype(float) * [1, 2, 3])
    with pytest.raises(reference.Random):
        run(text, c=np.array(1, bool), x=X)


def test_a_map_over_sequences_runs_its_body_for_every_element() -> None:
    text = """
        <ir_version: 8, opset_import: ["": 17]>
        main (float[2] a, float[3] b, float[1] c) => (float[2] y, float[3] z, int64 n) {
            both = SequenceConstruct (a, b)
            moved = SequenceMap <body = one (float[k] x, float[1] s) => (float[k] t) { t = Add (x, s) }> (both, c)
            i = Constant <value_int = 0> ()
            j = Constant <value_int = 1> ()
            y = SequenceAt (moved, i)
            z = SequenceAt (moved, j)
            none = SequenceEmpty ()
            kept = SequenceMap <body = two (float[k] x) => (float[k] t) { t = Neg (x) }> (none)
            n = SequenceLength (kept)
        }
    """
    a, b, c = floats(1, 2), floats(2, 3), floats(3, 1)
    results = run(text, a=a, b=b, c=c)
    np.testing.assert_allclose(results["y"], a.astype(float) + c, rtol=1e-12)
    np.testing.assert_allclose(results["z"], b.astype(float) + c, rtol=1e-12)
    assert results["n"] == 0
