from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from bnfold import ir
from bnfold.verification import verify
from bnfold.verification.end_to_end import samples
from bnfold.verification.end_to_end.samples import Sample
from bnfold.verification.inputs.choices import Choice
from bnfold.verification.inputs.drawing import SAMPLE_KINDS
from tests.verification.graphs import Depth, model


@pytest.mark.parametrize(
    ("body", "index", "again"),
    [
        ("y = Div (x, x)", 3, True),
        ("l = Log (x)  y = Concat <axis = 0> (x, l)", 2, True),
        ("l = Log (x)  y = Concat <axis = 0> (x, l)", 3, False),
        ("l = Log (x)  y = Concat <axis = 0> (x, l)", 1, True),  # large: it may overflow
    ],
)
def test_a_sample_of_nan_is_drawn_again_unless_a_log_makes_it(
    body: str, index: int, again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def drawn(_request: Any, _pair: Any, _choice: Any, number: int, **_: bool) -> Sample:
        asked.append(number)
        return Sample({}, {"y": np.array([np.nan if number == index else 1.0])})

    monkeypatch.setattr(samples, "drawn", drawn)
    loaded = ir.load(model(f"(float[2,3,4,4] x) => (float[A,B,C,D] y) {{ {body} }}", {}))
    pair = cast(Any, SimpleNamespace(outputs=["y"]))
    first = Sample({}, {"y": np.ones(1)})
    found = samples.drawn_in_range(cast(Any, None), pair, Choice({"x": (2, 3, 4, 4)}, loaded), first, index)
    assert asked == ([index, 2 * len(SAMPLE_KINDS) * index] if again else [index])
    assert bool(np.isnan(found.expected["y"]).any()) is not again


@pytest.mark.parametrize("legal", [True, False])
def test_a_flag_is_turned_where_one_of_its_values_fits_nothing(legal: bool) -> None:
    """As of a body that only one of two shapes fits."""
    squeezed, negated = "t () => (float[A] p) { p = Squeeze (x) }", "e () => (float[A] q) { q = Neg (x) }"
    first, second = (squeezed, negated) if legal else (negated, squeezed)
    text = (
        "(float[1,3,4] x, bool c) => (float[M,4] y)"
        f" {{ a = If (c) <then_branch = {first}, else_branch = {second}>  b = MatMul (a, w)  y = Gemm (b, v) }}"
    )
    weights = {"w": np.eye(4), "v": np.eye(4) * 2, "one": np.ones(1)}
    texts = text, text.replace("MatMul (a, w)", "Mul (a, one)")
    before, after = (ir.load(model(each, weights)) for each in texts)
    verdict = verify(before, after, runtime="none", depth="full", samples=3)
    assert "identical" in verdict.reason, verdict.reason


@pytest.mark.parametrize("depth", ["auto", "full", "local"])
def test_flags_are_turned_at_other_sizes_too(depth: Depth) -> None:
    """A branch may fit all sizes where the other one fits few, so a flag that fits nothing is no reason to turn it."""
    text = (
        "(float[N,M] x, bool c) => (float[A,B] y) {{ n = Not (c)  w = If ({}) <then_branch = t () => (float[A,B] p)"
        " {{ p = {} (x) }}, else_branch = e () => (float[A,B] q) {{ q = Reshape (x, t) }}>  y = Neg (w) }}"
    )
    weights = {"t": np.array([3, 2]), "yes": np.array(True)}
    before, always = (ir.load(model(text.format(condition, "Neg"), weights)) for condition in ("n", "yes"))
    assert not verify(before, always, runtime="none", depth=depth).verified
    product = text.replace("Reshape (x, t)", "MatMul (x, v)")
    weights = {"v": np.eye(3), "t": np.array([2, 3])}
    taken = ("Identity (x)", "Expand (x, t)")
    before, other = (ir.load(model(product.replace("{} (x)", step).format("n"), weights)) for step in taken)
    assert not verify(before, other, runtime="none", depth=depth).verified


@pytest.mark.parametrize("depth", ["auto", "full", "local"])
def test_a_loop_without_a_turn_is_seen(depth: Depth) -> None:
    text = (
        "(float[2] x, bool c) => (float[2] y, float[S,2] z) {{ y, z = Loop (n, {}, x) <body = b (int64 i, bool d,"
        " float[2] p) => (bool e, float[2] q, float[2] r) {{ e = Identity (d)  q = Add (p, p)  r = Neg (q) }}> }}"
    )
    before, after = (ir.load(model(text.format(condition), {"n": np.array(3)})) for condition in ("c", '""'))
    assert not verify(before, after, runtime="none", depth=depth).verified


@pytest.mark.parametrize("depth", ["auto", "full", "local"])
@pytest.mark.parametrize("squeezes", [True, False])
def test_a_flag_is_turned_where_the_other_one_fits_no_size(squeezes: bool, depth: Depth) -> None:
    """The product takes three columns, and sizes are dynamic; a fault shows only where the model runs."""
    first, second = ("p = Neg (s)", "p = Transpose <perm = [0, 2, 1]> (s)")
    first, second = (first, second) if squeezes else (second, first)
    text = (
        "(float[N,2] x, bool c) => (float[A,B,C] y) {{ s = Reshape (x, t)  a = If (c) <then_branch = t ()"
        f" => (float[A,B,C] p) {{{{ {first} }}}}, else_branch = e () => (float[A,B,C] p) {{{{ {second} }}}}>"
        "  b = {}  y = MatMul (b, w) }}"
    )
    weights = {"t": np.array([3, 1, 2]), "w": np.array([[1.0, 2.0], [0.5, 3.0]]), "two": np.array(2.0)}
    steps = ("Add (a, a)", "Mul (a, two)", "Mul (a, a)")
    before, after, fault = (ir.load(model(text.format(step), weights)) for step in steps)
    assert verify(before, after, runtime="none", depth=depth).verified
    assert verify(before, fault, runtime="none", depth=depth).status == "failed"


@pytest.mark.parametrize("depth", ["auto", "full", "local"])
def test_a_condition_of_unknown_rank_is_one_truth(depth: Depth) -> None:
    text = (
        "(float[N,3] x, bool[] c) => (float[N,3] y) {{ a = If (c) <then_branch = t () => (float[N,3] p)"
        " {{ p = {} }}, else_branch = e () => (float[N,3] q) {{ q = Relu (x) }}>  y = Neg (a) }}"
    )
    steps = ("Add (x, x)", "Mul (x, two)", "Mul (x, x)")
    before, after, fault = (ir.load(model(text.format(step), {"two": np.array(2.0)})) for step in steps)
    assert verify(before, after, runtime="none", depth=depth).verified
    assert verify(before, fault, runtime="none", depth=depth).status == "failed"


@pytest.mark.parametrize("depth", ["auto", "full", "local"])
def test_integers_that_places_are_computed_from_are_not_made_smaller(depth: Depth) -> None:
    """Of 0 and 1, the product is the minimum."""
    text = "(float[8] x, int64 i, int64 k) => (float y) {{ j = {} (i, k)  l = Mul (j, three)  y = Gather (x, l) }}"
    before, after = (ir.load(model(text.format(made), {"three": np.array(3)})) for made in ("Mul", "Min"))
    assert not verify(before, after, runtime="none", depth=depth).verified


@pytest.mark.parametrize("depth", ["auto", "full"])
def test_a_bound_that_is_computed_is_of_both_signs(depth: Depth) -> None:
    text = "(float x) => (float[3] y) {{ b = Mul (x, two)  r = {} (b)  y = Clip (k, r) }}"
    weights = {"two": np.array(2.0), "k": np.array([5.0, 6.0, 7.0])}
    before, after = (ir.load(model(text.format(made), weights)) for made in ("Identity", "Abs"))
    assert verify(before, after, runtime="none", depth=depth).status == "failed"


def test_a_computed_bound_that_other_numbers_hide_is_far_on_both_sides() -> None:
    text = (
        "(float[1,16,64,64] d, float z) => (float[1,16,64,64] y)"
        " {{ e = Softplus (d)  h = Add (e, five)  q = {} (z)  l = Mul (q, two)  y = Clip (h, l) }}"
    )
    weights = {"two": np.array(2.0), "five": np.array(5.0)}
    before, after = (ir.load(model(text.format(made), weights)) for made in ("Identity", "Abs"))
    assert verify(before, after, runtime="none").status == "failed"
