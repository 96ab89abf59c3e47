"""Element types that operators' texts tie to those of their inputs."""

import onnx
import pytest

from bnfold import ir
from bnfold.ir.shapes.stepwise import Types
from bnfold.ir.shapes.ties import tied_source
from bnfold.ir.value import Value

TP = onnx.TensorProto
BRANCHES = """c = Equal (x, x) a = Relu (x) y = If (c) <then_branch = t () => (float[] z) { z = Neg (a) },
              else_branch = e () => (float[] w) { w = Relu (a) }>"""


def made(body: str, *, opset: int = 13) -> Value:
    """Return the value y of a graph whose values have no annotations."""
    text = f'<ir_version: 8, opset_import: ["" : {opset}]> g (float[2, 3] x, int64[k] i) => (y) {{ {body} }}'
    return ir.load(onnx.parser.parse_model(text)).graph.values["y"]


@pytest.mark.parametrize(
    ("body", "dtype"),
    [
        ("y = Relu (x)", TP.FLOAT),
        ("a = Relu (x) b = Reshape (a, i) y = Add (b, a)", TP.FLOAT),
        ("a = Shape (x) y = Gather (a, i)", TP.INT64),
        ("y = Equal (x, x)", TP.BOOL),
        ("y = Cast <to = 10> (x)", TP.FLOAT16),
        ("y = Constant <value = int32[1] {1}> ()", TP.INT32),
        ("y = Constant <value_int = 1> ()", None),
        ("y = ConstantOfShape (i)", TP.FLOAT),
        ("y = ConstantOfShape <value = int64[1] {3}> (i)", TP.INT64),
        ("y = NoSuchOperator (x)", None),
        (BRANCHES, TP.FLOAT),
        ("y = If (x) <then_branch = t () => (float[1] z) {z = Identity (x)}>", None),
    ],
)
def test_nothing_is_inferred_for_it(body: str, dtype: int | None) -> None:
    def refuse() -> None:
        raise AssertionError("inferred")

    value = made(body)
    if dtype is None:
        assert tied_source(value, 13) is None
    else:
        assert Types(13, refuse).dtype(value) == dtype


def test_a_circle_ends() -> None:
    value = made("y = Relu (x)")
    producer = value.producer
    assert producer is not None
    producer.set_input(0, value)
    assert Types(13, lambda: None).dtype(value) is None
