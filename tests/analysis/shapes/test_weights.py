import onnx
import pytest

from bnfold import ir
from bnfold.analysis.shapes.stepwise import Types


@pytest.mark.parametrize(
    ("call", "shape"),
    [
        ("Conv (p, w)", (None, 4, None, None)),
        ("ConvTranspose <group = 2> (p, w)", (None, 6, None, None)),
        ("Gemm (p, m)", (None, 5)),
        ("Gemm <transB = 1> (p, m)", (None, 7)),
        ("Flatten (p)", (None, None)),
        ("MaxPool <kernel_shape = [2, 2]> (p)", (None, None, None, None)),
        ("AveragePool <kernel_shape = [2]> (p)", (None, None, None)),
        ("Reshape (p, s)", (None, None, None)),
        ("Reshape (p, many)", None),
        ("Relu (p)", None),
        ("Conv (p, p)", None),
        ("MaxPool (p)", None),
    ],
)
def test_behind_a_plugin_the_weights_tell_the_rank(call: str, shape: tuple[int | None, ...] | None) -> None:
    inputs = "float[2, 4, 5, 5] x, float[4, 3, 2, 2] w, float[7, 5] m, int64[3] s, int64[99] many"
    body = f"p = my.Op (x) q = {call} y = Relu (q)"
    text = f'<ir_version: 8, opset_import: ["" : 15]> g ({inputs}) => (float[] y) {{ {body} }}'
    model = ir.load(onnx.parser.parse_model(text))
    assert Types(15).shape(model.graph.values["q"]) == shape


def test_a_referenced_attribute_tells_nothing() -> None:
    text = """<ir_version: 8, opset_import: ["" : 15, "f" : 1]> g (float[2, 7] x, float[7, 5] m) => (float[] y)
              { y = f.fn <t = [1, 1]> (x, m) } <domain: "f", opset_import: ["" : 15]>
              fn <t> (x, m) => (y) { q = MaxPool <kernel_shape : ints = @t> (x) y = Relu (q) }"""
    model = ir.load(onnx.parser.parse_model(text))
    assert Types(15).shape(model.functions[0].values["q"]) is None
