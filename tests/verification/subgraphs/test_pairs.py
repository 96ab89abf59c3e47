"""Two subgraphs, run beside each other."""

from __future__ import annotations

import numpy as np
import pytest

from bnfold import ir
from bnfold.ir.elements import Array
from bnfold.verification.subgraphs import pairs
from tests.verification.graphs import model


def test_results_at_the_ends_of_float64_differ() -> None:
    low, high = np.array([-1.5e308, 1.0]), np.array([1.5e308, 1.0])
    assert pairs._differ_much(low, high)
    assert not pairs._differ_much(high, high)


@pytest.mark.parametrize(
    ("node", "weights", "fed", "is_alike"),
    [
        ("y = Relu (x)", {}, {"x"}, True),
        ("y = Softmax (x)", {}, {"x"}, False),
        ("y = Add (x, c)", {"c": np.ones((3, 1, 1))}, {"x"}, True),
        ("y = Add (x, c)", {"c": np.ones((1, 5))}, {"x"}, False),
        ("y = Add (x, c)", {"c": np.ones((1, 1, 3, 1, 1))}, {"x"}, False),
        ("y = Conv (x, c)", {"c": np.ones((3, 3, 3, 3))}, {"x"}, True),
        ("y = Conv (x, c)", {"c": np.ones((3, 3, 3, 3))}, set(), False),
        ("y = BatchNormalization (x, s, s, s, s)", {"s": np.ones(3)}, {"x"}, True),
        ("y = BatchNormalization (x, s, s, s, s)", {"s": np.ones((3, 1))}, {"x"}, False),
    ],
)
def test_which_nodes_treat_the_places_of_a_channel_alike(
    node: str, weights: dict[str, Array], fed: set[str], is_alike: bool
) -> None:
    """At a border, a window on a value that is the same everywhere sees something else: not on one that is fed."""
    read = ir.load(model(f"(float[1,3,5,5] x) => (float[A,B,C,D] y) {{ {node} }}", weights)).graph.nodes[0]
    assert pairs._is_alike(read, 4, {name: np.zeros((1, 3, 5, 5)) for name in fed}) is is_alike
