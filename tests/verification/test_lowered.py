"""What only its spelling changes on the way to a lower opset is no change that a comparison would have to show."""

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
