"""A constant that several nodes read, whose change at all of them cancels, need only show at each of them."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from onnx import numpy_helper

import bnfold
from bnfold import ir
from bnfold.verification import verify
from tests.simplifying.small import model

SIZES = "s = Shape (x) g = Gather (s, zero)"
ENDS = "c = Concat <axis = 0> (n, rest) y = Reshape (x, c)"
NUMBERS = "int64[1] zero = {0}, int64[1] none = {0}, int64[1] rest = {-1}, int64[1] two = {2}"


def verdict(body: str, one: str, target: list[int]) -> str:
    """What is said of a Reshape to stored sizes, in place of one to computed sizes."""
    head = "(float[N,4,6] x) => (float[A,B] y)"
    before = model(head, f"{SIZES} {body} {ENDS}", f"{NUMBERS}, {one}")
    after = model(head, "y = Reshape (x, c)")
    after.graph.initializer.append(numpy_helper.from_array(np.array(target), "c"))
    return str(bnfold.verify(before, after).status)


@pytest.mark.parametrize(
    ("body", "one"),
    [
        ("a = Mul (g, o) n = Div (a, o)", "int64[1] o = {1}"),
        ("a = Mul (o, g) n = Div (a, o)", "int64 o = {1}"),
        ("a = Add (g, o) n = Sub (a, o)", "int64[1] o = {0}"),
        ("a = Add (g, o) n = Sub (a, o)", "int64[1] o = {3}"),
        ("a = Mul (g, o) n = Div (a, o)", "int64[1] o = {2}"),
        (
            "a = Slice (s, zero, o) b = Slice (s, o, two) d = Concat <axis = 0> (a, b) n = Gather (d, none)",
            "int64[1] o = {1}",
        ),
    ],
)
def test_changes_that_cancel(body: str, one: str) -> None:
    assert verdict(body, one, [0, -1]) == "verified"
    assert verdict(body, one, [2, -1]) == "failed"


def test_a_use_at_which_no_change_shows() -> None:
    body = "a = Mul (g, o) b = Div (a, o) t = Sub (g, o) i = Mul (t, none) n = Add (b, i)"
    assert verdict(body, "int64[1] o = {2}", [0, -1]) == "unverified"


def test_a_use_that_makes_a_difference() -> None:
    assert verdict("a = Mul (g, o) n = Sub (a, o)", "int64[1] o = {1}", [0, -1]) == "failed"


@pytest.mark.parametrize(
    ("dim", "stored", "expected"),
    [("1", [0, 1, -1], "verified"), ("1", [0, 2, -1], "failed"), ("M", [0, 1, -1], "failed")],
)
def test_a_size_of_1_that_is_copied(dim: str, stored: list[int], expected: str) -> None:
    """A Reshape that copies a size of 1 is equivalent to one that states it, so that 1 for 0 shows nowhere."""
    sizes = "r = Reshape (x, t) s = Shape (r) g = Gather (s, both) c = Concat <axis = 0> (g, rest) f = Flatten (x)"
    head = f"(float[N,{dim},2,3] x) => (float[A,B,C] y)"
    before = model(
        head, f"{sizes} y = Reshape (f, c)", "int64[3] t = {0, 0, -1}, int64[2] both = {0, 1}, int64[1] rest = {-1}"
    )
    after = model(head, "f = Flatten (x) y = Reshape (f, c)")
    after.graph.initializer.append(numpy_helper.from_array(np.array(stored), "c"))
    assert bnfold.verify(before, after).status == expected


@pytest.mark.parametrize(("dtype", "expected"), [("int32", "verified"), ("uint8", "failed")])
def test_integers_that_are_multiplied_and_divided(dtype: str, expected: str) -> None:
    """Small ones may wrap around: then other factors do not cancel."""
    head = f"({dtype}[N,4] x) => ({dtype}[N,4] y)"
    before = model(head, "a = Mul (x, o) b = Div (a, o) y = Mul (b, b)", f"{dtype} o = {{3}}")
    after = model(head, "y = Mul (x, x)")
    assert bnfold.verify(before, after).status == expected
    after = model(head, "b = Mul (x, x) y = Div (b, o)", f"{dtype} o = {{2}}")
    assert bnfold.verify(before, after).status == "failed"


@pytest.mark.parametrize(
    ("target", "expected"),
    [("far, n", "verified"), ("n, far", "failed"), ("zero, n", "verified")],
)
def test_an_inferred_size_that_is_put_beside_others(target: str, expected: str) -> None:
    """A 0 in place of the -1 would copy the same size."""
    before = model(
        "(int64[N,M] x) => (float[A,B,2] y)",
        f"s = Shape (x) n = Gather (s, one) t = Concat <axis = 0> ({target}) r = Reshape (x, t) y = Gather (w, r)",
        "int64[1] one = {1}, int64[1] far = {-1}, int64[1] zero = {0}, float[3,2] w = {1, 2, 3, 4, 5, 6}",
    )
    after = model("(int64[N,M] x) => (float[A,B,2] y)", "y = Gather (w, x)", "float[3,2] w = {1, 2, 3, 4, 5, 6}")
    assert bnfold.verify(before, after).status == expected


@pytest.mark.parametrize(("size", "expected"), [(4, "verified"), (2, "failed")])
def test_what_only_a_size_that_never_changes_is_computed_from(size: int, expected: str) -> None:
    """The numbers of a table, and how often it is repeated, have no effect on how wide it is."""
    head = "(float[N,4] x, float[N,2,2] z) => (float[A,B] y)"
    before = model(
        head,
        "s = Shape (x) n = Gather (s, zero) e = Concat <axis = 0> (n, four) w = Expand (t, e) "
        "j = Concat <axis = 0> (w, x) u = Shape (j) k = Gather (u, one) d = Concat <axis = 0> (far, k) "
        "y = Reshape (z, d)",
        "int64[1] zero = {0}, int64[1] one = {1}, int64[1] four = {4}, int64[1] far = {-1}, float t = {0.5}",
    )
    after = model(head, "y = Reshape (z, d)", f"int64[2] d = {{-1, {size}}}")
    assert bnfold.verify(before, after).status == expected


BESIDE = "s = Shape (x) n = Gather (s, one) d = Sub (k, n) p = Concat <axis = 0> (z, z, z, d)"
HIDDEN = {
    "a size that inputs seldom have": (
        "(float[N,S] x) => (float[N,Q] y)",
        f"{BESIDE} l = Pad (x, p) e = Sub (k, d) y = Slice (l, z, e, one)",
        "int64[1] k = {{{}}}, int64[1] z = {{0}}, int64[1] one = {{1}}",
        (512, 1024),
    ),
    "a size beyond the padded one": (
        "(float[N,S] x) => (float[A,B] y)",
        BESIDE.replace("d = Sub (k, n)", "m = Max (n, k) d = Sub (m, k)") + " y = Pad (x, p)",
        "int64[1] k = {{{}}}, int64[1] z = {{0}}, int64[1] one = {{1}}",
        (8, 9),
    ),
    "a turn by two or back by one, of three rows": (
        "(float[N,4] x) => (float[A,B] y)",
        "a = Slice (x, p, e, z) b = Slice (x, z, p, z) y = Concat <axis = 0> (a, b)",
        "int64[1] p = {{{}}}, int64[1] z = {{0}}, int64[1] e = {{9223372036854775807}}",
        (2, -1),
    ),
}


@pytest.mark.parametrize("depth", ["auto", "full", "local"])
@pytest.mark.parametrize("case", HIDDEN)
def test_changes_that_cancel_at_some_sizes_only(case: str, depth: Literal["auto", "full", "local"]) -> None:
    head, body, numbers, both = HIDDEN[case]
    before, after = (ir.load(model(head, body, numbers.format(number))) for number in both)
    assert verify(before, after, depth=depth, runtime="none").status != "verified"
