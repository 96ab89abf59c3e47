from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bnfold.errors import ConversionBlocked

Lowered = Callable[..., Any]
Text = Callable[..., str]

HALF = (
    "s = Shape (x) one = Constant <value = int64[1] {1}> () two = Constant <value = int64[1] {2}> () "
    "zero = Constant <value = int64[1] {0}> () c = Gather <axis = 0> (s, one) h = Div (c, two)"
)


def test_bounds_that_follow_from_sizes_become_attributes(lowered: Lowered, text: Text) -> None:
    source = text(17, "float[n, 6] x", f"{HALF} y = Slice (x, zero, h, one)", outputs="float[n, m] y")
    outcome = lowered(source, 9)
    assert outcome.ops == ["Slice"]
    assert outcome.model.graph.nodes[0].attr("ends") == [3]


def test_bounds_that_follow_from_open_sizes(lowered: Lowered, text: Text) -> None:
    source = text(17, "float[6, n] x", f"{HALF} y = Slice (x, zero, h, one)", outputs="float[m, k] y")
    assert "NonZero" in lowered(source, 9).ops
    with pytest.raises(ConversionBlocked, match=r"its ends \('h'\) is not constant"):
        lowered(source, 8)


def test_sizes_do_not_stand_for_a_shape_that_callers_replace(lowered: Lowered, text: Text) -> None:
    head = text(17, "float[n, 6] x, int64[1] e", "", outputs="float[n, m] y").removesuffix("{  }")
    source = f"{head} <int64[1] e = {{3}}> {{ z = Constant <value = int64[1] {{0}}> () y = Slice (x, z, e, z) }}"
    outcome = lowered(source, 9, feeds={"e": np.array([2], np.int64)})
    assert outcome.results["y"].shape[0] == 2


SIZED = {
    # What a size is multiplied by is rounded where the model rounds: 7 · 0.7f is 4.9, and its floor 4.
    "float": "f = Cast <to = 1> (w) k = Constant <value_float = 0.7> () m = Mul (f, k) l = Floor (m) "
    "r = Cast <to = 7> (l)",
    "double": "i = Cast <to = 6> (w) f = Cast <to = 11> (i) k = Constant <value = double {0.7}> () m = Mul (f, k) "
    "r = Cast <to = 7> (m)",
    "float16": "f = Cast <to = 10> (w) k = Constant <value = float16 {14746}> () m = Mul (f, k) d = Cast <to = 1> (m) "
    "l = Ceil (d) r = Cast <to = 7> (l)",
    "division": "f = Cast <to = 1> (w) k = Constant <value_float = 3.0> () m = Div (f, k) l = Round (m) "
    "r = Cast <to = 7> (l)",
    "split": "parts = Constant <value_ints = [2, 2]> () d, e = Split (s, parts) n, r = Split <axis = 0> (e)",
    "comparison": "f = Constant <value_ints = [5]> () t = Less (w, f) r = Where (t, w, f)",
}
FROM_SIZE = "s = Shape (x) two = Constant <value_ints = [2]> () w = Gather (s, two)"
USES = {
    "Slice": "b = Constant <value_ints = [0]> () y = Slice (x, b, r, two)",
    "Pad": "b = Constant <value_ints = [0, 0, 0, 0, 0, 0, 0]> () p = Concat <axis = 0> (b, r) y = Pad (x, p)",
    "TopK": "v, y = TopK <axis = 2> (x, r)",
    "Resize": "a = Constant <value_ints = [2, 3, 7]> () p = Concat <axis = 0> (a, r) "
    'y = Resize <mode = "linear", coordinate_transformation_mode = "align_corners"> (x, , , p)',
    "Upsample": 'f2 = Cast <to = 1> (r) a = Constant <value_floats = [1.0, 1.0, 1.0]> () p = Concat <axis = 0> (a, f2) '
    'y = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"> (x, , p)',
}  # fmt: skip


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("size", SIZED)
def test_numbers_that_follow_from_sizes_through_floats(lowered: Lowered, text: Text, size: str, use: str) -> None:
    kind = "int64" if use == "TopK" else "float"
    source = text(13, "float[2, 3, 7, 4] x", f"{FROM_SIZE} {SIZED[size]} {USES[use]}", outputs=f"{kind}[a, c, d, e] y")
    assert "NonZero" not in lowered(source, 9).ops


@pytest.mark.parametrize("use", ["Pad", "TopK"])
def test_numbers_that_follow_from_open_sizes_are_not_known(lowered: Lowered, text: Text, use: str) -> None:
    body = f"{FROM_SIZE} {SIZED['float']} {USES[use]}"
    kind = "int64" if use == "TopK" else "float"
    with pytest.raises(ConversionBlocked, match="is not constant"):
        lowered(text(13, "float[2, 3, h, 4] x", body, outputs=f"{kind}[a, c, d, e] y"), 9)


@pytest.mark.parametrize("operator", ["Log", "Sqrt", "Reciprocal"])
def test_functions_that_runtimes_round_in_their_own_ways_are_not_followed(
    lowered: Lowered, text: Text, operator: str
) -> None:
    size = f"f = Cast <to = 1> (w) m = {operator} (f) l = Floor (m) r = Cast <to = 7> (l)"
    source = text(13, "float[2, 3, 7, 4] x", f"{FROM_SIZE} {size} {USES['Pad']}", outputs="float[a, c, d, e] y")
    with pytest.raises(ConversionBlocked, match="is not constant"):
        lowered(source, 9)


def test_sizes_in_a_branch(lowered: Lowered, text: Text) -> None:
    inner = f"{FROM_SIZE} {SIZED['float']} {USES['Pad'].replace('y =', 'o =')}"
    body = f"""y = If (c) <then_branch = t () => (float[a, d, e, f] o) {{ {inner} }},
        else_branch = e () => (float[a, d, e, f] z) {{ z = Concat <axis = 3> (x, x) }}>"""
    source = text(13, "float[2, 3, 7, 4] x, bool c", body, outputs="float[g, h, k, l] y")
    lowered(source, 9, feeds={"c": np.array(True)})
