"""Element types that operators' texts tie to those of their inputs."""

import onnx
import pytest

from bnfold import ir
from bnfold.analysis.shapes.stepwise import Types
from bnfold.analysis.shapes.ties import tied_source, tied_type
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


@pytest.mark.parametrize(
    ("body", "dtype"),
    [
        ("y = Relu (x)", None),  # an input's type is an annotation
        ("a = Cast <to = 6> (x) r = Abs (a) y = Reshape (r, i)", TP.INT32),
        ("y = Add (x, w)", TP.FLOAT),
        ("y = Mul (w, x)", TP.FLOAT),
        ("a = ArgMax (x) y = Squeeze (a)", TP.INT64),
        ("a = Neg (w) r, t, y = Split <num_outputs = 3> (a)", TP.FLOAT),
        ("y = Where (x, x, w)", TP.FLOAT),
        ("y = Loop (n, b, w) <body = l (int64 s, bool c, p) => (bool d, q) { d = Identity (c) q = Abs (p) }>", None),
        ("y = If (b) <then_branch = t () => (z) { z = Neg (w) }, else_branch = e () => (v) { v = Abs (x) }>", TP.FLOAT),
    ],
)
def test_a_type_that_stored_tensors_and_texts_tell(body: str, dtype: int | None) -> None:
    text = '<ir_version: 8, opset_import: ["" : 18]> g (float[2, 3] x, int64[k] i, int64 n, bool b) => (y)'
    loaded = ir.load(onnx.parser.parse_model(f"{text} <float[3] w = {{1, 2, 3}}> {{ {body} }}"))
    assert tied_type(loaded.graph.values["y"]) == dtype


def test_the_type_of_an_input_of_a_body() -> None:
    text = """<ir_version: 8, opset_import: ["" : 18]> g (int64 n, bool b) => (y) <float[3] w = {1, 2, 3}>
        { y = Loop (n, b, w) <body = l (int64 s, bool c, p) => (bool d, q) { d = Identity (c) q = Abs (p) }> }"""
    loaded = ir.load(onnx.parser.parse_model(text))
    body = next(graph for graph in loaded.graphs() if graph.path)
    assert tied_type(body.values["q"]) == TP.FLOAT
    assert tied_type(body.values["d"]) is None


def test_a_function_of_the_name_of_an_operator_ties_nothing() -> None:
    proto = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 18]> g () => (y) { y = Cast <to = 6> (w) }')
    proto.graph.initializer.add(name="w", data_type=TP.FLOAT, dims=[], float_data=[1])
    function = proto.functions.add(name="Cast", domain="", input=["i"], output=["o"], attribute=["to"])
    function.node.add(op_type="Exp", input=["i"], output=["o"])
    function.opset_import.add(version=18)
    assert tied_type(ir.load(proto).graph.values["y"]) is None


def test_a_circle_has_no_type() -> None:
    value = made("y = Relu (x)")
    producer = value.producer
    assert producer is not None
    producer.set_input(0, value)
    assert tied_type(value) is None
