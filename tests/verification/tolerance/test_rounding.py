from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

from bnfold import analysis, ir
from bnfold.verification.tolerance import rounding
from bnfold.verification.tolerance.rounding import PerturbedWeights, disturb
from tests.verification.graphs import model


def moved(values: np.ndarray[Any, Any], seed: int, old: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
    held = None if old is None else ir.Inline(onnx.numpy_helper.from_array(old))
    return disturb(values, onnx.helper.np_dtype_to_tensor_dtype(values.dtype), seed, held)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_every_normal_number_moves_to_a_neighbour(dtype: Any) -> None:
    values = np.random.default_rng(0).normal(size=(5, 7)).astype(dtype)
    made = moved(values, 3)
    assert made.dtype == values.dtype
    assert made.shape == values.shape
    steps = np.abs(
        made.view(f"i{made.itemsize}").astype(np.int64) - values.view(f"i{values.itemsize}").astype(np.int64)
    )
    assert np.all(steps == 1)
    assert 0 < np.count_nonzero(np.abs(made.astype(float)) > np.abs(values.astype(float))) < values.size


def test_the_same_seed_moves_the_same_way() -> None:
    base = np.random.default_rng(0).normal(size=99).astype(np.float32)
    assert np.array_equal(moved(base, 1), moved(base, 1))
    assert not np.array_equal(moved(base, 1), moved(base, 2))


def test_equal_numbers_move_alike() -> None:
    """As a product of one number and one factor is rounded everywhere; a hundred such layers in a row add up."""
    base = np.full((4, 9), 0.3, np.float32)
    made = [moved(base, seed) for seed in range(20)]
    assert all(len(np.unique(array)) == 1 for array in made)
    assert len({array.flat[0] for array in made}) == 2


def test_zeros_subnormals_and_the_edge_of_the_range_stay() -> None:
    values = np.array([0.0, -0.0, np.inf, -np.inf, 1e-40, 2**-126], np.float32)
    made = moved(np.concatenate([values] * 20), 5).reshape(20, -1)
    assert np.array_equal(made[:, :5], np.tile(values[:5], (20, 1)))
    assert np.all(np.isfinite(moved(np.full(50, np.finfo(np.float32).max), 5)))
    assert np.isnan(moved(np.array([np.nan], np.float32), 5)).all()


def test_new_weights_may_be_old_ones_under_another_name() -> None:
    text = "(float[4] x) => (float[4] y) {{ y = Mul (x, {}) }}"
    held, moved_a_little = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.1, 0.2, 0.3, 0.5])
    before = ir.load(model(text.format("a"), {"a": held}))
    for weight, is_old in ((held, True), (moved_a_little, False)):
        draws = PerturbedWeights(before, ir.load(model(text.format("b"), {"b": weight})))
        assert (len(draws.new), draws.are_renamed) == (1, is_old)


def test_what_the_original_has_in_the_same_place_stays() -> None:
    values = np.random.default_rng(1).normal(size=(4, 5)).astype(np.float32)
    old = values.copy()
    old[1] *= 2
    made = moved(values, 3, old)
    assert np.array_equal((made != values).all(axis=1), [False, True, False, False])
    assert np.array_equal(np.delete(made, 1, 0), np.delete(values, 1, 0))
    assert (moved(values, 3, old.reshape(5, 4)) != values).all()


def test_a_scalar_keeps_its_shape() -> None:
    assert moved(np.array(0.3, np.float32), 1).shape == ()


BODY = "(float[N,3] x) => (float[N,4] y) { y = Gemm (x, W, b) }"


def weights(seed: int) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    return {"W": rng.normal(size=(3, 4)), "b": rng.normal(size=4)}


def test_only_what_differs_is_new() -> None:
    old, new = weights(0), weights(0)
    new["b"] = new["b"] * 1.5
    assert PerturbedWeights(ir.load(model(BODY, old)), ir.load(model(BODY, new))).new == [("", "b")]
    assert PerturbedWeights(ir.load(model(BODY, old)), ir.load(model(BODY, old))).new == []


def test_short_numbers_were_not_rounded() -> None:
    body = "(float[N,C,H,W] x) => (float[N,C,P,Q] y) { y = Resize (x, , scales) }"
    after = ir.load(model(body, {"scales": np.array([1.0, 1.0, 2.0, 1.5])}))
    assert PerturbedWeights(ir.load(model(BODY, weights(0))), after).new == []


def test_weights_in_constant_nodes_and_bodies_are_found() -> None:
    body = (
        "(bool c, float[3] x) => (float[3] y) { k = Constant <value = float[3] {0.1, 0.2, 0.3}> ()  m = Mul (x, k)"
        "  y = If (c) <then_branch = t () => (float[3] u) <float[3] w = {0.7, 0.6, 0.9}> { u = Mul (m, w) },"
        " else_branch = e () => (float[3] v) { v = Neg (m) }> }"
    )
    after = ir.load(model(body, {}))
    draws = PerturbedWeights(ir.load(model(BODY, weights(0))), after)
    assert {name for _, name in draws.new} == {"k", "w"}
    altered = {value: change for group in draws.of(after, 0) for value, change in group.items()}
    assert {(value.graph.path, value.name) for value in altered} == {*draws.new}
    for value, change in altered.items():
        old = analysis.constant(value)
        assert old is not None
        assert not np.array_equal(old.numpy(), change(old.numpy()))


def test_groups_disturb_every_weight_once_and_rounds_in_other_ways() -> None:
    before, after = ir.load(model(BODY, weights(0))), ir.load(model(BODY, weights(1)))
    draws = PerturbedWeights(before, after)
    first = draws.of(after, 0)
    assert sorted(sorted(value.name for value in share) for share in first) == [["W"], ["b"]]
    again = draws.of(after, 1)
    assert any(
        not np.array_equal(change(held := _held(value)), other[value](held))
        for one, other in zip(first, again, strict=True)
        for value, change in one.items()
    )
    assert draws.of(before, 0) != []


def test_many_weights_are_moved_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few may cancel each other, as a weight and a bias: they are moved one after the other."""
    before, after = ir.load(model(BODY, weights(0))), ir.load(model(BODY, weights(1)))
    few = PerturbedWeights(before, after).of(after, 0)
    monkeypatch.setattr(rounding, "_FEW", sum(value.tensor.size for share in few for value in share if value.tensor))
    (share,) = PerturbedWeights(before, after).of(after, 0)
    assert {*share} == {value for each in few for value in each}


def _held(value: ir.Value) -> np.ndarray[Any, Any]:
    assert value.tensor is not None
    return value.tensor.numpy()


def test_nothing_new_nothing_disturbed() -> None:
    before = ir.load(model(BODY, weights(0)))
    assert PerturbedWeights(before, before).of(before, 0) == []


def test_factors_that_decide_sizes_were_not_rounded() -> None:
    """One next to 1 leaves an element out."""
    body = "(float[2,7,3,4] x) => (float[a,b,c,d] y) {{ y = Resize (x, , {0}) }}"
    before, after = (
        ir.load(model(body.format(name), {name: np.array([1, 1, 1, 1.1], np.float32)})) for name in ("f", "g")
    )
    draws = PerturbedWeights(before, after)
    assert draws.of(after, 0) == []
    assert draws.moved(4) == {}
