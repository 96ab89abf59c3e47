"""What only its spelling changes on the way to a lower opset is no change that a comparison would have to show."""

import numpy as np
import onnx
import pytest

import bnfold

HEAD = '<ir_version: 8, opset_import: ["" : 18]> g (float[2, n] x) => (float[a, b, c] y)'


@pytest.mark.parametrize(
    "nodes",
    [
        "s = Constant <value = int64[3] {1, 2, -1}> () y = Reshape <allowzero = 1> (x, s)",
        (
            "i = Shape <start = 0> (x) o = Constant <value = int64[1] {1}> () s = Concat <axis = 0> (o, i) "
            "y = Reshape (x, s)"
        ),
    ],
)
def test_is_verified(nodes: str) -> None:
    model = onnx.parser.parse_model(f"{HEAD} {{ {nodes} }}")
    outcome = bnfold.convert(model, opset=13)
    assert outcome.status == "verified"


@pytest.mark.parametrize("seed", range(3))
def test_a_quotient_that_ties_as_float32_is_rounded_as_that(seed: int) -> None:
    """3.5 / 0.2 is 17.5 as float32, and a little less as float64: QuantizeLinear and Round have to agree."""
    body = "s = Constant <value_floats = [0.1, 0.2, 0.3]> () y = QuantizeLinear (x, s)"
    text = f'<ir_version: 7, opset_import: ["" : 13]> g (float[2, 3, 4] x) => (uint8[2, 3, 4] y) {{ {body} }}'
    outcome = bnfold.convert(onnx.parser.parse_model(text), opset=11, verify=bnfold.VerifyOptions(seed=seed))
    assert outcome.status == "verified"


SQUARE = "float[n, n] x"
HEADS = "float[1, 2, 4, 8] q, float[1, 2, 4, 8] k, float[1, 2, 4, 8] v, float[4, 4] m"


@pytest.mark.parametrize(
    ("opset", "inputs", "body"),
    [
        (14, SQUARE, "y = Trilu (x)"),
        (23, HEADS, "y = Attention <is_causal = 1> (q, k, v, m)"),
        (
            18,
            "float[1, 2, 4, 6] x",
            's = Constant <value_floats = [2.0, 1.5]> () y = Resize <axes = [2, 3], mode = "linear"> (x, , s)',
        ),
        (20, "float[2, 2, 3] t", "s = Constant <value_ints = [2, 1, 3, 4]> () y = AffineGrid (t, s)"),
    ],
)
def test_what_is_spelled_out_shows(opset: int, inputs: str, body: str) -> None:
    """A triangle at run time, a mask, the scales of every axis, the places of a grid."""
    text = f'<ir_version: 8, opset_import: ["" : {opset}]> g ({inputs}) => (float y) {{ {body} }}'
    model = onnx.parser.parse_model(text)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    assert bnfold.convert(model, opset=13).status == "verified"


@pytest.mark.parametrize("shape", ["o, i", "k, p"])
def test_a_reshape_that_asks_nothing_is_verified(shape: str) -> None:
    sizes = "i = Shape <end = 1> (x) j = Shape <start = 1, end = 2> (x) k = Mul (i, j)"
    weights = "o = Constant <value_ints = [-1]> () p = Constant <value_ints = [4]> ()"
    body = f"{sizes} {weights} s = Concat <axis = 0> ({shape}) y = Reshape <allowzero = 1> (x, s)"
    text = f'<ir_version: 8, opset_import: ["" : 15]> g (float[n, m, 4] x) => (float[a, b] y) {{ {body} }}'
    assert bnfold.convert(onnx.parser.parse_model(text), opset=13).status == "verified"


@pytest.mark.parametrize("body", [
    "y = Slice (x, back, begin, axis, back)",
    "y = Slice (x, one, end, axis, two)",
    'y = DepthToSpace <blocksize = 2, mode = "CRD"> (x)',
])  # fmt: skip
def test_open_ends_have_no_neighbours(body: str) -> None:
    """A bound beyond the smallest size that there is means the same as the next one: no fault in it could show."""
    stored = {"back": -1, "begin": -(2**63) + 1, "one": 1, "end": 2**63 - 1, "two": 2, "axis": 2}
    text = f'<ir_version: 8, opset_import: ["" : 13]> g (float[n, c, h, w] x) => (float[a, b, d, e] y) {{ {body} }}'
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(onnx.numpy_helper.from_array(np.array([n]), name) for name, n in stored.items())
    assert bnfold.convert(model, opset=9).status == "verified"
