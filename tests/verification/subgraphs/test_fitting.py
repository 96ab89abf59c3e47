"""Sizes of parts that are fed values of several levels of a network."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from bnfold import ir
from tests.verification.graphs import Weights, model, numbers, single
from tests.verification.subgraphs.test_verifier import check

LEVELS = """(float[N,3,S,S] x) => (float[N,4,S,S] y) {
    a = Conv <pads = [1, 1, 1, 1]> (x, V)
    b = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (a)
    u = ConvTranspose <strides = [2, 2]> (b, T)
    s = Add (a, u)
    NODES
}"""
"""A U-net of two levels: the sizes of ``b`` are half those of ``a``."""


def _pair(factor: float, head: str = LEVELS) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    rng = numbers(2)
    weights: Weights = {
        "V": single(rng.normal(size=(4, 3, 3, 3))),
        "T": single(rng.normal(size=(4, 4, 2, 2))),
        "W": single(rng.normal(size=(4, 4, 1, 1))),
    }
    before = model(head.replace("NODES", "c = Conv (s, W)  y = Mul (c, k)"), {**weights, "k": np.array(1.5)})
    after = model(head.replace("NODES", "y = Conv (s, W)"), {**weights, "W": weights["W"] * 1.5 * factor})
    return before, after


@pytest.mark.no_cover  # takes twice as long measured, and reaches no branch that other tests do not reach
@pytest.mark.parametrize(("factor", "status"), [(1.0, "verified"), (1 + 1e-4, "failed")])
@pytest.mark.parametrize("size", ["S", "136"])
def test_levels_of_a_network_fit_together(size: str, factor: float, status: str) -> None:
    before, after = _pair(factor, LEVELS.replace("S,S", f"{size},{size}"))
    (row,) = check(before, after, ir.Cut("", ("a", "b"), ("y",), "fold"))
    assert row.status == status
