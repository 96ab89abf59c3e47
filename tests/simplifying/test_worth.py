"""A result is stored if it costs no more bytes than the operators it saves are worth, or as --max-growth allows."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import bnfold
from bnfold.report.events import Report
from bnfold.report.growth import WORTH
from tests.simplifying.small import assert_equal, model, operators

ROWS = WORTH // 8
"""Rows of two float32 that an operator is worth, of a table that is tiled of one row."""


def tables(count: int, rows: int, *, steps: str = "") -> onnx.ModelProto:
    """Tables that are tiled, and added to the input, each behind ``steps`` more operators."""
    body = ""
    for at in range(count):
        last = f"r{at}"
        body += f"{last} = Tile (v{at}, times)  "
        for step in steps.split():
            body += f"{last}{step} = {step} ({last})  "
            last += step
        body += f"y{at} = Add (x, {last})  "
    outputs = ", ".join(f"float[A,B] y{at}" for at in range(count))
    vectors = ", ".join(f"float[1,2] v{at} = {{{at + 2},1}}" for at in range(count))
    return model(f"(float[N,2] x) => ({outputs})", body, f"int64[2] times = {{{rows},1}}, {vectors}")


def optimized(before: onnx.ModelProto, most: int | None = None) -> tuple[onnx.ModelProto, Report]:
    outcome = bnfold.optimize(before, target_opset="keep", max_growth=most)
    assert outcome.verified
    return outcome.to_proto(), outcome.report


@pytest.mark.parametrize(
    ("rows", "steps", "left"),
    [
        (ROWS, "", []),
        (ROWS + 4, "", ["Tile"]),  # 24 bytes that it is computed from go
        (2 * ROWS, "Sqrt", []),
        (2 * ROWS + 4, "Sqrt", ["Tile", "Sqrt"]),
        (3 * ROWS, "Sqrt Abs", []),
    ],
)
def test_an_operator_is_worth_some_bytes(rows: int, steps: str, left: list[str]) -> None:
    before = tables(1, rows, steps=steps)
    after, report = optimized(before)
    assert operators(after) == [*left, "Add"]
    assert_equal(before, after, (rows, 2))
    assert report.growth.simplifying == report.after.weights - report.before.weights
    assert optimized(after)[0] == after


@pytest.mark.parametrize("count", [1, 40])
def test_each_result_is_judged_by_itself(count: int) -> None:
    """So that a second run has no more room than the first."""
    after, report = optimized(tables(count, ROWS))
    assert operators(after) == ["Add"] * count
    assert report.growth.simplifying <= count * WORTH
    assert optimized(after)[0] == after


@pytest.mark.parametrize(("most", "left"), [(0, 3), (2 * 8 * 63, 1), (3 * 8 * 63, 0), (1 << 20, 0)])
def test_a_number_that_was_given_takes_the_place_of_the_rule(most: int, left: int) -> None:
    """Three tables of 512 bytes, computed of 8, and one vector of 16 bytes that goes with the last of them."""
    before = tables(3, 64)
    after, report = optimized(before, most)
    assert operators(after).count("Tile") == left
    assert report.after.weights - report.before.weights <= most
    assert_equal(before, after, (64, 2))


def test_a_number_that_was_given_allows_more_than_the_rule() -> None:
    before = tables(1, 4 * ROWS)
    assert operators(optimized(before)[0]) == ["Tile", "Add"]
    assert operators(optimized(before, 4 * WORTH)[0]) == ["Add"]


def test_what_costs_least_for_each_operator_comes_first() -> None:
    long, short = "a = Tile (u, t) b = Sqrt (a) c = Neg (b) y = Add (x, c)", "d = Tile (v, t) z = Add (x, d)"
    numbers = "int64[2] t = {64,1}, float[1,2] u = {2,3}, float[1,2] v = {4,5}"
    for body in (f"{long} {short}", f"{short} {long}"):
        before = model("(float[N,2] x) => (float[A,B] y, float[A,B] z)", body, numbers)
        after, _ = optimized(before, 600)
        assert sorted(operators(after)) == ["Add", "Add", "Tile"]


def test_a_result_that_frees_as_much_is_stored_in_any_case() -> None:
    weight = np.arange(60_000, dtype=np.float32).reshape(200, 300)
    before = model("(float[N,200] x) => (float[A,B] y)", "t = Transpose (w) y = Add (x, t)")
    before.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    after, report = optimized(before, 0)
    assert operators(after) == ["Add"]
    assert (report.growth.simplifying, report.grown) == (0, "")


def test_nothing_is_added_to_write_a_node_otherwise() -> None:
    """One Reshape for two needs a target of its own; a Flatten has none."""
    body = "f = Flatten <axis = 1> (x) u = Unsqueeze (f, front) y = Relu (u)"
    before = model("(float[4,2,3] x) => (float[1,4,6] y)", body, "int64[1] front = {0}")
    for most, grows in ((None, True), (0, False), (16, True)):
        after, report = optimized(before, most)
        assert (report.after.weights > report.before.weights) is grows
        assert operators(after) == (["Reshape", "Relu"] if grows else ["Flatten", "Unsqueeze", "Relu"])


def test_weights_that_are_filled_are_stored_unless_a_number_says_otherwise() -> None:
    fill = "w = ConstantOfShape <value = float[1] {0.5}> (shape)  y = MatMul (x, w)"
    before = model("(float[300,300] x) => (float[A,B] y)", fill, "int64[2] shape = {300, 300}")
    after, report = optimized(before)
    assert operators(after) == ["MatMul"]
    assert report.grown == (
        "the weights grew from 16 bytes to 360.0 kB: results of ConstantOfShape are stored (360.0 kB for 1 node); "
        "--max-growth 0 leaves this out"
    )
    assert operators(optimized(before, 0)[0]) == ["ConstantOfShape", "MatMul"]


def test_what_folding_adds_is_no_longer_there_for_simplifying() -> None:
    rng = np.random.default_rng(0)
    body = """
        a = Conv (x, w)  p = BatchNormalization (a, s, b, b, s)  c = Conv (x, w)  q = BatchNormalization (c, b, s, s, s)
        t = Tile (v, times)  z = Add (p, q)  y = Add (z, t)
    """
    before = model("(float[N,2,9,9] x) => (float[A,B,C,D] y)", body, "int64[4] times = {1,1,7,7}")
    arrays = {"w": rng.normal(size=(4, 2, 3, 3)), "v": rng.normal(size=(1, 4, 1, 1))}
    arrays |= {"s": rng.uniform(0.5, 2, 4), "b": rng.normal(size=4)}
    for name, array in arrays.items():
        before.graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), name))
    for most in (0, 300, 900, 2000):
        _, report = optimized(before, most)
        assert report.after.weights - report.before.weights <= most
        growth = report.growth
        assert growth.folding + growth.simplifying == report.after.weights - report.before.weights


def test_room_is_counted_without_what_a_conversion_stores() -> None:
    """A Clip's bounds are attributes below 11, and constants from there on."""
    body = "c = Clip <min = 0.0, max = 6.0> (x) t = Tile (v, times) y = Add (c, t)"
    before = model("(float[N,2] x) => (float[A,B] y)", body, "int64[2] times = {3,1}, float[1,2] v = {2,3}")
    before.opset_import[0].version = 9
    outcome = bnfold.optimize(before, max_growth=8)
    assert operators(outcome.to_proto()) == ["Clip", "Add"]
    assert outcome.report.growth.simplifying == 0, "24 bytes take the place of 24"
