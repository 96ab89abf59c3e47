"""Seeded faults: what each handler's guard is there for turns up as a wrong number when the guard is taken out.

This is a test of the fuzzer: a fault that it cannot find would not be found in earnest either.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fuzz import carriers, convolutions, operators
from fuzz import draw as drawing
from fuzz.builder import WEIGHTS, Builder
from fuzz.judge import judge
from fuzz.operators import Draw
from fuzz.weights import VariedBuilder, quantised

from bnfold import analysis, ir
from bnfold.folding import facts, propagate
from bnfold.folding.affine import Affine, make
from bnfold.folding.ops import (
    activation,
    concat,
    elementwise_nary,
    gather_slice,
    norms,
    pad_resize,
    padded,
    pool,
    quantized,
    repeat,
    reshape,
    transpose,
    weights,
    window,
)
from bnfold.folding.rewrites import dead_bias
from bnfold.folding.step import Step
from bnfold.ir.elements import Array
from bnfold.ir.tensor import Float64
from tests.folding.nets import Net, folded

SEEDS = 3000
FIRST = {
    "input channels not dealt out by group": 35,
    "zeros that count in a mean": 32,
    "an operand that is broadcast": 626,
    "stretches that are none": 109,
    "elements picked elsewhere": 176,
    "an axis that is padded": 245,
    "an axis that is resized": 378,
    "a permutation the wrong way round": 66,
    "elements tiled instead of repeated": 89,
    "a mean that is a sum": 52,
    "operands of a sum that are scaled differently": 92,
    "integers that keep their sign": 51,
    "floats that are rounded to other integers": 76,
    "a scale before a normaliser": 109,
}
"""The seed that found a fault last; if graphs are drawn otherwise since, the search takes seconds."""
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


def everything_ends(builder: Any, made: ir.Value, _: Affine) -> None:
    builder.nodes.update((node, None) for node in made.graph.nodes if node.is_op("InstanceNormalization"))


def doubled(rank: int) -> Affine:
    return Affine(np.full((1,) * rank, 2.0), np.zeros((1,) * rank))


FAULTS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "a shift through zero padding": (window, "pads", no),
    "a shift through a wide kernel": (window, "is_pointwise", yes),
    "output channels not dealt out by group": (weights, "scaled_in_groups", by_channel),
    "input channels not dealt out by group": (weights, "scaled_in_groups", by_channel),
    "a maximum under a negative scale": (pool, "_check_kind", nothing),
    "zeros that count in a mean": (pool, "_check_windows", nothing),
    "an operand that is broadcast": (elementwise_nary, "_fits", yes),
    "the shift to no arm": (elementwise_nary, "_receiver", nothing),
    "the other parts of a Concat": (concat, "identity", doubled),
    "stretches that are none": (concat, "_slices", lambda affine, _, sizes: [affine] * len(sizes)),
    "elements picked elsewhere": (gather_slice, "_windows", lambda *_: {}),
    "an axis that is padded": (pad_resize, "_padded_axes", lambda *_: []),
    "an axis that is resized": (pad_resize, "_resized_axes", lambda *_: []),
    "a permutation the wrong way round": (transpose, "_permutation", lambda _, rank: list(range(rank))),
    "a reshape that is none": (reshape, "carry", mixed_up),
    "elements tiled instead of repeated": (repeat, "_per_channel", tiled),
    "readers that see another value": (propagate, "is_untouched", yes),
    "a border read as the inside": (padded, "inside", lambda _node, _axis, taps, _rank: np.ones((taps, 1))),
    "a mean that is a sum": (
        pool,
        "_averaged",
        lambda affine, axes: make(affine.s, affine.t.sum(tuple(axes), keepdims=True)),
    ),
    "parts that overlap": (propagate, "reads_same_elements", yes),
    "operands of a sum that are scaled differently": (
        elementwise_nary,
        "make",
        lambda s, t: Affine(np.ones_like(s), t),
    ),
    "a bias that counts": (dead_bias, "pass_down", everything_ends),
    "an affine of a row that is taken out without effect": (Affine, "after", lambda _, first: first),
    "integers that keep their sign": (quantized, "_mirrored", lambda _node, stored, *_: stored),
    "floats that are rounded to other integers": (
        quantized,
        "_requantized",
        lambda producers, *_: analysis.constant(producers[-1].input(0)),
    ),
    "a scale before a normaliser": (norms, "instance_down", lambda *_: Step()),
}


THROUGH: dict[str, tuple[Draw, ...]] = {
    "a shift through zero padding": (operators.into_padding,),
    "a shift through a wide kernel": (convolutions.conv_transpose,),
    "output channels not dealt out by group": (convolutions.conv_transpose,),
    "input channels not dealt out by group": (convolutions.conv,),
    "a maximum under a negative scale": (carriers.pool,),
    "zeros that count in a mean": (operators.padded_mean,),
    "an operand that is broadcast": (operators.broadcast_sum,),
    "the shift to no arm": (operators.broadcast_sum, operators.merge),
    "the other parts of a Concat": (operators.concat,),
    "elements picked elsewhere": (carriers.pick,),
    "an axis that is padded": (carriers.pad,),
    "an axis that is resized": (carriers.resize,),
    "a permutation the wrong way round": (carriers.transpose,),
    "a reshape that is none": (carriers.reshape,),
    "elements tiled instead of repeated": (carriers.space,),
    "a border read as the inside": (operators.into_padding,),
    "a mean that is a sum": (carriers.reduce, operators.into_padding),
    "parts that overlap": (operators.rejoin,),
    "a bias that counts": (operators.biased_instance,),
}
"""What stands between a BatchNormalization and what could absorb it, where a fault is too rare among all operators."""


QUANTISED = ("integers that keep their sign", "floats that are rounded to other integers")


def mostly_quantised(b: VariedBuilder, array: Array, hint: str = "w") -> str:
    is_chosen = hint in WEIGHTS and not b.plain and array.size and b.opset >= 10 and b.chance(0.6)
    return quantised(b, array) if is_chosen else Builder.weight(b, array, hint)


@pytest.mark.large
@pytest.mark.no_cover  # takes twice as long measured, and reaches no branch that other tests do not reach
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, name, faulty = FAULTS[fault]
    monkeypatch.setattr(facts, "MISFIT", ())
    monkeypatch.setattr(module, name, faulty)
    if name == "instance_down":
        from bnfold.folding import ops

        monkeypatch.setitem(ops.HANDLERS, "InstanceNormalization", ops.Handler(down=faulty))
    if fault in QUANTISED:
        monkeypatch.setattr(VariedBuilder, "weight", mostly_quantised)
    monkeypatch.setattr(drawing, "CARRIERS", THROUGH.get(fault, drawing.CARRIERS))
    seeds = (FIRST.get(fault, 0), *range(SEEDS))
    assert any(FOUND.match(judge(*drawing.draw(seed)).error) for seed in seeds)


def test_the_value_of_a_dead_channel_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too rare to be drawn: a scale of zero in front of a Relu, whose value then is the same everywhere."""
    net = Net()
    y = net.batchnorm(net.input(2, 3, 4, 5), 3, scale=[0.0, 1.5, 2.0], shift=[2.0, 0.3, -0.4])
    y = net.node("Conv", net.node("Relu", y), net.const(4, 3, 1, 1))
    assert "BatchNormalization" not in folded(net, y).ops
    monkeypatch.setattr(activation, "_value", lambda _, x: np.zeros_like(x))
    with pytest.raises(AssertionError):
        folded(net, y)
