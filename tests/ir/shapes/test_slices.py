"""Inference shows onnx a Slice only where its input cannot have a negative size: at one, onnx ends the process."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from bnfold import ir
from bnfold.ir.shapes import slices
from tests.verification.graphs import Weights, model

W: Weights = {
    "w": np.ones((2, 2, 7, 7), np.float32),
    "one": np.array([1]),
    "three": np.array([3]),
    "two": np.array([2]),
}
CUT = "Slice ({}, one, three, two)"


@pytest.mark.parametrize(
    ("nodes", "shape"),
    [
        (f"a = Conv (x, w)  y = {CUT.format('a')}", None),
        (f"a = Conv (x, w)  b = Relu (a)  c = Add (b, b)  y = {CUT.format('c')}", None),
        (f"s = {CUT.format('x')}  a = Conv (s, w)  y = {CUT.format('a')}", None),
        (f"s = {CUT.format('x')}  a = Conv (s, w)  b = Add (a, x)  c = {CUT.format('b')}  y = Neg (c)", None),
        (f's = {CUT.format("x")}  a = Pad <mode = "constant"> (s, pads)  y = {CUT.format("a")}', None),
        (f"s = {CUT.format('x')}  t = Transpose (s)  y = {CUT.format('t')}", (4, 2, 1, 1)),
    ],
)
def test_no_order_of_operators_ends_the_process(nodes: str, shape: tuple[int, ...] | None) -> None:
    pads = np.array([0, 0, -9, 0, 0, 0, 0, 0])
    loaded = ir.load(model(f"(float[1,2,4,4] x) => (float[a,b,c,d] y) {{ {nodes} }}", {**W, "pads": pads}, opset=13))
    loaded.infer_shapes()
    found = loaded.graph.values["y"].shape
    assert found == shape or (shape is None and not all(isinstance(dim, int) for dim in found or ()))


def test_layers_of_slices_are_inferred_at_once() -> None:
    """Without an operator that may make negative sizes there is nothing to wait for."""
    layers = "".join(f"s{n} = {CUT.format(f'a{n}')}  a{n + 1} = Concat <axis = 2> (s{n}, s{n})  " for n in range(9))
    loaded = ir.load(model(f"(float[1,2,4,4] a0) => (float[a,b,c,d] y) {{ {layers} y = Neg (a9) }}", W, opset=13))
    runs: list[onnx.ModelProto] = []

    def watched(proto: onnx.ModelProto) -> onnx.ModelProto:
        runs.append(proto)
        return onnx.shape_inference.infer_shapes(proto)

    inferred = slices.infer_with_slices(loaded.proto, watched)
    assert len(runs) == 1
    assert {info.name for info in inferred.graph.value_info} >= {"a9", "s8"}
