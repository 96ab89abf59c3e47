"""Products of sizes by name: equal products have equal names, whatever the order of their factors."""

from __future__ import annotations

from collections import Counter

import pytest

from bnfold.analysis.shapes.products import factors, is_product, multiplied, named, product, replaced
from bnfold.ir.value import Dim


@pytest.mark.parametrize(
    ("sizes", "made"),
    [
        ((), 1),
        ((2, 3), 6),
        (("n", 3, 4), "n*12"),
        ((2, "m", "n", 1), "m*n*2"),
        (("n", "m", 2), "m*n*2"),
        (("n", "n"), "n*n"),
        (("n*3", "m*2"), "m*n*6"),
        (("n", 0), 0),
        (("n", None), None),
        (("n", -1), None),
        ((-1, 3), -3),
        (tuple("abcdefghi"), None),
    ],
)
def test_products(sizes: tuple[Dim, ...], made: Dim) -> None:
    assert product(sizes) == made


def test_factors_of_what_was_named() -> None:
    assert factors(["m*n*6", "n", 2]) == (Counter({"n": 2, "m": 1}), 12)
    assert named(Counter({"n": 2, "m": 1}), 12) == "m*n*n*12"
    assert [is_product(size) for size in ("n", "n*2", 4, None)] == [False, True, False, False]


@pytest.mark.parametrize(
    ("one", "other", "made"),
    [(2, -3, -6), (1 << 20, 1 << 20, None), ("n", 1, "n"), ("n", -1, None), (None, 2, None)],
)
def test_two_items(one: Dim, other: Dim, made: Dim) -> None:
    assert multiplied(one, other) == made


@pytest.mark.parametrize(
    ("size", "made"),
    [("n", "k"), ("m", "m"), ("m*n*2", "k*m*2"), (3, 3), (None, None), ("a*b*c*d*e*f*g*n", "a*b*c*d*e*f*g*k")],
)
def test_other_names(size: Dim, made: Dim) -> None:
    assert replaced(size, {"n": "k"}) == made


def test_a_name_that_becomes_too_many_factors_stays() -> None:
    assert replaced("a*b*c*d*e*f*g*n", {"n": "k*l"}) == "a*b*c*d*e*f*g*n"
