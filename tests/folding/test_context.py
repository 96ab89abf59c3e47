"""Cuts: between the values they name, the model before and the one after compute the same, region by region."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from fuzz.draw import draw

from bnfold import ir, reference
from bnfold.errors import BnfoldError
from tests.folding.nets import Array, Folded, Net, fold_only


def check_cuts(before: ir.Model, result: Folded, feeds: dict[str, Array]) -> int:
    """Evaluate every region by itself, fed with what the original computes at its inputs; how many there were."""
    after = ir.load(result.proto)
    for cut in result.report.cuts:
        if cut.graph:  # what a branch reads from around it is not there to be fed
            continue
        for name in (*cut.inputs, *cut.outputs):
            assert name in before.graph.values
            assert name in after.graph.values
        inside = reference.evaluate(before, feeds, list(dict.fromkeys((*cut.inputs, *cut.outputs))))
        given = {name: inside[name] for name in cut.inputs}
        found = reference.evaluate(after, given, list(cut.outputs))
        for name in cut.outputs:
            finite = inside[name][np.isfinite(inside[name])]
            size = max(1.0, float(np.abs(finite).max(initial=0.0)))
            np.testing.assert_allclose(
                found[name], inside[name], rtol=0, atol=1e-6 * size
            )  # scales of quantized weights are float32
    return len(result.report.cuts)


@pytest.mark.parametrize("first", range(3000, 3240, 40))
def test_cuts_of_random_graphs(first: int) -> None:
    count = 0
    for seed in range(first, first + 40):
        proto, feeds = draw(seed)
        if proto.graph.input[0].type.tensor_type.elem_type != 11:
            continue
        if not all(info.type.tensor_type.HasField("shape") for info in proto.graph.input):  # onnx's checker asks for it
            continue
        if any(0 in array.shape for array in feeds.values()):  # all is an identity: one value takes another's name
            continue
        proto.ir_version = max(proto.ir_version, 4)  # below, initializers that folding adds would have to be inputs
        before = ir.load(proto)
        try:
            reference.evaluate(before, feeds)
        except BnfoldError:
            continue
        count += check_cuts(before, fold_only(proto), feeds)
    assert count > 5


def test_a_boundary_that_a_later_rewrite_moves() -> None:
    net = Net()
    y = net.node("Relu", net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2)))
    y = net.batchnorm(y, 4, positive=True)
    y = net.node("Conv", net.node("Transpose", y, perm=[0, 1, 3, 2]), net.const(5, 4, 3, 3), pads=[1, 1, 1, 1])
    y = net.node("Identity", net.batchnorm(net.node("Identity", y), 5))
    proto = net.model(y)
    result = fold_only(proto)
    assert result.ops.count("BatchNormalization") == 0
    assert check_cuts(ir.load(proto), result, net.feeds) > 0


def test_each_fold_has_a_region_of_its_own() -> None:
    net = Net()
    y = net.input(2, 3, 9, 8)
    for _ in range(5):
        y = net.node("Exp", net.batchnorm(net.node("Conv", y, net.const(3, 3, 2, 2)), 3))
        y = net.node("Sigmoid", y)
    result = fold_only(net.model(y))
    assert [(len(cut.inputs), len(cut.outputs)) for cut in result.report.cuts] == [(1, 1)] * 5


def test_the_region_of_an_identity_reaches_what_reads_it() -> None:
    """Its own output goes, and a name that is gone is no boundary: without it the region could not be compared."""
    text = """<ir_version: 8, opset_import: ["": 15]> g (float[2,3] x) => (float[2,3] r, float[2,3] q)
    <float[3] zero = {0, 0, 0}, float[3] one = {1, 1, 1}>
    { u = Sin (x)  y = BatchNormalization <epsilon = 0.0> (u, one, zero, zero, one)  r = Exp (y)  q = Cos (y) }"""
    proto = onnx.parser.parse_model(text)
    result = fold_only(proto)
    assert result.ops == ["Sin", "Exp", "Cos"]
    assert check_cuts(ir.load(proto), result, {"x": np.full((2, 3), 0.5, np.float32)}) == 1


def test_a_reader_of_another_part_of_a_changed_value() -> None:
    """What it reads has another name now, although to it nothing changed."""
    net = Net()
    y = net.node("Conv", net.input(2, 3, 5, 7), net.const(5, 3, 2, 2))
    axis = net.ints(1)
    one = net.batchnorm(net.node("Slice", y, net.ints(0), net.ints(2), axis), 2)
    two = net.node("Exp", net.node("Slice", y, net.ints(2), net.ints(5), axis))
    proto = net.model(one, two)
    result = fold_only(proto)
    assert "BatchNormalization" not in result.ops
    assert check_cuts(ir.load(proto), result, net.feeds) == 1
