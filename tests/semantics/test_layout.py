from collections.abc import Callable

import pytest

from bnfold import ir
from bnfold.semantics import Policy, Unreadable
from bnfold.semantics.batchnorm import read_batchnorm

NodeMaker = Callable[..., ir.Node]
Shape = tuple[int | str, ...]
BUG = "nonspatial-channel-parameters"


@pytest.mark.parametrize(
    ("shape", "params", "per_activation", "repaired"),
    [
        ((2, 3, 4, 5), (3, 4, 5), True, False),
        ((2, 3, 4, 5), (60,), True, False),
        ((2, 3, "h", "w"), (3, 4, 5), True, False),
        ((2, 3, "h", 5), (60,), True, False),
        ((2, "c", "h", 5), (3, 4, 5), True, False),
        ((2, 3, 4, 5), (3,), False, True),
        (("n", 3, "h", "w"), (3,), False, True),
        ((2, 3, 1, 1), (3,), False, False),
        ((2, 3, 1, 1), (3, 1, 1), False, False),
        ((2, 3), (3,), False, False),
        ((2,), (1,), False, False),
        (None, (3, 4), True, False),
        (None, (3, 1, 1), False, False),
    ],
)
def test_the_element_count_decides(
    batchnorm: NodeMaker,
    shape: Shape | None,
    params: tuple[int, ...],
    per_activation: bool,
    repaired: bool,
) -> None:
    norm = read_batchnorm(batchnorm(7, shape=shape, params=params, spatial=0), Policy())
    assert norm.per_activation is per_activation
    assert [repair.kind for repair in norm.repairs] == [BUG] * repaired


@pytest.mark.parametrize(
    ("shape", "params"),
    [
        ((2, 3, 4, 5), (12,)),
        ((2, 3, "h", 5), (61,)),
        (None, (3,)),
        ((2, "c", 4, 5), (60,)),
        ((2, 3, 4, 5), (1,)),
        ((2, 8, 4), (2, 4)),
    ],
)
def test_what_fits_neither_reading_is_refused(
    batchnorm: NodeMaker, shape: Shape | None, params: tuple[int, ...]
) -> None:
    with pytest.raises(Unreadable, match="spatial=0"):
        read_batchnorm(batchnorm(7, shape=shape, params=params, spatial=0), Policy())


def test_parameters_of_different_sizes_are_refused(batchnorm: NodeMaker) -> None:
    node = batchnorm(7, params=(3, 4, 5), spatial=0)
    node.set_input(2, batchnorm(7).inputs[2])
    with pytest.raises(Unreadable, match="different sizes"):
        read_batchnorm(node, Policy())


def test_spatial_written_out_as_the_default_changes_nothing(batchnorm: NodeMaker) -> None:
    norm = read_batchnorm(batchnorm(7, spatial=1), Policy())
    assert not norm.per_activation
    assert not norm.repairs


def test_spatial_at_a_later_opset_is_honoured_and_reported(batchnorm: NodeMaker) -> None:
    norm = read_batchnorm(batchnorm(9, params=(3, 4, 5), spatial=0), Policy())
    assert norm.per_activation
    assert [repair.kind for repair in norm.repairs] == ["misplaced-attribute"]
