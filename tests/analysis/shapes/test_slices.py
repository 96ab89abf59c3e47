"""Inference shows onnx a Slice only where its input cannot have a negative size: at one, onnx ends the process."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from bnfold import analysis, ir
from bnfold.analysis.shapes import slices
from tests.verification.graphs import Weights, model

W: Weights = {
    "w": np.ones((2, 2, 7, 7), np.float32),
    "one": np.array([1]),
    "three": np.array([3]),
    "two": np.array([2]),
    "sizes": np.array([1, 2, 2, 4]),
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
        (f"h = Shape (x)  k = Sub (h, sizes)  m = Sub (k, two)  a = ConstantOfShape (m)  y = {CUT.format('a')}", None),
        (f"a = ConstantOfShape (negative)  y = {CUT.format('a')}", None),
        (f"s = {CUT.format('x')}  t = Transpose (s)  y = {CUT.format('t')}", (4, 2, 1, 1)),
    ],
)
def test_no_order_of_operators_ends_the_process(nodes: str, shape: tuple[int, ...] | None) -> None:
    pads, negative = np.array([0, 0, -9, 0, 0, 0, 0, 0]), np.array([1, 2, -3, 4])
    loaded = ir.load(
        model(
            f"(float[1,2,4,4] x) => (float[a,b,c,d] y) {{ {nodes} }}",
            {**W, "pads": pads, "negative": negative},
            opset=13,
        )
    )
    analysis.infer_shapes(loaded)
    found = loaded.graph.values["y"].shape
    assert found == shape or (shape is None and not all(isinstance(dim, int) for dim in found or ()))


TWICE = "Concat <axis = 2> ({0}, {0})"


@pytest.mark.parametrize(
    ("nodes", "runs"),
    [
        (TWICE, 1),
        ("Conv <kernel_shape = [7, 7], pads = [3, 3, 3, 3]> ({0}, w)", 1),
        ("Conv <kernel_shape = [7, 7], pads = [3, 3, 3, 3]> ({0}, w)  d{1} = GlobalMaxPool (a{1})", 1),
        ("MaxPool <kernel_shape = [3, 2], pads = [1, 0, 1, 1], strides = [2, 1]> ({0})", 1),
        ("Conv <kernel_shape = [7, 7], pads = [3, 3, 3, 2]> ({0}, w)", 2),
        ("MaxPool <kernel_shape = [2, 2], pads = [1, 1, 0, 0], dilations = [1, 2]> ({0})", 2),
        ("ConstantOfShape (sizes)", 1),
        ("Expand ({0}, sizes)", 2),
        ("Conv <pads = [3, 3, 3, 3]> ({0}, w)", 2),
        ('Conv <kernel_shape = [7, 7], auto_pad = "VALID", pads = [3, 3, 3, 3]> ({0}, w)', 2),
    ],
)
def test_layers_of_slices_are_inferred_at_once(nodes: str, runs: int) -> None:
    """Without an operator that may make negative sizes there is nothing to wait for."""
    count = 9 if nodes == TWICE else 1
    layers = "".join(f"s{n} = {CUT.format(f'a{n}')}  a{n + 1} = {nodes.format(f's{n}', n + 1)}  " for n in range(count))
    layers += f"z = {CUT.format(f'a{count}')}"
    loaded = ir.load(model(f"(float[1,2,4,4] a0) => (float[a,b,c,d] y) {{ {layers} y = Neg (z) }}", W, opset=13))
    seen: list[onnx.ModelProto] = []

    def watched(proto: onnx.ModelProto) -> onnx.ModelProto:
        seen.append(proto)
        return onnx.shape_inference.infer_shapes(proto)

    inferred = slices.infer_with_slices(loaded.proto, watched)
    assert len(seen) == runs
    assert {info.name for info in inferred.graph.value_info} >= {f"a{count}", "z"}
