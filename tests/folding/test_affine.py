"""The value that moves: composition, squeezing, stretches."""

from __future__ import annotations

import numpy as np
import pytest

from bnfold.edits.edit import plainest
from bnfold.folding.affine import Affine, concatenate, make, on_axis, vector
from bnfold.report.reasons import Declined


def drawn(*shape: int, seed: int = 0) -> Affine:
    rng = np.random.default_rng(seed)
    return make(rng.standard_normal(shape), rng.standard_normal(shape))


def test_one_after_the_other() -> None:
    first, second, x = drawn(1, 3, 1), drawn(1, 3, 4, seed=1), np.random.default_rng(2).standard_normal((2, 3, 4))
    whole = second.after(first)
    np.testing.assert_allclose(whole.s * x + whole.t, second.s * (first.s * x + first.t) + second.t, rtol=1e-14)


def test_axes_along_which_nothing_varies_are_squeezed() -> None:
    affine = make(np.broadcast_to(np.arange(3.0).reshape(1, 3, 1), (2, 3, 4)), np.full((2, 3, 4), 5.0))
    assert affine.s.shape == (1, 3, 1)
    assert affine.t.shape == (1, 1, 1)
    assert affine.shape == (1, 3, 1)


def test_numbers_that_differ_in_their_last_bit_are_not_squeezed() -> None:
    assert make(np.array([1.0, np.nextafter(1.0, 2.0)]), np.zeros(2)).s.shape == (2,)


@pytest.mark.parametrize(("s", "t", "identity"), [(1.0, 0.0, True), (1.0, 1.0, False), (-1.0, 0.0, False)])
def test_identity(s: float, t: float, identity: bool) -> None:
    assert make(np.full((1, 2), s), np.full((1, 2), t)).is_identity is identity


def test_concatenation_gives_each_part_its_stretch() -> None:
    whole = concatenate([drawn(1, 2, 1), on_axis(np.ones(1), np.zeros(1), 1, 3), drawn(1, 1, 4, seed=1)], [2, 3, 2], 1)
    assert whole.shape == (1, 7, 4)
    np.testing.assert_array_equal(whole.s[:, 2:5], np.ones((1, 3, 4)))


def test_vector_repeats_what_does_not_vary() -> None:
    np.testing.assert_array_equal(vector(np.full((1, 1, 1), 2.0), 1, 3), [2.0, 2.0, 2.0])


@pytest.mark.parametrize(
    ("shape", "plain"), [((1, 4, 1, 1), (4, 1, 1)), ((1, 1, 5), (5,)), ((1, 1), ()), ((2, 1, 3), (2, 1, 3))]
)
def test_the_lowest_rank_that_broadcasts(shape: tuple[int, ...], plain: tuple[int, ...]) -> None:
    block = np.arange(float(np.prod(shape))).reshape(shape)
    assert plainest(block).shape == plain
    np.testing.assert_array_equal(np.broadcast_to(plainest(block), shape), block)


def test_affines_whose_sizes_do_not_broadcast_are_no_row() -> None:
    first, second = (make(np.full((1, size, 1), 2.0), np.arange(float(size)).reshape(1, size, 1)) for size in (5, 7))
    with pytest.raises(Declined, match="do not broadcast"):
        second.after(first)
