"""Seeded faults: what each handler's guard is there for turns up as a wrong number when the guard is taken out.

This is a test of the fuzzer: a fault that it cannot find would not be found in earnest either.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from _fuzz.draw import draw
from _fuzz.judge import judge

from bnfold import ir
from bnfold.folding import ask, dead, sharing
from bnfold.folding.affine import Affine, make
from bnfold.folding.ops import (
    activation,
    border,
    concat,
    conv,
    conv_transpose,
    nary,
    normaliser,
    padded,
    pick,
    pool,
    quantized,
    repeat,
    reshape,
    transpose,
    weights,
)
from bnfold.folding.step import Step
from bnfold.ir.tensor import Float64
from tests.folding.nets import Net, folded

SEEDS = 3000
FOUND = re.compile(r"v\d+: |ValueError|IndexError")
"""A wrong number or shape at an output, or arrays that do not fit each other on the way."""


def nothing(*_: Any, **__: Any) -> None:
    """In the place of a check."""


def yes(*_: Any, **__: Any) -> bool:
    return True


def no(*_: Any, **__: Any) -> bool:
    return False


def mixed_up(affine: Affine, *_: Any) -> Affine:
    """Left as it is where it should have moved."""
    return affine


def tiled(block: Float64, _: Any, area: int) -> Float64:
    return np.resize(block, (1, block.size * area, 1, 1)) if block.shape[1] > 1 else block


def by_channel(node: ir.Node, kernel: ir.Tensor, s: Float64, _: int) -> Step:
    return weights.scaled(node, 1, kernel, 1, np.resize(s, kernel.dims[1]))


def everything_ends(made: ir.Value, *_: Any) -> tuple[tuple[ir.Value, ...], tuple[ir.Node, ...]]:
    return (made,), tuple(node for node in made.graph.nodes if node.is_op("InstanceNormalization"))


def doubled(rank: int) -> Affine:
    return Affine(np.full((1,) * rank, 2.0), np.zeros((1,) * rank))


FAULTS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "a shift through zero padding": (conv, "pads", no),
    "a shift through a wide kernel": (conv_transpose, "_is_pointwise", yes),
    "output channels not dealt out by group": (conv_transpose, "_scale_outputs", by_channel),
    "input channels not dealt out by group": (conv, "scale_inputs", by_channel),
    "a maximum under a negative scale": (pool, "_check_kind", nothing),
    "zeros that count in a mean": (pool, "_check_windows", nothing),
    "an operand that is broadcast": (nary, "_fits", yes),
    "the shift to no arm": (nary, "_receiver", nothing),
    "the other parts of a Concat": (concat, "identity", doubled),
    "stretches that are none": (concat, "_stretches", lambda affine, _, sizes: [affine] * len(sizes)),
    "elements picked elsewhere": (pick, "_windows", lambda *_: {}),
    "an axis that is padded": (border, "_padded_axes", lambda *_: []),
    "an axis that is resized": (border, "_resized_axes", lambda *_: []),
    "a permutation the wrong way round": (transpose, "_permutation", lambda _, rank: list(range(rank))),
    "a reshape that is none": (reshape, "carry", mixed_up),
    "elements tiled instead of repeated": (repeat, "_per_channel", tiled),
    "readers that see another value": (sharing, "untouched", yes),
    "a border read as the inside": (padded, "inside", lambda _node, _axis, taps, _rank: np.ones((taps, 1))),
    "a mean that is a sum": (
        pool,
        "_averaged",
        lambda affine, axes: make(affine.s, affine.t.sum(tuple(axes), keepdims=True)),
    ),
    "parts that overlap": (sharing, "reads_same_elements", yes),
    "operands of a sum that are scaled differently": (nary, "make", lambda s, t: Affine(np.ones_like(s), t)),
    "a bias that counts": (dead, "_follow", everything_ends),
    "an affine of a row that is taken out without effect": (Affine, "after", lambda _, first: first),
    "integers that keep their sign": (quantized, "_mirrored", lambda _node, stored, *_: stored),
    "floats that are rounded to other integers": (
        quantized,
        "_requantized",
        lambda makers, *_: ir.constant(makers[-1].input(0)),
    ),
    "a scale before a normaliser": (normaliser, "instance_down", lambda *_: Step()),
}


LATE = {
    "a shift through zero padding": 62,
    "a shift through a wide kernel": 70,
    "input channels not dealt out by group": 62,
    "a maximum under a negative scale": 473,
    "zeros that count in a mean": 514,
    "an operand that is broadcast": 149,
    "the shift to no arm": 84,
    "an axis that is padded": 50,
    "an axis that is resized": 1643,
    "a permutation the wrong way round": 234,
    "elements tiled instead of repeated": 5964,
    "a border read as the inside": 62,
    "a mean that is a sum": 201,
    "parts that overlap": 220,
    "a bias that counts": 75,
    "integers that keep their sign": 255,
    "floats that are rounded to other integers": 117,
}
"""A seed that finds each fault for which many are drawn in vain: it is tried first, and then all of them."""


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, name, faulty = FAULTS[fault]
    monkeypatch.setattr(ask, "MISFIT", ())
    monkeypatch.setattr(module, name, faulty)
    if name == "instance_down":
        from bnfold.folding import ops

        monkeypatch.setitem(ops.HANDLERS, "InstanceNormalization", ops.Handler(down=faulty))
    assert any(FOUND.match(judge(*draw(seed)).error) for seed in (LATE.get(fault, 0), *range(SEEDS)))


def test_the_value_of_a_dead_channel_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too rare to be drawn: a scale of zero in front of a Relu, whose value then is the same everywhere."""
    net = Net()
    y = net.batchnorm(net.input(2, 3, 4, 5), 3, scale=[0.0, 1.5, 2.0], shift=[2.0, 0.3, -0.4])
    y = net.node("Conv", net.node("Relu", y), net.const(4, 3, 1, 1))
    assert "BatchNormalization" not in folded(net, y).ops
    monkeypatch.setattr(activation, "_value", lambda _, x: np.zeros_like(x))
    with pytest.raises(AssertionError):
        folded(net, y)
