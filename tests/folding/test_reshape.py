"""Index maps of a reshape, against numpy's own for every value of the unknown sizes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from bnfold.folding.affine import make
from bnfold.folding.reshape import Size, carry, groups, resolve, sizes
from bnfold.report.reasons import Declined, Reason

N, H = Size(1, ("N",)), Size(1, ("H",))


def plain(*numbers: int) -> list[Size]:
    return [Size(number) for number in numbers]


@pytest.mark.parametrize("old", [(2, 3, 4), (6, 4), (2, 12), (1, 24), (24,), (2, 1, 3, 4)])
@pytest.mark.parametrize("new", [(2, 3, 4), (6, 4), (2, 12), (1, 24), (24,), (4, 6), (3, 8), (2, 2, 3, 2)])
def test_an_affine_follows_the_elements(old: tuple[int, ...], new: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    for axis in range(len(old)):
        shape = [1] * len(old)
        shape[axis] = old[axis]
        affine = make(rng.standard_normal(shape), rng.standard_normal(shape))
        moved = carry(affine, plain(*old), plain(*new))
        x = rng.standard_normal(old)
        expected = (affine.s * x + affine.t).reshape(new)
        np.testing.assert_array_equal(moved.s * x.reshape(new) + moved.t, expected)


def test_unknown_sizes_cut_the_axes_into_groups() -> None:
    assert groups([N, Size(3), H], [N, Size(3), H]) == [(range(i, i + 1), range(i, i + 1)) for i in range(3)]
    assert groups([N, Size(3), Size(4)], [N, Size(12)]) == [(range(1), range(1)), (range(1, 3), range(1, 2))]


def test_equal_unknowns_are_told_by_name_only() -> None:
    assert sizes(["N", 3]) == [named("N"), Size(3)]
    first, second = sizes([None, None])
    assert first != second


def named(name: str) -> Size:
    return Size(1, (f"name:{name}",))


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ((0, -1), [N, Size(12)]),
        ((-1, 12), [N, Size(12)]),
        ((0, 0, 4), [N, Size(3), Size(4)]),
        ((0, 2, -1), [N, Size(2), Size(6)]),
    ],
)
def test_targets(target: tuple[int, ...], expected: list[Size]) -> None:
    assert resolve([N, Size(3), Size(4)], target) == expected


@pytest.mark.parametrize("target", [(0, 0, 0, 0), (-1, -1)])
def test_targets_that_say_nothing(target: tuple[int, ...]) -> None:
    with pytest.raises(Declined) as refusal:
        resolve([N, Size(3), Size(4)], target)
    assert refusal.value.reason is Reason.NOT_STATIC


def test_a_channel_across_an_unknown_size() -> None:
    affine = make(np.arange(1.0, 4.0).reshape(1, 3, 1), np.zeros((1, 1, 1)))
    with pytest.raises(Declined) as refusal:
        carry(affine, [N, Size(3), H], [N, Size(3, ("H",))])
    assert refusal.value.reason is Reason.NOT_STATIC


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param((2, 3, 4), (2, 16), id="more elements"),
        pytest.param((2, 3, 4), (2, 3, 2), id="fewer elements beside the channel"),
        pytest.param((2, 3, 5), (5, 5), id="nothing in common"),
        pytest.param((2, 3), (6,), id="a value of another rank"),
        pytest.param((2, 7, 4), (2, 28), id="a value of other channels"),
        pytest.param((2, 1, 4), (2, 4), id="an axis that is not there"),
        pytest.param((2, 3, 4), (0,), id="no elements"),
    ],
)
def test_a_reshape_that_cannot_be(old: tuple[int, ...], new: tuple[int, ...]) -> None:
    affine = make(np.arange(1.0, 4.0).reshape(1, 3, 1), np.zeros((1, 1, 1)))
    with pytest.raises(Declined) as refusal:
        carry(affine, plain(*old), plain(*new))
    assert refusal.value.reason is Reason.UNREADABLE


def test_a_target_with_a_negative_size() -> None:
    with pytest.raises(Declined) as refusal:
        resolve([N, Size(3)], (0, -3))
    assert refusal.value.reason is Reason.UNREADABLE


def test_the_maps_hold_for_all_small_factorisations() -> None:
    shapes = [
        shape
        for rank in (1, 2, 3)
        for shape in itertools.product((1, 2, 3, 4, 6, 12), repeat=rank)
        if np.prod(shape) == 12
    ]
    for old, new in itertools.product(shapes, repeat=2):
        parts = groups(plain(*old), plain(*new))
        assert [axis for before, _ in parts for axis in before] == list(range(len(old)))
        assert [axis for _, after in parts for axis in after] == list(range(len(new)))
        for before, after in parts:
            assert np.prod([old[axis] for axis in before]) == np.prod([new[axis] for axis in after])
