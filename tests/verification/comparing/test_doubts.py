"""Why equal results do not count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bnfold.verification.comparing.doubts import are_others, depend_on_inputs

ONES = np.ones((2, 3))


def test_results_at_the_ends_of_float64_differ() -> None:
    low, high = np.array([-1.5e308, 1.0]), np.array([1.5e308, 1.0])
    assert are_others(low, high)
    assert not are_others(high, high)


@pytest.mark.parametrize(
    ("result", "other", "depends"),
    [
        (ONES, ONES * (1 + 1e-14), False),  # an error of float64
        (ONES, ONES * (1 + 1e-9), True),
        (np.float32(ONES), np.float32(ONES), False),
        (ONES, np.ones((3, 3)), True),
        (ONES * np.nan, ONES * np.nan, False),
        (ONES * np.nan, ONES, True),
        (np.array([1, 2]), np.array([1, 2]), False),
        (np.array([1, 2]), np.array([1, 3]), True),
        (np.array([True]), np.array([False]), True),
        ([ONES], [ONES], False),
        ([ONES], [ONES, ONES], True),
        (np.zeros(0), np.zeros(0), False),
    ],
)
def test_a_result_depends_on_inputs_if_others_change_it_beyond_errors_of_float64(
    result: Any, other: Any, *, depends: bool
) -> None:
    same = {"y": result, "z": ONES}
    assert depend_on_inputs(["y", "z"], same, [same, {"y": other, "z": ONES}]) is depends
    assert not depend_on_inputs(["z"], same, [{"y": other, "z": ONES}]), "it was not asked for"
