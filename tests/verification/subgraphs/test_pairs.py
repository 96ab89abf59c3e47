"""Two subgraphs, run beside each other."""

from __future__ import annotations

import numpy as np

from bnfold.verification.subgraphs import pairs


def test_results_at_the_ends_of_float64_differ() -> None:
    low, high = np.array([-1.5e308, 1.0]), np.array([1.5e308, 1.0])
    assert pairs._differ_much(low, high)
    assert not pairs._differ_much(high, high)
