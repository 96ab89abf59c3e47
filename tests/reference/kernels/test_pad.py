"""Pad in its three forms."""

from __future__ import annotations

import numpy as np
import pytest

from bnfold import reference
from tests.reference.models import compute, floats

X = floats(1, 3, 4, 5)


def test_forms() -> None:
    expected = np.pad(X, [(1, 0), (0, 2), (2, 1)], constant_values=1.5)
    amounts = [1, 0, 2, 0, 2, 1]
    np.testing.assert_array_equal(compute("Pad", 1, [X], paddings=amounts, value=1.5), expected)
    np.testing.assert_array_equal(compute("Pad", 2, [X], pads=amounts, value=1.5), expected)
    value = np.array(1.5, np.float32)
    np.testing.assert_array_equal(compute("Pad", 11, [X, np.array(amounts), value]), expected)
    spread = [X, np.array([2, 1, 1, 0]), value, np.array([-1, 0])]
    np.testing.assert_array_equal(compute("Pad", 18, spread), np.pad(X, [(1, 0), (0, 0), (2, 1)], constant_values=1.5))


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_modes(mode: str) -> None:
    y = compute("Pad", 19, [X, np.array([0, 1, 2, 0, 2, 1])], mode=mode)
    expected = np.pad(X, [(0, 0), (1, 2), (2, 1)], mode)  # type: ignore[call-overload]
    np.testing.assert_array_equal(y, expected)


def test_negative_amounts_crop() -> None:
    y = compute("Pad", 2, [X], pads=[-1, 0, 1, 0, -2, -1])
    np.testing.assert_array_equal(y, np.pad(X[1:, :-2, :-1], [(0, 0), (0, 0), (1, 0)]))


def test_what_fits_no_text() -> None:
    with pytest.raises(reference.CannotEvaluate, match="mode 'mirror'"):
        compute("Pad", 2, [X], pads=[0] * 6, mode="mirror")
    with pytest.raises(reference.CannotEvaluate, match="4 amounts"):
        compute("Pad", 2, [X], pads=[0] * 4)
